#include "transports/tcp/connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "src/base/caught.h"
#include "src/base/io.h"
#include "transports/tcp/link.h"
#include "transports/tcp/socket.h"

namespace tutti::transports::tcp {
namespace {

using transport::door::CallAnswer;
using transport::door::LeaseFrame;
using transport::door::LeaseWord;

// The most bytes of answers that wait to be sent. Tutti never asks for more before it reads.
constexpr size_t kMostWords = size_t{4} << 20;

bool say(const KeptFd& call, CallAnswer verdict) {
  const auto byte = static_cast<char>(verdict);
  return send(call.get(), &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

}  // namespace

// ---- links --------------------------------------------------------------------------------------

void Connection::enter(TcpLink& link) {
  links_.push_back(&link);
  const auto asked = [&](const LeaseFrame& frame) {
    return frame.communicator == link.communicator() && frame.epoch == link.epoch();
  };
  const auto found = std::find_if(kept_.begin(), kept_.end(), asked);
  if (wire_ == nullptr) return;
  if (found != kept_.end()) {
    const LeaseFrame frame = *found;
    kept_.erase(found);
    answer_proof(*wire_, link, frame);
  } else if (has_dropped_proofs_) {
    ask(link, true);  // the peer's may have been one of them
  }
}

void Connection::leave(TcpLink& link) {
  retire(link);
  std::erase(links_, &link);
  drop_declined_if_unwanted();
  close_if_unused();
}

TcpLink* Connection::find(uint64_t communicator, uint32_t epoch) const {
  for (auto link = links_.rbegin(); link != links_.rend(); ++link) {
    if ((*link)->communicator() == communicator && (*link)->epoch() == epoch) return *link;
  }
  return nullptr;
}

TcpLink* Connection::wanting_link() const {
  const auto found =
      std::find_if(links_.begin(), links_.end(), [](TcpLink* link) { return link->waits(); });
  return found == links_.end() ? nullptr : *found;
}

TcpLink* Connection::link_to_call_for() {
  const MutexLock lock(mutex_);
  return wire_ == nullptr ? wanting_link() : nullptr;
}

void Connection::drop_declined_if_unwanted() {
  if (wanting_link() == nullptr) declined_.reset();
}

bool Connection::is_connected() {
  const MutexLock lock(mutex_);
  return wire_ != nullptr;
}

void Connection::want(TcpLink& link) {
  if (wire_ != nullptr) {
    if (!link.lease().asked) ask(link, false);
  } else {
    call_again();
  }
}

void Connection::call_again() {
  if (dialer_ != nullptr) dialer_->look_at(*this);
}

void Connection::announce() {
  std::vector<std::function<void()>> calls;
  {
    const MutexLock lock(mutex_);
    for (TcpLink* link : links_) link->take_settled_calls(calls);
  }
  for (const std::function<void()>& call : calls) call();
}

// ---- being called, and calling ------------------------------------------------------------------

Connection::Taken Connection::answer(TcpLink& link, KeptFd call,
                                     const transport::door::Binding& binding, bool calling) {
  const MutexLock lock(mutex_);
  const std::shared_ptr<Wire> old = wire_;
  if (old != nullptr) (void)work(*old);  // the end of it may lie there
  // A peer that calls a second time has lost the connection, which this rank has not noticed yet.
  if (link.has_settled() || wire_ != nullptr) {
    say(call, link.has_settled() ? CallAnswer::kGone : CallAnswer::kConnected);
    return Taken::kNo;
  }
  if (calling && wanting_link() != nullptr && self_ < peer_) {
    if (say(call, CallAnswer::kDeclined)) declined_ = std::move(call);
    return Taken::kNo;
  }
  if (!say(call, CallAnswer::kTaken)) return Taken::kNo;  // it has hung up meanwhile
  connect_with(link, std::move(call), binding);
  return Taken::kYes;
}

void Connection::adopt(TcpLink& link, KeptFd call, const transport::door::Binding& binding) {
  const MutexLock lock(mutex_);
  if (!link.has_settled() && wire_ == nullptr) connect_with(link, std::move(call), binding);
}

void Connection::connect_with(TcpLink& link, KeptFd call, const transport::door::Binding& binding) {
  wire_ = std::make_shared<Wire>(std::move(call), binding);
  declined_.reset();
  const std::shared_ptr<Wire> wire = wire_;  // links may end it
  link.lease().asked = true;
  link.join(wire);
  for (TcpLink* other : links_) {
    if (other->waits() && wire_ == wire) ask(*other, false);
  }
  changed_.notify_all();
}

void Connection::check_host(uint64_t silence_ns) {
  const MutexLock lock(mutex_);
  const std::shared_ptr<Wire> wire = wire_;
  if (wire == nullptr || !is_silent(wire->socket.get(), silence_ns)) return;
  lose(*wire, silence_text(silence_ns));
}

// ---- proofs -------------------------------------------------------------------------------------

transport::door::LeaseClaim Connection::claim_of(const Wire& wire, const TcpLink& link,
                                                 bool own) const {
  return {wire.binding, own ? self_ : peer_, own ? peer_ : self_, link.communicator(),
          link.epoch()};
}

void Connection::ask(TcpLink& link, bool lacks_proof) {
  const std::shared_ptr<Wire> wire = wire_;
  LeaseFrame frame;
  frame.lacks_proof = lacks_proof;
  frame.communicator = link.communicator();
  frame.epoch = link.epoch();
  frame.proof = transport::door::prove(link.key(), claim_of(*wire, link, true));
  link.lease().asked = true;
  wire->say(encode(frame));
  guarded(*wire, [&] {
    mutex_.assert_held();
    write_some(*wire);
  });
}

void Connection::tell(Wire& wire, LeaseWord word, uint64_t communicator, uint32_t epoch) {
  LeaseFrame frame;
  frame.word = word;
  frame.communicator = communicator;
  frame.epoch = epoch;
  wire.say(encode(frame));
}

// Says that the frames that follow are of this link.
void Connection::use(Wire& wire, TcpLink& link) {
  if (std::exchange(wire.used, &link) == &link) return;
  tell(wire, LeaseWord::kUse, link.communicator(), link.epoch());
}

// Discards the frames of this link that still come.
void Connection::forget(Wire& wire, const TcpLink& link) {
  for (TcpLink** named : {&wire.target, &wire.named, &wire.writing, &wire.used}) {
    if (*named == &link) *named = nullptr;
  }
}

void Connection::take_proof(Wire& wire, const LeaseFrame& frame) {
  TcpLink* const link = find(frame.communicator, frame.epoch);
  if (link != nullptr) {
    answer_proof(wire, *link, frame);
  } else if (dialer_ != nullptr && dialer_->expects(frame.communicator, frame.epoch)) {
    keep(frame);
  } else {
    tell(wire, LeaseWord::kGone, frame.communicator, frame.epoch);
  }
}

void Connection::keep(const LeaseFrame& frame) {
  if (kept_.size() < kMostKeptProofs) {
    kept_.push_back(frame);
  } else {
    has_dropped_proofs_ = true;
  }
}

void Connection::answer_proof(Wire& wire, TcpLink& link, const LeaseFrame& frame) {
  if (link.has_failed() || link.is_quiet()) {
    return tell(wire, LeaseWord::kGone, frame.communicator, frame.epoch);
  }
  if (!transport::door::proves(frame.proof, link.key(), claim_of(wire, link, false))) {
    return give_up(wire, [](TcpLink& other) {
      other.fail_lost("it claims to be in a communicator whose key it does not hold");
    });
  }
  if (!link.lease().asked || frame.lacks_proof) ask(link, false);
  if (link.lease().wire == nullptr && wire_.get() == &wire) link.join(wire_);
}

void Connection::decline_kept(uint64_t communicator, uint32_t epoch) {
  const MutexLock lock(mutex_);
  const size_t erased = std::erase_if(kept_, [&](const LeaseFrame& frame) {
    return frame.communicator == communicator && frame.epoch == epoch;
  });
  const std::shared_ptr<Wire> wire = wire_;
  if (erased == 0 || wire == nullptr) return;
  tell(*wire, LeaseWord::kGone, communicator, epoch);
  guarded(*wire, [&] {
    mutex_.assert_held();
    write_some(*wire);
  });
}

// Returns false while a part of it is missing.
bool Connection::take_lease_frame(Wire& wire) {
  using transport::door::kLeaseFrameBytes;
  if (wire.end - wire.begin < kLeaseFrameBytes) return false;
  const std::span<const std::byte, kLeaseFrameBytes> bytes(wire.buffer.data() + wire.begin,
                                                           kLeaseFrameBytes);
  const auto frame = transport::door::decode_lease(bytes);
  wire.begin += kLeaseFrameBytes;
  if (!frame || wire.words.size() - wire.said > kMostWords) {
    give_up(wire, [](TcpLink& link) { link.fail_lost("it said what no member says"); });
    return true;
  }
  TcpLink* const link = find(frame->communicator, frame->epoch);
  switch (frame->word) {
    case LeaseWord::kProof:
      take_proof(wire, *frame);
      break;
    case LeaseWord::kOver:
      std::erase_if(kept_, [&](const LeaseFrame& kept) {
        return kept.communicator == frame->communicator && kept.epoch == frame->epoch;
      });
      if (link == nullptr || link->lease().wire.get() != &wire) break;
      link->fail_lost("the connection was closed");
      retire(*link);
      break;
    case LeaseWord::kUse:
      wire.named = link;
      break;
    case LeaseWord::kGone:
      if (link == nullptr || !link->lease().asked || link->lease().wire != nullptr) break;
      link->lease().asked = false;
      link->refused("it has given up this connection");
      close_if_unused();
      break;
  }
  return true;
}

// ---- the end of a link, and of the socket -------------------------------------------------------

void Connection::retire(TcpLink& link) {
  TcpLink::Lease& lease = link.lease();
  if (std::exchange(lease.retired, true)) return;
  link.stop();
  std::erase(ready_, &link);
  lease.is_ready = false;
  Wire* const wire = lease.wire != nullptr ? lease.wire.get() : lease.asked ? wire_.get() : nullptr;
  if (wire == nullptr || wire->lost) return;
  // The rest of a frame that is half out comes before all others.
  const bool is_half_out = wire->writing == &link;
  std::vector<std::byte> last;
  for (auto entries = link.exchange().gather(); !entries.empty();
       entries = link.exchange().gather()) {
    for (const iovec& entry : entries) {
      const auto* const bytes = static_cast<const std::byte*>(entry.iov_base);
      last.insert(last.end(), bytes, bytes + entry.iov_len);
    }
    link.exchange().wrote(transport::stream::total_bytes(entries));
  }
  if (is_half_out) {
    wire->words.insert(wire->words.begin() + static_cast<std::ptrdiff_t>(wire->said), last.begin(),
                       last.end());
  } else if (!last.empty()) {
    use(*wire, link);
    wire->say(last);
  }
  forget(*wire, link);
  tell(*wire, LeaseWord::kOver, link.communicator(), link.epoch());
  guarded(*wire, [&] {
    mutex_.assert_held();
    write_some(*wire);
  });
  close_if_unused();
}

// Only open links read a connection, so it is closed when there is none.
void Connection::close_if_unused() {
  if (wire_ == nullptr) return;
  const bool used = std::any_of(links_.begin(), links_.end(), [&](TcpLink* link) {
    mutex_.assert_held();
    const TcpLink::Lease& lease = link->lease();
    return lease.wire == wire_ ? !lease.retired : lease.asked && link->waits();
  });
  if (used) return;
  const std::shared_ptr<Wire> wire = std::move(wire_);
  wire_.reset();
  forget_proofs();
  wire->closing = true;
  (void)say_rest(*wire);
  note_pending();
}

void Connection::forget_proofs() {
  kept_.clear();
  has_dropped_proofs_ = false;
  for (TcpLink* link : links_) {
    if (link->lease().wire == nullptr) link->lease().asked = false;
  }
}

bool Connection::say_rest(Wire& wire) {
  if (!wire.lost && wire.has_words())
    guarded(wire, [&] {
      mutex_.assert_held();
      write_some(wire);
    });
  const bool said = wire.lost || wire.output_dead || !wire.has_words();
  if (said && !wire.lost) shutdown(wire.socket.get(), SHUT_WR);
  return said;
}

bool Connection::discard_input(Wire& wire) {
  constexpr size_t kMostBytes = 1024 * 1024;
  std::array<std::byte, 16 * 1024> discarded;
  for (size_t turn = 0; turn < kMostBytes;) {
    const ssize_t count = recv(wire.socket.get(), discarded.data(), discarded.size(), MSG_DONTWAIT);
    const bool later = count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
    if (count == 0 || (count < 0 && !later)) return false;
    if (count < 0) return true;
    turn += static_cast<size_t>(count);
  }
  return true;
}

void Connection::give_up(Wire& wire, const std::function<void(TcpLink&)>& tell_link) {
  if (std::exchange(wire.lost, true)) return;
  shutdown(wire.socket.get(), SHUT_RDWR);  // wakes the threads that sleep on it
  wire.target = wire.writing = nullptr;
  const std::shared_ptr<Wire> kept = wire_;
  if (wire_.get() == &wire) {
    wire_.reset();
    forget_proofs();
  }
  for (TcpLink* link : links_) {
    if (link->lease().wire.get() != &wire) continue;
    tell_link(*link);
    retire(*link);
  }
  note_pending();
  if (wire_ == nullptr && wanting_link() != nullptr) call_again();
}

void Connection::lose(Wire& wire, const std::string& why) {
  give_up(wire, [&](TcpLink& link) { link.fail_lost(why); });
}

void Connection::fail_after(Wire& wire, const std::exception& error) {
  const Status why = status_of(error);
  give_up(wire, [&](TcpLink& link) { link.fail_here(why); });
}

}  // namespace tutti::transports::tcp
