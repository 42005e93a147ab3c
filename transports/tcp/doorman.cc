#include "transports/tcp/doorman.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <utility>

#include "src/base/clock.h"
#include "transports/tcp/socket.h"

namespace tutti::transports::tcp {

Doorman::Doorman(Fd listener, const transport::Member& member)
    : listener_(std::move(listener)), member_(member) {}

Result<Fd> Doorman::admit(int peer, uint64_t deadline_ns) {
  for (;;) {
    if (const auto found = admitted_.find(peer); found != admitted_.end()) {
      Fd fd = std::move(found->second);
      admitted_.erase(found);
      return fd;
    }
    if (monotonic_ns() >= deadline_ns) {
      std::string text = "rank " + std::to_string(peer) + " did not connect in time";
      if (refused_ > 0) {
        text += " (connections refused: " + std::to_string(refused_) +
                "; the last one because " + last_refusal_ + ")";
      }
      return Status::timeout(text);
    }
    wait_for_news(deadline_ns);
    if (Status status = accept_guests(); !status.ok()) return status;
    advance_guests();
  }
}

void Doorman::wait_for_news(uint64_t deadline_ns) const {
  std::array<pollfd, kMaxHalfOpen + 1> entries;
  nfds_t used = 0;
  for (const Guest& guest : guests_) {
    entries[used++] = {guest.fd.get(), POLLIN, 0};
    deadline_ns = std::min(deadline_ns, guest.deadline_ns);
  }
  if (guests_.size() < kMaxHalfOpen) entries[used++] = {listener_.get(), POLLIN, 0};
  poll(entries.data(), used, poll_timeout_ms(deadline_ns));
}

Status Doorman::accept_guests() {
  while (guests_.size() < kMaxHalfOpen) {
    Result<Fd> fd = accept_one(listener_.get());
    if (!fd.ok()) return fd.status();
    if (!fd.value().valid()) return {};
    transport::Identity self;
    self.rank = member_.rank;
    self.communicator = member_.communicator;
    self.epoch = member_.epoch;
    self.purpose = transport::Purpose::kTcp;
    transport::Greeting greeting(fd.value().get(), member_.key, self);
    guests_.push_back({std::move(fd).value(), greeting, monotonic_ns() + kHandshakeNs});
  }
  return {};
}

void Doorman::advance_guests() {
  std::vector<Guest> undecided;
  for (Guest& guest : guests_) {
    if (!advance(guest)) undecided.push_back(std::move(guest));
  }
  guests_ = std::move(undecided);
}

bool Doorman::advance(Guest& guest) {
  const Result<bool> done = guest.greeting.advance();
  if (!done.ok()) {
    refuse(std::string(done.status().message()));
    return true;
  }
  if (!done.value()) {
    if (monotonic_ns() < guest.deadline_ns) return false;
    refuse("the caller did not finish the handshake in time");
    return true;
  }
  const int rank = guest.greeting.rank();
  if (rank >= member_.rank) {
    refuse("rank " + std::to_string(rank) + " called, but only lower ranks call this one");
    return true;
  }
  admitted_[rank] = std::move(guest.fd);  // who calls again means the newer call
  return true;
}

void Doorman::refuse(const std::string& why) {
  ++refused_;
  last_refusal_ = why;
}

}  // namespace tutti::transports::tcp
