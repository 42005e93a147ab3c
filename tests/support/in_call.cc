#include "tests/support/in_call.h"

#include <unistd.h>

#include <algorithm>
#include <vector>

#include "src/trace/reader.h"
#include "tests/support/team.h"

namespace tutti::testing_support {
namespace {

bool is_waiting(const trace::Snapshot& snapshot) {
  return std::any_of(snapshot.calls.begin(), snapshot.calls.end(), [](const auto& call) {
    return call.state == trace::RecordState::kRunning && call.waits_for >= 0;
  });
}

}  // namespace

bool await_waiting(int rank, size_t communicators) {
  constexpr uint64_t kPatienceNs = 60'000'000'000;
  for (const uint64_t end_ns = now_ns() + kPatienceNs; now_ns() < end_ns; sleep_ns(1'000'000)) {
    const Result<trace::Recorders> found = trace::read_process(getpid());
    if (!found.ok()) continue;
    const auto& snapshots = found.value().snapshots;
    const auto waiting = std::count_if(
        snapshots.begin(), snapshots.end(),
        [rank](const auto& snapshot) { return snapshot.rank == rank && is_waiting(snapshot); });
    if (static_cast<size_t>(waiting) >= communicators) return true;
  }
  return false;
}

}  // namespace tutti::testing_support
