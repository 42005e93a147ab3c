#include "communicator.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "errors.h"

namespace tutti_torch {
namespace {

constexpr auto kFirstNap = std::chrono::microseconds(50);
constexpr auto kLongestNap = std::chrono::microseconds(20000);

/// Sleeps for a little longer each time.
class Naps {
 public:
  void nap() {
    std::this_thread::sleep_for(next_);
    next_ = std::min(next_ * 2, kLongestNap);
  }

 private:
  std::chrono::microseconds next_ = kFirstNap;
};

}  // namespace

Communicator::Communicator(Place place) : place_(std::move(place)), pid_(getpid()) {}

Communicator::~Communicator() {
  if (getpid() == pid_) abort();
}

tuttiComm_t Communicator::made() const {
  const std::lock_guard lock(mutex_);
  return ready_ ? comm_ : nullptr;
}

void Communicator::check_aborted() const {
  if (aborted()) {
    throw CallError(tuttiInvalidUsage,
                    "tutti: " + place_.name + " was aborted; make another process group");
  }
  if (revoked_.load(std::memory_order_acquire)) {
    throw CallError(tuttiInvalidUsage, "tutti: " + place_.name + " was aborted; reconfigure() it");
  }
}

tuttiComm_t Communicator::get(std::chrono::milliseconds timeout) {
  check_aborted();
  if (!ready_) {
    if (failure() != tuttiSuccess) {
      throw CallError(failure(), "tutti: " + place_.name + " could not be made before");
    }
    make(timeout);
  }
  return comm_;
}

std::vector<uint8_t> Communicator::read(const std::string& key, Clock::time_point deadline,
                                        std::chrono::milliseconds timeout) {
  // A store's get() holds its connection while it waits, and with it what other threads set.
  Naps naps;
  while (!place_.store->check({key})) {
    check_aborted();
    if (Clock::now() > deadline) {
      throw CallError(tuttiTimeout, "tutti: " + place_.name + ": timed out after " +
                                        std::to_string(timeout.count()) +
                                        " ms: rank 0 has not put the id into the store");
    }
    naps.nap();
  }
  return place_.store->get(key);
}

// A store may outlive process groups, so the id's key says how often this rank has come here.
int64_t Communicator::come() {
  times_ = place_.store->add(place_.key + "/times/" + std::to_string(place_.rank), 1);
  return times_;
}

std::string Communicator::missing() {
  std::vector<int> ranks;
  try {
    for (int rank = 0; rank < place_.ranks && times_ > 0; ++rank) {
      const std::string key = place_.key + "/times/" + std::to_string(rank);
      if (place_.store->add(key, 0) < times_) ranks.push_back(rank);
    }
  } catch (const std::exception&) {
    return "";  // the store's end says nothing of the ranks
  }
  if (ranks.empty()) return "";
  return listed(ranks) + (ranks.size() == 1 ? " has" : " have") +
         " made no call on it yet, and the first needs all of them";
}

// A rank whose patience is at its end tells the others, which would blame it.
void Communicator::blame_missing(const CallError& error, std::chrono::milliseconds timeout) {
  const std::string who = missing();
  if (who.empty()) throw CallError(error);
  const std::string how = error.result == tuttiTimeout
                              ? "timed out after " + std::to_string(timeout.count()) + " ms: " + who
                              : who + " (" + error.what_without_backtrace() + ")";
  throw CallError(error.result, "tutti: making " + place_.name + ": " + how);
}

tuttiUniqueId Communicator::meet(Clock::time_point deadline, std::chrono::milliseconds timeout) {
  const std::string key = place_.key + "/id/" + std::to_string(come());
  tuttiUniqueId id{};
  if (place_.rank == 0) {
    // Refused where the job has no key: the id must hold one then.
    if (tuttiGetPublicId(&id) != tuttiSuccess) {
      check(tuttiGetUniqueId(&id), "making the id of " + place_.name, nullptr, timeout);
    }
    const auto* bytes = reinterpret_cast<const uint8_t*>(&id);
    place_.store->set(key, std::vector<uint8_t>(bytes, bytes + sizeof(id)));
    return id;
  }
  const std::vector<uint8_t> bytes = read(key, deadline, timeout);
  if (bytes.size() != sizeof(id)) {
    throw CallError(tuttiInvalidArgument, "tutti: what the store has for " + place_.name +
                                              " is no id of Tutti; all ranks need one version");
  }
  std::memcpy(&id, bytes.data(), sizeof(id));
  return id;
}

tuttiResult_t Communicator::begin(const tuttiUniqueId& id, const tuttiConfig_t& config) {
  if (place_.joins) return tuttiCommJoin(&comm_, &id, &config);
  return tuttiCommInitRankConfig(&comm_, place_.ranks, id, place_.rank, &config);
}

void Communicator::make(std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  try {
    const tuttiUniqueId id = place_.joins ? *place_.joins : meet(deadline, timeout);
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.blocking = 0;  // so that the making can be given up
    config.name = place_.name.c_str();
    config.timeout_ns = UINT64_MAX;  // every call has its own
    tuttiResult_t state = tuttiInProgress;
    {
      const std::lock_guard lock(mutex_);
      check_aborted();
      state = begin(id, config);
      if (state == tuttiSuccess) state = tuttiInProgress;
    }
    Naps naps;
    while (state == tuttiInProgress) {
      check(tuttiCommGetAsyncError(comm_, &state), place_.name, nullptr, timeout);
      if (state != tuttiInProgress) break;
      check_aborted();
      if (Clock::now() > deadline) {
        throw CallError(tuttiTimeout, "tutti: making " + place_.name + " timed out after " +
                                          std::to_string(timeout.count()) + " ms: not all of its " +
                                          std::to_string(place_.ranks) + " ranks came");
      }
      naps.nap();
    }
    check(state, "making " + place_.name, comm_, timeout);
    const std::lock_guard lock(mutex_);
    ready_ = true;
  } catch (const CallError& error) {
    note(error.result);
    std::unique_lock lock(mutex_);
    if (comm_ != nullptr && !aborted()) tuttiCommAbort(comm_);
    comm_ = nullptr;
    lock.unlock();
    if (error.result != tuttiTimeout && error.result != tuttiRemoteError) throw;
    blame_missing(error, timeout);
  }
}

void Communicator::note(tuttiResult_t result) {
  tuttiResult_t none = tuttiSuccess;
  failure_.compare_exchange_strong(none, result, std::memory_order_acq_rel);
}

void Communicator::abort() {
  const std::lock_guard lock(mutex_);
  if (aborted_.exchange(true, std::memory_order_acq_rel)) return;
  if (comm_ != nullptr) tuttiCommAbort(comm_);
}

void Communicator::destroy() {
  tuttiComm_t comm = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (aborted()) return;
    comm = std::exchange(comm_, nullptr);
    ready_ = false;
    aborted_.store(true, std::memory_order_release);
  }
  if (comm == nullptr) return;
  if (failure() != tuttiSuccess) {
    tuttiCommAbort(comm);
    return;
  }
  if (tuttiCommDestroy(comm) != tuttiInProgress) return;
  tuttiResult_t state = tuttiInProgress;
  Naps naps;
  while (tuttiCommGetAsyncError(comm, &state) == tuttiSuccess && state == tuttiInProgress) {
    naps.nap();
  }
}

}  // namespace tutti_torch
