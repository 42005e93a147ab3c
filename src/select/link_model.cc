#include "src/select/link_model.h"

#include <algorithm>

namespace tutti::select {
namespace {

// The kinds of link there are. Of mapped memory: with a core for every rank.
constexpr LinkModel kMapped{
    .latency_ns = 200, .message_ns = 50, .moved_ns_per_byte = 0.09, .work_ns_per_byte = 0.09};
constexpr LinkModel kStream{.latency_ns = 20'000, .message_ns = 2'000, .wire_ns_per_byte = 0.7};
// A stream waits for the counter of another one, which a hand-over costs; a message is a copy or a
// source of a fold. Bytes that cross between devices count as much as those that stay in one: links
// and kernels of a few blocks are alike (constants of the order of an H100's, not fitted).
constexpr LinkModel kDeviceStreams{
    .latency_ns = 10'000, .message_ns = 1'000, .moved_ns_per_byte = 0.005};
// With more ranks than cores every wait is a turn of the scheduler.
constexpr double kTurnNs = 4'000;

double value(schedule::Fraction fraction) {
  return static_cast<double>(fraction.num) / static_cast<double>(fraction.den);
}

}  // namespace

LinkModel model_of(const group::Reach& reach, const Crowd& crowd) {
  if (!reach.map) return kStream;
  const int cores = std::max(1, crowd.cores);
  const double share = std::max(1.0, static_cast<double>(crowd.ranks) / cores);
  LinkModel model = kMapped;
  if (crowd.ranks > cores) model.latency_ns = kTurnNs * share;
  model.message_ns *= share;
  model.work_ns_per_byte /= cores;
  return model;
}

LinkModel model_of_device_streams() { return kDeviceStreams; }

double predict_ns(const schedule::Cost& cost, const LinkModel& link, double count_bytes) {
  return predict_ns(schedule::LevelCost{.depth = cost.depth,
                                        .messages = cost.messages,
                                        .bytes = value(cost.bytes),
                                        .moved = value(cost.moved),
                                        .work = value(cost.work)},
                    link, count_bytes);
}

double predict_ns(const schedule::LevelCost& cost, const LinkModel& link, double count_bytes) {
  return cost.depth * link.latency_ns + cost.messages * link.message_ns +
         cost.bytes * count_bytes * link.wire_ns_per_byte +
         std::max(cost.moved * link.moved_ns_per_byte, cost.work * link.work_ns_per_byte) *
             count_bytes;
}

}  // namespace tutti::select
