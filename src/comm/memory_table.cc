#include "src/comm/memory_table.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "src/base/clock.h"
#include "src/base/wait.h"

namespace tutti::comm {
namespace {

// For a peer that looks whether a window is shut.
constexpr uint64_t kLookNs = 100'000'000;
// In the place of a handle.
constexpr std::string_view kOnDevice = "device";

bool is_on_device(const std::string& text) {
  const size_t space = text.find(' ');
  return space != std::string::npos && std::string_view(text).substr(space + 1) == kOnDevice;
}

Status too_small(const std::string& peer) {
  return Status::remote_error(peer + " registered more bytes than its memory has");
}

}  // namespace

std::string MemoryTable::text_of(const WindowMemory& mine) {
  return std::to_string(mine.bytes) + " " + (mine.on_device ? std::string(kOnDevice) : mine.handle);
}

// All ranks find the same.
Status MemoryTable::check_sizes(uint64_t bytes, std::span<const std::string> texts) const {
  if (bytes > exec::Registration::kMaxBytes) {
    return Status::invalid_argument("at most " + std::to_string(exec::Registration::kMaxBytes) +
                                    " bytes can be registered at a time");
  }
  for (size_t peer = 0; peer < texts.size(); ++peer) {
    const std::string& text = texts[peer];
    const std::string name = membership_.name_of(static_cast<int>(peer));
    if (text.empty()) {
      return Status::invalid_usage(name + " could not register its memory; its own error says why");
    }
    const std::string_view size = std::string_view(text).substr(0, text.find(' '));
    if (size != std::to_string(bytes)) {
      return Status::invalid_usage(
          "rank " + std::to_string(peer) + " registered " + std::string(size) + " bytes, rank " +
          std::to_string(membership_.rank()) + " " + std::to_string(bytes) +
          ": registration is collective and of equal size");
    }
    if (is_on_device(text) != is_on_device(texts[0])) {
      return Status::invalid_usage("rank 0 and " + name + " register memory of different kinds: " +
                                   "device memory is registered by all ranks or none");
    }
  }
  return {};
}

Status MemoryTable::map(exec::Registration& made, std::span<const std::string> texts) const {
  const auto ranks = membership_.ranks();
  made.peers.resize(static_cast<size_t>(ranks));
  for (int peer = 0; peer < ranks; ++peer) {
    const std::string& text = texts[static_cast<size_t>(peer)];
    const size_t space = text.find(' ');
    transport::Link* link = membership_.link(peer);
    if (link == nullptr || link->mapped() == nullptr) continue;
    Result<transport::Import> mapped =
        transport::Import::of(*link->mapped(), text.substr(space + 1));
    if (!mapped.ok()) return mapped.status();
    if (!mapped.value().holds(0, made.bytes)) return too_small(membership_.name_of(peer));
    made.peers[static_cast<size_t>(peer)] = mapped.value().data();
    made.imports.push_back(std::move(mapped).value());
  }
  return {};
}

Result<uint64_t> MemoryTable::add(const WindowMemory& mine, const GatherTexts& gather,
                                  const AddOnDevice& on_device) {
  const bool well = mine.problem.ok();
  const Result<std::vector<std::string>> texts = gather(well ? text_of(mine) : "");
  if (!texts.ok()) return texts.status();
  const Status fit = check_sizes(mine.bytes, texts.value());
  if (fit.ok() && mine.on_device) return on_device(mine);
  Result<exec::Registration> made = share(mine, fit, texts.value(), gather);
  if (!made.ok()) return made.status();
  const Result<uint32_t> number = keep(std::move(made).value(), mine);
  if (!number.ok()) return number.status();
  return uint64_t{number.value()};
}

// `fits`: whether the texts of the ranks fit together.
Result<exec::Registration> MemoryTable::share(const WindowMemory& mine, const Status& fits,
                                              std::span<const std::string> texts,
                                              const GatherTexts& gather) {
  const bool well = mine.problem.ok();
  exec::Registration made;
  made.mine = mine.base;
  made.bytes = mine.bytes;
  made.owner = mine.owner;
  Status fit = fits;
  if (fit.ok()) fit = map(made, texts);
  if (fit.ok() && well) made.owner = membership_.announce({mine.base, mine.bytes}, mine.owner);
  const Status mapped = well ? fit : mine.problem;
  // Until every rank has mapped it, none may free its memory or end; and it is used by all or none.
  const Result<std::vector<std::string>> outcomes = gather(outcome_of(mapped));
  if (!mapped.ok()) return mapped;
  if (!outcomes.ok()) return outcomes.status();
  for (int peer = 0; peer < membership_.ranks(); ++peer) {
    const Status problem =
        problem_of(outcomes.value()[static_cast<size_t>(peer)],
                   Status::system_error("rank " + std::to_string(peer) +
                                        " cannot map the memory that is being registered"));
    if (!problem.ok()) return problem;
  }
  return made;
}

Result<uint32_t> MemoryTable::keep(exec::Registration made, const WindowMemory& mine) {
  const MutexLock lock(mutex_);
  const uint32_t number = registrations_.add(std::move(made));
  if (number == exec::Registration::kNone) {
    return Status::unsupported(
        "registered memory that is older than 16 million others is in the way");
  }
  has_registered_.store(true, std::memory_order_relaxed);
  registered_.push_back({number, mine});
  return number;
}

// By any thread, while another one may be in a call: one that uses registered memory has the
// executor's list for itself until it ends.
Status MemoryTable::remove(uint64_t number) {
  exec::Registration removed;  // unmapped without the lock
  const MutexLock lock(mutex_);
  if (std::erase(unused_, number) > 0) return {};
  const auto found = std::find_if(registered_.begin(), registered_.end(),
                                  [&](const auto& one) { return one.number == number; });
  if (found == registered_.end()) {
    return Status::invalid_usage("the handle is of no registration of this communicator");
  }
  if (is_in_use_) {
    retired_.push_back(static_cast<uint32_t>(number));
  } else {
    removed = take_out(static_cast<uint32_t>(number));
  }
  registered_.erase(found);
  return {};
}

// Under the lock.
exec::Registration MemoryTable::take_out(uint32_t number) {
  exec::Registration removed = registrations_.remove(number);
  has_registered_.store(!registrations_.empty(), std::memory_order_relaxed);
  return removed;
}

bool MemoryTable::use(transport::ConstBuffer send, transport::ConstBuffer recv) {
  const MutexLock lock(mutex_);
  const auto is_registered = [this](const transport::ConstBuffer& buffer) {
    return buffer.bytes == 0 || registrations_.holding(buffer.data, buffer.bytes) != nullptr;
  };
  const bool usable = is_registered(recv) && is_registered(send);
  is_in_use_ = is_in_use_ || usable;
  return usable;
}

void MemoryTable::take_out_retired() {
  for (bool more = true; more;) {
    exec::Registration removed;  // unmapped without the lock
    const MutexLock lock(mutex_);
    more = !retired_.empty();
    if (more) {
      removed = take_out(retired_.back());
      retired_.pop_back();
    } else {
      is_in_use_ = false;
    }
  }
}

// Nothing is queued, and no thread is in a call but this one.
void MemoryTable::forget_closed() {
  const MutexLock lock(mutex_);
  std::erase_if(windows_, [this](const auto& window) {
    mutex_.assert_held();
    return std::find(closed_.begin(), closed_.end(), window.get()) != closed_.end();
  });
  closed_.clear();
}

Result<Window*> MemoryTable::open(const WindowMemory& mine, transport::ChannelId region,
                                  const GatherTexts& gather, const ShareDevices& share,
                                  bool keep_closed) {
  if (!keep_closed) forget_closed();
  region.lane = ++regions_;
  const bool was_attended = !attended_.empty();  // peers may still come to parts that have ended
  const WindowSteps steps{gather, [this] { return be_attended(); }, share};
  Result<std::unique_ptr<Window>> made = Window::create(membership_, mine, region, steps);
  if (!made.ok()) {
    if (!was_attended) leave_progress_thread();
    return made.status();
  }
  windows_.push_back(std::move(made).value());
  return windows_.back().get();
}

// From the first window on, peers of other hosts need nobody's call here. All links or none.
Status MemoryTable::be_attended() {
  if (progress_thread_ == nullptr || !attended_.empty()) return {};
  for (int peer = 0; peer < membership_.ranks(); ++peer) {
    transport::Link* link = membership_.link(peer);
    if (link == nullptr || link->mapped() != nullptr || link->one_sided() == nullptr) continue;
    const auto unattended = [this, peer](const Status& why) {
      failure_.report(membership_.name_of(membership_.rank()) +
                      " cannot attend its connection to " + membership_.name_of(peer) + ": " +
                      std::string(why.message()) +
                      "; outside of calls its windows answer that rank no more");
    };
    if (Status status = progress_thread_->attend(*link, unattended); !status.ok()) {
      leave_progress_thread();
      return status;
    }
    attended_.push_back(link);
  }
  if (watch_ != nullptr) watch_->attended(true);
  return {};
}

void MemoryTable::leave_progress_thread() {
  for (transport::Link* link : attended_) progress_thread_->leave(*link);
  attended_.clear();
  if (watch_ != nullptr) watch_->attended(false);
}

// A window that was shut stays shut; a peer that is inside after that moment is close_until()'s to
// name.
void MemoryTable::shut() {
  leave_progress_thread();
  if (std::exchange(is_shut_, true)) return;
  for (const auto& window : windows_) window->shut();
  const uint64_t until_ns = monotonic_ns() + kStretchPatienceNs;
  for (const auto& window : windows_) {
    while (window->who_is_inside() >= 0 && monotonic_ns() < until_ns) std::this_thread::yield();
  }
}

Status MemoryTable::close(Window* window, uint64_t deadline_ns) {
  Status closed = close_until(window, deadline_ns);
  if (closed.ok()) {
    const MutexLock lock(mutex_);
    closed_.push_back(window);
  }
  return closed;
}

// Nothing of the executor's is used here: another thread may be in a call for as long as a peer is
// late, and the part must end all the same.
Status MemoryTable::close_until(Window* window, uint64_t deadline_ns) {
  constexpr uint32_t kSpins = 100;
  Backoff backoff(kSpins);
  for (;;) {
    const int busy = window->close();
    if (busy < 0) return {};
    if (const Status known = failure_.check(); !known.ok()) {
      window->cut_off();
      return window->left_alone(known, {}, kLookNs);
    }
    if (monotonic_ns() > deadline_ns) {
      failure_.fail(
          Status::timeout("window_deregister: " + membership_.name_of(busy) +
                          " has not ended its access to rank " +
                          std::to_string(membership_.rank()) + "'s part within the deadline"),
          {busy, -1});
      window->cut_off();
      return window->left_alone(failure_.check(), failure_.check(), kLookNs);
    }
    backoff.pause();
  }
}

void MemoryTable::close_all(uint64_t deadline_ns) {
  for (const auto& window : windows_) (void)close_until(window.get(), deadline_ns);
  leave_progress_thread();
}

Status MemoryTable::left_alone(const Status& failure) const {
  for (const auto& window : windows_) {
    if (Status alone = window->left_alone(failure, {}, kLookNs); !alone.ok()) return alone;
  }
  return {};
}

}  // namespace tutti::comm
