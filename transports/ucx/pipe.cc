#include "transports/ucx/pipe.h"

#include <poll.h>
#include <sodium.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <utility>

#include "src/base/clock.h"
#include "src/base/io.h"
#include "src/base/little.h"

namespace tutti::transports::ucx {
namespace {

using transport::stream::CarriedFrame;
using transport::stream::CarriedWrite;
using transport::stream::PipeEvents;

// Kinds of messages.
constexpr unsigned kFrame = 0, kHello = 1, kLastWord = 2, kKinds = 3;
constexpr size_t kTokenBytes = 8, kCountBytes = 8;

// Names of operations that are no write.
constexpr uint64_t kMessage = ~uint64_t{0}, kFlushed = ~uint64_t{0} - 1;

constexpr uint64_t kSocketTag = 1, kWorkerTag = 2, kTimerTag = 3;
constexpr uint8_t kReady = 'R';

constexpr uint32_t kLookEvery = 16;  // empty polls: a look costs system calls
constexpr int kMostBatches = 8;      // of one poll, so that other links get their turn
constexpr size_t kMostWrites = 32;   // that are not told yet
constexpr uint64_t kLastWordNs = 1'000'000'000;

// UCX's wake-ups get lost over some cards, so who sleeps looks again after this.
constexpr long kNapNs = 300'000'000;

}  // namespace

std::optional<transport::stream::KeyedPlace> WritableRanges::place_of(const void* memory,
                                                                      uint64_t bytes) {
  const auto key = ranges_->find(memory, bytes);
  if (!key) return std::nullopt;
  return transport::stream::KeyedPlace{reinterpret_cast<uint64_t>(memory), *key};
}

// ---- the beginning ------------------------------------------------------------------------------

Result<std::unique_ptr<UcxPipe>> UcxPipe::open(UcxCommons commons, tcp::PeerSocket socket,
                                               const WaitLimit& wait_limit) {
  std::unique_ptr<UcxPipe> made(new UcxPipe(std::move(commons), std::move(socket)));
  if (Status status = made->prepare(); !status.ok()) return status;
  if (Status status = made->meet(wait_limit); !status.ok()) return status;
  return made;
}

Status UcxPipe::prepare() {
  Result<std::unique_ptr<PollSet>> set = PollSet::create();
  if (!set.ok()) return set.status();
  set_ = std::move(set).value();
  const auto hear = [this](unsigned kind, std::span<const std::byte> header,
                           std::span<const std::byte> payload) { take(kind, header, payload); };
  for (std::unique_ptr<UcxWorker>* worker : {&frames_, &writes_}) {
    auto made = UcxWorker::create(commons_.context, kKinds, hear);
    if (!made.ok()) return made.status();
    *worker = std::move(made).value();
  }
  randombytes_buf(&token_, sizeof token_);
  return {};
}

Status UcxPipe::meet(const WaitLimit& wait_limit) {
  const WorkerHello mine{token_, frames_->address(), writes_->address()};
  if (Status status = send_hello(socket_.get(), mine, wait_limit); !status.ok()) return status;
  const Result<WorkerHello> theirs = receive_hello(socket_.get(), wait_limit);
  if (!theirs.ok()) return theirs.status();
  peer_token_ = theirs.value().token;
  if (Status status = frames_->connect(theirs.value().frames); !status.ok()) return status;
  if (Status status = writes_->connect(theirs.value().writes); !status.ok()) return status;
  if (Status status = wire_up(wait_limit); !status.ok()) return status;
  return watch_all();
}

// UCX connects at the first message, and both ends have to move for it. Afterwards messages leave
// though the peer does nothing.
Status UcxPipe::wire_up(const WaitLimit& wait_limit) {
  constexpr int kWorkers = 2;
  for (UcxWorker* worker : {frames_.get(), writes_.get()}) {
    send_token(*worker, kHello, {}, kMessage);
    worker->flush(kMessage);
  }
  while (wiring_.hellos < kWorkers || wiring_.sent < 2 * kWorkers) {
    if (Status status = move_both(wait_limit); !status.ok()) return status;
  }
  if (Status status = send_all(socket_.get(), &kReady, 1, wait_limit); !status.ok()) return status;
  for (;;) {
    const int heard = socket_.hear();
    if (heard == kReady) return {};
    if (heard >= 0) return Status::remote_error("it is not ready");
    if (Status status = move_both(wait_limit); !status.ok()) return status;
  }
}

Status UcxPipe::move_both(const WaitLimit& wait_limit) {
  bool moved = false;
  for (UcxWorker* worker : {frames_.get(), writes_.get()}) {
    moved = worker->progress() || moved;
    wiring_.sent += static_cast<int>(worker->take_done().size());
    if (!worker->status().ok()) return explain(worker->status());
  }
  return moved ? Status() : sleep(wait_limit);
}

// A short one: UCX's descriptors are not trusted before both ends are connected.
Status UcxPipe::sleep(const WaitLimit& wait_limit) const {
  if (wait_limit.over()) {
    return wait_limit.reason("UCX made no connection on " + commons_.context->network().devices +
                             " in time");
  }
  pollfd entry{socket_.get(), POLLIN, 0};
  ::poll(&entry, 1, 1);
  return socket_.check_presence();
}

Status UcxPipe::watch_all() {
  timer_ = PolledFd(
      KeptFd::open([] { return timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC); }));
  if (!timer_.valid()) return errno_status("timerfd_create");
  const itimerspec nap{{0, kNapNs}, {0, kNapNs}};
  if (timerfd_settime(timer_.get(), 0, &nap, nullptr) < 0) return errno_status("timerfd_settime");
  if (Status status = timer_.list(*set_, EPOLLIN, kTimerTag); !status.ok()) return status;
  for (UcxWorker* worker : {frames_.get(), writes_.get()}) {
    if (Status status = worker->watch(*set_, kWorkerTag); !status.ok()) return status;
  }
  return socket_.watch(*set_, kSocketTag);
}

// ---- out ----------------------------------------------------------------------------------------

void UcxPipe::send_token(UcxWorker& worker, unsigned kind, std::span<const std::byte> rest,
                         uint64_t name) {
  std::array<uint8_t, kTokenBytes + kCountBytes> header{};
  put_little(header.data(), peer_token_, kTokenBytes);
  std::memcpy(&header[kTokenBytes], rest.data(), rest.size());
  const std::span<const uint8_t> bytes(header.data(), kTokenBytes + rest.size());
  worker.send(kind, std::as_bytes(bytes), {}, name);
}

// Frames may leave for long though nobody looks: the peer may be gone.
bool UcxPipe::has_room() {
  if (!broken_.ok() || ended_ || frames_->under_way() >= kMostFrames) return false;
  if (++unlooked_ >= kMostFrames) {
    unlooked_ = 0;
    frames_->progress();
  }
  return frames_->status().ok() && !has_peer_ended();
}

bool UcxPipe::send(const CarriedFrame& frame) {
  if (!has_room()) return false;
  std::array<std::byte, kTokenBytes + transport::stream::kSequencedHeaderBytes> header;
  put_little(reinterpret_cast<uint8_t*>(header.data()), peer_token_, kTokenBytes);
  std::memcpy(&header[kTokenBytes], frame.header.data(), frame.header.size());
  frames_->send(kFrame, header, frame.payload, frame.name);
  ++frames_sent_;
  return true;
}

bool UcxPipe::write(const CarriedWrite& write) {
  if (!broken_.ok() || ended_ || open_writes_.size() >= kMostWrites) return false;
  const uint64_t name = write.write.name;
  open_writes_[name].puts = write.source.size();
  unflushed_.push_back(name);
  uint64_t target = write.write.place.address;
  for (const iovec& piece : write.source) {
    writes_->put(piece, target, write.write.place.key, name);
    target += piece.iov_len;
  }
  flush_if_due();
  return true;
}

// One at a time, for all that was put until then.
void UcxPipe::flush_if_due() {
  if (!flushing_.empty() || unflushed_.empty() || ended_) return;
  flushing_ = std::exchange(unflushed_, {});
  writes_->flush(kFlushed);
}

// ---- in -----------------------------------------------------------------------------------------

// From within a worker's progress().
void UcxPipe::take(unsigned kind, std::span<const std::byte> header,
                   std::span<const std::byte> payload) {
  if (header.size() < kTokenBytes) return;
  const auto* bytes = reinterpret_cast<const uint8_t*>(header.data());
  if (get_little(bytes, kTokenBytes) != token_) return;  // a stranger's
  const auto rest = header.subspan(kTokenBytes);
  if (kind == kHello) {
    ++wiring_.hellos;
  } else if (kind == kLastWord && rest.size() == kCountBytes) {
    last_word_ = get_little(bytes + kTokenBytes, kCountBytes);
  } else if (kind == kFrame) {
    ++frames_came_;
    if (events_ != nullptr) return events_->came(rest, payload);
    early_.push_back({{rest.begin(), rest.end()}, {payload.begin(), payload.end()}});
  }
}

Status UcxPipe::poll(PipeEvents& events) {
  unlooked_ = 0;
  bool moved = false;
  for (int batch = 0; batch < kMostBatches && take_some(events); ++batch) moved = true;
  flush_if_due();
  if (!ended_ && !has_peer_ended()) look_at_workers();
  if (!moved && broken_.ok()) look_around(events);
  if (!broken_.ok()) return broken_;
  if (!has_peer_ended()) return {};
  if (!std::exchange(has_said_seen_, true)) socket_.say(Farewells::kSeen);
  return Status::remote_error("it has closed the connection");
}

// A peer that ends ends its writes first, and has a last word that may still be on its way.
void UcxPipe::look_at_workers() {
  if (!frames_->status().ok()) return break_off(explain(frames_->status()));
  if (writes_->status().ok()) return;
  if (writes_lost_ns_ == 0) writes_lost_ns_ = monotonic_ns();
  if (monotonic_ns() - writes_lost_ns_ >= kLastWordNs) break_off(explain(writes_->status()));
}

bool UcxPipe::take_some(PipeEvents& events) {
  events_ = &events;
  struct EventsEnd {
    PipeEvents*& events;
    ~EventsEnd() { events = nullptr; }
  } const leave{events_};
  for (const UnheardFrame& frame : std::exchange(early_, {})) {
    events.came(frame.header, frame.payload);
  }
  const bool frames = frames_->progress();
  const bool writes = writes_->progress();
  report(events);
  return frames || writes;
}

void UcxPipe::report(PipeEvents& events) {
  for (const uint64_t name : frames_->take_done()) {
    if (name != kMessage) events.carried(name);
  }
  for (const uint64_t name : writes_->take_done()) {
    if (ended_) continue;
    name == kFlushed ? note_flush(events) : note_put(name, events);
  }
}

// Bytes that did not arrive are not told of: the worker has an error then.
void UcxPipe::note_put(uint64_t name, PipeEvents& events) {
  const auto open = open_writes_.find(name);
  if (open == open_writes_.end() || --open->second.puts > 0 || !open->second.flushed) return;
  open_writes_.erase(open);
  if (writes_->status().ok()) events.written(name, 0);
}

void UcxPipe::note_flush(PipeEvents& events) {
  for (const uint64_t name : std::exchange(flushing_, {})) {
    UnflushedWrite& write = open_writes_[name];
    write.flushed = true;
    ++write.puts;
    note_put(name, events);
  }
}

// Nothing has come. A thread that sleeps on the descriptor is told of what comes from now on.
void UcxPipe::look_around(PipeEvents& events) {
  const bool looks = ++idle_polls_ % kLookEvery == 0;
  bool arms = false;
  for (UcxWorker* worker : {frames_.get(), writes_.get()}) {
    if (!looks && !worker->needs_arming()) continue;
    worker->arm();
    arms = true;
  }
  if (arms) (void)take_some(events);
  flush_if_due();
  if (!looks) return;
  uint64_t expirations = 0;
  (void)!read(timer_.get(), &expirations, sizeof expirations);
  // After the end the peer says that it has seen everything, or goes.
  if (ended_ || has_peer_ended()) return;
  if (Status status = socket_.check(); !status.ok()) break_off(std::move(status));
}

// ---- what goes wrong, and the end ---------------------------------------------------------------

Status UcxPipe::explain(const Status& said) const {
  if (Status status = socket_.check(); !status.ok()) return status;
  return said;
}

void UcxPipe::break_off(Status status) {
  if (broken_.ok()) broken_ = std::move(status);
}

// The last word says how many frames there are, since it may overtake them.
void UcxPipe::end() {
  if (std::exchange(ended_, true)) return;
  writes_->stop();
  if (broken_.ok()) {
    std::array<uint8_t, kCountBytes> count{};
    put_little(count.data(), frames_sent_, kCountBytes);
    send_token(*frames_, kLastWord, std::as_bytes(std::span(count)), kMessage);
    return;
  }
  frames_->stop();
  socket_.end();
}

bool UcxPipe::has_delivered() const {
  return frames_->under_way() == 0 || has_peer_ended() || !broken_.ok() ||
         !socket_.check_presence().ok();
}

UcxPipe::~UcxPipe() {
  writes_.reset();
  const bool farewell = ended_ && broken_.ok() && !has_peer_ended();
  commons_.farewells->look();
  if (farewell) commons_.farewells->add(std::move(frames_), std::move(socket_));
  frames_.reset();
}

}  // namespace tutti::transports::ucx
