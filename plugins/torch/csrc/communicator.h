// A communicator of Tutti that its ranks make when they first need it. They meet at a c10d::Store:
// the first rank makes the id, the others read it there.
//
// Owns: the communicator; the store is shared with the process group. Threads: get() and destroy()
// from one thread at a time, abort() and failed() from any at any time. Errors: CallError.
// Units: milliseconds.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "errors.h"
#include "tutti/tutti.h"

namespace tutti_torch {

/// Where ranks meet and who they are there.
struct Place {
  c10::intrusive_ptr<c10d::Store> store;
  std::string key;  // prefix of the keys of this communicator in the store
  int rank = 0;     // rank 0 makes the id
  int ranks = 1;
  std::string name;  // for messages: "group 0"
  std::optional<tuttiUniqueId> joins =
      std::nullopt;  // of the communicator that waits for this rank
};

/// How a communicator stands, for those who want to edit it.
struct Standing {
  bool exists = false;
  bool well = false;  // nothing has failed
  int rank = 0;       // in the communicator, which may differ from the group's after a failed edit
  uint32_t epoch = 0;
};

class Communicator {
 public:
  explicit Communicator(Place place);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  /// Aborts what is still there, but in a forked child, where the parent's is left alone.
  ~Communicator();

  /// Makes the communicator at the first call, for which all ranks are waited for as long as
  /// `timeout` says. After a failure and after abort() every call throws.
  tuttiComm_t get(std::chrono::milliseconds timeout);
  /// The communicator if it has been made, else null.
  tuttiComm_t made() const;
  /// Ends what is in flight here and on the other ranks.
  void abort();
  /// The same, but an edit can make the communicator well again.
  void revoke();

  Standing standing() const;
  /// Changes the members in place: ranks of now in their new order, and TUTTI_NEWCOMER.
  /// Where it fails, the communicator is as before. From the thread that calls get().
  void edit(const std::vector<int>& order, std::chrono::milliseconds timeout);
  /// Gives the members the ranks that they want, each its own.
  void arrange(int wanted, int size, std::chrono::milliseconds timeout);
  tuttiUniqueId id_for_newcomers() const;
  /// Of the last edit that succeeded here.
  tuttiEditReport_t last_edit() const;
  /// Leaves in good order: waits, for up to ten seconds, until the other ranks leave, too.
  void destroy();

  /// Keeps the first failure of an operation: it is final for a communicator.
  void note(tuttiResult_t result);
  tuttiResult_t failure() const { return failure_.load(std::memory_order_acquire); }
  bool aborted() const { return aborted_.load(std::memory_order_acquire); }
  const Place& place() const { return place_; }

 private:
  using Clock = std::chrono::steady_clock;

  void make(std::chrono::milliseconds timeout);
  tuttiResult_t begin(const tuttiUniqueId& id, const tuttiConfig_t& config);
  tuttiUniqueId meet(Clock::time_point deadline, std::chrono::milliseconds timeout);
  std::vector<uint8_t> read(const std::string& key, Clock::time_point deadline,
                            std::chrono::milliseconds timeout);
  /// This rank begins to make the communicator: how often it has come to do so.
  int64_t come();
  /// "rank 2 has made no call yet", of those that have not come as often; empty: all have, or the
  /// store is gone.
  std::string missing();
  /// Of what failed because others have not come: whose fault it is.
  [[noreturn]] void blame_missing(const CallError& error, std::chrono::milliseconds timeout);
  void check_aborted() const;

  const Place place_;
  const int pid_;
  mutable std::mutex mutex_;  // guards comm_
  tuttiComm_t comm_ = nullptr;
  int64_t times_ = 0;   // as come(); belongs to the thread that calls get()
  bool ready_ = false;  // belongs to the thread that calls get()
  std::atomic<bool> aborted_{false};
  std::atomic<bool> revoked_{false};
  tuttiEditReport_t last_edit_{};  // guarded by mutex_
  std::atomic<tuttiResult_t> failure_{tuttiSuccess};
};

}  // namespace tutti_torch
