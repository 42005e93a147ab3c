// The costs of calls by what is counted of them: the numbers by which algorithms are compared.
//
// The prediction is alpha-beta: depth * latency + messages * overhead + wire bytes * wire +
// max(moved * copy, work * copy / cores). Over a network the wire of the busiest rank takes time;
// where memory is mapped all ranks' copies share the cores: a call takes no less than its busiest
// rank, and no less than all of the work spread over all cores (Brent 1974). Where the ranks have
// measured their copies, a byte costs what it did in a call that moved as much.
//
// Threads: values. Units: nanoseconds, and nanoseconds per byte. Errors: none.
#pragma once

#include "src/schedule/level_cost.h"
#include "src/select/model.h"

namespace tutti::select {

/// The part of a call at one level.
struct LevelUse {
  schedule::LevelCost cost;
  // For each byte of one `count`, of the busiest of the links that carry what the level joins.
  double links_ns_per_byte = 0;
  // Of the rank whose messages are the longest, on average; 0: as long as the cost says.
  double message_bytes = 0;
};

/// How the messages of a level are encoded.
struct WirePrice {
  double share = 1;        // of the bytes cross
  double ns_per_byte = 0;  // of elements, to encode and decode them by a core of the busiest rank
};

/// How long a call of `count_bytes` takes.
double predict_ns(const schedule::Cost& cost, const LinkModel& link, double count_bytes);
/// The part of it that one level takes.
double predict_ns(const LevelUse& use, const LinkModel& link, double count_bytes,
                  const WirePrice& wire = {});

/// Of one level.
schedule::LevelCost level_cost(const schedule::Cost& cost);

}  // namespace tutti::select
