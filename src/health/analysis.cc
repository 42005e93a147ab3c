#include "src/health/analysis.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "src/base/words.h"
#include "src/health/joined.h"

namespace tutti::health {
namespace {

using trace::CallRecord;
using trace::RecordState;
using trace::Series;

std::string ranks_text(const std::vector<int>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + list_ranks(ranks);
}

bool is_open(const CallRecord& call) {
  return call.state == RecordState::kRunning || call.state == RecordState::kFailed;
}

// Why its calls are no ring of rising numbers; empty: they are.
std::string why_unusable(const trace::Snapshot& snapshot) {
  if (snapshot.rank < 0 || snapshot.rank >= snapshot.ranks) {
    return "it is of rank " + std::to_string(snapshot.rank) + " of " +
           std::to_string(snapshot.ranks);
  }
  std::map<Series, uint32_t> last;
  for (const CallRecord& call : snapshot.calls) {
    if (call.number == 0) continue;
    uint32_t& before = last[call.series];
    if (call.number < before) return "its call numbers do not rise";
    before = call.number;
  }
  return {};
}

}  // namespace

const char* name_of(HealthKind kind) {
  constexpr const char* kNames[] = {"mismatched calls",  "missing rank",
                                    "computing hang",    "communication hang",
                                    "computing is slow", "communication is slow"};
  return kNames[static_cast<size_t>(kind)];
}

std::string text_of_call(const CallRecord& call) {
  std::string text = call.collective;
  if (!call.type.empty()) text += " " + call.type;
  if (!call.op.empty()) text += " " + call.op;
  text += " of " + std::to_string(call.bytes) + " bytes";
  if (call.root >= 0) text += ", root " + std::to_string(call.root);
  return text;
}

JoinedRecorders join(const std::vector<const RankRecorder*>& recorders) {
  JoinedRecorders joined;
  std::map<uint32_t, AlignedCall> calls;
  for (const RankRecorder* recorder : recorders) {
    joined.communicator = recorder->snapshot.communicator;
    joined.ranks = recorder->snapshot.ranks;
    joined.by_rank[recorder->snapshot.rank] = recorder;
  }
  for (const auto& [rank, recorder] : joined.by_rank) {
    for (const CallRecord& call : recorder->snapshot.calls) {
      if (call.series != Series::kCollective || call.number == 0) continue;
      AlignedCall& aligned = calls[call.number];
      aligned.number = call.number;
      aligned.by_rank[rank] = &call;
    }
  }
  for (auto& [number, call] : calls) joined.calls.push_back(std::move(call));
  return joined;
}

std::vector<HealthVerdict> find_mismatches(const JoinedRecorders& joined) {
  std::vector<HealthVerdict> verdicts;
  for (const AlignedCall& call : joined.calls) {
    std::map<std::string, std::vector<int>> kinds;
    for (const auto& [rank, record] : call.by_rank) kinds[text_of_call(*record)].push_back(rank);
    if (kinds.size() < 2) continue;
    // The fewest are to blame; of as many those with the higher ranks.
    auto fewest = kinds.begin(), most = kinds.begin();
    for (auto kind = kinds.begin(); kind != kinds.end(); ++kind) {
      const auto order = [](const auto& one) {
        return std::pair(one->second.size(), -one->second.front());
      };
      if (order(kind) < order(fewest)) fewest = kind;
      if (order(kind) > order(most)) most = kind;
    }
    HealthVerdict verdict{
        HealthKind::kMismatch, joined.communicator, call.number, fewest->second, {}, {}, {}};
    verdict.sentence = "call " + std::to_string(call.number) + ": " + ranks_text(fewest->second) +
                       " called " + fewest->first + ", " + ranks_text(most->second) + " " +
                       most->first;
    for (const auto& [text, ranks] : kinds) {
      verdict.evidence.push_back(ranks_text(ranks) + ": " + text);
    }
    verdicts.push_back(std::move(verdict));
    break;  // later calls differ because of it
  }
  return verdicts;
}

std::vector<HealthVerdict> find_missing(const JoinedRecorders& joined) {
  std::vector<int> missing;
  for (int rank = 0; rank < joined.ranks; ++rank) {
    if (!joined.by_rank.contains(rank)) missing.push_back(rank);
  }
  if (missing.empty()) return {};
  HealthVerdict verdict{HealthKind::kMissing, joined.communicator, 0, missing, {}, {}, {}};
  verdict.sentence =
      "no recorder of " + ranks_text(missing) + " of " + std::to_string(joined.ranks);
  for (const auto& [rank, recorder] : joined.by_rank) {
    if (recorder->snapshot.calls.empty()) continue;
    const CallRecord& last = recorder->snapshot.calls.back();
    if (!is_open(last) || !std::binary_search(missing.begin(), missing.end(), last.waits_for)) {
      continue;
    }
    verdict.evidence.push_back("rank " + std::to_string(rank) + " waits for rank " +
                               std::to_string(last.waits_for) + " in call " +
                               std::to_string(last.number));
  }
  verdict.sentence += verdict.evidence.empty()
                          ? ": its process has ended, or its file or host was not given"
                          : ", which others wait for: its process has ended";
  return {verdict};
}

std::vector<CommunicatorHealth> analyse(const std::vector<RankRecorder>& recorders,
                                        const HealthRules& rules) {
  std::map<uint64_t, std::vector<const RankRecorder*>> communicators;
  for (const RankRecorder& one : recorders)
    communicators[one.snapshot.communicator].push_back(&one);
  std::vector<CommunicatorHealth> all;
  for (const auto& [communicator, members] : communicators) {
    CommunicatorHealth health;
    health.communicator = communicator;
    for (const RankRecorder* one : members) {
      health.epoch = std::max(health.epoch, one->snapshot.epoch);
    }
    std::vector<const RankRecorder*> usable;
    for (const RankRecorder* one : members) {
      std::string why = why_unusable(one->snapshot);
      if (one->snapshot.epoch != health.epoch) why = "it is of an older epoch";
      if (why.empty()) {
        usable.push_back(one);
      } else {
        health.set_aside.push_back("the recorder of rank " + std::to_string(one->snapshot.rank) +
                                   " is set aside: " + why);
      }
    }
    if (!usable.empty()) {
      const JoinedRecorders joined = join(usable);
      health.ranks = joined.ranks;
      for (const auto& [rank, recorder] : joined.by_rank) health.present.push_back(rank);
      for (const AlignedCall& call : joined.calls) health.calls += call.by_rank.size() > 1 ? 1 : 0;
      health.verdicts = find_mismatches(joined);
      bool explained = !health.verdicts.empty();
      for (HealthVerdict& one : find_missing(joined)) {
        // Those of another host may be fine: the others are judged without them.
        explained = explained || !one.evidence.empty();
        health.verdicts.push_back(std::move(one));
      }
      if (!explained) {
        for (HealthVerdict& one : find_hangs(joined, rules)) {
          explained = true;
          health.verdicts.push_back(std::move(one));
        }
      }
      for (HealthVerdict& one : find_slow(joined, rules, health)) {
        if (!explained) health.verdicts.push_back(std::move(one));
      }
    }
    all.push_back(std::move(health));
  }
  return all;
}

}  // namespace tutti::health
