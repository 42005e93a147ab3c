#include "src/transport/stream/message_link.h"

#include <poll.h>

#include <utility>

#include "src/base/caught.h"
#include "src/base/clock.h"

namespace tutti::transport::stream {
namespace {

// One call of progress() sends about so much, so that other links get their turn.
constexpr uint64_t kTurnBytes = 1024 * 1024;
constexpr uint64_t kGentleCloseNs = 1'000'000'000;

}  // namespace

MessageLink::MessageLink(int rank, int peer, std::string where, std::unique_ptr<MessagePipe> pipe)
    : rank_(rank),
      peer_(peer),
      where_(std::move(where)),
      pipe_(std::move(pipe)),
      exchange_(rank, peer, pipe_->memory(), pipe_->copies_frames(), pipe_->reads_memory()) {}

MessageLink::~MessageLink() {
  while (linger()) {
    pollfd entry{pipe_->descriptor(), POLLIN, 0};
    ::poll(&entry, 1, 1);
  }
  if (!ended_) pipe_->end();
}

Status MessageLink::status() const {
  return failed_.load(std::memory_order_acquire) ? status_ : Status();
}

Stream::Ticket MessageLink::send(ChannelId channel, uint32_t signature,
                                 std::span<const ConstBuffer> pieces) {
  const MutexLock lock(mutex_);
  const Ticket ticket = exchange_.send(channel, signature, pieces);
  after_call();
  return ticket;
}

Stream::Ticket MessageLink::receive(ChannelId channel, uint32_t signature,
                                    std::span<const Buffer> pieces) {
  const MutexLock lock(mutex_);
  const Ticket ticket = exchange_.receive(channel, signature, pieces);
  after_call();
  return ticket;
}

bool MessageLink::can_place(ConstBuffer memory) const {
  PlacedMemory* const placed = pipe_->memory();
  return placed != nullptr && placed->place_of(memory.data, memory.bytes).has_value();
}

Stream::Ticket MessageLink::send_placed(ChannelId channel, uint32_t signature,
                                        std::span<const ConstBuffer> pieces) {
  const MutexLock lock(mutex_);
  const Ticket ticket =
      exchange_.send(channel, signature, pieces, FrameExchange::Carriage::kPlaced);
  after_call();
  return ticket;
}

Stream::Ticket MessageLink::receive_placed(ChannelId channel, uint32_t signature,
                                           std::span<const Buffer> pieces) {
  const MutexLock lock(mutex_);
  const Ticket ticket =
      exchange_.receive(channel, signature, pieces, FrameExchange::Carriage::kPlaced);
  after_call();
  return ticket;
}

void MessageLink::tell(ChannelId channel, const Note& note) {
  const MutexLock lock(mutex_);
  if (leaving_ || failed_.load(std::memory_order_relaxed)) return;
  exchange_.tell(channel, note);
  after_call();
}

uint64_t MessageLink::heard(ChannelId channel, Note& note) const {
  const MutexLock lock(mutex_);
  return exchange_.heard(channel, note);
}

void MessageLink::on_note(std::function<void(ChannelId)> hook) {
  const MutexLock lock(mutex_);
  exchange_.on_note(std::move(hook));
}

bool MessageLink::done(const TicketWindow& window, Ticket ticket) const {
  const TicketWindow::TicketState state = window.done(ticket);
  if (state != TicketWindow::TicketState::kAskUnderLock) {
    return state == TicketWindow::TicketState::kDone;
  }
  const MutexLock lock(mutex_);
  return window.done_under_lock(ticket);
}

// A frame that finds no memory while it is sent or taken is half done, and the link of no use.
template <class Work>
void MessageLink::move(const Work& work) {
  try {
    work();
  } catch (const std::exception& error) {
    fail_lost(status_of(error));
  }
}

void MessageLink::after_call() {
  if (failed_.load(std::memory_order_relaxed) || leaving_) return;
  if (exchange_.faulty()) return note_fault();
  move([this] {
    mutex_.assert_held();
    send_some();
    if (held_) poll_pipe();  // there may never be room: the peer may be gone
  });
  output_pending_.store(!has_said_all(), std::memory_order_relaxed);
}

bool MessageLink::progress() {
  if (!mutex_.try_lock()) return false;
  const MutexLock lock(mutex_, std::adopt_lock);
  if (failed_.load(std::memory_order_relaxed)) return false;
  bool moved = false;
  move([&] {
    mutex_.assert_held();
    moved = send_some();
    moved = poll_pipe() || moved;
    // The input may have been the credit for something large.
    if (!failed_.load(std::memory_order_relaxed)) moved = send_some() || moved;
  });
  output_pending_.store(!has_said_all(), std::memory_order_seq_cst);
  if (wake_ && exchange_.has_answers()) wake_();
  if (moved) moves_.store(moves() + 1, std::memory_order_relaxed);
  return moved;
}

bool MessageLink::send_some() {
  bool moved = false;
  for (uint64_t turn = 0; turn < kTurnBytes && !ended_;) {
    if (!held_) held_ = exchange_.next(pipe_->payload_limit());
    if (!held_ || !pipe_->send(*held_)) break;
    turn += kSequencedHeaderBytes + total_bytes(held_->payload);
    held_.reset();
    moved = true;
  }
  while (pipe_->memory() != nullptr && !ended_) {
    if (!held_write_) {
      held_write_ = exchange_.next_write({pipe_->write_limit(), pipe_->one_sided_limit()});
    }
    if (!held_write_ || !pipe_->write(*held_write_)) break;
    held_write_.reset();
    moved = true;
  }
  exchange_.flushed();
  return moved;
}

bool MessageLink::poll_pipe() {
  const uint64_t before = reported_;
  Status status = pipe_->poll(*this);
  if (exchange_.faulty()) {
    note_fault();
  } else if (!status.ok()) {
    fail_lost(status);
  }
  return reported_ != before;
}

void MessageLink::came(std::span<const std::byte> header, std::span<const std::byte> payload) {
  mutex_.assert_held();  // the pipe reports from within poll_pipe()
  ++reported_;
  if (!leaving_) exchange_.take(header, payload);
}

void MessageLink::carried(uint64_t name) {
  mutex_.assert_held();  // the pipe reports from within poll_pipe()
  ++reported_;
  exchange_.carried(name);
}

void MessageLink::written(uint64_t name, uint32_t segments) {
  mutex_.assert_held();  // the pipe reports from within poll_pipe()
  ++reported_;
  exchange_.written(name, segments);
}

void MessageLink::arrived(uint32_t number, uint32_t segments) {
  mutex_.assert_held();  // the pipe reports from within poll_pipe()
  ++reported_;
  if (!leaving_) exchange_.arrived(number, segments);
}

Status MessageLink::epoch_status(EpochId epoch) const {
  const MutexLock lock(mutex_);
  return exchange_.epoch_status(epoch);
}

void MessageLink::prioritize(EpochId epoch, Priority priority) {
  const MutexLock lock(mutex_);
  exchange_.prioritize(epoch, priority);
}

void MessageLink::end_epoch(EpochId epoch) {
  const MutexLock lock(mutex_);
  move([&] {
    mutex_.assert_held();
    if (held_) held_ = exchange_.keep(*held_);
    exchange_.end_epoch(epoch);
    if (held_write_ && epoch.has(held_write_->write.channel)) {
      exchange_.abandon(held_write_->write.name);
      held_write_.reset();
    }
  });
  after_call();
}

bool MessageLink::has_let_go(EpochId epoch) {
  const MutexLock lock(mutex_);
  return ended_ || exchange_.has_let_go(epoch);
}

// ---- one-sided ----------------------------------------------------------------------------------

void MessageLink::expose(ChannelId id, const Region& region) {
  const MutexLock lock(mutex_);
  exchange_.expose(id, region);
  after_call();
}

bool MessageLink::withdraw(ChannelId id) {
  const MutexLock lock(mutex_);
  const bool done = exchange_.withdraw(id);
  after_call();
  return done || ended_;
}

bool MessageLink::cut_off(ChannelId id) {
  const MutexLock lock(mutex_);
  bool done = false;
  move([&] {
    mutex_.assert_held();
    if (held_) held_ = exchange_.keep(*held_);
    done = exchange_.cut_off(id);
  });
  after_call();
  return done || ended_;
}

Stream::Ticket MessageLink::put(ChannelId region, uint64_t offset, ConstBuffer source,
                                uint32_t signal) {
  const MutexLock lock(mutex_);
  const Ticket ticket = exchange_.put(region, offset, source, signal);
  after_call();
  return ticket;
}

Stream::Ticket MessageLink::get(ChannelId region, uint64_t offset, Buffer target) {
  const MutexLock lock(mutex_);
  const Ticket ticket = exchange_.get(region, offset, target);
  after_call();
  return ticket;
}

bool MessageLink::refused(ChannelId region) const {
  const MutexLock lock(mutex_);
  return exchange_.refused(region);
}

void MessageLink::on_answers(std::function<void()> wake) {
  const MutexLock lock(mutex_);
  wake_ = std::move(wake);
}

// ---- the end ------------------------------------------------------------------------------------

void MessageLink::note_fault() {
  fail(exchange_.fault_status());
  move([this] {
    mutex_.assert_held();
    leave();
    send_some();
  });  // so that the peer can say why, too
  if (has_said_all() && !std::exchange(ended_, true)) pipe_->end();
}

bool MessageLink::hang_up() {
  const MutexLock lock(mutex_);
  if (!std::exchange(leaving_, true)) leave();
  if (!ended_) {
    move([this] {
      mutex_.assert_held();
      send_some();
    });
  }
  if (!has_said_all() && !ended_) return false;
  if (!std::exchange(ended_, true)) pipe_->end();
  return true;
}

// The frame that waits for room has its number already, so it goes before the last words.
void MessageLink::leave() {
  if (held_) held_ = exchange_.keep(*held_);
  exchange_.leave();
  if (held_write_) exchange_.abandon(held_write_->write.name);
  held_write_.reset();
}

void MessageLink::sever(const std::string& why) {
  const MutexLock lock(mutex_);
  fail(Status::remote_error("rank " + std::to_string(rank_) + " ended its connection to rank " +
                            std::to_string(peer_) + " at " + where_ + ": " + why));
  if (!std::exchange(ended_, true)) pipe_->end();
}

bool MessageLink::linger() {
  if (!hang_up() && !failed_.load(std::memory_order_relaxed)) {
    const MutexLock lock(mutex_);
    if (linger_until_ns_ == 0) linger_until_ns_ = monotonic_ns() + kGentleCloseNs;
    return monotonic_ns() < linger_until_ns_;
  }
  const MutexLock lock(mutex_);
  if (linger_until_ns_ == 0) linger_until_ns_ = monotonic_ns() + kGentleCloseNs;
  move([this] { (void)pipe_->poll(*this); });  // the peer may wait for room
  return !pipe_->has_delivered() && monotonic_ns() < linger_until_ns_;
}

void MessageLink::fail(Status status) {
  if (failed_.load(std::memory_order_relaxed)) return;
  status_ = std::move(status);
  failed_.store(true, std::memory_order_release);
}

void MessageLink::fail_lost(const Status& why) {
  const std::string peer = "rank " + std::to_string(peer_);
  fail(Status::remote_error("rank " + std::to_string(rank_) + " lost " + peer + " at " + where_ +
                            ": " + std::string(why.message()) + "; look at what " + peer +
                            " said last"));
  if (!std::exchange(ended_, true)) pipe_->end();
}

}  // namespace tutti::transport::stream
