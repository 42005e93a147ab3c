// A set of descriptors that one thread sleeps on, as one descriptor; and descriptors that leave it
// before they close. A closed one would stay in it for as long as a forked child holds a copy, and
// wake the thread again and again.
//
// Owns:     PollSet its own descriptor, PolledFd the descriptor it was given.
// Threads:  one, but PollSet::fd() and list() from any.
// Errors:   Status with errno's text.
// Lifetime: a set outlives what is in it.
//
// A forked child holds neither (base/fork.h): what it does to them reaches nobody.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <memory>
#include <span>

#include "src/base/fork.h"
#include "src/base/status.h"

namespace tutti {

class PollSet {
 public:
  static Result<std::unique_ptr<PollSet>> create();

  /// Readable while something in the set is ready.
  int fd() const { return fd_.get(); }
  /// The descriptors that are ready now, by their tags. Does not wait.
  std::span<const epoll_event> ready(std::span<epoll_event> events) const;

 private:
  explicit PollSet(KeptFd fd) : fd_(std::move(fd)) {}

  const KeptFd fd_;
};

class PolledFd {
 public:
  PolledFd() = default;
  explicit PolledFd(KeptFd fd) : fd_(std::move(fd)) {}
  PolledFd(PolledFd&& other) noexcept;
  PolledFd& operator=(PolledFd&& other) noexcept;
  ~PolledFd() { unlist(); }

  int get() const { return fd_.get(); }
  bool valid() const { return fd_.valid(); }
  /// Enters the set, or waits for other events (EPOLLIN...) in it.
  Status list(const PollSet& set, uint32_t events, uint64_t tag);
  /// Gives the descriptor away, out of the set.
  KeptFd take();

 private:
  void unlist();

  KeptFd fd_;
  const PollSet* set_ = nullptr;  // null: in none
};

}  // namespace tutti
