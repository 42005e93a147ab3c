// The messages that a rank exchanges with its peers in one slice, for questions about how far a
// call has come. No plan needs them to run, so they are not kept but made from the match when asked
// for.
//
// Threads: values.
// Errors:  none.
#pragma once

#include <cstdint>
#include <span>

#include "src/plan/match.h"

namespace tutti::plan {

/// One message of this rank's to or from one peer.
struct Exchange {
  uint32_t peer = 0;
  bool sends = false;
  uint16_t lane = 0;
  uint32_t step = 0;                  // of the schedule
  const NearMessage* near = nullptr;  // null: it travels by stream
  uint32_t ordinal = 0;               // by stream: as StreamSend and StreamReceive number them
  std::span<const schedule::Block> blocks;
};

/// Calls visit(exchange) for every message, by lane. Allocates nothing.
template <class Visit>
void each_exchange(const Match& match, Visit visit) {
  const schedule::Schedule& mine = match.schedule;
  for (uint16_t lane = 0; lane < match.lanes.size(); ++lane) {
    uint32_t sends = 0, receives = 0;
    for (uint32_t i = 0; i < mine.steps.size(); ++i) {
      const schedule::Step& step = mine.steps[i];
      if (step.lane != lane) continue;
      const MatchedStep& matched = match.steps[i];
      Exchange exchange{.lane = lane, .step = i, .blocks = mine.blocks_of(step)};
      const auto tell = [&](int peer, const NearMessage* near, uint32_t& ordinals) {
        exchange.peer = static_cast<uint32_t>(peer);
        exchange.near = near;
        exchange.ordinal = near == nullptr ? ordinals++ : 0;
        visit(exchange);
      };
      if (step.kind == schedule::StepKind::kSend) {
        exchange.sends = true;
        for (const uint32_t peer : mine.peers_of(step)) {
          const auto rank = static_cast<int>(peer);
          tell(rank, match.group->near(mine.rank, rank) ? &matched.message : nullptr, sends);
        }
        continue;
      }
      uint32_t arrival = matched.arrivals;
      for (const schedule::Source source : mine.sources_of(step)) {
        if (!source.is_message()) continue;
        const bool near = match.group->near(mine.rank, source.peer());
        tell(source.peer(), near ? &match.arrivals[arrival++] : nullptr, receives);
      }
    }
  }
}

}  // namespace tutti::plan
