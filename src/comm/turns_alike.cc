#include "src/comm/turns_alike.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tutti::comm {
namespace {

/// The turns (plan::LaneTurns) of a rank in which it sends to each rank, and awaits it. A turn ends
/// where the rank sends after it has waited, or waits behind a fold; or, `one_way`, behind every
/// wait.
struct RankTurns {
  std::vector<std::vector<uint32_t>> sends, awaits;  // by rank
  uint32_t first_send = ~0u;
};

RankTurns turns_of(const schedule::Schedule& schedule, size_t ranks, bool one_way) {
  RankTurns turns{.sends = std::vector<std::vector<uint32_t>>(ranks),
                  .awaits = std::vector<std::vector<uint32_t>>(ranks)};
  uint32_t turn = 0;
  bool waited = false, folded = false;  // since the turn began
  const auto end_turn = [&] {
    ++turn;
    waited = folded = false;
  };
  for (const schedule::Step& step : schedule.steps) {
    if (step.kind == schedule::StepKind::kSend) {
      if (waited && !one_way) end_turn();
      for (const uint32_t peer : schedule.peers_of(step)) turns.sends[peer].push_back(turn);
      turns.first_send = std::min(turns.first_send, turn);
      continue;
    }
    const auto sources = schedule.sources_of(step);
    const bool waits = std::any_of(sources.begin(), sources.end(),
                                   [](schedule::Source source) { return source.is_message(); });
    if (waits && folded && !one_way) end_turn();
    for (const schedule::Source source : sources) {
      if (!source.is_message()) continue;
      turns.awaits[static_cast<size_t>(source.peer())].push_back(turn);
    }
    waited = waited || waits;
    folded = waited && (folded || sources.size() > 1);
    if (waits && one_way) end_turn();
  }
  return turns;
}

}  // namespace

bool takes_turns_alike(const schedule::Algorithm& algorithm, const schedule::Parameters& parameters,
                       bool one_way) {
  const auto ranks = static_cast<size_t>(parameters.ranks);
  std::vector<RankTurns> all;
  for (int rank = 0; rank < parameters.ranks; ++rank) {
    all.push_back(turns_of(algorithm.schedule(parameters, rank), ranks, one_way));
  }
  for (size_t rank = 0; rank < ranks; ++rank) {
    for (size_t peer = 0; peer < ranks; ++peer) {
      const std::vector<uint32_t>&awaits = all[rank].awaits[peer], &sends = all[peer].sends[rank];
      for (size_t i = 0; i < std::min(awaits.size(), sends.size()); ++i) {
        if (sends[i] > awaits[i] && all[rank].first_send <= awaits[i]) return false;
      }
    }
  }
  return true;
}

}  // namespace tutti::comm
