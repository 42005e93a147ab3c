#include "transports/tcp/link.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "src/base/caught.h"
#include "src/base/clock.h"
#include "transports/tcp/socket.h"

namespace tutti::transports::tcp {
namespace {

// One call of progress() moves about this much each way, so that the other direction, the other
// links and threads that wait for the mutex get their turn.
constexpr size_t kTurnBytes = 1024 * 1024;
constexpr uint64_t kGentleCloseNs = 1'000'000'000;

bool say(const KeptFd& call, transport::door::CallAnswer verdict) {
  const auto byte = static_cast<char>(verdict);
  return send(call.get(), &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

TcpLink::TcpLink(int rank, int peer, std::string where, transport::door::Dialer* dialer)
    : rank_(rank), peer_(peer), where_(std::move(where)), dialer_(dialer), exchange_(rank, peer) {}

TcpLink::~TcpLink() {
  if (dialer_ != nullptr) dialer_->forget(peer_);
  while (linger()) {
    const auto events = static_cast<short>(exchange_.idle() ? POLLIN : POLLIN | POLLOUT);
    pollfd entry{socket_.get(), events, 0};
    poll(&entry, 1, 1);
  }
}

Status TcpLink::status() const {
  return failed_.load(std::memory_order_acquire) ? status_ : Status();
}

transport::Stream::Ticket TcpLink::send(transport::ChannelId channel, uint32_t signature,
                                        std::span<const transport::ConstBuffer> pieces) {
  const std::lock_guard lock(mutex_);
  const Ticket ticket = exchange_.send(channel, signature, pieces);
  after_call(!output_full_);
  return ticket;
}

transport::Stream::Ticket TcpLink::receive(transport::ChannelId channel, uint32_t signature,
                                           std::span<const transport::Buffer> pieces) {
  const std::lock_guard lock(mutex_);
  const Ticket ticket = exchange_.receive(channel, signature, pieces);
  after_call(exchange_.urgent());  // other grants go with the next frames
  return ticket;
}

void TcpLink::tell(transport::ChannelId channel, const transport::Note& note) {
  const std::lock_guard lock(mutex_);
  if (leaving_ || failed_.load(std::memory_order_relaxed)) return;
  exchange_.tell(channel, note);
  if (open_) after_call(true);  // a note makes no connection
}

void TcpLink::tell_with_next(transport::ChannelId channel, const transport::Note& note) {
  const std::lock_guard lock(mutex_);
  if (leaving_ || failed_.load(std::memory_order_relaxed)) return;
  exchange_.tell(channel, note);
}

uint64_t TcpLink::heard(transport::ChannelId channel, transport::Note& note) const {
  const std::lock_guard lock(mutex_);
  return exchange_.heard(channel, note);
}

void TcpLink::on_note(std::function<void(transport::ChannelId)> hook) {
  const std::lock_guard lock(mutex_);
  exchange_.on_note(std::move(hook));
}

// A message that finds no memory while it is read or written is half done, and the stream is of no
// use any more, whichever thread it was.
template <class Work>
void TcpLink::move_bytes(const Work& work) {
  try {
    work();
  } catch (const std::exception& error) {
    fail_here(status_of(error));
  }
}

void TcpLink::after_call(bool flush) {
  if (!open_) [[unlikely]]
    return after_early_call();
  if (exchange_.faulty()) {
    note_fault();
    return;
  }
  move_bytes([&] {
    if (flush) write_some();
    if (output_dead_) read_some();
  });
  output_pending_.store(!exchange_.idle(), std::memory_order_relaxed);
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
  const std::lock_guard lock(mutex_);
  return window.done_under_lock(ticket);
}

bool TcpLink::progress() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  return work();
}

bool TcpLink::work() {
  if (!open_) [[unlikely]] {
    if (connected()) say_last_words();
    return false;
  }
  bool wrote = false, read = false;
  move_bytes([&] {
    wrote = write_some();
    read = read_some();
    // The input may have been the credit for something large.
    if (read && !output_full_ && !failed_.load(std::memory_order_relaxed)) write_some();
  });
  output_pending_.store(!exchange_.idle(), std::memory_order_seq_cst);
  if (wake_ && exchange_.has_answers()) wake_();
  if (!read && !wrote) return false;
  moves_.store(moves() + 1, std::memory_order_relaxed);
  return true;
}

bool TcpLink::write_some() {
  size_t turn = 0;
  output_full_ = false;
  while (turn < kTurnBytes && !output_full_ && !output_dead_) {
    const std::span<const iovec> entries = exchange_.gather();
    if (entries.empty()) break;
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(entries.data());
    message.msg_iovlen = entries.size();
    const uint64_t wanted = transport::stream::total_bytes(entries);
    const ssize_t count = sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0) {
      output_full_ = would_block(errno);
      output_dead_ = !output_full_;
      if (errno == EFAULT) fail_buffer("sendmsg");
      break;
    }
    const auto written = static_cast<size_t>(count);
    output_full_ = written < wanted;
    exchange_.wrote(written);
    turn += written;
  }
  exchange_.flushed();
  return turn > 0;
}

bool TcpLink::read_some() {
  size_t turn = 0;
  std::array<iovec, transport::stream::BytesIn::kMaxEntries> entries;
  while (turn < kTurnBytes) {
    const size_t used = exchange_.prepare(entries);
    const ssize_t count = readv(socket_.get(), entries.data(), static_cast<int>(used));
    if (count == 0) {
      fail_lost("the connection was closed");
      break;
    }
    if (count < 0) {
      if (errno == EFAULT) {
        fail_buffer("readv");
      } else if (!would_block(errno)) {
        fail_lost(errno_text(errno));
      } else if (output_dead_) {
        fail_lost("the connection is broken");
      }
      break;
    }
    const auto arrived = static_cast<size_t>(count);
    exchange_.commit(arrived);
    turn += arrived;
    if (exchange_.faulty()) {
      note_fault();
      break;
    }
    if (arrived < transport::stream::total_bytes({entries.data(), used})) break;
  }
  return turn > 0;
}

Status TcpLink::epoch_status(transport::EpochId epoch) const {
  const std::lock_guard lock(mutex_);
  return exchange_.epoch_status(epoch);
}

void TcpLink::prioritize(transport::EpochId epoch, transport::Priority priority) {
  const std::lock_guard lock(mutex_);
  exchange_.prioritize(epoch, priority);
}

// A peer that was never met hears of it when there is a connection.
void TcpLink::end_epoch(transport::EpochId epoch) {
  const std::lock_guard lock(mutex_);
  move_bytes([&] { exchange_.end_epoch(epoch); });
  if (open_) after_call(!output_full_);
}

bool TcpLink::has_let_go(transport::EpochId epoch) {
  const std::lock_guard lock(mutex_);
  return failed_.load(std::memory_order_relaxed) || exchange_.has_let_go(epoch);
}

// ---- one-sided ----------------------------------------------------------------------------------

void TcpLink::expose(transport::ChannelId id, const transport::Region& region) {
  const std::lock_guard lock(mutex_);
  exchange_.expose(id, region);
}

bool TcpLink::withdraw(transport::ChannelId id) {
  const std::lock_guard lock(mutex_);
  return exchange_.withdraw(id) || failed_.load(std::memory_order_relaxed);
}

bool TcpLink::cut_off(transport::ChannelId id) {
  const std::lock_guard lock(mutex_);
  bool done = false;
  move_bytes([&] { done = exchange_.cut_off(id); });
  return done || failed_.load(std::memory_order_relaxed);
}

TcpLink::Ticket TcpLink::put(transport::ChannelId region, uint64_t offset,
                             transport::ConstBuffer source, uint32_t signal) {
  const std::lock_guard lock(mutex_);
  const Ticket ticket = exchange_.put(region, offset, source, signal);
  after_call(!output_full_);
  return ticket;
}

TcpLink::Ticket TcpLink::get(transport::ChannelId region, uint64_t offset,
                             transport::Buffer target) {
  const std::lock_guard lock(mutex_);
  const Ticket ticket = exchange_.get(region, offset, target);
  after_call(!output_full_);
  return ticket;
}

bool TcpLink::refused(transport::ChannelId region) const {
  const std::lock_guard lock(mutex_);
  return exchange_.refused(region);
}

void TcpLink::on_answers(std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  wake_ = std::move(wake);
}

// ---- the connection -----------------------------------------------------------------------------

bool TcpLink::settled() const { return connected() || failed_.load(std::memory_order_relaxed); }

transport::Link::State TcpLink::state() const {
  const std::lock_guard lock(mutex_);
  if (failed_.load(std::memory_order_relaxed)) return State::kFailed;
  if (connected()) return State::kConnected;
  return wanted_ ? State::kWanted : State::kIdle;
}

void TcpLink::want() {
  const std::lock_guard lock(mutex_);
  want_once();
}

void TcpLink::probe() {
  const std::lock_guard lock(mutex_);
  dial_once();
}

void TcpLink::want_once() {
  needed_ = true;
  dial_once();
}

void TcpLink::dial_once() {
  if (wanted_ || leaving_ || settled()) return;
  wanted_ = true;
  if (dialer_ != nullptr) dialer_->want(peer_);
}

void TcpLink::after_early_call() {
  if (exchange_.faulty()) note_fault();
  want_once();
}

Status TcpLink::await(const Patience& patience) {
  constexpr std::chrono::milliseconds kLook{20};  // a cancellation wakes nobody here
  want();
  std::unique_lock lock(mutex_);
  while (!settled() && !patience.over()) {
    changed_.wait_for(lock, kLook);
    patience.tell_if_due();
    patience.ask_if_due();
  }
  if (settled()) return failed_.load(std::memory_order_relaxed) ? status_ : Status();
  lock.unlock();
  if (patience.cancelled() || patience.senseless()) return patience.reason("");
  return dialer_ != nullptr ? dialer_->overdue(peer_) : Status::timeout("nobody connects it");
}

void TcpLink::on_settled(std::function<void()> call) {
  {
    const std::lock_guard lock(mutex_);
    if (!settled()) {
      settled_calls_.push_back(std::move(call));
      return;
    }
  }
  call();
}

void TcpLink::announce() {
  std::vector<std::function<void()>> calls;
  {
    const std::lock_guard lock(mutex_);
    if (settled()) calls.swap(settled_calls_);
  }
  for (const std::function<void()>& call : calls) call();
}

bool TcpLink::answer(KeptFd call, bool calling) {
  const std::lock_guard lock(mutex_);
  // A peer that calls a second time has lost the connection that this rank still believes in.
  if (settled()) {
    say(call, transport::door::CallAnswer::kGone);
    return false;
  }
  if (wanted_ && calling && rank_ < peer_) {
    if (say(call, transport::door::CallAnswer::kDeclined)) declined_ = std::move(call);
    return false;
  }
  if (!say(call, transport::door::CallAnswer::kTaken)) return false;  // it has hung up meanwhile
  connect_with(std::move(call));
  return true;
}

void TcpLink::adopt(KeptFd call) {
  const std::lock_guard lock(mutex_);
  if (!settled()) connect_with(std::move(call));
}

void TcpLink::give_up(Status why) {
  const std::lock_guard lock(mutex_);
  if (settled()) return;
  if (needed_ || leaving_) return fail(std::move(why));
  wanted_ = false;
  declined_.reset();
}

void TcpLink::connect_with(KeptFd call) {
  socket_ = std::move(call);
  fd_.store(socket_.get(), std::memory_order_release);
  declined_.reset();
  open_ = !leaving_;
  if (open_) {
    after_call(true);
  } else {
    say_last_words();
  }
  changed_.notify_all();
}

void TcpLink::check_host(uint64_t silence_ns) {
  const std::lock_guard lock(mutex_);
  if (!open_ || !is_silent(socket_.get(), silence_ns)) return;
  fail_lost(silence_text(silence_ns));
  shutdown(socket_.get(), SHUT_RDWR);  // who sleeps on it wakes up
}

// ---- the end ------------------------------------------------------------------------------------

void TcpLink::note_fault() {
  fail(exchange_.fault_status());
  shutdown(socket_.get(), SHUT_RDWR);
}

// Messages on their way arrive before the end of the stream does. From here on nothing is read: the
// buffers are the caller's again.
bool TcpLink::hang_up() {
  const std::lock_guard lock(mutex_);
  // Over a connection that is lost nothing can be finished, and what was half out is the owner's.
  const bool first = !std::exchange(leaving_, true);
  open_ = false;
  if (first && !output_dead_) exchange_.leave();
  // A peer that was never met is told when it calls; one that is being called, as soon as it
  // answers.
  if (!connected()) return !wanted_ || failed_.load(std::memory_order_relaxed);
  return say_last_words();
}

void TcpLink::sever(const std::string& why) {
  const std::lock_guard lock(mutex_);
  fail_here(Status::remote_error(why));
}

// True if nothing is left to say.
bool TcpLink::say_last_words() {
  if (!exchange_.idle() && !output_dead_) write_some();
  const bool said = exchange_.idle() || output_dead_;
  if (leaving_ && said) shutdown(socket_.get(), SHUT_WR);
  if (leaving_) discard_input();  // the peer may have last words, too, and reads nothing before
  return said;
}

// False at the end of what the peer sends.
bool TcpLink::discard_input() {
  std::array<std::byte, 16 * 1024> discarded;
  for (size_t turn = 0; turn < kTurnBytes;) {
    const ssize_t count = recv(socket_.get(), discarded.data(), discarded.size(), MSG_DONTWAIT);
    if (count == 0 || (count < 0 && !would_block(errno))) return false;
    if (count < 0) return true;
    turn += static_cast<size_t>(count);
  }
  return true;
}

void TcpLink::fail(Status status) {
  if (failed_.load(std::memory_order_relaxed)) return;
  status_ = std::move(status);
  failed_.store(true, std::memory_order_release);
  open_ = false;
  declined_.reset();
  changed_.notify_all();
}

void TcpLink::fail_lost(const std::string& why) {
  output_dead_ = true;
  fail(Status::remote_error("rank " + std::to_string(rank_) + " lost rank " +
                            std::to_string(peer_) + " at " + where_ + ": " + why +
                            "; look at what rank " + std::to_string(peer_) + " said last"));
}

// The peer has done nothing wrong, and may not be told of.
void TcpLink::fail_here(const Status& why) {
  output_dead_ = true;
  fail(caught_status([&] {
    return Status(why.code(), "rank " + std::to_string(rank_) + " cannot go on with rank " +
                                  std::to_string(peer_) + " at " + where_ + ": " +
                                  std::string(why.message()));
  }));
  shutdown(socket_.get(), SHUT_RDWR);
}

void TcpLink::fail_buffer(const char* call) {
  fail_here(Status::invalid_argument(
      std::string("a buffer of its own call is not memory that it may use (") + call + ": " +
      errno_text(EFAULT) + ")"));
}

// Data that arrives at a closed socket answers with a reset, and a reset throws away what is still
// on its way to the peer. So read along until its kernel has everything.
bool TcpLink::linger() {
  const std::lock_guard lock(mutex_);
  if (!connected()) return false;
  if (linger_until_ns_ == 0) linger_until_ns_ = monotonic_ns() + kGentleCloseNs;
  const bool failed = failed_.load(std::memory_order_relaxed);
  if (!failed && !leaving_) {  // notes that had no room yet: a goodbye
    exchange_.leave();
    leaving_ = true;
    open_ = false;
  }
  if (failed && !leaving_) return false;
  if (output_dead_ || monotonic_ns() >= linger_until_ns_) return false;
  say_last_words();
  if (exchange_.idle() && unacknowledged_bytes(socket_.get()) == 0) return false;
  return discard_input();
}

}  // namespace tutti::transports::tcp
