#include "src/transport/door/handshake.h"

#include <poll.h>
#include <sodium.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "src/base/hung_up.h"
#include "src/base/io.h"
#include "src/base/little.h"

namespace tutti::transport::door {
namespace {

using HelloBytes = std::array<uint8_t, kHelloBytes>;
using Proof = std::array<uint8_t, kProofBytes>;

constexpr std::string_view kMagic = "TUTTIHI\n";
constexpr std::string_view kLabel = "tutti handshake 1";
constexpr size_t kNonceBytes = 32;

enum class Role : uint32_t { kCaller = 1, kAcceptor = 2 };

struct Hello {
  uint32_t version = kWireVersion;
  Role role = Role::kCaller;
  Identity who;
};

// Offsets of HELLO's fields; the magic is at 0.
constexpr size_t kVersionAt = 8, kPurposeAt = 12, kRoleAt = 16, kRankAt = 20, kPeerAt = 24;
constexpr size_t kEpochAt = 28, kCommunicatorAt = 32, kNonceAt = 40;
static_assert(kNonceAt + kNonceBytes == kHelloBytes);

HelloBytes encode(const Identity& who, Role role) {
  HelloBytes bytes{};
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  put_little(&bytes[kVersionAt], kWireVersion, 4);
  put_little(&bytes[kPurposeAt], who.purpose.letters, 4);
  put_little(&bytes[kRoleAt], static_cast<uint32_t>(role), 4);
  put_little(&bytes[kRankAt], static_cast<uint32_t>(who.rank), 4);
  put_little(&bytes[kPeerAt], static_cast<uint32_t>(who.peer), 4);
  put_little(&bytes[kEpochAt], who.epoch, 4);
  put_little(&bytes[kCommunicatorAt], who.communicator, 8);
  randombytes_buf(&bytes[kNonceAt], kNonceBytes);
  return bytes;
}

Hello decode(const HelloBytes& bytes) {
  Hello hello;
  hello.version = static_cast<uint32_t>(get_little(&bytes[kVersionAt], 4));
  hello.who.purpose = {static_cast<uint32_t>(get_little(&bytes[kPurposeAt], 4))};
  hello.role = static_cast<Role>(get_little(&bytes[kRoleAt], 4));
  hello.who.rank = static_cast<int32_t>(get_little(&bytes[kRankAt], 4));
  hello.who.peer = static_cast<int32_t>(get_little(&bytes[kPeerAt], 4));
  hello.who.epoch = static_cast<uint32_t>(get_little(&bytes[kEpochAt], 4));
  hello.who.communicator = get_little(&bytes[kCommunicatorAt], 8);
  return hello;
}

Status differs(const char* what, uint64_t theirs, uint64_t ours) {
  return Status::remote_error(std::string("the peer's ") + what + " is " + std::to_string(theirs) +
                              ", this rank's is " + std::to_string(ours));
}

std::string rank_name(int32_t rank) {
  return rank < 0 ? std::string("any rank") : "rank " + std::to_string(rank);
}

/// Compares the fields in which both hellos must agree before a proof is worth computing. Only a
/// reason to refuse: that nothing was altered on the way is for the proofs to say.
Status check_hello(const HelloBytes& bytes, const Identity& self, Role expected) {
  if (std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) {
    return Status::remote_error("whoever is at the other end does not speak Tutti's protocol");
  }
  const Hello hello = decode(bytes);
  if (hello.version != kWireVersion) {
    return differs("protocol version", hello.version, kWireVersion);
  }
  if (hello.role != expected) {
    return Status::remote_error("the peer played this rank's part: was our own hello sent back?");
  }
  if (hello.who.purpose != self.purpose) {
    return differs("purpose", hello.who.purpose.letters, self.purpose.letters);
  }
  if (expected == Role::kAcceptor && hello.who.rank < 0 && self.peer >= 0) {
    return Status::remote_error("there is no " + rank_name(self.peer) +
                                " of this communicator there, or no more");
  }
  if (hello.who.communicator != self.communicator) {
    return differs("communicator", hello.who.communicator, self.communicator);
  }
  if (hello.who.epoch != self.epoch) return differs("epoch", hello.who.epoch, self.epoch);
  if (self.peer >= 0 && hello.who.rank != self.peer) {
    return Status::remote_error("expected " + rank_name(self.peer) + ", but " +
                                rank_name(hello.who.rank) + " answered");
  }
  return {};
}

/// A caller knows whom it wants, and says who it is.
Status check_caller(const HelloBytes& bytes, const Identity& self) {
  const Identity who = decode(bytes).who;
  if (who.rank < 0) return Status::remote_error("the caller does not say which rank it is");
  if (who.peer != self.rank) {
    return Status::remote_error("the caller wants " + rank_name(who.peer) + ", this is " +
                                rank_name(self.rank));
  }
  return {};
}

/// The transcript holds both nonces, so a proof is worth nothing in another connection; the role
/// keeps one side's proof from being sent back to it as the other side's.
Proof prove(const JobKey& key, Role role, const HelloBytes& caller, const HelloBytes& acceptor) {
  Proof proof{};
  std::array<uint8_t, 4> direction{};
  put_little(direction.data(), static_cast<uint32_t>(role), direction.size());
  crypto_generichash_state state;
  crypto_generichash_init(&state, key.data(), key.size(), proof.size());
  crypto_generichash_update(&state, reinterpret_cast<const uint8_t*>(kLabel.data()), kLabel.size());
  crypto_generichash_update(&state, direction.data(), direction.size());
  crypto_generichash_update(&state, caller.data(), caller.size());
  crypto_generichash_update(&state, acceptor.data(), acceptor.size());
  crypto_generichash_final(&state, proof.data(), proof.size());
  sodium_memzero(&state, sizeof state);
  return proof;
}

Binding bind(const HelloBytes& caller, const HelloBytes& acceptor) {
  constexpr std::string_view kBindingLabel = "tutti connection 1";
  Binding binding{};
  crypto_generichash_state state;
  crypto_generichash_init(&state, nullptr, 0, binding.size());
  crypto_generichash_update(&state, reinterpret_cast<const uint8_t*>(kBindingLabel.data()),
                            kBindingLabel.size());
  crypto_generichash_update(&state, caller.data(), caller.size());
  crypto_generichash_update(&state, acceptor.data(), acceptor.size());
  crypto_generichash_final(&state, binding.data(), binding.size());
  return binding;
}

Status start_sodium() {
  if (sodium_init() < 0) return Status::system_error("libsodium cannot be initialised");
  return {};
}

/// A fresh socket has room for these few bytes; one that has not is refused, not waited for.
Status send_now(int fd, std::span<const uint8_t> bytes) {
  return send_all(fd, bytes.data(), bytes.size(), 0);
}

/// The error of recv() in words; an end of file is a peer that hung up, as a reset is.
Status lost(ssize_t count) {
  return count == 0 || hung_up(errno) ? closed_by_peer() : errno_status("recv");
}

}  // namespace

Status handshake_connect(int fd, const JobKey& key, const Identity& self,
                         const WaitLimit& wait_limit) {
  Introduction introduction(fd, key, self);
  for (;;) {
    const Result<bool> done = introduction.advance();
    if (!done.ok()) return done.status();
    if (done.value()) return {};
    if (!wait_ready(fd, POLLIN, wait_limit)) {
      return wait_limit.reason("the peer did not finish the handshake in time");
    }
  }
}

Introduction::Introduction(int fd, const JobKey& key, const Identity& self)
    : fd_(fd), key_(&key), self_(self) {}

Result<bool> Introduction::advance() {
  if (said_ == 0) {
    if (Status status = start_sodium(); !status.ok()) return status;
    ours_ = encode(self_, Role::kCaller);
    // An end of file before the other side has said anything says nothing about this rank.
    if (!send_now(fd_, ours_).ok()) return silence();
    said_ = kHelloBytes;
  }
  while (received_ < kHelloBytes + kProofBytes) {
    const Result<bool> more = receive();
    if (!more.ok() || !more.value()) return more;
    if (received_ == kHelloBytes) {
      if (Status status = prove_self(); !status.ok()) return status;
    }
  }
  if (Status status = check_proof(); !status.ok()) return status;
  return true;
}

/// False: nothing has arrived.
Result<bool> Introduction::receive() {
  const bool in_hello = received_ < kHelloBytes;
  uint8_t* next = in_hello ? &theirs_[received_] : &answer_[received_ - kHelloBytes];
  const size_t wanted = (in_hello ? kHelloBytes : kHelloBytes + kProofBytes) - received_;
  ssize_t count = 0;
  do {
    count = recv(fd_, next, wanted, MSG_DONTWAIT);
  } while (count < 0 && errno == EINTR);
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
  if (count > 0) {
    received_ += static_cast<size_t>(count);
    return true;
  }
  const Status status = lost(count);
  if (status.code() != Code::kRemoteError) return status;
  return in_hello ? silence() : hung_up();
}

Status Introduction::prove_self() {
  if (Status status = check_hello(theirs_, self_, Role::kAcceptor); !status.ok()) return status;
  if (!send_now(fd_, prove(*key_, Role::kCaller, ours_, theirs_)).ok()) {
    (void)receive();  // what it said before
    return hung_up();
  }
  said_ += kProofBytes;
  return {};
}

Status Introduction::silence() const {
  return Status::system_error("the peer hung up before it said anything");
}

/// An end of file where a proof was due, if nothing came before it, has one likely reason.
Status Introduction::hung_up() {
  if (received_ > kHelloBytes) return Status::system_error("the peer had others to hear");
  cut_off_ = true;
  return Status::remote_error(
      "the peer refused this rank: it closed the connection during the handshake (another key, "
      "version, communicator or epoch? its own error says which)");
}

Status Introduction::check_proof() const {
  const Proof expected = prove(*key_, Role::kAcceptor, ours_, theirs_);
  if (sodium_memcmp(answer_.data(), expected.data(), expected.size()) == 0) return {};
  return Status::remote_error("the peer does not hold this job's key");
}

Binding Introduction::binding() const { return bind(ours_, theirs_); }

Locks one_lock(const JobKey& key, const Identity& self) {
  return [lock = Lock{key, self}](const Identity&) { return std::optional(lock); };
}

Greeting::Greeting(int fd, Locks locks) : fd_(fd), locks_(std::move(locks)) {}

Binding Greeting::binding() const { return bind(theirs_, ours_); }

Result<bool> Greeting::advance() {
  while (received_ < kHelloBytes + kProofBytes) {
    const bool in_hello = received_ < kHelloBytes;
    uint8_t* next = in_hello ? &theirs_[received_] : &proof_[received_ - kHelloBytes];
    const size_t wanted = (in_hello ? kHelloBytes : kHelloBytes + kProofBytes) - received_;
    const ssize_t count = recv(fd_, next, wanted, MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
    if (count < 0) return errno_status("recv");
    if (count == 0) return Status::remote_error("the caller hung up during the handshake");
    received_ += static_cast<size_t>(count);
    if (received_ == kHelloBytes) {
      if (Status status = answer_hello(); !status.ok()) return status;
    }
  }
  if (rank_ < 0) {
    if (Status status = answer_proof(); !status.ok()) return status;
  }
  return true;
}

/// The hello is answered even where it differs: the caller's error then names the difference too.
Status Greeting::answer_hello() {
  if (Status status = start_sodium(); !status.ok()) return status;
  const bool speaks = std::memcmp(theirs_.data(), kMagic.data(), kMagic.size()) == 0;
  const std::optional<Lock> found = speaks ? locks_(decode(theirs_).who) : std::nullopt;
  // The hello of nobody says that there is no such rank, and nothing of those that there are.
  lock_ = found.value_or(Lock{{}, {.purpose = decode(theirs_).who.purpose}});
  if (speaks) {
    ours_ = encode(lock_.self, Role::kAcceptor);
    if (Status status = send_now(fd_, ours_); !status.ok()) return status;
  }
  if (speaks && !found) {
    return Status::remote_error("the caller wants a rank of a communicator that is not here");
  }
  if (Status status = check_hello(theirs_, lock_.self, Role::kCaller); !status.ok()) return status;
  return check_caller(theirs_, lock_.self);
}

void Greeting::put_off() const {
  if (received_ >= kHelloBytes) (void)send_now(fd_, std::array<uint8_t, 1>{});
}

Status Greeting::answer_proof() {
  const Proof expected = prove(lock_.key, Role::kCaller, theirs_, ours_);
  if (sodium_memcmp(proof_.data(), expected.data(), expected.size()) != 0) {
    return Status::remote_error("the caller does not hold this job's key");
  }
  if (Status status = send_now(fd_, prove(lock_.key, Role::kAcceptor, theirs_, ours_));
      !status.ok()) {
    return status;
  }
  rank_ = decode(theirs_).who.rank;
  return {};
}

}  // namespace tutti::transport::door
