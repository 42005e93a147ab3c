#include "src/engines/streams/captured_runs.h"

#include <utility>

#include "src/base/clock.h"

namespace tutti::engines::streams {
namespace {

ComparedRanks compared(const CapturedRuns::RunsOfRank& parts) {
  ComparedRanks ranks;
  for (size_t rank = 0; rank < parts.memory.ranks(); ++rank) {
    ranks.words.push_back(parts.memory.call_words(rank));
  }
  ranks.places = CapturedMemory::kRuns;
  ranks.rank = parts.rank;
  ranks.pair_bytes = parts.pair_bytes;
  ranks.name_of = parts.name_of;
  ranks.call_text = "run {} of calls in graphs";
  return ranks;
}

CaptureComparison::CapturingRanks capturing(const CapturedRuns::RunsOfRank& parts) {
  CaptureComparison::CapturingRanks ranks;
  for (size_t rank = 0; rank < parts.memory.ranks(); ++rank) {
    ranks.entries.push_back(parts.memory.captured(rank));
  }
  ranks.rank = parts.rank;
  ranks.name_of = parts.name_of;
  return ranks;
}

}  // namespace

CapturedRuns::CapturedRuns(RunsOfRank parts)
    : memory_(parts.memory),
      rank_(static_cast<size_t>(parts.rank)),
      name_of_(parts.name_of),
      let_go_(std::move(parts.let_go)),
      report_(std::move(parts.report)),
      runs_alone_so_far_(std::move(parts.runs_alone_so_far)),
      ran_late_(std::move(parts.ran_late)),
      comparison_(compared(parts)),
      captures_(capturing(parts)),
      watch_(*this, {.rank = parts.rank, .manner = "in a graph", .name_of = parts.name_of},
             std::move(parts.owner)) {}

// It may neither use the device nor wait. Neither does a failure of the communicator.
void CapturedRuns::begin(const CapturedCall& call) {
  if (is_over_.load(std::memory_order_acquire)) has_late_run_.store(true);
  PendingCall run;
  {
    const MutexLock lock(mutex_);
    page().over.value.store(0, std::memory_order_relaxed);
    run.call.place = ++place_;
  }
  watch_.while_alive([&](const WatchOwner& owner) {
    std::optional<CallDifference> found = announce(call);
    if (found) owner.fail(std::move(found->status), {found->peer, static_cast<int>(rank_)});
  });
  run.call.number = call.described ? comparison_.number() : 0;
  run.call.what = call.what;
  run.deadline_ns = deadline_after(call.timeout_ns);
  run.transfers = call.transfers;
  watch_.keep(std::move(run));
}

void CapturedRuns::abandon() {
  watch_.abandon();
  if (runs_alone_so_far_) alone_at_end_.store(runs_alone_so_far_());
  is_over_.store(true, std::memory_order_release);
  Watchdog::get().wake();  // it may have to patrol from now on
}

bool CapturedRuns::look() {
  look_for_late_runs();
  return watch_.look();
}

bool CapturedRuns::patrols() const {
  return is_over_.load(std::memory_order_acquire) && alone_at_end_.load() != 0 &&
         !told_late_run_.load();
}

void CapturedRuns::look_for_late_runs() {
  if (!is_over_.load(std::memory_order_acquire) || told_late_run_.load()) return;
  const uint64_t before = alone_at_end_.load();
  const bool is_late = has_late_run_.load() || (before != 0 && runs_alone_so_far_() != before);
  if (is_late && !told_late_run_.exchange(true) && ran_late_) ran_late_();
}

void CapturedRuns::announce_capture(const CaptureComparison::CapturedPart& part) {
  const std::optional<std::string> found = captures_.announce(part);
  if (!found || !report_) return;
  report_(*found + "; all ranks must capture the same calls in the same order: runs of both fail");
}

// A peer that has found a difference lets this rank's stream go on, to the run behind.
std::optional<CallDifference> CapturedRuns::announce(const CapturedCall& call) {
  std::optional<schedule::Collective> part_of;
  if (call.described) {
    part_of = call.described->collective;
    if (auto found = comparison_.announce(call.signature, *call.described)) return found;
  }
  return comparison_.announce(call.transfers,
                              {.part_of = part_of, .slots = call.slots, .marks = call.marks});
}

uint64_t CapturedRuns::finished() const {
  const MutexLock lock(mutex_);
  return page().over.value.load(std::memory_order_acquire) == 1 ? place_ : place_ - 1;
}

std::optional<int> CapturedRuns::find_late(const PendingCall& call) const {
  return comparison_.find_late(call.call.number, call.transfers);
}

std::string CapturedRuns::reason(const PendingCall& /*call*/, std::optional<int> late) const {
  if (!late) return "all ranks have begun it, but some stream is held up";
  const std::optional<std::string> differs = captures_.find();
  return name_of_(*late) + " has not come to this run of its graph" +
         (differs ? "; " + *differs : "");
}

void CapturedRuns::release() {
  let_go_();
  for (size_t rank = 0; rank < memory_.ranks(); ++rank) {
    if (rank == rank_) continue;
    for (CapturedPage::SharedLine& word : memory_.page(rank).words) {
      word.value.store(kBeyondAll, std::memory_order_release);
    }
    CapturedPairWords& pair = memory_.pair(rank_, rank);
    for (auto* const words : {&pair.full, &pair.empty}) {
      for (CapturedPage::SharedLine& word : *words) {
        word.value.store(kBeyondAll, std::memory_order_release);
      }
    }
  }
}

}  // namespace tutti::engines::streams
