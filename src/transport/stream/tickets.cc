#include "src/transport/stream/tickets.h"

namespace tutti::transport::stream {

void TicketWindow::complete(uint64_t ticket) {
  if (ticket > floor_ + kSlots) {
    early_.insert(ticket);
    early_count_.store(early_.size(), std::memory_order_release);
    return;
  }
  slots_[ticket % kSlots].store(ticket, std::memory_order_release);
  while (in_slot(floor_ + 1)) {
    ++floor_;
    // The slot that the floor has just left is free for the ticket one round later.
    if (early_.empty() || *early_.begin() != floor_ + kSlots) continue;
    slots_[floor_ % kSlots].store(floor_ + kSlots, std::memory_order_release);
    early_.erase(early_.begin());
    // After the slot: whoever sees the smaller count sees the slot as well.
    early_count_.store(early_.size(), std::memory_order_release);
  }
}

TicketWindow::TicketState TicketWindow::done(uint64_t ticket) const {
  if (in_slot(ticket)) return TicketState::kDone;
  if (early_count_.load(std::memory_order_acquire) != 0) return TicketState::kAskUnderLock;
  return in_slot(ticket) ? TicketState::kDone : TicketState::kPending;  // it may just have moved
}

bool TicketWindow::done_under_lock(uint64_t ticket) const {
  return in_slot(ticket) || early_.contains(ticket);
}

}  // namespace tutti::transport::stream
