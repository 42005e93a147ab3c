// The parts of Communicator about memory that ranks know of each other: registered for collectives,
// or a window for one-sided access.
#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "src/base/clock.h"
#include "src/comm/communicator.h"
#include "src/exec/stall.h"

namespace tutti::comm {
namespace {

// For a peer that is in the middle of a piece when its part is ended, though calls may take longer:
// whoever ends it may be the one who aborts next.
constexpr uint64_t kLongestCloseNs = 60 * kNanosecondsPerSecond;
// For a peer that looks whether a window is shut.
constexpr uint64_t kLookNs = 100'000'000;

Status too_small(const std::string& peer) {
  return Status::remote_error(peer + " registered more bytes than its memory has");
}

}  // namespace

Result<std::vector<std::string>> Communicator::gather_texts(const std::string& mine) {
  constexpr size_t kSlot = 512;
  if (mine.size() + 1 > kSlot) return Status::internal_error("a memory handle is too long");
  std::vector<char> send(kSlot, 0), recv(kSlot * static_cast<size_t>(ranks()), 0);
  std::copy(mine.begin(), mine.end(), send.begin());
  Request gather;
  gather.collective = schedule::Collective::kAllGather;
  gather.op = types::ReduceOp::kMax;  // as no all_gather of the user's: the signatures differ
  gather.count = kSlot;
  gather.send = send.data();
  gather.recv = recv.data();
  Extras extras;  // not the algorithm that the user's calls are to take: it may have no such form
  extras.options = planner_->options();
  extras.options->algorithm.clear();
  gather.extras = &extras;
  if (Status status = run(gather); !status.ok()) return status;
  std::vector<std::string> texts;
  for (int rank = 0; rank < ranks(); ++rank) {
    const char* text = recv.data() + kSlot * static_cast<size_t>(rank);
    texts.emplace_back(text, strnlen(text, kSlot));
  }
  return texts;
}

Status Communicator::map_registration(exec::Registration& made,
                                      std::span<const std::string> texts) {
  made.peers.resize(static_cast<size_t>(ranks()));
  if (made.bytes > exec::Registration::kMaxBytes) {
    return Status::invalid_argument("at most " + std::to_string(exec::Registration::kMaxBytes) +
                                    " bytes can be registered at a time");
  }
  for (int peer = 0; peer < ranks(); ++peer) {
    const std::string& text = texts[static_cast<size_t>(peer)];
    if (text.empty()) {
      return Status::invalid_usage(name_of(peer) +
                                   " could not register its memory; its own error says why");
    }
    const size_t space = text.find(' ');
    if (text.substr(0, space) != std::to_string(made.bytes)) {
      return Status::invalid_usage("rank " + std::to_string(peer) + " registered " +
                                   text.substr(0, space) + " bytes, rank " +
                                   std::to_string(rank()) + " " + std::to_string(made.bytes) +
                                   ": registration is collective and of equal size");
    }
    transport::Link* link = membership_->link(peer);
    if (link == nullptr || link->mapped() == nullptr) continue;
    Result<transport::Import> mapped =
        transport::Import::of(*link->mapped(), text.substr(space + 1));
    if (!mapped.ok()) return mapped.status();
    if (!mapped.value().holds(0, made.bytes)) return too_small(name_of(peer));
    made.peers[static_cast<size_t>(peer)] = mapped.value().data();
    made.imports.push_back(std::move(mapped).value());
  }
  return {};
}

Result<uint32_t> Communicator::add_registration(const WindowMemory& mine) {
  const bool well = mine.problem.ok();
  const Result<std::vector<std::string>> texts =
      gather_texts(well ? std::to_string(mine.bytes) + " " + mine.handle : "");
  if (!texts.ok()) return texts.status();
  exec::Registration made;
  made.mine = mine.base;
  made.bytes = mine.bytes;
  made.owner = mine.owner;
  const Status mapped = well ? map_registration(made, texts.value()) : mine.problem;
  // Until every rank has mapped it, none may free its memory or end; and it is used by all or none.
  const Result<std::vector<std::string>> outcomes = gather_texts(outcome_of(mapped));
  if (!mapped.ok()) return mapped;
  if (!outcomes.ok()) return outcomes.status();
  for (int peer = 0; peer < ranks(); ++peer) {
    const Status problem =
        problem_of(outcomes.value()[static_cast<size_t>(peer)],
                   Status::system_error("rank " + std::to_string(peer) +
                                        " cannot map the memory that is being registered"));
    if (!problem.ok()) return problem;
  }
  const std::lock_guard lock(registered_mutex_);
  const uint32_t number = executor_->registrations().add(std::move(made));
  if (number == exec::Registration::kNone) {
    return Status::unsupported(
        "registered memory that is older than 16 million others is in the way");
  }
  has_registered_.store(true, std::memory_order_relaxed);
  registered_.push_back(number);
  return number;
}

// By any thread, while another one may be in a call: one that uses registered memory has the
// executor's list for itself until it ends.
Status Communicator::remove_registration(uint64_t number) {
  exec::Registration removed;  // unmapped without the lock
  const std::lock_guard lock(registered_mutex_);
  const auto found = std::find(registered_.begin(), registered_.end(), number);
  if (found == registered_.end()) {
    return Status::invalid_usage("the handle is of no registration of this communicator");
  }
  if (uses_registered_) {
    retired_.push_back(static_cast<uint32_t>(number));
  } else {
    removed = take_out(static_cast<uint32_t>(number));
  }
  registered_.erase(found);
  return {};
}

// Under the lock.
exec::Registration Communicator::take_out(uint32_t number) {
  exec::Registration removed = executor_->registrations().remove(number);
  has_registered_.store(!executor_->registrations().empty(), std::memory_order_relaxed);
  return removed;
}

// Whether the call that begins may use registered memory; then it stays until
// end_use_of_registered(). The thread that is in the call.
bool Communicator::use_registered(const Request& request) {
  if (!has_registered_.load(std::memory_order_relaxed)) return false;
  const std::lock_guard lock(registered_mutex_);
  const bool usable = are_registered(request);
  uses_registered_ = uses_registered_ || usable;
  return usable;
}

void Communicator::end_use_of_registered() {
  if (!uses_registered_) [[likely]]
    return;
  for (bool more = true; more;) {
    exec::Registration removed;  // unmapped without the lock
    const std::lock_guard lock(registered_mutex_);
    more = !retired_.empty();
    if (more) {
      removed = take_out(retired_.back());
      retired_.pop_back();
    } else {
      uses_registered_ = false;
    }
  }
}

// Nothing is queued, and no thread is in a call but this one.
void Communicator::forget_closed() {
  const std::lock_guard lock(registered_mutex_);
  std::erase_if(windows_, [this](const auto& window) {
    return std::find(closed_.begin(), closed_.end(), window.get()) != closed_.end();
  });
  closed_.clear();
}

Result<Window*> Communicator::open_window(const WindowMemory& mine, bool keep_closed) {
  if (!keep_closed) forget_closed();
  const transport::ChannelId region{id(), options_.membership.self.epoch, ++regions_};
  const bool was_attended = !attended_.empty();  // peers may still come to parts that have ended
  Result<std::unique_ptr<Window>> made = Window::create(
      *membership_, mine, region, [this](const std::string& text) { return gather_texts(text); },
      [this] { return be_attended(); });
  if (!made.ok()) {
    if (!was_attended) leave_attendant();
    return made.status();
  }
  windows_.push_back(std::move(made).value());
  return windows_.back().get();
}

// From the first window on, peers of other hosts need nobody's call here. All links or none.
Status Communicator::be_attended() {
  if (options_.attendant == nullptr || !attended_.empty()) return {};
  for (int peer = 0; peer < ranks(); ++peer) {
    transport::Link* link = membership_->link(peer);
    if (link == nullptr || link->mapped() != nullptr || link->one_sided() == nullptr) continue;
    const auto unattended = [this, peer](const Status& why) {
      report(name_of(this->rank()) + " cannot attend its connection to " + name_of(peer) + ": " +
             std::string(why.message()) +
             "; outside of calls its windows answer that rank no more");
    };
    if (Status status = options_.attendant->attend(*link, unattended); !status.ok()) {
      leave_attendant();
      return status;
    }
    attended_.push_back(link);
  }
  if (peer_watch_ != nullptr) peer_watch_->attended(true);
  return {};
}

// After it nothing but a call moves a link, or touches what the caller may free.
void Communicator::leave_attendant() {
  for (transport::Link* link : attended_) options_.attendant->leave(*link);
  attended_.clear();
  if (peer_watch_ != nullptr) peer_watch_->attended(false);
}

// The executor's failure, which other threads must not read there.
void Communicator::publish_failure() {
  if (executor_->state().is_leaving() && is_abort_ordered()) executor_->state().end_leaving();
  if (executor_->state().is_leaving()) return;
  abort(status());
  leave_windows();
  calls_->dump(status());
}

// Once: what was shut stays shut, and whoever is inside after that moment is close_until()'s to
// name.
void Communicator::leave_windows() {
  leave_attendant();
  if (std::exchange(left_windows_, true)) return;
  for (const auto& window : windows_) window->shut();
  const uint64_t until_ns = monotonic_ns() + exec::kStretchPatienceNs;
  for (const auto& window : windows_) {
    while (window->who_is_inside() >= 0 && monotonic_ns() < until_ns) std::this_thread::yield();
  }
}

Status Communicator::close_window(Window* window) {
  const uint64_t timeout_ns = call_timeout_ns_.load(std::memory_order_relaxed);
  const uint64_t deadline_ns =
      std::min(deadline_of_call(timeout_ns), monotonic_ns() + kLongestCloseNs);
  Status closed = close_until(window, deadline_ns);
  if (closed.ok()) {
    const std::lock_guard lock(registered_mutex_);
    closed_.push_back(window);
  }
  return closed;
}

// Nothing of the executor's is used here: another thread may be in a call for as long as a peer is
// late, and the part must end all the same.
Status Communicator::close_until(Window* window, uint64_t deadline_ns) {
  constexpr uint32_t kSpins = 100;
  exec::Backoff backoff(kSpins);
  for (;;) {
    const int busy = window->close();
    if (busy < 0) return {};
    if (const Status known = failure(); !known.ok()) {
      window->cut_off();
      return window->left_alone(known, {}, kLookNs);
    }
    if (monotonic_ns() > deadline_ns) {
      fail(Status::timeout("window_deregister: " + membership_->name_of(busy) +
                           " has not ended its access to rank " + std::to_string(rank()) +
                           "'s part within the deadline"),
           {busy, -1});
      window->cut_off();
      return window->left_alone(failure(), failure(), kLookNs);
    }
    backoff.pause();
  }
}

Status Communicator::close_windows(uint64_t timeout_ns) {
  const uint64_t deadline_ns = deadline_after(timeout_ns);
  const bool was_well = is_still_well();
  for (const auto& window : windows_) (void)close_until(window.get(), deadline_ns);
  leave_attendant();
  const Status known = failure();
  if (known.ok()) return {};
  if (was_well) give_up();  // nobody is in a call that would tell the peers
  for (const auto& window : windows_) {
    Status alone = window->left_alone(known, {}, kLookNs);
    if (alone.ok()) continue;
    report(std::string(alone.message()));  // a worker that leaves has nobody to return it to
    return alone;
  }
  return {};
}

uint64_t Communicator::queue(const Access& access) {
  return recorder_->queue(calls_->label(access));
}

void Communicator::name_access(const Access& access, uint64_t own_timeout_ns) {
  access_ = access;
  executor_->state().name_call(
      {nullptr, nullptr, 0, deadline_of_call(own_timeout_ns), comm::name_of(access.kind), false},
      this);
}

void Communicator::tell_progress(trace::Recorder& recorder, const exec::Stall& stall) const {
  if (recorder.open_lines(1) == 0) return;
  trace::Exchange exchange{.peer = access_.peer};
  exchange.sends = access_.kind == Access::Kind::kPut || access_.kind == Access::Kind::kSignal;
  exchange.bytes = access_.bytes;
  exchange.moved = access_.moved;
  exchange.messages = 1;
  stall.describe_peer(exchange);
  recorder.set_line(0, exchange);
}

exec::Progress Communicator::advance_access() {
  if (!status().ok()) return exec::Progress::kDone;
  executor_->state().expect(access_.peer);
  const exec::Progress progress = access_.window->advance(access_);
  // Whoever waits for this call looks seldom while it moves.
  if (progress == exec::Progress::kMoved) executor_->state().check_rare();
  return progress;
}

Status Communicator::outcome() const {
  if (!status().ok()) return status();
  return active_ == Active::kAccess ? access_.problem : outcome_;
}

Status Communicator::run(const Access& access) {
  heed_failure();
  recorder_->begin(calls_->label(access), ++access_calls_, trace::Series::kOneSided);
  name_access(access, options_of(nullptr).timeout_ns);
  active_ = Active::kAccess;
  (void)executor_->state().wait([this] { return advance_access(); });
  const Status status = outcome();
  conclude(status);
  return status;
}

Status Communicator::begin(const Access& access, uint64_t timeout_ns, uint64_t ticket) {
  heed_failure();
  recorder_->begin_queued(ticket, calls_->label(access), ++access_calls_, trace::Series::kOneSided);
  if (!status().ok()) return status();
  active_ = Active::kAccess;
  name_access(access, timeout_ns);
  return {};
}

}  // namespace tutti::comm
