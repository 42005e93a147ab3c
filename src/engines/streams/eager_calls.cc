#include "src/engines/streams/eager_calls.h"

#include <algorithm>
#include <utility>

#include "src/base/clock.h"
#include "src/engines/streams/peer_waits.h"
#include "src/exec/pairs.h"

namespace tutti::engines::streams {
namespace {

ComparedRanks compared(const exec::DeviceRankOptions& options, uint64_t pair_bytes) {
  ComparedRanks ranks;
  for (const exec::ArenaView& arena : options.arenas) {
    ranks.words.push_back({.last = &arena.device().call.value,
                           .recent = &arena.device_recent(0),
                           .log = arena.device_log(),
                           .transfers = arena.device_transfers(0, false)});
  }
  ranks.places = diagnosis::kRecentCalls;
  ranks.rank = options.rank;
  ranks.pair_bytes = pair_bytes;
  ranks.name_of = options.name_of;
  ranks.call_text = "call {} on device memory";
  return ranks;
}

ReporterOptions reporting(const exec::DeviceRankOptions& options) {
  return {.rank = options.rank,
          .manner = "on device memory",
          .name_of = options.name_of,
          .report = options.report,
          .slow_ns = options.slow_ns,
          .recorder = options.recorder,
          .device = options.devices[static_cast<size_t>(options.rank)]};
}

uint32_t last_host_call_of(const exec::ArenaView& arena) {
  return static_cast<uint32_t>(arena.counter(0).call.load(std::memory_order_acquire) >> 32);
}

std::string call_text(uint32_t number) {
  return number == 0 ? "none" : "call " + std::to_string(number);
}

}  // namespace

EagerCalls::EagerCalls(const exec::DeviceRankOptions& options, uint64_t pair_bytes)
    : options_(options),
      rank_(static_cast<size_t>(options.rank)),
      comparison_(compared(options, pair_bytes)),
      watch_(*this, reporting(options), owner()) {}

WatchOwner EagerCalls::owner() {
  return {.failure = options_.failure,
          .fail = [this](Status why, diagnosis::Cause cause) { fail(std::move(why), cause); },
          .publish = [this] { publish(); }};
}

void EagerCalls::fail(Status why, diagnosis::Cause cause) {
  const uint64_t word = diagnosis::Loss{options_.rank, cause}.word();
  mine().device().failed.value.store(word, std::memory_order_release);
  options_.fail(std::move(why), cause);
  Watchdog::get().wake();
}

void EagerCalls::publish() {
  std::atomic<uint64_t>& failed = mine().device().failed.value;
  if (failed.load(std::memory_order_relaxed) != 0) return;
  const diagnosis::Cause known = options_.cause();
  const diagnosis::Cause cause = known.known() ? known : diagnosis::Cause{options_.rank, -1};
  failed.store(diagnosis::Loss{options_.rank, cause}.word(), std::memory_order_release);
}

Status EagerCalls::differ(CallDifference found) {
  fail(found.status, {found.peer, options_.rank});
  return std::move(found.status);
}

Status EagerCalls::announce(uint32_t signature, const diagnosis::DescribedCall& described) {
  std::optional<CallDifference> found = comparison_.announce(signature, described);
  return found ? differ(*std::move(found)) : Status();
}

Status EagerCalls::announce(const exec::StreamedCall& call) {
  return announce(call.call.signature, call.described);
}

Status EagerCalls::announce(const exec::StreamedTransfers& call) {
  std::optional<schedule::Collective> part_of;
  if (call.described) {
    part_of = call.described->collective;
    if (Status s = announce(call.call.signature, *call.described); !s.ok()) return s;
  }
  if (Status own = exec::check_own_transfers(call.transfers, options_.rank); !own.ok()) {
    fail(own, {options_.rank, -1});
    return own;
  }
  std::optional<CallDifference> found =
      comparison_.announce(call.transfers, {.part_of = part_of, .marks = call.registered.marks});
  return found ? differ(*std::move(found)) : Status();
}

// The host's lanes are not told of a peer that fails because of this: the watchdog looks.
Status EagerCalls::declare(uint32_t signature, const diagnosis::DescribedCall& described) {
  if (Status failed = options_.failure(); !failed.ok()) return failed;
  {
    const MutexLock lock(mutex_);
    awaits_peers_ = true;
  }
  Status status = announce(signature, described);
  Watchdog::get().wake();
  return status;
}

Status EagerCalls::declare(std::span<const exec::Transfer> transfers) {
  if (Status failed = options_.failure(); !failed.ok()) return failed;
  std::optional<CallDifference> found = comparison_.announce(transfers, {.by_host = true});
  {
    const MutexLock lock(mutex_);
    declared_.assign(transfers.begin(), transfers.end());
    awaits_peers_ = true;
  }
  Watchdog::get().wake();
  return found ? differ(*std::move(found)) : Status();
}

void EagerCalls::keep(PendingCall call) {
  uint64_t highest = highest_.load(std::memory_order_relaxed);
  for (const uint64_t value : call.awaited) highest = std::max(highest, value);
  highest_.store(highest, std::memory_order_relaxed);
  watch_.keep(std::move(call));
}

// Peers that call something else have failed by then, or will; this rank finds it as well.
bool EagerCalls::awaits_peers() {
  {
    const MutexLock lock(mutex_);
    if (!awaits_peers_ || !options_.failure().ok()) return false;
    awaits_peers_ = comparison_.find_late(comparison_.number(), declared_).has_value();
    if (awaits_peers_) return true;
  }
  if (std::optional<CallDifference> found = comparison_.find_recent()) {
    (void)differ(*std::move(found));
  }
  return false;
}

void EagerCalls::patrol() {
  patrols_.store(true, std::memory_order_relaxed);
  Watchdog::get().wake();
}

// A part of a graph says that it is late, and hears that it has to end.
void EagerCalls::heed_engines() {
  for (DeviceEngine* const engine : engines_) {
    if (!options_.failure().ok()) break;
    std::optional<DeviceEngine::EngineTrouble> found = engine->look();
    if (!found) continue;
    if (!found->cause.calls_differ()) {
      std::string text = std::string(found->status.message()) + watch_.other_oldest();
      const auto differs = captures_ == nullptr ? std::nullopt : captures_->find();
      if (differs) text += "; " + *differs;
      found->status = Status(found->status.code(), std::move(text));
    }
    fail(std::move(found->status), found->cause);
  }
  if (!patrols() || options_.failure().ok()) return;
  publish();
  for (DeviceEngine* const engine : engines_) engine->let_go();
}

bool EagerCalls::look() {
  const bool has_calls = watch_.look();
  heed_engines();
  return awaits_peers() || has_calls;
}

uint64_t EagerCalls::finished() const {
  const uint64_t by_stream = mine().device().finished.value.load(std::memory_order_acquire);
  uint64_t last = by_stream;
  for (const DeviceEngine* const engine : engines_) last = std::max(last, engine->finished());
  return last;
}

// A rank whose counter has not come where the stream waits for it.
std::optional<int> EagerCalls::find_late(const PendingCall& call) const {
  const size_t ranks = options_.arenas.size();
  for (size_t i = 0; i < call.awaited.size(); ++i) {
    const uint64_t at =
        options_.arenas[i % ranks].device().progress_of(static_cast<uint32_t>(i / ranks));
    if (at < call.awaited[i]) return static_cast<int>(i % ranks);
  }
  std::optional<int> late = find_late_peer(call.pair_awaited);
  for (const DeviceEngine* const engine : engines_) {
    if (!late) late = engine->find_late();
  }
  // The kernel of a call without counters tells whom it waits for once it has waited for a while.
  const bool has_counters = !call.awaited.empty() || !call.pair_awaited.empty();
  const uint64_t number = call.call.number;
  for (size_t rank = 0; number != 0 && !late && !has_counters && rank < ranks; ++rank) {
    if (rank != rank_ && !comparison_.has_made(rank, number)) late = static_cast<int>(rank);
  }
  return late;
}

// Of the first step of a group that waits: in a later one a peer may be late because of others.
std::optional<int> EagerCalls::find_late_peer(const std::vector<AwaitedWord>& awaited) const {
  std::optional<int> late;
  uint64_t first = ~uint64_t{0};
  for (const AwaitedWord& one : awaited) {
    const exec::DevicePair& pair = options_.arenas[one.peer].device_pair(rank_);
    const exec::DevicePage::Word& word = one.sends ? pair.taken : pair.sent;
    const auto step = one.step_at(word.value.load(std::memory_order_acquire));
    if (!step || *step >= first) continue;
    first = *step;
    late = static_cast<int>(one.peer);
  }
  return late;
}

void EagerCalls::tell_wait(uint64_t number, std::optional<int> late) {
  PeerWait{.number = static_cast<uint32_t>(number), .peer = late, .looked_ns = monotonic_ns()}.tell(
      mine().device());
}

// Calls of one kernel raise no counters, so ranks also say whom they wait for.
int EagerCalls::find_culprit(int late) const {
  std::vector<PeerWait> waits;
  for (const exec::ArenaView& arena : options_.arenas) {
    waits.push_back(PeerWait::read(arena.device(), options_.arenas.size()));
  }
  return follow_waits(find_furthest_behind(late), waits);
}

std::string EagerCalls::describe_unkept() const {
  for (const DeviceEngine* const engine : engines_) {
    if (std::string text = engine->describe_wait(); !text.empty()) return text;
  }
  return {};
}

// Counters rise alike on all ranks, so the lowest is that of the rank that is furthest behind; of
// several, that of the rank that has made the fewest calls.
int EagerCalls::find_furthest_behind(int late) const {
  const auto behind = [&](size_t one, size_t other) {
    const auto at = [&](size_t rank) {
      const exec::DevicePage& page = options_.arenas[rank].device();
      uint64_t progress = 0;
      for (uint32_t lane = 0; lane < exec::kDeviceLanes; ++lane) progress += page.progress_of(lane);
      return progress;
    };
    if (at(one) != at(other)) return at(one) < at(other);
    return static_cast<int32_t>(comparison_.last_of(one) - comparison_.last_of(other)) < 0;
  };
  auto culprit = static_cast<size_t>(late);
  for (size_t rank = 0; rank < options_.arenas.size(); ++rank) {
    if (rank != rank_ && behind(rank, culprit)) culprit = rank;
  }
  return static_cast<int>(culprit);
}

std::string EagerCalls::reason(const PendingCall& call, std::optional<int> late) const {
  if (!late) return "its own stream is held up by what is before it";
  const uint64_t number = call.call.number;
  std::string text = "it waits for " + story_of(*late, number);
  std::string separator = "; it has not been made either by rank ";
  for (size_t rank = 0; number != 0 && rank < options_.arenas.size(); ++rank) {
    const bool told = rank == rank_ || static_cast<int>(rank) == *late;
    if (told || comparison_.has_made(rank, number)) continue;
    text += separator + std::to_string(rank);
    separator = ", ";
  }
  return text;
}

std::string EagerCalls::story_of(int rank, uint64_t number) const {
  const auto index = static_cast<size_t>(rank);
  const std::string name = options_.name_of(rank);
  const std::string on_device = call_text(comparison_.last_of(index));
  const std::string on_host = call_text(last_host_call_of(options_.arenas[index]));
  if (number == 0) {
    return name + ", which has not come so far: its last call of all ranks on device memory is " +
           on_device + ", its last on the host " + on_host;
  }
  if (comparison_.has_made(index, number)) {
    return name +
           ", which has made that call: its stream has not come so far (work before it, another "
           "rank, or its device)";
  }
  return name + ", which has not made that call: its last on device memory is " + on_device +
         ", its last on the host " + on_host;
}

// A rank that has called nothing has nothing to give up. Nothing tells of runs of graphs that
// engines run alone, so there may have been some.
std::optional<diagnosis::Loss> EagerCalls::find_loss() const {
  const bool has_called =
      comparison_.has_calls() || patrols() || (others_ != nullptr && others_->has_calls());
  if (!has_called) return std::nullopt;
  for (size_t rank = 0; rank < options_.arenas.size(); ++rank) {
    if (rank == rank_) continue;
    const uint64_t word =
        options_.arenas[rank].device().failed.value.load(std::memory_order_acquire);
    std::optional<diagnosis::Loss> loss = diagnosis::Loss::read(word, options_.ranks);
    if (!loss) continue;
    loss->rank = static_cast<int>(rank);
    return loss;
  }
  return std::nullopt;
}

std::optional<CallDifference> EagerCalls::find_difference() const {
  std::optional<CallDifference> found = comparison_.find_recent();
  if (!found && others_ != nullptr) found = others_->find_recent();
  for (DeviceEngine* const engine : engines_) {
    if (found) break;
    std::optional<DeviceEngine::EngineTrouble> one = engine->look();
    const bool differs = one && one->cause.calls_differ();
    if (differs) found = CallDifference{std::move(one->status), one->cause.rank};
  }
  return found;
}

bool EagerCalls::may_find_difference() const {
  return comparison_.awaits_peers() || (others_ != nullptr && others_->awaits_peers());
}

void EagerCalls::release() {
  for (DeviceEngine* const engine : engines_) engine->let_go();
  const uint64_t value = highest_.load(std::memory_order_relaxed) + kBeyondAll;
  for (size_t rank = 0; rank < options_.arenas.size(); ++rank) {
    if (rank == rank_) continue;
    for (uint32_t lane = 0; lane < exec::kDeviceLanes; ++lane) {
      options_.arenas[rank].device().set_progress(lane, value);
    }
    exec::DevicePair& pair = options_.arenas[rank].device_pair(rank_);
    pair.sent.value.store(kBeyondAll, std::memory_order_release);
    pair.taken.value.store(kBeyondAll, std::memory_order_release);
  }
}

}  // namespace tutti::engines::streams
