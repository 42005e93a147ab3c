// Encodings: which levels may encode a request, whether that pays, and why not.
#include <algorithm>

#include "src/base/decimal.h"
#include "src/comm/planner.h"
#include "src/plan/wire.h"
#include "src/select/wire_prices.h"

namespace tutti::comm {

// Of options that were checked when they were set.
codecs::WireOption EnginePlans::wire_of(const Request& request) const {
  const Result<codecs::WireOption> option = codecs::parse_wire(options_of(request.extras).wire);
  return option.ok() ? option.value() : codecs::WireOption();
}

/// Why the elements cannot be encoded; "": they can.
std::string EnginePlans::why_exact(const Request& request) {
  if (!plan::codec_of(request.type)) {
    return std::string("codecs are of float, half and bfloat16, not of ") +
           types::name_of(request.type);
  }
  const types::ReduceOp op = folded_op(request);
  const bool folds = schedule::reduces(request.collective);
  if (!folds || op == types::ReduceOp::kSum || op == types::ReduceOp::kAvg) return "";
  return std::string("only sums and averages are, not ") + types::name_of(op);
}

/// A sum must not be taken of values most of which were dropped.
Status EnginePlans::check_wire(const Request& request) const {
  const std::string& text = options_of(request.extras).wire;
  if (text.empty() || !schedule::reduces(request.collective)) return {};
  if (!why_exact(request).empty()) return {};
  for (const codecs::Codec& codec : plan::wire_of(wire_of(request), *options_.group).codecs) {
    if (!codec.family->drops) continue;
    return Status::invalid_argument(
        std::string(name_of(request)) + " with the wire option " + text + ": " +
        std::string(codec.family->name) +
        " drops values at every hop of a sum; encode by tuttiCodecEncodeFeedback(), all_gather the "
        "bytes, and add them by tuttiCodecDecodeAdd() (docs/slow_links.md), or take another codec");
  }
  return {};
}

void EnginePlans::add_wire(const Request& request, select::Query& query) const {
  if (options_of(request.extras).wire.empty() || !why_exact(request).empty()) return;
  if (request.collective == schedule::Collective::kBarrier) return;
  const codecs::WireOption option = wire_of(request);
  query.wires =
      select::wire_prices(option, prices_.levels(), query.element_bytes, options_.model.codecs);
  query.must_encode = option.always;
}

Result<select::Candidate> EnginePlans::choose(const Request& request,
                                              const select::Query& query) const {
  if (Status status = check_wire(request); !status.ok()) return status;
  return select::choose(engine_.algorithms, query);
}

std::string EnginePlans::explain_wire(const Request& request, bool in_place) {
  const std::string& text = options_of(request.extras).wire;
  if (text.empty()) return "";
  const std::string line = "  wire option " + text + ": ";
  if (const std::string why = why_exact(request); !why.empty())
    return line + "exact: " + why + "\n";
  const select::Query query = query_of(request, in_place);
  if (query.wires.empty()) {
    std::string names;
    for (const select::PricedLevel& level : prices_.levels()) {
      names += (names.empty() ? "" : ", ") + level.name;
    }
    return line + "exact: ranks talk by none of its levels but by " + names + "\n";
  }
  double share = 1;
  for (const select::WirePrice& price : query.wires) share = std::min(share, price.share);
  return line + three_digits(share) + " of the bytes cross where a candidate encodes; without " +
         "\"always\" it does where that is predicted to take less time\n" +
         explain_codecs(wire_of(request));
}

std::string EnginePlans::explain_codecs(const codecs::WireOption& option) const {
  std::string text;
  for (const codecs::LevelCodec& level : option.levels) {
    const std::string codec = codecs::codec_text(level.codec);
    const codecs::CodecTimes times = codecs::times_of(level.codec, options_.model.codecs);
    const bool is_measured = std::ranges::any_of(
        options_.model.codecs, [&](const auto& one) { return one.codec == codec; });
    text += "  " + codec + ": " + three_digits(times.encode_ns) + " ns to encode a value, " +
            three_digits(times.decode_ns) + " ns to decode it, as " +
            (is_measured ? "the ranks measured when they met" : "the library knows by itself") +
            "\n";
  }
  return text;
}

}  // namespace tutti::comm
