#include "src/comm/peer_watch.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "src/base/clock.h"
#include "src/comm/overlay.h"
#include "src/exec/wait.h"

namespace tutti::comm {
namespace {

using bootstrap::Watch;

// How long a call may go on after a peer's process ended: what it sent before may complete the
// call.
constexpr uint64_t kGraceNs = 100'000'000;
// And after one could not be reached that it was never connected with: it may have left long ago,
// because of what others saw and tell on. Below exec::Stall's patience with such a link.
constexpr uint64_t kUnmetGraceNs = 500'000'000;
// Streams have input all the time while calls run, which then read it themselves.
constexpr uint64_t kRestNs = 10'000'000;
// Input may come as fast as it is read, and this thread watches for all communicators.
constexpr uint64_t kVisitNs = 500'000;
constexpr uint64_t kShortRestNs = 1'000'000;
// A call's thread is reading what a peer sent before it hung up.
constexpr uint64_t kLookAgainNs = 1'000'000;
constexpr int kMostLooks = 100;
// How long who leaves waits for peers that have not answered its calls: these may be stopped.
constexpr uint64_t kMeetingNs = 1'000'000'000;

// Note::small[0] on the lane of news; a loss is large[0], as in the arenas.
enum class News : uint32_t { kLost = 1, kLeaves = 2 };

void drain(int fd) {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t bytes = read(fd, &count, sizeof count);
}

}  // namespace

PeerWatch::PeerWatch(Watch& watch, const Membership& membership, exec::HostExecutor& executor,
                     exec::Health& health)
    : watch_(watch),
      membership_(membership),
      executor_(executor),
      health_(health),
      peers_(executor.state().peers()),
      rank_(membership.rank()),
      bell_(membership.ranks()),
      heard_(peers_.size()) {}

Result<std::unique_ptr<PeerWatch>> PeerWatch::create(Watch& watch, const Membership& membership,
                                                     exec::HostExecutor& executor,
                                                     exec::Health& health) {
  std::unique_ptr<PeerWatch> made(new PeerWatch(watch, membership, executor, health));
  if (Status status = made->open(); !status.ok()) {
    made->end();  // no goodbye: the others are to learn that this rank is gone
    return Status(status.code(), health.name_of(made->rank_) +
                                     " cannot watch its peers: " + std::string(status.message()) +
                                     "; it may need a higher limit of open files (ulimit -n)");
  }
  made->listen_to_all();
  return made;
}

Status PeerWatch::open() {
  if (!membership_.has_streams()) return {};
  streams_.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!streams_.valid()) return errno_status("epoll_create1");
  if (Status status = bell_.open(); !status.ok()) return status;
  Status status = watch(bell_.fd(), Watch::News::kInput, [this] { return read_notes(); });
  if (!status.ok()) return status;
  status = watch(streams_.get(), Watch::News::kInput, [this] { return hear_streams(); });
  return status.ok() ? start_timer() : status;
}

void PeerWatch::listen_to_all() {
  for (int rank = 0; rank < membership_.ranks(); ++rank) {
    const exec::Peer& other = peer(rank);
    if (other.link == nullptr) continue;
    if (other.stream != nullptr) {
      other.stream->on_note([this, rank](transport::ChannelId id) {
        if (is_mine(id)) bell_.ring(rank);
      });
    }
    other.link->on_settled([this, rank] { settled(rank); });
  }
  const std::vector<int> first_ranks = membership_.group()->host_first_ranks();
  for (int rank : overlay_peers(first_ranks, rank_)) peer(rank).link->want();
}

PeerWatch::~PeerWatch() {
  for (const exec::Peer& peer : peers_) {
    if (peer.stream == nullptr) continue;
    peer.stream->on_note({});
  }
  for (int fd : watched_) watch_.remove(fd);
  if (has_failed()) return;
  transport::Note goodbye;
  goodbye.small[0] = static_cast<uint32_t>(News::kLeaves);
  for (const exec::Peer& peer : peers_) {
    if (peer.stream != nullptr) peer.stream->tell(channel(exec::kNewsLane), goodbye);
  }
}

bool PeerWatch::has_failed() const {
  return over_.load(std::memory_order_acquire) || has_loss_.load(std::memory_order_acquire);
}

void PeerWatch::finish_meeting() const {
  const uint64_t until_ns = monotonic_ns() + kMeetingNs;
  exec::Backoff backoff(1);
  for (const exec::Peer& peer : peers_) {
    const auto meets = [&] {
      return peer.link != nullptr && peer.link->state() == transport::Link::State::kWanted;
    };
    while (meets() && !has_failed() && monotonic_ns() < until_ns) backoff.pause();
  }
}

Status PeerWatch::watch(int fd, Watch::News news, Watch::Visit visit) {
  const std::lock_guard lock(watched_mutex_);
  watched_.push_back(fd);  // first: what is attended to must be known
  Status status = watch_.attend(fd, news, std::move(visit));
  if (!status.ok()) watched_.pop_back();
  return status;
}

Status PeerWatch::start_timer() {
  timer_.reset(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer_.valid()) return errno_status("timerfd_create");
  const itimerspec every_second{{1, 0}, {1, 0}};
  if (timerfd_settime(timer_.get(), 0, &every_second, nullptr) < 0) {
    return errno_status("timerfd_settime");
  }
  return watch(timer_.get(), Watch::News::kInput, [this] { return answer(); });
}

transport::ChannelId PeerWatch::channel(uint32_t lane) const {
  return {executor_.state().options().communicator, executor_.state().options().epoch, lane};
}

bool PeerWatch::is_mine(transport::ChannelId id) const {
  return id == channel(exec::kNewsLane) || id == channel(exec::kAskLane);
}

// ---- connections --------------------------------------------------------------------------------

void PeerWatch::settled(int rank) {
  const exec::Peer& other = peer(rank);
  const int fd = other.link->liveness_fd();
  if (fd < 0) {  // there is nothing to watch, or nobody to connect with
    // What this rank lacked is the affair of the call that wanted the connection.
    if (other.link->status().code() == Code::kRemoteError) could_not_meet(rank);
    return;
  }
  if (Status status = watch_connection(rank, fd); !status.ok()) {
    health_.report(health_.name_of(rank_) + " cannot watch its connection to " +
                   health_.name_of(rank) + ": " + std::string(status.message()) +
                   "; outside of calls it does not learn when that rank is gone");
  }
  if (other.stream == nullptr) return;
  bell_.ring(rank);  // it may have sent notes before
  std::optional<exec::Loss> known;
  {
    const std::lock_guard lock(loss_mutex_);
    if (told_) known = loss_;
  }
  if (known) other.stream->tell(channel(exec::kNewsLane), note_of(*known));
}

Status PeerWatch::watch_connection(int rank, int fd) {
  Status status = watch(fd, Watch::News::kHangUp, [this, rank] { return hung_up(rank); });
  if (!status.ok() || peer(rank).stream == nullptr) return status;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = rank;
  if (epoll_ctl(streams_.get(), EPOLL_CTL_ADD, fd, &event) < 0) return errno_status("epoll_ctl");
  return {};
}

// Input that calls do not read: of a rank that is in none. One event at a time, since the kernel
// then puts the stream at the end of its line: those that this visit does not reach come first in
// the next one, and who comes twice has been reached after all others.
uint64_t PeerWatch::hear_streams() {
  const uint64_t end_ns = monotonic_ns() + kVisitNs;
  ++visits_;
  for (epoll_event event{}; epoll_wait(streams_.get(), &event, 1, 0) == 1;) {
    const int rank = event.data.fd;
    if (std::exchange(heard_[static_cast<size_t>(rank)].visit, visits_) == visits_) break;
    hear_stream(rank);
    if (monotonic_ns() >= end_ns) return kShortRestNs;
  }
  return kRestNs;
}

void PeerWatch::hear_stream(int rank) {
  const exec::Peer& other = peer(rank);
  const bool is_read =
      attended_.load(std::memory_order_acquire) && other.link->one_sided() != nullptr;
  if (!is_read) other.stream->progress();
  // It would have news for ever. hung_up() looks after it.
  if (!other.link->status().ok() || over_.load(std::memory_order_acquire)) {
    epoll_ctl(streams_.get(), EPOLL_CTL_DEL, other.link->liveness_fd(), nullptr);
  }
}

uint64_t PeerWatch::answer() {
  drain(timer_.get());
  executor_.state().stall().answer();
  hear_host();
  return 0;
}

// ---- notes --------------------------------------------------------------------------------------

uint64_t PeerWatch::read_notes() {
  for (int rank : bell_.answer()) listen(rank);
  return 0;
}

void PeerWatch::listen(int rank) {
  const transport::Stream& stream = *peer(rank).stream;
  Heard& heard = heard_[static_cast<size_t>(rank)];
  transport::Note note;
  const uint64_t news = stream.heard(channel(exec::kNewsLane), note);
  if (std::exchange(heard.news, news) != news &&
      note.small[0] == static_cast<uint32_t>(News::kLost)) {
    if (const auto loss = exec::Loss::read(note.large[0], peers_.size())) lost(*loss);
  }
  const uint64_t asked = stream.heard(channel(exec::kAskLane), note);
  if (std::exchange(heard.asked, asked) != asked) {
    executor_.state().stall().answer(static_cast<uint32_t>(rank));
  }
}

// ---- losses -------------------------------------------------------------------------------------

bool PeerWatch::has_left(int rank) const {
  transport::Note note;
  return peer(rank).stream->heard(channel(exec::kNewsLane), note) > 0 &&
         note.small[0] == static_cast<uint32_t>(News::kLeaves);
}

uint64_t PeerWatch::hung_up(int rank) {
  if (over_.load(std::memory_order_acquire)) return 0;
  const exec::Peer& other = peer(rank);
  if (other.stream == nullptr) {
    hear_host();  // who gave up before it left in good order has said so
    if (other.link->status().ok()) return 0;
    const uint64_t word = other.arena.counter(0).failed.load(std::memory_order_acquire);
    lost(exec::Loss::read(word, peers_.size()).value_or(exec::Loss{rank, {}}));
    return 0;
  }
  while (other.stream->progress()) {  // its last words; it sends no more
  }
  const Status status = other.link->status();
  const bool understood = !status.ok() || has_left(rank);
  if (!understood && ++heard_[static_cast<size_t>(rank)].looks < kMostLooks) return kLookAgainNs;
  if (has_left(rank)) return 0;
  // Any other failure is the calls' own affair: they differ.
  if (!status.ok() && status.code() != Code::kRemoteError) return 0;
  lost({rank, executor_.state().stall().cause_told_by(static_cast<uint32_t>(rank))});
  return 0;
}

// Whoever gave up, of the same host, has no control thread to wake but its own.
void PeerWatch::hear_host() {
  const uint64_t word = told_by_host().load(std::memory_order_acquire);
  if (const auto loss = exec::Loss::read(word, peers_.size())) lost(*loss);
}

// The first one is told on; then one that says more, once.
void PeerWatch::lost(const exec::Loss& loss) {
  if (over_.load(std::memory_order_acquire)) return;
  {
    const std::lock_guard lock(loss_mutex_);
    const uint64_t due_ns = monotonic_ns() + kGraceNs;
    judged_at_ns_ = loss_ ? std::min(judged_at_ns_, due_ns) : due_ns;
    if (told_ && !loss.says_more_than(*loss_)) return;
    loss_ = loss;
    told_ = true;
    has_loss_.store(true, std::memory_order_release);
  }
  tell(loss);
}

// Nobody who was never connected with it can say why. Others can, if it is dead, too.
void PeerWatch::could_not_meet(int rank) {
  const std::lock_guard lock(loss_mutex_);
  if (loss_ || over_.load(std::memory_order_acquire)) return;
  loss_ = exec::Loss{rank, {}};
  judged_at_ns_ = monotonic_ns() + kUnmetGraceNs;
  has_loss_.store(true, std::memory_order_release);
}

transport::Note PeerWatch::note_of(const exec::Loss& loss) {
  transport::Note note;
  note.small[0] = static_cast<uint32_t>(News::kLost);
  note.large[0] = loss.word();
  return note;
}

void PeerWatch::tell(const exec::Loss& loss) {
  if (!membership_.has_streams()) return;  // all see it themselves
  for (int rank = 0; rank < membership_.ranks(); ++rank) {
    const exec::Peer& other = peer(rank);
    if (other.stream != nullptr) {
      other.stream->tell(channel(exec::kNewsLane), note_of(loss));
    } else if (rank != rank_ && other.arena.valid()) {
      loss.tell(other.arena.counter(0).lost, peers_.size());
    }
  }
}

std::optional<exec::Loss> PeerWatch::judge() {
  if (!has_loss_.load(std::memory_order_acquire) &&
      told_by_host().load(std::memory_order_relaxed) == 0) {
    return std::nullopt;
  }
  hear_host();  // it may say more than what is known
  const std::lock_guard lock(loss_mutex_);
  return loss_ && monotonic_ns() >= judged_at_ns_ ? loss_ : std::nullopt;
}

}  // namespace tutti::comm
