#include "transports/tcp/link.h"

#include <poll.h>

#include <chrono>
#include <utility>

#include "src/base/caught.h"
#include "src/base/clock.h"
#include "transports/tcp/socket.h"

namespace tutti::transports::tcp {
namespace {

constexpr uint64_t kGentleCloseNs = 1'000'000'000;

}  // namespace

TcpLink::TcpLink(Party party, std::shared_ptr<Connection> connection)
    : party_(std::move(party)),
      connection_(std::move(connection)),
      exchange_(party_.rank, party_.peer) {
  const MutexLock lock(mutex());
  connection_->enter(*this);
}

TcpLink::~TcpLink() {
  {
    const MutexLock lock(mutex());
    wanted_ = false;
  }
  if (connection_->dialer() != nullptr) connection_->dialer()->forget(*this);
  while (linger()) {
    pollfd entry{fd_.load(), static_cast<short>(has_output() ? POLLOUT : POLLIN), 0};
    poll(&entry, 1, 1);
  }
  const MutexLock lock(mutex());
  connection_->leave(*this);
}

Status TcpLink::status() const {
  return failed_.load(std::memory_order_acquire) ? status_ : Status();
}

transport::Stream::Ticket TcpLink::send(transport::ChannelId channel, uint32_t signature,
                                        std::span<const transport::ConstBuffer> pieces) {
  const MutexLock lock(mutex());
  const Ticket ticket = exchange_.send(channel, signature, pieces);
  after_call(true);
  return ticket;
}

transport::Stream::Ticket TcpLink::receive(transport::ChannelId channel, uint32_t signature,
                                           std::span<const transport::Buffer> pieces) {
  const MutexLock lock(mutex());
  const Ticket ticket = exchange_.receive(channel, signature, pieces);
  after_call(exchange_.urgent());  // other grants go with the next frames
  return ticket;
}

void TcpLink::tell(transport::ChannelId channel, const transport::Note& note) {
  const MutexLock lock(mutex());
  if (leaving_ || failed_.load(std::memory_order_relaxed)) return;
  exchange_.tell(channel, note);
  if (open_) after_call(true);  // a note makes no connection
}

void TcpLink::tell_with_next(transport::ChannelId channel, const transport::Note& note) {
  const MutexLock lock(mutex());
  if (leaving_ || failed_.load(std::memory_order_relaxed)) return;
  exchange_.tell(channel, note);
}

uint64_t TcpLink::heard(transport::ChannelId channel, transport::Note& note) const {
  const MutexLock lock(mutex());
  return exchange_.heard(channel, note);
}

void TcpLink::on_note(std::function<void(transport::ChannelId)> hook) {
  const MutexLock lock(mutex());
  exchange_.on_note(std::move(hook));
}

void TcpLink::after_call(bool flush) {
  mutex().assert_held();
  if (!open_) [[unlikely]]
    return after_early_call();
  if (exchange_.faulty()) {
    note_fault();
    return;
  }
  connection_->after_call(*this, flush);
}

bool TcpLink::done(const transport::stream::TicketWindow& window, Ticket ticket) const {
  switch (window.done(ticket)) {
    case transport::stream::TicketWindow::TicketState::kDone:
      return true;
    case transport::stream::TicketWindow::TicketState::kPending:
      return false;
    case transport::stream::TicketWindow::TicketState::kAskUnderLock:
      break;
  }
  const MutexLock lock(mutex());
  return window.done_under_lock(ticket);
}

bool TcpLink::progress() {
  if (!mutex().try_lock()) return false;
  const MutexLock lock(mutex(), std::adopt_lock);
  const std::shared_ptr<Wire> wire = is_joined() ? lease_.wire : connection_->wire();
  if (wire == nullptr || wire->lost) return false;
  if (wire == connection_->wire()) return connection_->work(*wire) && open_;
  (void)connection_->say_rest(*wire);
  (void)Connection::discard_input(
      *wire);  // the peer may have last words, too, and reads nothing before
  return false;
}

void TcpLink::take(size_t count) {
  mutex().assert_held();
  exchange_.commit(count);
  if (exchange_.faulty()) return note_fault();
  if (open_ && !exchange_.idle()) connection_->enlist(*this);
}

Status TcpLink::epoch_status(transport::EpochId epoch) const {
  const MutexLock lock(mutex());
  return exchange_.epoch_status(epoch);
}

void TcpLink::prioritize(transport::EpochId epoch, transport::Priority priority) {
  const MutexLock lock(mutex());
  exchange_.prioritize(epoch, priority);
}

// A peer without a connection hears of it once there is one.
void TcpLink::end_epoch(transport::EpochId epoch) {
  const MutexLock lock(mutex());
  guarded([&] { exchange_.end_epoch(epoch); });
  if (open_) after_call(true);
}

bool TcpLink::has_let_go(transport::EpochId epoch) {
  const MutexLock lock(mutex());
  return failed_.load(std::memory_order_relaxed) || exchange_.has_let_go(epoch);
}

// ---- one-sided ----------------------------------------------------------------------------------

void TcpLink::expose(transport::ChannelId id, const transport::Region& region) {
  const MutexLock lock(mutex());
  exchange_.expose(id, region);
}

bool TcpLink::withdraw(transport::ChannelId id) {
  const MutexLock lock(mutex());
  return exchange_.withdraw(id) || failed_.load(std::memory_order_relaxed);
}

bool TcpLink::cut_off(transport::ChannelId id) {
  const MutexLock lock(mutex());
  bool done = false;
  guarded([&] { done = exchange_.cut_off(id); });
  return done || has_failed();
}

TcpLink::Ticket TcpLink::put(transport::ChannelId region, uint64_t offset,
                             transport::ConstBuffer source, uint32_t signal) {
  const MutexLock lock(mutex());
  const Ticket ticket = exchange_.put(region, offset, source, signal);
  after_call(true);
  return ticket;
}

TcpLink::Ticket TcpLink::get(transport::ChannelId region, uint64_t offset,
                             transport::Buffer target) {
  const MutexLock lock(mutex());
  const Ticket ticket = exchange_.get(region, offset, target);
  after_call(true);
  return ticket;
}

bool TcpLink::refused(transport::ChannelId region) const {
  const MutexLock lock(mutex());
  return exchange_.refused(region);
}

void TcpLink::on_answers(std::function<void()> wake) {
  const MutexLock lock(mutex());
  wake_ = std::move(wake);
}

// ---- the connection -----------------------------------------------------------------------------

transport::Link::State TcpLink::state() const {
  const MutexLock lock(mutex());
  if (has_failed()) return State::kFailed;
  if (is_joined()) return State::kConnected;
  return wanted_ ? State::kWanted : State::kIdle;
}

void TcpLink::want() {
  const MutexLock lock(mutex());
  want_once();
}

void TcpLink::probe() {
  const MutexLock lock(mutex());
  dial_once();
}

void TcpLink::want_once() {
  needed_ = true;
  dial_once();
}

void TcpLink::dial_once() {
  mutex().assert_held();
  if (wanted_ || leaving_ || quiet_ || has_settled()) return;
  wanted_ = true;
  connection_->want(*this);
}

void TcpLink::after_early_call() {
  if (exchange_.faulty()) note_fault();
  want_once();
}

Status TcpLink::await(const WaitLimit& wait_limit) {
  constexpr std::chrono::milliseconds kLook{20};  // a cancellation wakes nobody here
  want();
  MutexLock lock(mutex());
  while (!has_settled() && !wait_limit.over()) {
    connection_->changed().wait_for(lock, kLook);
    const std::shared_ptr<Wire> wire = connection_->wire();
    if (!has_settled() && wire != nullptr) (void)connection_->work(*wire);  // for its answer
    wait_limit.tell_if_due();
    wait_limit.ask_if_due();
  }
  if (has_settled()) return has_failed() ? status_ : Status();
  lock.unlock();
  if (wait_limit.cancelled() || wait_limit.has_lost_purpose()) return wait_limit.reason("");
  Dialer* const dialer = connection_->dialer();
  return dialer != nullptr ? dialer->overdue(*this) : Status::timeout("nobody connects it");
}

void TcpLink::on_settled(std::function<void()> call) {
  {
    const MutexLock lock(mutex());
    if (!has_settled()) {
      settled_calls_.push_back(std::move(call));
      return;
    }
  }
  call();
}

void TcpLink::on_failed(std::function<void()> hook) {
  const MutexLock lock(mutex());
  on_failed_ = std::move(hook);
  if (on_failed_ && has_failed() && is_joined()) on_failed_();
}

void TcpLink::take_settled_calls(std::vector<std::function<void()>>& calls) {
  if (!has_settled()) return;
  for (std::function<void()>& call : settled_calls_) calls.push_back(std::move(call));
  settled_calls_.clear();
}

void TcpLink::be_quiet() {
  const MutexLock lock(mutex());
  quiet_ = true;
  settled_calls_.clear();
  connection_->drop_declined_if_unwanted();
}

void TcpLink::join(std::shared_ptr<Wire> wire) {
  mutex().assert_held();
  lease_.wire = std::move(wire);
  fd_.store(lease_.wire->socket.get(), std::memory_order_release);
  open_ = !leaving_;
  if (open_) {
    after_call(true);
  } else {
    connection_->retire(*this);
  }
  connection_->changed().notify_all();
  if (connection_->dialer() != nullptr) connection_->dialer()->look_at(*connection_);
}

void TcpLink::refused(const std::string& why) {
  if (has_settled()) return;
  if (needed_ || leaving_) {
    fail(Status::remote_error("rank " + std::to_string(party_.rank) + " has no connection with " +
                              names() + ": " + why + "; look at what rank " +
                              std::to_string(party_.peer) + " said last"));
  }
  wanted_ = false;
  if (connection_->dialer() != nullptr) connection_->dialer()->look_at(*connection_);
}

void TcpLink::give_up(Status why) {
  const MutexLock lock(mutex());
  if (has_settled()) return;
  if (needed_ || leaving_) fail(std::move(why));
  wanted_ = false;
  connection_->drop_declined_if_unwanted();
}

// ---- the end ------------------------------------------------------------------------------------

std::string TcpLink::names() const {
  return "rank " + std::to_string(party_.peer) + " at " + party_.where;
}

// Calls that differ concern only this link.
void TcpLink::note_fault() {
  mutex().assert_held();
  const Status fault = exchange_.fault_status();
  if (fault.code() != Code::kInvalidUsage && is_joined()) {
    return connection_->give_up(*lease_.wire, [&](TcpLink& link) {
      if (&link == this) return link.fail(fault);
      link.fail_malformed("something malformed of another communicator");
    });
  }
  fail(fault);
  connection_->retire(*this);
}

// Messages on their way arrive before the end of the stream does. From here on nothing is read: the
// buffers are the caller's again.
bool TcpLink::hang_up() {
  const MutexLock lock(mutex());
  leaving_ = true;
  open_ = false;
  // A peer without a connection is told when it calls; one that is being called is told as soon as
  // it answers.
  if (!is_joined()) {
    exchange_.leave();
    return !wanted_ || has_failed();
  }
  connection_->retire(*this);
  const std::shared_ptr<Wire> wire = lease_.wire;
  if (wire->lost) return true;
  if (!has_current_wire()) {
    const bool said = connection_->say_rest(*wire);
    (void)Connection::discard_input(*wire);
    return said;
  }
  if (wire->has_words()) (void)connection_->work(*wire);
  return wire->lost || wire->output_dead || !wire->has_words();
}

// The other links go on; what comes for this one is discarded from now on.
void TcpLink::sever(const std::string& why) {
  const MutexLock lock(mutex());
  fail_here(Status::remote_error(why));
  connection_->retire(*this);
}

// Over a wire that is lost nothing can be finished, so buffers that were half sent are the caller's
// again.
void TcpLink::stop() {
  open_ = false;
  if (!is_joined() || !lease_.wire->lost) exchange_.leave();
}

void TcpLink::fail(Status status) {
  if (has_failed()) return;
  status_ = std::move(status);
  failed_.store(true, std::memory_order_release);
  open_ = false;
  if (on_failed_ && is_joined()) on_failed_();
  connection_->changed().notify_all();
}

void TcpLink::fail_lost(const std::string& why) {
  fail(Status::remote_error("rank " + std::to_string(party_.rank) + " lost " + names() + ": " +
                            why + "; look at what rank " + std::to_string(party_.peer) +
                            " said last"));
}

void TcpLink::fail_malformed(const std::string& what) {
  fail(Status::remote_error("rank " + std::to_string(party_.peer) + " sent rank " +
                            std::to_string(party_.rank) + " " + what +
                            ": the connection is given up"));
}

// The peer has done nothing wrong, so the error is not about it.
void TcpLink::fail_here(const Status& why) {
  fail(caught_status([&] {
    return Status(why.code(), "rank " + std::to_string(party_.rank) + " cannot go on with " +
                                  names() + ": " + std::string(why.message()));
  }));
}

void TcpLink::fail_buffer(const char* call) {
  fail_here(Status::invalid_argument(
      std::string("a buffer of its own call is not memory that it may use (") + call + ": " +
      errno_text(EFAULT) + ")"));
}

// Data that arrives at a closed socket answers with a reset, and a reset throws away what is still
// on its way to the peer. So read along until its kernel has everything.
bool TcpLink::linger() {
  const MutexLock lock(mutex());
  if (!is_joined()) return false;
  if (linger_until_ns_ == 0) linger_until_ns_ = monotonic_ns() + kGentleCloseNs;
  const bool had_failed = has_failed() && !leaving_ && !lease_.retired;
  leaving_ = true;
  connection_->retire(*this);
  const std::shared_ptr<Wire> wire = lease_.wire;
  if (had_failed || wire->lost || wire->output_dead) return false;
  if (monotonic_ns() >= linger_until_ns_) return false;
  if (has_current_wire()) {  // others go on with it
    if (wire->has_words()) (void)connection_->work(*wire);
    return !wire->lost && !wire->output_dead && wire->has_words();
  }
  (void)connection_->say_rest(*wire);
  if (!wire->has_words() && unacknowledged_bytes(wire->socket.get()) == 0) return false;
  return Connection::discard_input(*wire);
}

}  // namespace tutti::transports::tcp
