// The socket on which two ranks have proved themselves, kept beside the transport that carries
// their messages. Its end tells at once that the other process has died, while a card would go on
// trying.
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
  /// From now on the socket tells only of the peer's end, which wakes the threads that sleep on the
  /// set.
  Status watch(const PollSet& set, uint64_t tag);
  /// OK while the peer is there and has sent nothing.
  Status check() const;
  /// OK while the peer is there, also if it has sent something.
  Status check_presence() const;
  /// Sends a byte to the peer, if there is room.
  void say(uint8_t byte);
  /// Takes a byte that the peer has sent; -1: none.
  int hear();
  /// Tells the peer that this end is over.
  void end();

 private:
  PolledFd fd_;
  uint64_t keepalive_ns_;
};

}  // namespace tutti::transports::tcp
