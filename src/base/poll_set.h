// A set of descriptors that one thread sleeps on, as one descriptor; and descriptors that leave it
// before they close. A closed one would stay in it for as long as a forked child holds a copy, and
// wake the thread again and again.
//
// Owns: PollSet its own descriptor, PolledFd the descriptor it was given. Threads: one, but
// PollSet::fd() and list() from any. Errors: Status with errno's text. Lifetime: a set outlives
// what is in it. A forked child holds neither (base/fork.h): what it does to them reaches nobody.
#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <memory>
#include <span>

#include "src/base/fork.h"
#include "src/base/io.h"
#include "src/base/status.h"

namespace tutti {

class PollSet {
 public:
  static Result<std::unique_ptr<PollSet>> create();

  /// Readable while something in the set is ready.
  int fd() const { return fd_.get(); }
  /// What is ready now, by the tags; does not wait.
  std::span<const epoll_event> ready(std::span<epoll_event> events) const;

 private:
  explicit PollSet(Fd fd) : fd_(std::move(fd)), private_(fd_.get()) {}

  const Fd fd_;
  const KeptFromForks private_;
};

class PolledFd {
 public:
  PolledFd() = default;
  explicit PolledFd(Fd fd) : fd_(std::move(fd)), private_(fd_.get()) {}
  PolledFd(PolledFd&& other) noexcept;
  PolledFd& operator=(PolledFd&& other) noexcept;
  ~PolledFd() { unlist(); }

  int get() const { return fd_.get(); }
  bool valid() const { return fd_.valid(); }
  /// Enters the set, or waits for other events (EPOLLIN...) in it.
  Status list(const PollSet& set, uint32_t events, uint64_t tag);
  /// Gives the descriptor away, out of the set.
  Fd take();

 private:
  void unlist();

  Fd fd_;
  KeptFromForks private_{-1};
  const PollSet* set_ = nullptr;  // null: in none
};

}  // namespace tutti
