// The two halves of analyse() that look at times.
#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "src/base/words.h"
#include "src/health/joined.h"

namespace tutti::health {
namespace {

using trace::CallRecord;
using trace::ExchangeRecord;
using trace::RecordState;
using trace::Series;

std::string fixed(double value) {
  std::string text = std::to_string(value);
  return text.substr(0, text.find('.') + 3);
}

// How long a call has run that is not done; a failed one has hung.
bool hangs(const RankRecorder& recorder, const CallRecord& call, const HealthRules& rules) {
  if (call.state == RecordState::kFailed) return true;
  if (call.state != RecordState::kRunning) return false;
  if (recorder.snapshot.failure.at_ns != 0) return true;
  if (recorder.now_ns == 0 || call.start_ns == 0) return call.waits_for >= 0;
  return recorder.now_ns > call.start_ns + rules.hang_ns;
}

const CallRecord* last_collective(const RankRecorder& recorder) {
  for (auto call = recorder.snapshot.calls.rbegin(); call != recorder.snapshot.calls.rend();
       ++call) {
    if (call->series == Series::kCollective && call->number > 0) return &*call;
  }
  return nullptr;
}

/// A transfer of a hanging call that lacks bytes, as its receiver sees it.
struct StandStill {
  double moved = 1;  // share of its bytes
  int source = -1, target = -1;
};

// Of all transfers that somebody waits for the one that has come least far. The receiver that does
// not wait for another stands at the end of the chain.
StandStill stand_still(const AlignedCall& call) {
  StandStill worst;
  for (const auto& [rank, record] : call.by_rank) {
    const bool waits = record->waits_for >= 0;
    for (const ExchangeRecord& exchange : record->exchanges) {
      if (exchange.sends || exchange.complete >= exchange.messages) continue;
      const double share =
          exchange.messages == 0 ? 0 : static_cast<double>(exchange.complete) / exchange.messages;
      if (worst.source >= 0 && share >= worst.moved) continue;
      worst = {share, static_cast<int>(exchange.peer), rank};
    }
    if (worst.source < 0 && waits) worst = {1, record->waits_for, rank};
  }
  return worst;
}

HealthVerdict computing_hang(const JoinedRecorders& joined, const AlignedCall& call,
                             std::vector<int> absent) {
  HealthVerdict verdict{
      HealthKind::kComputingHang, joined.communicator, call.number, std::move(absent), {}, {}, {}};
  const auto& [any, record] = *call.by_rank.begin();
  verdict.sentence = (verdict.ranks.size() == 1 ? "rank " : "ranks ") + list_ranks(verdict.ranks) +
                     (verdict.ranks.size() == 1 ? " has" : " have") + " not entered call " +
                     std::to_string(call.number) + " (" + text_of_call(*record) + "), in which " +
                     std::to_string(call.by_rank.size()) + " wait";
  for (const int rank : verdict.ranks) {
    const CallRecord* last = last_collective(*joined.by_rank.at(rank));
    verdict.evidence.push_back(
        "rank " + std::to_string(rank) +
        (last == nullptr
             ? " has made no call"
             : ": the last is call " + std::to_string(last->number) + ", " + text_of_call(*last)));
  }
  return verdict;
}

HealthVerdict communication_hang(const JoinedRecorders& joined, const AlignedCall& call) {
  const StandStill worst = stand_still(call);
  HealthVerdict verdict{HealthKind::kCommunicationHang,
                        joined.communicator,
                        call.number,
                        {},
                        SlowPart::kPath,
                        {},
                        {}};
  verdict.sentence = "all ranks are in call " + std::to_string(call.number) + " (" +
                     text_of_call(*call.by_rank.begin()->second) + "), which stands still";
  if (worst.source >= 0) {
    verdict.ranks = {worst.source, worst.target};
    verdict.sentence += ": from rank " + std::to_string(worst.source) + " to rank " +
                        std::to_string(worst.target) + " nothing moves";
  }
  for (const auto& [rank, record] : call.by_rank) {
    if (record->waits_for < 0) continue;
    verdict.evidence.push_back("rank " + std::to_string(rank) + " waits for rank " +
                               std::to_string(record->waits_for));
    for (std::string& line : trace::to_lines(*record, 2)) {
      verdict.evidence.push_back("  " + std::move(line));
    }
  }
  return verdict;
}

// An earlier call in which one of these ranks still waits for bytes of a rank that is done with it:
// they are lost on the way. Null: there is none.
const AlignedCall* call_that_holds_up(const JoinedRecorders& joined,
                                      const std::vector<int>& ranks) {
  for (const int rank : ranks) {
    const CallRecord* last = last_collective(*joined.by_rank.at(rank));
    if (last == nullptr || last->exchanges.empty()) continue;
    const auto found = std::find_if(joined.calls.begin(), joined.calls.end(),
                                    [&](const auto& call) { return call.number == last->number; });
    for (const ExchangeRecord& exchange : last->exchanges) {
      if (exchange.sends || exchange.complete >= exchange.messages) continue;
      const auto peer = found->by_rank.find(static_cast<int>(exchange.peer));
      if (peer != found->by_rank.end() && peer->second->state == RecordState::kDone) return &*found;
    }
  }
  return nullptr;
}

// Ranks that have entered the call and, as most of those say who wait for them, do nothing in it.
std::vector<int> idle_in(const AlignedCall& call) {
  std::map<int, std::pair<int, int>> votes;  // idle, and all
  for (const auto& [rank, record] : call.by_rank) {
    std::map<int, bool> idle;
    for (const ExchangeRecord& exchange : record->exchanges) {
      if (exchange.state == trace::PeerState::kUnknown) continue;
      idle[static_cast<int>(exchange.peer)] =
          exchange.state == trace::PeerState::kElsewhere && exchange.call == call.number;
    }
    for (const auto& [peer, is_idle] : idle) {
      votes[peer].first += is_idle ? 1 : 0;
      ++votes[peer].second;
    }
  }
  std::vector<int> ranks;
  for (const auto& [rank, vote] : votes) {
    if (2 * vote.first > vote.second) ranks.push_back(rank);
  }
  return ranks;
}

HealthVerdict stopped_in(const JoinedRecorders& joined, const AlignedCall& call,
                         const std::vector<int>& ranks) {
  HealthVerdict verdict{
      HealthKind::kComputingHang, joined.communicator, call.number, ranks, {}, {}, {}};
  verdict.sentence = (ranks.size() == 1 ? "rank " : "ranks ") + list_ranks(ranks) +
                     " came to a stop in call " + std::to_string(call.number) + " (" +
                     text_of_call(*call.by_rank.begin()->second) +
                     "): stopped, or without a processor";
  for (const auto& [rank, record] : call.by_rank) {
    if (std::find(ranks.begin(), ranks.end(), rank) != ranks.end()) continue;
    for (std::string& line : trace::to_lines(*record, 1)) {
      verdict.evidence.push_back("rank " + std::to_string(rank) + " " + std::move(line));
    }
  }
  return verdict;
}

// ---- slowness

uint64_t duration(const CallRecord& call) {
  if (call.state != RecordState::kDone || call.start_ns == 0 || call.end_ns <= call.start_ns)
    return 0;
  return call.end_ns - call.start_ns;
}

/// In one call the rank that was in it for the shortest time: all others waited for it.
struct LastOne {
  int rank = 0;
  double own = 0;     // ns in the call
  double others = 0;  // the median of theirs
};

std::vector<LastOne> last_ones(const JoinedRecorders& joined) {
  std::vector<LastOne> found;
  for (const AlignedCall& call : joined.calls) {
    LastOne last;
    std::vector<double> others;
    for (const auto& [rank, record] : call.by_rank) {
      const auto own = static_cast<double>(duration(*record));
      if (own == 0) continue;
      if (last.own == 0 || own < last.own) {
        if (last.own > 0) others.push_back(last.own);
        last.rank = rank;
        last.own = own;
      } else {
        others.push_back(own);
      }
    }
    if (others.size() + 1 < 3) continue;  // of two one is always the last
    last.others = median(std::move(others));
    found.push_back(last);
  }
  return found;
}

std::vector<HealthVerdict> computing_slow(const JoinedRecorders& joined, const HealthRules& rules) {
  const std::vector<LastOne> calls = last_ones(joined);
  std::map<int, std::vector<double>> waits;  // of the others, by rank
  std::map<int, std::vector<double>> owns;
  for (const LastOne& call : calls) {
    waits[call.rank].push_back(call.others - call.own);
    owns[call.rank].push_back(call.own);
  }
  for (const auto& [rank, longer] : waits) {
    const auto times = static_cast<double>(longer.size());
    if (calls.size() < rules.calls || times < rules.share * static_cast<double>(calls.size()))
      continue;
    const double wait = median(longer), own = median(owns[rank]);
    if (wait < rules.late * own) continue;
    HealthVerdict verdict{HealthKind::kComputingSlow, joined.communicator, 0, {rank}, {}, {}, {}};
    verdict.sentence = "rank " + std::to_string(rank) + " comes last to " +
                       std::to_string(longer.size()) + " of " + std::to_string(calls.size()) +
                       " calls, and the others wait " + fixed(wait / 1e6) +
                       " ms for it: it computes, or reads its data, more slowly";
    verdict.evidence.push_back("it is in a call for " + fixed(own / 1e6) + " ms, the others for " +
                               fixed((wait + own) / 1e6) + " ms");
    return {verdict};
  }
  return {};
}

/// Transfers of one kind and length.
using TransferClass = std::tuple<Series, std::string, uint64_t>;

// The delays of receives; of collectives how long they waited for the rank they waited for last.
std::map<TransferClass, DelayMatrix> delays_of(const JoinedRecorders& joined) {
  std::map<TransferClass, DelayMatrix> classes;
  const auto add = [&](const CallRecord& call, int source, int target, double delay) {
    if (source < 0 || source >= joined.ranks || source == target) return;
    const TransferClass key{call.series, call.collective, call.bytes};
    const auto matrix = classes.emplace(key, static_cast<uint32_t>(joined.ranks)).first;
    matrix->second.add(static_cast<uint32_t>(source), static_cast<uint32_t>(target), delay);
  };
  for (const auto& [rank, recorder] : joined.by_rank) {
    for (const CallRecord& call : recorder->snapshot.calls) {
      const auto whole = static_cast<double>(duration(call));
      if (whole == 0) continue;
      if (call.series == Series::kTransfers && call.exchanges.size() == 1) {
        const ExchangeRecord& only = call.exchanges.front();
        if (!only.sends) add(call, static_cast<int>(only.peer), rank, whole);
      } else if (call.series == Series::kCollective && call.waits_for >= 0) {
        add(call, call.waits_for, rank, whole);
      }
    }
  }
  return classes;
}

std::string sentence_of(const SlowVerdict& slow, const std::string& what) {
  const std::string source = std::to_string(slow.source), target = std::to_string(slow.target);
  std::string text;
  switch (slow.part) {
    case SlowPart::kSender:
      text = "all that rank " + source + " sends is slow";
      break;
    case SlowPart::kReceiver:
      text = "all that rank " + target + " receives is slow";
      break;
    case SlowPart::kRank:
      text = "all that rank " + source + " sends and receives is slow";
      break;
    case SlowPart::kPath:
      text = "the path from rank " + source + " to rank " + target + " is slow";
      break;
  }
  return text + ": " + fixed(slow.times) + " times the usual delay of a " + what;
}

}  // namespace

std::vector<HealthVerdict> find_hangs(const JoinedRecorders& joined, const HealthRules& rules) {
  // The furthest call that hangs: who is not in it holds up all others.
  for (auto call = joined.calls.rbegin(); call != joined.calls.rend(); ++call) {
    bool hanging = false;
    for (const auto& [rank, record] : call->by_rank) {
      hanging = hanging || hangs(*joined.by_rank.at(rank), *record, rules);
    }
    if (!hanging) continue;
    std::vector<int> absent;
    for (const auto& [rank, recorder] : joined.by_rank) {
      const CallRecord* last = last_collective(*recorder);
      if (last == nullptr || last->number < call->number) absent.push_back(rank);
    }
    if (const AlignedCall* earlier = call_that_holds_up(joined, absent)) {
      return {communication_hang(joined, *earlier)};
    }
    if (!absent.empty()) return {computing_hang(joined, *call, std::move(absent))};
    const std::vector<int> idle = idle_in(*call);
    if (!idle.empty()) return {stopped_in(joined, *call, idle)};
    return {communication_hang(joined, *call)};
  }
  return {};
}

std::vector<HealthVerdict> find_slow(const JoinedRecorders& joined, const HealthRules& rules,
                                     CommunicatorHealth& health) {
  std::vector<HealthVerdict> verdicts = computing_slow(joined, rules);
  const DelayMatrix* largest = nullptr;
  std::optional<HealthVerdict> slowest;
  double score = 0;
  const std::map<TransferClass, DelayMatrix> classes = delays_of(joined);
  for (const auto& [key, matrix] : classes) {
    const std::string what =
        std::get<1>(key) + " of " + std::to_string(std::get<2>(key)) + " bytes";
    const bool is_more = largest == nullptr || matrix.samples() > largest->samples();
    if (is_more && !slowest) {
      largest = &matrix;
      health.delays_of = what;
    }
    // Of a collective the rank that was waited for may only have passed on what was late. Matrices
    // of receives tell; those of collectives are pictures.
    if (std::get<0>(key) != Series::kTransfers || matrix.samples() < rules.calls) continue;
    const auto slow = judge(matrix, rules.matrix);
    if (!slow || slow->score <= score) continue;
    score = slow->score;
    HealthVerdict verdict{
        HealthKind::kCommunicationSlow, joined.communicator, 0, {}, slow->part, {}, {}};
    const int source = static_cast<int>(slow->source), target = static_cast<int>(slow->target);
    verdict.ranks = slow->part == SlowPart::kPath       ? std::vector<int>{source, target}
                    : slow->part == SlowPart::kReceiver ? std::vector<int>{target}
                                                        : std::vector<int>{source};
    verdict.sentence = sentence_of(*slow, what);
    verdict.evidence.push_back("median of " + std::to_string(matrix.samples()) + " transfers, " +
                               fixed(slow->score) + " deviations above the usual");
    slowest = std::move(verdict);
    largest = &matrix;
    health.delays_of = what;
  }
  if (largest != nullptr) health.delays = *largest;
  if (verdicts.empty() && slowest) verdicts.push_back(std::move(*slowest));
  return verdicts;
}

}  // namespace tutti::health
