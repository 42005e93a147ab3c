// What a message costs on a kind of link: the numbers by which algorithms are compared.
//
// The prediction is alpha-beta: depth * latency + messages * overhead + wire bytes * wire +
// max(moved * copy, work * copy / cores). Over a network the wire of the busiest rank takes time;
// where memory is mapped all ranks' copies share the cores: a call takes no less than its busiest
// rank, and no less than all of the work spread over all cores (Brent 1974).
//
// Threads: values. Units: nanoseconds, and nanoseconds per byte. Errors: none.
#pragma once

#include "src/group/view.h"
#include "src/schedule/level_cost.h"

namespace tutti::select {

struct LinkModel {
  double latency_ns = 0;
  double message_ns = 0;         // the sender's work per message
  double wire_ns_per_byte = 0;   // of the busiest rank's bytes
  double moved_ns_per_byte = 0;  // of the busiest rank's copies
  double work_ns_per_byte = 0;   // of all copies of a host's ranks
};

/// How the ranks of a host share its cores.
struct Crowd {
  int ranks = 1;
  int cores = 1;
};

/// The model of a link by what it can: one that maps memory, among such a crowd, or a stream.
LinkModel model_of(const group::Reach& reach, const Crowd& crowd);

/// Between streams of devices of a host, each of which copies and folds by itself.
LinkModel model_of_device_streams();

/// How long a call of `count_bytes` takes.
double predict_ns(const schedule::Cost& cost, const LinkModel& link, double count_bytes);
/// The part of it that one level takes.
double predict_ns(const schedule::LevelCost& cost, const LinkModel& link, double count_bytes);

}  // namespace tutti::select
