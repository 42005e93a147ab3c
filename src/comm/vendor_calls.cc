#include "src/comm/vendor_calls.h"

#include "src/comm/device_texts.h"

namespace tutti::comm {
namespace {

constexpr const char* kAlgorithm = "nccl";  // in descriptions and labels of its calls

}  // namespace

Status VendorCalls::objection(const Request& request, EngineWish wish) {
  if (!is_meant(wish)) return Status::unsupported("nobody asked for it");
  if (Status refused = library_.refusal(); !refused.ok()) return refused;
  return library_.objection(describe(request));
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
  return "by " + library_.name() +
         ", behind a write of a counter; in graphs the same, behind a function of the host and "
         "three waits of all ranks for all ranks" +
         (library_.is_settled() ? ""
                                : " (no call has waited for its part of the communicator yet)");
}

std::string VendorCalls::explain(const Status& objection) const {
  return "not by NCCL, since " + std::string(objection.message());
}

}  // namespace tutti::comm
