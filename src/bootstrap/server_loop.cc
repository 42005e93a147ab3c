#include "src/bootstrap/server_loop.h"

#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "src/base/caught.h"
#include "src/base/descriptors.h"
#include "src/bootstrap/address.h"

namespace tutti::bootstrap {
namespace {

constexpr int kMaxStages = 3;
constexpr uint64_t kHoldNs = kNanosecondsPerSecond;

}  // namespace

ServerLoop::ServerLoop(Gates gates, Fd bell, const ServerOptions& options)
    : gates_(std::move(gates)), bell_(std::move(bell)), options_(options) {}

void ServerLoop::run() {
  while (turn_or_fail()) {
  }
  attempt([this] { end_groups(); });
  sessions_.clear();
  strangers_.clear();
  gates_.clear();  // the port is free from here on
  finished_.store(true, std::memory_order_release);
}

// Without this the ranks would wait for a server that is gone. A turn that finds no memory is tried
// again until the ranks can at least be told.
bool ServerLoop::turn_or_fail() {
  try {
    return turn();
  } catch (const std::exception& error) {
    constexpr useconds_t kAgainUs = 10'000;
    std::erase(sessions_, nullptr);
    std::erase_if(strangers_, [](const Stranger& one) { return one.session == nullptr; });
    fail(status_of(error));
    usleep(kAgainUs);
    return !stopping_.load(std::memory_order_acquire);
  }
}

void ServerLoop::end_groups() {
  if (groups_.empty()) return;
  take_failure();  // which may have come together with the end
  const bool stopped = stopping_.load(std::memory_order_acquire);
  fail_group(stopped ? Status::remote_error("the rendezvous was stopped")
                     : Status::timeout(missing()));
  held_until_ns_ = 0;  // now or never
  flush_sessions();
}

void ServerLoop::stop() {
  stopping_.store(true, std::memory_order_release);
  const uint64_t ring = 1;
  [[maybe_unused]] const ssize_t count = write(bell_.get(), &ring, sizeof ring);
}

void ServerLoop::fail(const Status& reason) {
  {
    const MutexLock lock(mutex_);
    given_up_ = reason;
  }
  failed_.store(true, std::memory_order_release);
  const uint64_t ring = 1;
  [[maybe_unused]] const ssize_t count = write(bell_.get(), &ring, sizeof ring);
}

void ServerLoop::take_failure() {
  uint64_t rings = 0;
  [[maybe_unused]] const ssize_t count = read(bell_.get(), &rings, sizeof rings);
  const MutexLock lock(mutex_);
  if (!given_up_.ok() && !is_over()) fail_group(given_up_);
}

bool ServerLoop::turn() {
  sleep();
  take_failure();  // takes the ring, which may be that of stop()
  if (stopping_.load(std::memory_order_acquire)) return false;
  if (is_open()) admit();
  hear_strangers();
  hear_sessions();
  expire();
  tell_missing();
  flush_sessions();
  drop_finished();
  if (is_complete() && sessions_.empty()) return false;
  return monotonic_ns() < idle_deadline_ns_;
}

bool ServerLoop::is_over() const { return is_complete() || !failure_.ok(); }

void ServerLoop::put_off_end() {
  idle_deadline_ns_ = deadline_after(failure_.ok() ? options_.idle_ns : options_.linger_ns);
}

void ServerLoop::sleep() {
  std::vector<pollfd> polls{{bell_.get(), POLLIN, 0}};
  uint64_t wake_ns = std::min(idle_deadline_ns_, return_deadline_ns());
  for (const auto& gate : gates_) {
    if (!is_open()) break;
    gate->append_polls(polls);
    wake_ns = std::min(wake_ns, gate->earliest_expiry_ns());
  }
  wake_ns = std::min(wake_ns, watch_sessions(polls));
  for (const Stranger& stranger : strangers_) {
    polls.push_back({stranger.session->fd(), stranger.session->events(), 0});
    if (!is_over()) wake_ns = std::min(wake_ns, stranger.until_ns);
  }
  poll(polls.data(), polls.size(), poll_timeout_ms(wake_ns));
}

/// Until when.
uint64_t ServerLoop::watch_sessions(std::vector<pollfd>& polls) const {
  uint64_t wake_ns = kNoDeadline;
  for (const auto& session : sessions_) {
    const bool held = is_held(*session);
    polls.push_back({held ? -1 : session->fd(), session->events(), 0});
    wake_ns = std::min({wake_ns, session->expiry_ns(), session->notice_due_ns()});
    if (held) wake_ns = std::min(wake_ns, held_until_ns_);
  }
  return wake_ns;
}

void ServerLoop::admit() {
  std::vector<transport::door::Gate::AdmittedCaller> callers;
  for (const auto& gate : gates_) {
    const Status status = gate->step(callers);
    if (status.ok()) continue;
    if (closed_.ok()) closed_since_ns_ = monotonic_ns();
    closed_ = status;
    const bool stays = monotonic_ns() - closed_since_ns_ >= options_.closed_ns;
    if (stays && !is_over()) fail_group(Status::system_error(missing()));
    if (!raised_limit_) {
      // A thousand ranks need more descriptors than the usual soft limit of 1024.
      raise_descriptor_limit(descriptor_limits().soft + 1);
      raised_limit_ = true;
    } else {
      constexpr useconds_t kPauseUs = 10'000;  // poll() would return at once, again and again
      usleep(kPauseUs);
    }
  }
  if (!callers.empty()) closed_ = {};
  for (auto& caller : callers) {
    keep_alive(caller.fd.get());
    sessions_.push_back(std::make_unique<Session>(std::move(caller.fd), caller.rank));
    if (failure_.ok()) put_off_end();  // else when it asks: it may not belong here
  }
}

void ServerLoop::hear_sessions() {
  for (auto& session : sessions_) {
    const bool waited = session->asks();
    session->hear();
    const bool asks = !waited && session->asks() && !session->lost();
    const bool strange = session->request().exchange_key.meeting_number != options_.meeting_number;
    if (asks && strange && !is_left_out(session->rank())) {
      const uint64_t until_ns = deadline_after(options_.stranger_ns);
      if (!session->aborted()) strangers_.push_back({std::move(session), until_ns});
      session = nullptr;
      continue;
    }
    if (asks) join(*session);
    if (session->aborted()) hear_abort(*session);
    if (!waited || !session->lost() || !failure_.ok()) continue;
    group(session->request().exchange_key.stage).leave(session->rank(), monotonic_ns());
  }
  std::erase(sessions_, nullptr);
  if (!failure_.ok()) return;
  for (int stage = 0; stage < stages_; ++stage) {
    if (groups_.contains(stage) && groups_[stage].complete()) serve_group(stage);
  }
}

// A stranger that learns in time that its meeting will not be leaves. One that is still here when
// the server ends comes again.
void ServerLoop::hear_strangers() {
  for (Stranger& stranger : strangers_) {
    stranger.session->hear();
    if (stranger.session->lost() || stranger.session->aborted()) {
      stranger.session = nullptr;
    } else if (!is_over() && stranger.until_ns <= monotonic_ns()) {
      sessions_.push_back(std::move(stranger.session));
      join(*sessions_.back());
    }
  }
  std::erase_if(strangers_, [](const Stranger& stranger) { return stranger.session == nullptr; });
}

bool ServerLoop::is_left_out(int rank) const {
  return std::binary_search(options_.left_out.begin(), options_.left_out.end(), rank);
}

void ServerLoop::join(Session& session) {
  if (is_left_out(session.rank())) {
    session.answer(encode_answer(
        Code::kInvalidUsage,
        "the other ranks leave rank " + std::to_string(session.rank()) + " out of what they make"));
    return;
  }
  ExchangeKey exchange_key = session.request().exchange_key;
  exchange_key.meeting_number = options_.meeting_number;
  if (failure_.ok()) {
    // The first rank to come says how many stages there are; Group finds out which ranks differ.
    if (groups_.empty() && served_ == 0) stages_ = std::clamp(exchange_key.stages, 1, kMaxStages);
    const bool fits = exchange_key.stages == stages_ && exchange_key.stage < stages_;
    const Status status =
        fits ? group(exchange_key.stage).join(session.rank(), exchange_key, session.take_blob())
             : Status::invalid_usage("rank " + std::to_string(session.rank()) +
                                     " was given other unique ids than the ranks before it");
    if (!status.ok()) fail_group(status);
  }
  put_off_end();
  if (!failure_.ok() && session.asks()) {
    session.answer(encode_answer(failure_.code(), failure_.message()));
  }
}

void ServerLoop::hear_abort(const Session& session) {
  if (is_over() || is_left_out(session.rank())) return;
  fail_group(session.twin()
                 ? two_jobs()
                 : Status::remote_error("rank " + std::to_string(session.rank()) +
                                        " aborted its communicator while it was being made, or "
                                        "could not make it"));
}

void ServerLoop::tell_missing() {
  const uint64_t now_ns = monotonic_ns();
  std::string notice;  // the same for all; with many ranks it is long
  for (const auto& session : sessions_) {
    if (session->notice_due_ns() > now_ns) continue;
    if (notice.empty()) notice = missing();
    session->tell(notice);
  }
}

void ServerLoop::serve_group(int stage) {
  const auto answer = encode_answer(Code::kOk, groups_[stage].encode());
  held_until_ns_ = deadline_after(kHoldNs);
  for (const auto& session : sessions_) {
    if (session->asks() && session->request().exchange_key.stage == stage) session->answer(answer);
  }
  groups_.erase(stage);
  ++served_;
  if (is_complete()) {
    failure_ = Status::invalid_usage(
        "the unique id has been used already: its group is complete. Every communicator needs an "
        "id of its own");
  }
}

std::string ServerLoop::missing() const {
  std::string text;
  for (const auto& [stage, group] : groups_) {
    if (!group.empty()) text += (text.empty() ? "" : "; ") + group.missing();
  }
  if (!closed_.ok()) {
    text += "; the rendezvous cannot let anybody in: " + std::string(closed_.message());
  }
  return text;
}

uint64_t ServerLoop::return_deadline_ns() const {
  uint64_t since_ns = kNoDeadline;
  for (const auto& [stage, group] : groups_) since_ns = std::min(since_ns, group.away_since_ns());
  if (!failure_.ok() || since_ns > kNoDeadline - options_.return_ns) return kNoDeadline;
  return since_ns + options_.return_ns;
}

void ServerLoop::fail_group(const Status& reason) {
  const auto answer = encode_answer(reason.code(), reason.message());
  failure_ = reason;  // from here on nothing needs memory: it is told once
  failed_.store(true, std::memory_order_release);
  held_until_ns_ = deadline_after(kHoldNs);
  put_off_end();
  for (const auto& session : sessions_) {
    const bool strange = session == nullptr;  // hear_sessions() has just moved it away
    if (!strange && session->asks()) session->answer(answer);
  }
}

void ServerLoop::expire() {
  const uint64_t now_ns = monotonic_ns();
  for (const auto& session : sessions_) {
    if (session->done() || session->lost() || session->expiry_ns() > now_ns) continue;
    if (!session->asks()) continue;  // dropped below
    fail_group(Status::timeout(missing()));
  }
  if (failure_.ok() && return_deadline_ns() <= now_ns) fail_group(Status::remote_error(missing()));
}

void ServerLoop::flush(Session& session) {
  const bool waited = session.asks() && !session.lost();
  session.flush();
  if (waited && session.lost() && failure_.ok()) {
    group(session.request().exchange_key.stage).leave(session.rank(), monotonic_ns());
  }
}

// This is mostly the process of the group's first rank, which may end as soon as that has its
// answer: the others' are on their way first, unless somebody does not take his.
bool ServerLoop::is_held(const Session& session) const {
  if (session.rank() != session.request().exchange_key.first || !session.answers()) return false;
  if (monotonic_ns() >= held_until_ns_) return false;
  return std::any_of(sessions_.begin(), sessions_.end(), [&](const auto& other) {
    return other->answers() && other->rank() != session.rank();
  });
}

void ServerLoop::flush_sessions() {
  for (const auto& session : sessions_) {
    if (!is_held(*session)) flush(*session);
  }
  for (const auto& session : sessions_) {
    if (session->answers() && !is_held(*session)) flush(*session);
  }
}

void ServerLoop::drop_finished() {
  const uint64_t now_ns = monotonic_ns();
  std::erase_if(sessions_, [&](const std::unique_ptr<Session>& session) {
    const bool slow = !session->asks() && session->expiry_ns() <= now_ns;
    return session->done() || session->lost() || slow;
  });
}

}  // namespace tutti::bootstrap
