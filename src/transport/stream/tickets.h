// Which tickets are done, when they finish in any order and are asked for without a lock.
//
// Slot t % kSlots holds the latest finished ticket of that residue. A ticket enters its slot only
// when every ticket kSlots before it is done, so `slot >= t` means that t is done: one load, never
// undone. Tickets that finish further ahead than that wait in a set (rare: one channel stands,
// others run).
//
// Threads: done() from anywhere; everything else under the owner's mutex.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <set>

namespace tutti::transport::stream {

class TicketWindow {
 public:
  static constexpr size_t kSlots = 512;

  uint64_t issue() { return ++last_; }
  void complete(uint64_t ticket);

  enum class TicketState { kDone, kPending, kAskUnderLock };
  TicketState done(uint64_t ticket) const;
  bool done_under_lock(uint64_t ticket) const;

 private:
  bool in_slot(uint64_t ticket) const {
    return slots_[ticket % kSlots].load(std::memory_order_acquire) >= ticket;
  }

  std::array<std::atomic<uint64_t>, kSlots> slots_{};
  std::atomic<size_t> early_count_{0};
  std::set<uint64_t> early_;  // done, but too far ahead for the slots
  uint64_t floor_ = 0;        // all tickets up to here are done
  uint64_t last_ = 0;
};

}  // namespace tutti::transport::stream
