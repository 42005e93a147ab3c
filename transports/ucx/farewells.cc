#include "transports/ucx/farewells.h"

#include <chrono>
#include <thread>
#include <utility>

#include "src/base/clock.h"

namespace tutti::transports::ucx {
namespace {

constexpr uint64_t kPatienceNs = 1'000'000'000;
constexpr std::chrono::microseconds kNap(500);

}  // namespace

Farewells::~Farewells() {
  for (look(); !all_.empty(); look()) std::this_thread::sleep_for(kNap);
}

void Farewells::add(std::unique_ptr<UcxWorker> worker, tcp::PeerSocket socket) {
  const MutexLock lock(mutex_);
  all_.push_back({std::move(worker), std::move(socket), monotonic_ns() + kPatienceNs});
}

bool Farewells::is_over(WorkerFarewell& farewell) {
  farewell.worker->progress();
  return farewell.socket.hear() == kSeen || !farewell.socket.check_presence().ok() ||
         monotonic_ns() >= farewell.until_ns;
}

void Farewells::look() {
  const MutexLock lock(mutex_);
  std::erase_if(all_, is_over);
}

}  // namespace tutti::transports::ucx
