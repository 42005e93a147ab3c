#include "src/comm/vendor_calls.h"

#include <algorithm>
#include <optional>

#include "src/comm/device_texts.h"

namespace tutti::comm {
namespace {

constexpr const char* kAlgorithm = "nccl";  // in descriptions and labels of its calls

}  // namespace

bool VendorCalls::is_wanted(EngineWish wish, const select::Model& model, int ranks) {
  if (wish != EngineWish::kAuto) return wish == EngineWish::kNccl;
  return std::any_of(model.vendor.begin(), model.vendor.end(),
                     [ranks](const select::VendorTimes& one) { return one.ranks == ranks; });
}

bool VendorCalls::is_of_interest(EngineWish wish) const {
  return is_wanted(wish, model_, streams_.ranks());
}

Status VendorCalls::compare_prices(const Request& request) const {
  const schedule::Traits& traits = schedule::traits_of(request.collective);
  const bool parts = traits.input.parts || traits.output.parts;
  const double bytes = static_cast<double>(request.count) *
                       static_cast<double>(types::size_of(request.type)) *
                       (parts ? streams_.ranks() : 1);
  const std::optional<double> mine = select::predict_vendor_ns(
      model_.vendor, schedule::name_of(request.collective), streams_.ranks(), bytes);
  if (!mine) {
    return Status::unsupported("nobody has measured it of this collective among " +
                               std::to_string(streams_.ranks()) + " ranks");
  }
  const double others = others_ns_(request);
  if (*mine < others) return {};
  return Status::unsupported("it was measured to take " + in_us(*mine) +
                             " us, and by the model other engines take " + in_us(others));
}

Status VendorCalls::objection(const Request& request, EngineWish wish) {
  const bool by_price = wish == EngineWish::kAuto;
  if (!is_meant(wish) && !by_price) return Status::unsupported("the engine is another one");
  if (Status refused = library_.refusal(); !refused.ok()) return refused;
  Status objection = library_.objection(describe(request));
  if (!objection.ok() || !by_price) return objection;
  if (request.counts != nullptr) {
    return Status::unsupported("nobody measures it with a count for each rank");
  }
  const Key key{request.collective, request.type, request.op, request.count, request.root};
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  constexpr size_t kMostKnown = 1 << 12;
  if (known_.size() >= kMostKnown) known_.clear();
  return known_.emplace(key, compare_prices(request)).first->second;
}

Status VendorCalls::get_ready(bool captured) {
  if (captured && !library_.is_settled()) {
    return Status::unsupported(
        "its part of the communicator is waited for by the first call outside of graphs, and this "
        "one is captured before that");
  }
  if (Status failed = library_.settle(); !failed.ok()) return failed;
  return library_.refusal();
}

// In place or not is each rank's own affair but where the library cannot do it.
diagnosis::DescribedCall VendorCalls::describe(const Request& request) const {
  diagnosis::DescribedCall described = streams_.describe(request);
  described.in_place =
      request.collective == schedule::Collective::kAllToAll && request.send == request.recv;
  described.set_algorithm(kAlgorithm);
  return described;
}

Result<WholeCall> VendorCalls::take(const Request& request, bool /*in_place*/) {
  WholeCall call;
  call.described = describe(request);
  call.signature = signature_of(call.described);
  call.label = labels_.label(request, kAlgorithm);
  return call;
}

std::string VendorCalls::explain(const Request& /*request*/, bool /*in_place*/) {
  return "by " + library_.name() + ", which has " + exec::text_of(library_.memory()) +
         ", behind a write of a counter; in graphs the same, behind a function of the host and "
         "three waits of all ranks for all ranks" +
         (library_.is_settled() ? ""
                                : " (no call has waited for its part of the communicator yet)");
}

std::string VendorCalls::explain(const Status& objection) const {
  return "not by NCCL, since " + std::string(objection.message());
}

}  // namespace tutti::comm
