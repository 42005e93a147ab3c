#include "transports/tcp/doorman.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "src/base/clock.h"
#include "src/transport/handshake.h"

namespace tutti::transports::tcp {

Doorman::Doorman(Fd listener, Fd bell, const transport::Member& member)
    : listener_(std::move(listener)), bell_(std::move(bell)), member_(member) {}

Doorman::~Doorman() {
  for (const auto& guest : guests_) {
    shutdown(guest->fd.get(), SHUT_RDWR);  // ends its handshake
    guest->thread.join();
  }
}

Result<Fd> Doorman::admit(int peer, uint64_t deadline_ns) {
  for (;;) {
    settle_guests();
    if (const auto found = admitted_.find(peer); found != admitted_.end()) {
      Fd fd = std::move(found->second);
      admitted_.erase(found);
      return fd;
    }
    if (monotonic_ns() >= deadline_ns) {
      std::string text = "rank " + std::to_string(peer) + " did not connect in time";
      if (refused_ > 0) {
        text += " (refused " + std::to_string(refused_) +
                " other connections; the last one: " + last_refusal_ + ")";
      }
      return Status::timeout(text);
    }
    wait_for_news(deadline_ns);
    if (Status status = accept_guests(); !status.ok()) return status;
  }
}

void Doorman::wait_for_news(uint64_t deadline_ns) {
  pollfd entries[2] = {{bell_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
  const bool room = guests_.size() < kMaxHalfOpen;
  poll(entries, room ? 2 : 1, poll_timeout_ms(deadline_ns));
  uint64_t rings = 0;
  // Non-blocking: nothing to read is as good as read.
  [[maybe_unused]] const ssize_t count = read(bell_.get(), &rings, sizeof rings);
}

Status Doorman::accept_guests() {
  while (guests_.size() < kMaxHalfOpen) {
    Result<Fd> fd = accept_one(listener_.get());
    if (!fd.ok()) return fd.status();
    if (!fd.value().valid()) return {};
    auto guest = std::make_unique<Guest>();
    guest->fd = std::move(fd).value();
    try {
      guest->thread = std::thread(&Doorman::greet, this, std::ref(*guest));
    } catch (const std::system_error& error) {
      return Status::system_error(std::string("cannot start a thread: ") + error.what());
    }
    guests_.push_back(std::move(guest));
  }
  return {};
}

void Doorman::greet(Guest& guest) {
  transport::Identity self;
  self.rank = member_.rank;
  self.communicator = member_.communicator;
  self.epoch = member_.epoch;
  self.purpose = transport::Purpose::kTcp;
  const Result<int> rank = transport::handshake_accept(guest.fd.get(), member_.key, self,
                                                       monotonic_ns() + kHandshakeNs);
  if (!rank.ok()) {
    guest.refusal = rank.status();
  } else if (rank.value() < 0 || rank.value() >= member_.rank) {
    guest.refusal = Status::remote_error("rank " + std::to_string(rank.value()) +
                                         " called, but only lower ranks call this one");
  } else {
    guest.rank = rank.value();
  }
  guest.decided.store(true, std::memory_order_release);
  const uint64_t ring = 1;
  [[maybe_unused]] const ssize_t count = write(bell_.get(), &ring, sizeof ring);
}

void Doorman::settle_guests() {
  std::erase_if(guests_, [this](const std::unique_ptr<Guest>& guest) {
    if (!guest->decided.load(std::memory_order_acquire)) return false;
    guest->thread.join();
    if (guest->refusal.ok()) {
      admitted_[guest->rank] = std::move(guest->fd);  // who calls again means the newer call
    } else {
      ++refused_;
      last_refusal_ = guest->refusal.message();
    }
    return true;
  });
}

}  // namespace tutti::transports::tcp
