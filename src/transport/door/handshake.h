// Proves, over a fresh socket, that both ends hold the job's key and agree on who they are.
//
// Wire, in this order (C: the connecting side, A: the accepting side):
//   C -> A  HELLO {magic, version, purpose, role, rank, peer, epoch, communicator, nonce}
//   A -> C  HELLO
//   C -> A  MAC(key, label | C's role | C's hello | A's hello)
//   A -> C  MAC(key, label | A's role | C's hello | A's hello)
// In place of its MAC, A may send one byte and hang up: it has others to hear, C may call again.
// Integers are little endian. MACs are compared in constant time. A proves itself only to a caller
// that proved itself first, so a caller that is done knows that A has let it in.
// Exactly these bytes are read: nothing else is believed before, nothing that follows is swallowed.
// Payloads that follow are not encrypted.
//
// Errors: kRemoteError names what differed; kTimeout; kSystemError when the connection broke, or
// ended before the other side had said anything, or it had others to hear: then another attempt may
// succeed. Threads: handshake_connect() blocks while its patience lasts; Introduction and Greeting
// never do.
// Ownership: the socket stays the caller's; it may be blocking or not.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "src/base/status.h"
#include "src/base/wait_limit.h"
#include "src/transport/member.h"

namespace tutti::transport::door {

/// The purpose of a connection, in at most four letters: for a transport the first of its name.
/// Wire format.
struct Purpose {
  uint32_t letters = 0;
  bool operator==(const Purpose&) const = default;
};

constexpr Purpose purpose_of(std::string_view name) {
  constexpr size_t kMostLetters = 4;
  Purpose purpose;
  for (size_t i = 0; i < name.size() && i < kMostLetters; ++i) {
    purpose.letters |= static_cast<uint32_t>(static_cast<unsigned char>(name[i])) << (8 * i);
  }
  return purpose;
}

inline constexpr Purpose kRendezvous = purpose_of("meet");

struct Identity {
  int32_t rank = -1;
  int32_t peer = -1;  // -1: whoever calls (the accepting side), or a server of no rank
  uint64_t communicator = 0;
  uint32_t epoch = 0;
  Purpose purpose = kRendezvous;
};

/// The part of a rank at its door, and the key that its callers have to hold.
struct Lock {
  JobKey key{};
  Identity self;
};

/// A door of many ranks finds the one that a caller wants. `caller` is what the caller says of
/// itself, which nobody has proved yet. Nothing: there is no such rank here.
using Locks = std::function<std::optional<Lock>(const Identity& caller)>;
Locks one_lock(const JobKey& key, const Identity& self);

/// A hash of both hellos, and so of both fresh nonces: it names one connection for ever.
using Binding = std::array<uint8_t, 32>;

inline constexpr uint32_t kWireVersion = 2;
inline constexpr size_t kHelloBytes = 72;
inline constexpr size_t kProofBytes = 32;

/// The connecting side: knows whom it wants.
Status handshake_connect(int fd, const JobKey& key, const Identity& self,
                         const WaitLimit& wait_limit);

/// The connecting side in steps, for one thread that calls many at once.
class Introduction {
 public:
  /// `fd` is connected; `key` outlives the introduction.
  Introduction(int fd, const JobKey& key, const Identity& self);

  /// Says what is due, reads what has arrived. True: the peer is who it should be and has let this
  /// rank in. False: wait until the socket is readable. An error is final.
  Result<bool> advance();
  /// The peer has all it needs to let this rank in, and may have done so.
  bool proved() const { return said_ > kHelloBytes; }
  /// The peer said nothing against this rank, it hung up where its proof was due: a refusal, or a
  /// connection that was lost.
  bool cut_off() const { return cut_off_; }
  /// Once it is done.
  Binding binding() const;

 private:
  Result<bool> receive();
  Status prove_self();
  Status check_proof() const;
  Status silence() const;
  Status hung_up();

  int fd_;
  const JobKey* key_;
  Identity self_;
  std::array<uint8_t, kHelloBytes> ours_{};
  std::array<uint8_t, kHelloBytes> theirs_{};
  std::array<uint8_t, kProofBytes> answer_{};
  size_t said_ = 0;      // bytes of hello and proof
  size_t received_ = 0;  // the same, theirs
  bool cut_off_ = false;
};

/// The accepting side in steps, for one thread that greets many callers at once.
class Greeting {
 public:
  Greeting(int fd, Locks locks);

  /// Reads what has arrived. True: the caller is rank(). False: wait until the socket is readable.
  /// An error is final.
  Result<bool> advance();
  /// Before it is hung up on to make room for others: so that it calls again. Never waits.
  void put_off() const;
  int rank() const { return rank_; }  // at least 0
  /// The one that the caller has proved to know, once it is done.
  const Identity& self() const { return lock_.self; }
  Binding binding() const;
  /// Bytes of the caller so far.
  size_t received() const { return received_; }

 private:
  Status answer_hello();
  Status answer_proof();

  int fd_;
  Locks locks_;
  Lock lock_;
  std::array<uint8_t, kHelloBytes> theirs_{};
  std::array<uint8_t, kHelloBytes> ours_{};
  std::array<uint8_t, kProofBytes> proof_{};
  size_t received_ = 0;  // of hello and proof together
  int rank_ = -1;
};

}  // namespace tutti::transport::door
