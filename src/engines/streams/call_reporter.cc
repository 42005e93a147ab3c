#include "src/engines/streams/call_reporter.h"

#include <fmt/format.h>

namespace tutti::engines::streams {

uint64_t CallReporter::queue(const trace::Label& label) {
  return options_.recorder == nullptr ? 0 : options_.recorder->queue(label);
}

void CallReporter::mute() {
  options_.report = nullptr;
  options_.recorder = nullptr;
}

void CallReporter::begin(const ReportedCall& call, uint64_t now_ns) {
  if (place_ == call.place) return;
  place_ = call.place;
  since_ns_ = now_ns;
  report_at_ns_ = options_.slow_ns == kNoDeadline ? kNoDeadline : now_ns + options_.slow_ns;
  if (options_.recorder == nullptr) return;
  const bool has_number = call.number != 0;
  options_.recorder->begin_queued(call.ticket, call.label,
                                  static_cast<uint32_t>(has_number ? call.number : call.place),
                                  has_number ? trace::Series::kDevice : trace::Series::kTransfers);
}

void CallReporter::look(const ReportedCall& call, std::optional<int> late,
                        const std::function<std::string()>& reason) {
  constexpr uint64_t kLongNs = 10'000'000;  // less than that is nobody's concern
  const uint64_t now_ns = monotonic_ns();
  begin(call, now_ns);
  const uint64_t waited_ns = now_ns - since_ns_;
  if (!late || waited_ns < kLongNs) return;
  if (options_.recorder != nullptr) {
    options_.recorder->waits_for(static_cast<uint32_t>(*late), 0, 0);
  }
  if (now_ns < report_at_ns_ || options_.report == nullptr) return;
  report_at_ns_ = now_ns + waited_ns;  // ever more rarely
  const std::string which = call.number == 0 ? "" : fmt::format(", call {}", call.number);
  options_.report(fmt::format("{}{} {} has waited in its stream on {} for {:.1f} s: {}", call.what,
                              which, options_.manner, options_.name_of(options_.rank),
                              static_cast<double>(waited_ns) * 1e-9, reason()));
}

void CallReporter::over(const ReportedCall& call, bool ok) {
  begin(call, monotonic_ns());
  if (options_.recorder != nullptr) options_.recorder->conclude(ok);
}

}  // namespace tutti::engines::streams
