#include "monitored_barrier.h"

#include <thread>
#include <vector>

#include "errors.h"
#include "interpreter.h"

namespace tutti_torch {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kNap = std::chrono::milliseconds(1);

bool comes(c10d::Store& store, const std::string& key, Clock::time_point deadline) {
  // A store's wait() would hold its connection, and with it what other threads do there.
  bool come = store.check({key});
  while (!come && Clock::now() <= deadline) {
    std::this_thread::sleep_for(kNap);
    come = store.check({key});
  }
  return_to_interpreter();
  return come;
}

}  // namespace

void run(const MonitoredBarrier& barrier, c10d::Store& store, Group group) {
  const auto deadline = Clock::now() + barrier.timeout;
  const auto come = [&](int rank) { return barrier.key + "come/" + std::to_string(rank); };
  const std::string go = barrier.key + "go";
  const std::string head = "tutti: monitored_barrier of " + barrier.name;
  const std::string within = " within " + std::to_string(barrier.timeout.count()) + " ms";
  if (group.rank != 0) {
    store.set(come(group.rank), std::vector<uint8_t>{1});
    if (comes(store, go, deadline)) return;
    throw CallError(tuttiTimeout, head + ": rank " + std::to_string(group.rank) +
                                      " timed out: rank 0 did not let it go" + within);
  }
  std::vector<int> missing;
  for (int rank = 1; rank < group.size && (barrier.all || missing.empty()); ++rank) {
    if (!comes(store, come(rank), deadline)) missing.push_back(rank);
  }
  if (!missing.empty()) {
    throw CallError(tuttiTimeout,
                    head + " timed out: " + listed(missing) + " did not come" + within);
  }
  store.set(go, std::vector<uint8_t>{1});
}

}  // namespace tutti_torch
