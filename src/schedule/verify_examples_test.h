// Small algorithms for the tests of this folder, written as an algorithm's author would.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "src/schedule/builder.h"
#include "src/schedule/layout.h"
#include "src/schedule/text.h"

namespace tutti::schedule::examples {

inline Shape shape_of(Collective collective, int ranks, uint32_t input, uint32_t output,
                      uint16_t lanes = 1) {
  Shape shape;
  shape.collective = collective;
  shape.ranks = ranks;
  shape.lanes = lanes;
  shape.input = Partition::equal(input);
  shape.output = Partition::equal(output);
  return shape;
}

template <class Write>
ScheduleSet make(Shape shape, Write write) {
  ScheduleSet set;
  set.shape = std::move(shape);
  for (int rank = 0; rank < set.shape.ranks; ++rank) {
    Builder builder(rank);
    write(builder, rank);
    set.schedules.push_back(std::move(builder).finish());
  }
  return set;
}

inline std::vector<int> others(int ranks, int rank) {
  std::vector<int> peers;
  for (int peer = 0; peer < ranks; ++peer) {
    if (peer != rank) peers.push_back(peer);
  }
  return peers;
}

/// All ranks' messages and the local block, in rank order.
inline std::vector<MoveSource> everyone(int ranks, int rank, const Block& mine) {
  std::vector<MoveSource> sources;
  for (int peer = 0; peer < ranks; ++peer) {
    sources.push_back(peer == rank ? MoveSource::local(mine) : MoveSource::message(peer));
  }
  return sources;
}

/// Everybody sends everything to everybody.
inline ScheduleSet one_shot(int ranks, Fold fold = Fold::kTree) {
  return make(shape_of(Collective::kAllReduce, ranks, 1, 1), [&](Builder& b, int rank) {
    if (ranks > 1) b.send(input(0), others(ranks, rank));
    const Block mine = input(0);
    b.move(output(0), everyone(ranks, rank, mine), fold);
  });
}

/// Reduce-scatter, then all-gather, each with direct messages.
inline ScheduleSet two_shot(int ranks, Fold fold = Fold::kTree) {
  const auto n = static_cast<uint32_t>(ranks);
  return make(shape_of(Collective::kAllReduce, ranks, n, n), [&](Builder& b, int rank) {
    const auto me = static_cast<uint32_t>(rank);
    for (int peer : others(ranks, rank)) b.send(input(static_cast<uint32_t>(peer)), peer);
    const Block mine = input(me);
    b.move(output(me), everyone(ranks, rank, mine), fold);
    if (ranks > 1) b.send(output(me), others(ranks, rank));
    for (int peer : others(ranks, rank)) b.receive(output(static_cast<uint32_t>(peer)), peer);
  });
}

/// The ring, once around to reduce and once to gather; odd lanes run the other way.
inline ScheduleSet ring(int ranks, uint16_t lanes = 1) {
  const auto n = static_cast<uint32_t>(ranks);
  const uint32_t blocks = n * lanes;
  return make(
      shape_of(Collective::kAllReduce, ranks, blocks, blocks, lanes), [&](Builder& b, int rank) {
        if (ranks == 1) {
          for (uint32_t i = 0; i < lanes; ++i) b.copy(output(i), input(i));
          return;
        }
        for (uint32_t step = 0; step < 2 * (n - 1); ++step) {
          for (uint16_t lane = 0; lane < lanes; ++lane) {
            const int way = lane % 2 == 0 ? 1 : ranks - 1;
            const auto at = [&](uint32_t back) {  // the block that is `back` steps behind this rank
              const auto place = static_cast<uint32_t>(rank + way * static_cast<int>(2 * n - back));
              return lane * n + place % n;
            };
            b.lane(lane);
            const uint32_t sent = at(step);
            b.send(step == 0 ? input(sent) : output(sent), (rank + way) % ranks);
            const int from = (rank + ranks - way) % ranks;
            const uint32_t got = at(step + 1);
            const Block mine = input(got);
            const MoveSource sources[] = {MoveSource::message(from), MoveSource::local(mine)};
            if (step < n - 1) b.move(output(got), sources);
            if (step >= n - 1) b.receive(output(got), from);
          }
        }
      });
}

inline ScheduleSet gather_direct(int ranks) {
  const auto n = static_cast<uint32_t>(ranks);
  return make(shape_of(Collective::kAllGather, ranks, 1, n), [&](Builder& b, int rank) {
    if (ranks > 1) b.send(input(0), others(ranks, rank));
    b.copy(output(static_cast<uint32_t>(rank)), input(0));
    for (int peer : others(ranks, rank)) b.receive(output(static_cast<uint32_t>(peer)), peer);
  });
}

inline ScheduleSet scatter_direct(int ranks) {
  const auto n = static_cast<uint32_t>(ranks);
  return make(shape_of(Collective::kReduceScatter, ranks, n, 1), [&](Builder& b, int rank) {
    for (int peer : others(ranks, rank)) b.send(input(static_cast<uint32_t>(peer)), peer);
    const Block mine = input(static_cast<uint32_t>(rank));
    b.move(output(0), everyone(ranks, rank, mine), Fold::kTree);
  });
}

inline ScheduleSet exchange_direct(int ranks) {
  const auto n = static_cast<uint32_t>(ranks);
  return make(shape_of(Collective::kAllToAll, ranks, n, n), [&](Builder& b, int rank) {
    for (int peer : others(ranks, rank)) b.send(input(static_cast<uint32_t>(peer)), peer);
    b.copy(output(static_cast<uint32_t>(rank)), input(static_cast<uint32_t>(rank)));
    for (int peer : others(ranks, rank)) b.receive(output(static_cast<uint32_t>(peer)), peer);
  });
}

/// Three ranks; 0 sends its block for 2 through 1.
inline ScheduleSet exchange_relayed() {
  return make(shape_of(Collective::kAllToAll, 3, 3, 3), [](Builder& b, int rank) {
    const auto me = static_cast<uint32_t>(rank);
    b.copy(output(me), input(me));
    for (int peer : others(3, rank)) {
      const bool relayed = rank == 0 && peer == 2;
      b.send(input(static_cast<uint32_t>(peer)), relayed ? 1 : peer);
    }
    if (rank == 1) {
      const Block kept = b.scratch(input(2));
      b.receive(output(0), 0);
      b.receive(kept, 0);
      b.send(kept, 2);
      b.receive(output(2), 2);
    } else if (rank == 0) {
      b.receive(output(1), 1);
      b.receive(output(2), 2);
    } else {
      b.receive(output(1), 1);
      b.receive(output(0), 1);
    }
  });
}

inline ScheduleSet broadcast_chain(int ranks, int root) {
  Shape shape = shape_of(Collective::kBroadcast, ranks, 1, 1);
  shape.root = root;
  return make(shape, [&](Builder& b, int rank) {
    const int place = (rank - root + ranks) % ranks;
    if (place == 0) b.copy(output(0), input(0));
    if (place != 0) b.receive(output(0), (rank + ranks - 1) % ranks);
    if (place + 1 < ranks) b.send(place == 0 ? input(0) : output(0), (rank + 1) % ranks);
  });
}

/// Dissemination.
inline ScheduleSet barrier(int ranks) {
  return make(shape_of(Collective::kBarrier, ranks, 0, 0), [&](Builder& b, int rank) {
    for (int far = 1; far < ranks; far *= 2) {
      b.send(std::span<const Block>{}, (rank + far) % ranks);
      b.receive(std::span<const Block>{}, (rank + ranks - far) % ranks);
    }
  });
}

/// Recursive doubling over a power of two of ranks: the near rank first, or the far one.
inline ScheduleSet doubling(int ranks, bool near_first = true) {
  return make(shape_of(Collective::kAllReduce, ranks, 1, 1), [&](Builder& b, int rank) {
    const Block sum = output(0);
    b.copy(sum, input(0));
    for (int k = 1; k < ranks; k *= 2) {
      const int mate = rank ^ (near_first ? k : ranks / 2 / k);
      const MoveSource sources[] = {MoveSource::local(sum), MoveSource::message(mate)};
      b.send(sum, mate);
      b.move(sum, sources);
    }
  });
}

}  // namespace tutti::schedule::examples
