#include "src/diagnosis/peer_watch.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "src/base/clock.h"
#include "src/base/wait.h"
#include "src/diagnosis/overlay.h"
#include "src/diagnosis/stall_notes.h"

namespace tutti::diagnosis {
namespace {

using bootstrap::Watch;

// How long a call may go on after a peer's process ended: messages sent before may complete it.
constexpr uint64_t kGraceNs = 100'000'000;
// The same for a peer to which there never was a connection and to which none can be made. It may
// have left long ago for a reason that other ranks know and tell on. Less than Stall waits for such
// a link (kUntoldNs).
constexpr uint64_t kUnmetGraceNs = 500'000'000;
// While calls run, streams have input all the time, and the calls read it themselves.
constexpr uint64_t kRestNs = 10'000'000;
// Input may come as fast as it is read, and this thread serves all communicators.
constexpr uint64_t kVisitNs = 500'000;
constexpr uint64_t kShortRestNs = 1'000'000;
// How long a rank that leaves waits for peers that have not answered its calls; they may be
// stopped.
constexpr uint64_t kMeetingNs = 1'000'000'000;

void drain(int fd) {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t bytes = read(fd, &count, sizeof count);
}

}  // namespace

PeerWatch::PeerWatch(Watch& watch, const group::GroupView& group, Stall& stall, Health& health)
    : watch_(watch),
      group_(group),
      stall_(stall),
      health_(health),
      contacts_(stall.contacts()),
      rank_(stall.rank()),
      has_streams_(std::any_of(contacts_.begin(), contacts_.end(),
                               [](const Contact& one) { return one.stream != nullptr; })),
      bell_(static_cast<int>(contacts_.size())),
      heard_(contacts_.size()) {}

Result<std::unique_ptr<PeerWatch>> PeerWatch::create(Watch& watch, const group::GroupView& group,
                                                     Stall& stall, Health& health) {
  std::unique_ptr<PeerWatch> made(new PeerWatch(watch, group, stall, health));
  if (Status status = made->open(); !status.ok()) {
    made->end();  // without a leave notice, so that the others take this rank for gone
    return Status(status.code(), health.name_of(made->rank_) +
                                     " cannot watch its peers: " + std::string(status.message()) +
                                     "; it may need a higher limit of open files (ulimit -n)");
  }
  made->listen_to_all();
  return made;
}

Status PeerWatch::open() {
  if (!has_streams_) return {};
  streams_.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!streams_.valid()) return errno_status("epoll_create1");
  if (Status status = bell_.open(); !status.ok()) return status;
  Status status = watch(bell_.fd(), Watch::News::kInput, [this] { return read_notes(); });
  if (!status.ok()) return status;
  status = watch(streams_.get(), Watch::News::kInput, [this] { return hear_streams(); });
  return status.ok() ? start_timer() : status;
}

void PeerWatch::listen_to_all() {
  for (int rank = 0; rank < static_cast<int>(contacts_.size()); ++rank) {
    const Contact& other = contact(rank);
    if (other.link == nullptr) continue;
    if (other.stream != nullptr) {
      other.stream->on_note([this, rank](transport::ChannelId id) {
        if (is_mine(id)) bell_.ring(rank);
      });
      other.link->on_failed([this, rank] { bell_.ring(rank); });
    }
    other.link->on_settled([this, rank] { settled(rank); });
  }
  const std::vector<int> first_ranks = group_.host_first_ranks();
  for (int rank : overlay_peers(first_ranks, rank_)) contact(rank).link->want();
}

PeerWatch::~PeerWatch() {
  for (const Contact& peer : contacts_) {
    if (peer.stream == nullptr) continue;
    peer.stream->on_note({});
    peer.link->on_failed({});
  }
  for (int fd : watched_) watch_.remove(fd);
  if (has_failed()) return;
  transport::Note notice;
  notice.small[0] = static_cast<uint32_t>(NoticeSubject::kLeaves);
  for (const Contact& peer : contacts_) {
    if (peer.stream != nullptr) peer.stream->tell(stall_.channel(kNoticeLane), notice);
  }
}

bool PeerWatch::has_failed() const {
  return over_.load(std::memory_order_acquire) || has_loss_.load(std::memory_order_acquire);
}

void PeerWatch::finish_meeting() const {
  const uint64_t until_ns = monotonic_ns() + kMeetingNs;
  Backoff backoff(1);
  for (const Contact& peer : contacts_) {
    const auto meets = [&] {
      return peer.link != nullptr && peer.link->state() == transport::Link::State::kWanted;
    };
    while (meets() && !has_failed() && monotonic_ns() < until_ns) backoff.pause();
  }
}

Status PeerWatch::watch(int fd, Watch::News event, Watch::Visit visit) {
  const MutexLock lock(watched_mutex_);
  watched_.push_back(fd);  // first, so that the destructor removes it in any case
  Status status = watch_.attend(fd, event, std::move(visit));
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

bool PeerWatch::is_mine(transport::ChannelId id) const {
  return id == stall_.channel(kNoticeLane) || id == stall_.channel(kAskLane) ||
         id == stall_.channel(kLastLane);
}

// ---- connections --------------------------------------------------------------------------------

void PeerWatch::settled(int rank) {
  const Contact& other = contact(rank);
  const int fd = other.link->liveness_fd();
  if (fd < 0) {  // there is nothing to watch, or the peer cannot be reached
    // If this rank lacked something, the call that wanted the connection says so.
    if (other.link->status().code() == Code::kRemoteError) could_not_meet(rank);
    return;
  }
  if (Status status = watch_connection(rank, fd); !status.ok()) {
    health_.report(health_.name_of(rank_) + " cannot watch its connection to " +
                   health_.name_of(rank) + ": " + std::string(status.message()) +
                   "; outside of calls it does not learn when that rank is gone");
  }
  if (other.stream == nullptr) return;
  bell_.ring(rank);  // notes may have come with the connection
  std::optional<Loss> known;
  {
    const MutexLock lock(loss_mutex_);
    if (told_) known = loss_;
  }
  if (known) other.stream->tell(stall_.channel(kNoticeLane), loss_notice(*known));
}

// Streams of several communicators may share a connection, so a stream may end without a hang-up;
// on_failed() tells of that.
Status PeerWatch::watch_connection(int rank, int fd) {
  if (contact(rank).stream == nullptr) {
    return watch(fd, Watch::News::kHangUp, [this, rank] { return left_host(rank); });
  }
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = rank;
  if (epoll_ctl(streams_.get(), EPOLL_CTL_ADD, fd, &event) < 0) return errno_status("epoll_ctl");
  return {};
}

// Reads streams while this rank is in no call. It takes one event at a time, since the kernel then
// puts that stream at the end of its queue: streams that this visit does not reach come first in
// the next one, and a stream that comes twice in one visit comes after all others.
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
  const Contact& other = contact(rank);
  const bool is_read =
      attended_.load(std::memory_order_acquire) && other.link->one_sided() != nullptr;
  if (!is_read) other.stream->progress();
  // A failed link would be readable for ever.
  if (!other.link->status().ok()) {
    epoll_ctl(streams_.get(), EPOLL_CTL_DEL, other.link->liveness_fd(), nullptr);
  }
}

uint64_t PeerWatch::answer() {
  drain(timer_.get());
  stall_.answer();
  hear_host();
  return 0;
}

// ---- notes --------------------------------------------------------------------------------------

uint64_t PeerWatch::read_notes() {
  for (int rank : bell_.answer()) {
    listen(rank);
    if (!contact(rank).link->status().ok()) hung_up(rank);
  }
  return 0;
}

void PeerWatch::listen(int rank) {
  const transport::Stream& stream = *contact(rank).stream;
  PeerVisits& heard = heard_[static_cast<size_t>(rank)];
  transport::Note note;
  const uint64_t notices = stream.heard(stall_.channel(kNoticeLane), note);
  if (std::exchange(heard.notices, notices) != notices &&
      note.small[0] == static_cast<uint32_t>(NoticeSubject::kLost)) {
    if (const auto loss = Loss::read(note.large[0], contacts_.size())) lost(*loss);
  }
  const uint64_t last = stream.heard(stall_.channel(kLastLane), note);
  if (std::exchange(heard.last, last) != last) {
    const auto loss = Loss::read(note.large[0], contacts_.size());
    if (loss && loss->rank == rank) lost(*loss);
  }
  const uint64_t asked = stream.heard(stall_.channel(kAskLane), note);
  if (std::exchange(heard.asked, asked) != asked) {
    stall_.answer(static_cast<uint32_t>(rank));
  }
}

// ---- losses -------------------------------------------------------------------------------------

bool PeerWatch::has_left(int rank) const {
  transport::Note note;
  return contact(rank).stream->heard(stall_.channel(kNoticeLane), note) > 0 &&
         note.small[0] == static_cast<uint32_t>(NoticeSubject::kLeaves);
}

uint64_t PeerWatch::left_host(int rank) {
  if (over_.load(std::memory_order_acquire)) return 0;
  const Contact& other = contact(rank);
  hear_host();  // a rank that gives up stores why before it ends
  if (other.link->status().ok()) return 0;
  const uint64_t word = other.words.failed->load(std::memory_order_acquire);
  lost(Loss::read(word, contacts_.size()).value_or(Loss{rank, {}}));
  return 0;
}

void PeerWatch::hung_up(int rank) {
  if (over_.load(std::memory_order_acquire) || has_left(rank)) return;
  // Any other failure is a mismatch, which calls report themselves.
  if (contact(rank).link->status().code() != Code::kRemoteError) return;
  lost({rank, stall_.cause_told_by(static_cast<uint32_t>(rank))});
}

// A rank of this host that gives up cannot wake this control thread, so it stores a word in the
// arena.
void PeerWatch::hear_host() {
  const uint64_t word = told_by_host().load(std::memory_order_acquire);
  if (const auto loss = Loss::read(word, contacts_.size())) lost(*loss);
}

// The first loss is told on, and later one that explains more, once.
void PeerWatch::lost(const Loss& loss) {
  if (over_.load(std::memory_order_acquire)) return;
  {
    const MutexLock lock(loss_mutex_);
    const uint64_t due_ns = monotonic_ns() + kGraceNs;
    judged_at_ns_ = loss_ ? std::min(judged_at_ns_, due_ns) : due_ns;
    if (told_ && !loss.says_more_than(*loss_)) return;
    loss_ = loss;
    told_ = true;
    has_loss_.store(true, std::memory_order_release);
  }
  tell(loss);
}

// This rank was never connected with that one, so it does not know why it is not there. It tells
// nothing on: ranks that were connected with it do, if it is dead.
void PeerWatch::could_not_meet(int rank) {
  const MutexLock lock(loss_mutex_);
  if (loss_ || over_.load(std::memory_order_acquire)) return;
  loss_ = Loss{rank, {}};
  judged_at_ns_ = monotonic_ns() + kUnmetGraceNs;
  has_loss_.store(true, std::memory_order_release);
}

void PeerWatch::tell(const Loss& loss) {
  if (!has_streams_) return;  // the ranks of one host notice each other's ends themselves
  for (int rank = 0; rank < static_cast<int>(contacts_.size()); ++rank) {
    const Contact& other = contact(rank);
    if (other.stream != nullptr) {
      other.stream->tell(stall_.channel(kNoticeLane), loss_notice(loss));
    } else if (rank != rank_ && other.words.valid()) {
      loss.tell(*other.words.lost, contacts_.size());
    }
  }
}

std::optional<Loss> PeerWatch::judge() {
  if (!has_loss_.load(std::memory_order_acquire) &&
      told_by_host().load(std::memory_order_relaxed) == 0) {
    return std::nullopt;
  }
  hear_host();  // its word may explain more than what is known here
  const MutexLock lock(loss_mutex_);
  return loss_ && monotonic_ns() >= judged_at_ns_ ? loss_ : std::nullopt;
}

}  // namespace tutti::diagnosis
