#include "src/exec/staging_stores.h"

#include <numeric>

namespace tutti::exec {
namespace {

// A call by itself takes the sum; of many behind each other the longer one is what counts. Both
// matter.
float whole(float writer, float reader) { return writer + reader + std::max(writer, reader); }

}  // namespace

float MoveCost::mean() const {
  if (added_ == 0) return 0;
  auto sorted = last_;
  const size_t size = std::min<size_t>(added_, sorted.size());
  std::sort(sorted.begin(), sorted.begin() + size);
  const size_t kept = size - (size > 1 ? (size + 4) / 5 : 0);
  return std::accumulate(sorted.begin(), sorted.begin() + kept, 0.0F) / static_cast<float>(kept);
}

bool StagingChoice::took(uint64_t bytes, StoreChoice turn, uint64_t duration_ns, uint64_t now_ns) {
  Class& c = class_of(bytes);
  c.cost[turn.streaming].add(bytes, duration_ns);
  if (c.trial > 0) {
    --c.trial;
    c.trial_ns += duration_ns;
    c.next_trial_ns = now_ns + std::clamp(kTrialShare * c.trial_ns, kTrialPauseNs, kLongestPauseNs);
    return false;
  }
  ++c.since_trial;
  if (now_ns >= c.next_trial_ns && c.since_trial >= kTrialEvery) {
    c.trial = kTrialMoves;
    c.trial_ns = c.since_trial = 0;
    return false;
  }
  return c.since_trial % kChosenEvery == 0;
}

void StagingChoice::choose(uint64_t bytes, const StoreCosts& readers) {
  Class& c = class_of(bytes);
  if (readers[true] != 0) c.readers = readers;
  const float cached = c.cost[false].mean(), streaming = c.cost[true].mean();
  if (cached == 0 || streaming == 0) return;
  if (c.readers[true] == 0) {
    c.streaming = cached > kWorthOfCache * streaming;
  } else {
    c.streaming = whole(cached, c.readers[false]) > whole(streaming, c.readers[true]);
  }
}

StagingReaders::StagingReaders(const std::vector<const StagingReads*>& readers) {
  for (const StagingReads* reads : readers) readers_.push_back({reads, {}});
}

StoreCosts StagingReaders::look(uint64_t bytes) {
  const uint32_t size_class = staging_class(bytes);
  StoreCosts most{};
  for (ReaderCosts& reader : readers_) {
    const uint64_t word = reader.reads->costs[size_class].load(std::memory_order_relaxed);
    ReportedCosts& told = reader.told[size_class];
    if (word != told.word) told = {word, 0};
    const auto costs = std::bit_cast<StoreCosts>(word);
    if (costs[false] == 0 || costs[true] == 0 || told.looks >= kGoneLooks) continue;
    ++told.looks;
    for (const bool streaming : {false, true}) {
      most[streaming] = std::max(most[streaming], costs[streaming]);
    }
  }
  return most;
}

void StagingReader::took(uint64_t bytes, StagingMark mark, uint64_t duration_ns) {
  if (mark.size_class() >= kStagingClasses) return;
  std::array<MoveCost, 2>& costs = costs_[mark.size_class()];
  costs[mark.streaming()].add(bytes, duration_ns);
  if (costs[mark.streaming()].added() % kToldEvery != 0) return;
  const StoreCosts means{costs[false].mean(), costs[true].mean()};
  reads_.costs[mark.size_class()].store(std::bit_cast<uint64_t>(means), std::memory_order_relaxed);
}

}  // namespace tutti::exec
