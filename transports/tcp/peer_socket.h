// The socket on which two ranks have proved themselves, kept beside what they talk by: it tells at
// once that the other process has died, whatever cards still try.
//
// Owns:    the socket.
// Threads: one at a time.
// Errors:  those of check(), in words that follow "because".
#pragma once

#include <cstdint>
#include <utility>

#include "src/base/fork.h"
#include "src/base/poll_set.h"
#include "src/base/status.h"

namespace tutti::transports::tcp {

class PeerSocket {
 public:
  /// `keepalive_ns`: for so long the peer's host may acknowledge nothing; kNoDeadline: for ever.
  PeerSocket(KeptFd fd, uint64_t keepalive_ns) : fd_(std::move(fd)), keepalive_ns_(keepalive_ns) {}

  int get() const { return fd_.get(); }
  /// From now on the socket tells only of the peer's end. It wakes those who sleep on the set.
  Status watch(const PollSet& set, uint64_t tag);
  /// OK while the peer is there and says nothing.
  Status check() const;
  /// OK while the peer is there, whatever it has said.
  Status check_presence() const;
  /// A byte to the peer, if there is room.
  void say(uint8_t byte);
  /// Takes a byte that the peer has said; -1: none.
  int hear();
  /// The peer learns that this end is over.
  void end();

 private:
  PolledFd fd_;
  uint64_t keepalive_ns_;
};

}  // namespace tutti::transports::tcp
