#include "tools/cli/plan_options.h"

#include <string>
#include <string_view>

#include "perf/collectives/error.h"
#include "perf/command_line.h"
#include "src/base/words.h"

namespace tutti::cli {
namespace {

using arrange::Axis;
using perf::CommandLine;
using perf::PerfError;

// "tp=8": one part of the answer.
void fix(const std::string& text, arrange::FixedParts& fixed) {
  const size_t sign = text.find('=');
  const std::string name = text.substr(0, sign);
  const std::string rest = sign == std::string::npos ? "" : text.substr(sign + 1);
  const auto value = static_cast<uint32_t>(perf::whole_number(rest, 0, 1 << 22));
  for (size_t i = 0; i < arrange::kAxes; ++i) {
    if (name != arrange::short_name_of(static_cast<Axis>(i))) continue;
    if (value == 0) throw PerfError("a degree is 1 or more", perf::kExitUsage);
    fixed.degrees[i] = value;
    return;
  }
  const bool is_number = name == "micro" || name == "chunks";
  if (is_number && value == 0) throw PerfError(name + " is 1 or more", perf::kExitUsage);
  if (name == "micro") fixed.micro_batch = value;
  if (name == "chunks") fixed.chunks = value;
  if (name == "zero" && value > 3) throw PerfError("zero is 0 to 3", perf::kExitUsage);
  if (name == "zero") fixed.zero = value;
  if (name == "recompute") fixed.recomputed = value != 0;
  if (name == "sp") fixed.sequence_parallel = value != 0;
  if (name == "outer") fixed.outer_period = value;
  if (is_number || name == "zero" || name == "recompute" || name == "sp" || name == "outer") return;
  throw PerfError(
      "there is no '" + name +
          "'; there are tp, cp, ep, pp, dp, micro, chunks, zero, recompute, sp and outer",
      perf::kExitUsage);
}

}  // namespace

std::optional<PlanOptions> parse_plan(int argc, const char* const* argv, int& exit_code) {
  PlanOptions options;
  CommandLine line("where which parallelism of a training job goes on a cluster", "tutti plan");
  const auto add = [&](const char* name, const char* value, const char* meaning,
                       const char* standard, auto& number, uint64_t least, uint64_t most) {
    line.add({name, value, meaning, standard}, number, least, most);
  };
  constexpr uint64_t kMost = 1 << 22;
  line.add({"model", "MODEL",
            "llama-8b, llama-70b, llama-405b, mixtral-8x7b, or a file (docs/planning.md)", "",
            "Options", true},
           options.model);
  line.add({"--topology", "FILE", "the cluster (docs/topology.md)", "", "Options", true},
           options.topology);
  line.add({"--device", "DEVICE", "h100, h200, a100, or a file", "h100"}, options.device);
  add("--places", "N", "ranks of the job, inner nodes filled first; 0: all", "0", options.places, 0,
      kMost);
  add("--batch", "N", "sequences of a step; 0: the model's", "0", options.batch, 0, kMost);
  add("--sequence", "N", "tokens of a sequence; 0: the model's", "0", options.sequence, 0, kMost);
  line.add({"--fix", "WHAT=N...",
            "what is decided: tp, cp, ep, pp, dp, micro, chunks, zero, recompute, sp, outer"},
           [&options](const std::string& text) { fix(text, options.fixed); });
  add("--time", "S", "seconds for the search and the simulations", "60", options.seconds, 1,
      86'400);
  add("--keep", "N", "arrangements that are shown", "10", options.keep, 1, 1000);
  add("--ring", "BYTES", "TUTTI_RING_BYTES of the job", "4194304", options.ring_bytes, 64 << 10,
      1 << 30);
  add("--message", "NS", "work for a message between hosts, at each end", "2000",
      options.message_ns, 0, 1'000'000);
  add("--stream-latency", "NS", "of a message between hosts, beside the links'", "8000",
      options.stream_latency_ns, 0, 1'000'000'000);
  line.add({"--codecs", "NAME...",
            "encodings (docs/slow_links.md) that gradients may have on the wire, or what an outer "
            "optimizer exchanges"},
           [&options](const std::string& text) { options.codecs.push_back(text); });
  add("--coding", "MB_PER_S", "of fp32 values that a rank encodes and decodes", "6700",
      options.coding_bytes_per_us, 1, 100'000'000);
  line.add({"--outer", "STEPS...",
            "an outer optimizer may exchange the parameters of the outermost level's nodes once in "
            "so many steps (docs/slow_links.md)"},
           [&options](const std::string& text) {
             options.outer_periods.push_back(
                 static_cast<uint32_t>(perf::whole_number(text, 1, 1'000'000)));
           });
  line.add({"--blocking-messages", "", "a stage waits for its messages"}, options.blocks_messages);
  line.add({"--blocking-gradients", "", "gradients are reduced when all passes have ended"},
           options.blocks_gradients);
  line.add({"--svg", "FILE", "write a picture of the first one's pipeline"}, options.svg);
  line.add({"--json", "FILE", "write the ranking for programs"}, options.json);
  if (const std::optional<int> end = line.parse(argc, argv)) {
    exit_code = *end;
    return std::nullopt;
  }
  return options;
}

}  // namespace tutti::cli
