#include "src/select/link_model.h"

#include <algorithm>

namespace tutti::select {
namespace {

double value(schedule::Fraction fraction) {
  return static_cast<double>(fraction.num) / static_cast<double>(fraction.den);
}

}  // namespace

schedule::LevelCost level_cost(const schedule::Cost& cost) {
  return {.depth = cost.depth,
          .span = cost.depth,
          .path = value(cost.bytes),
          .messages = cost.messages,
          .bytes = value(cost.bytes),
          .moved = value(cost.moved),
          .work = value(cost.work)};
}

double predict_ns(const schedule::Cost& cost, const LinkModel& link, double count_bytes) {
  return predict_ns(LevelUse{level_cost(cost), 0}, link, count_bytes);
}

double predict_ns(const LevelUse& use, const LinkModel& link, double count_bytes,
                  const WirePrice& wire) {
  const schedule::LevelCost& cost = use.cost;
  const double measured = link.rates.empty() || cost.moved <= 0
                              ? 1
                              : rate_at(link.rates, cost.moved * count_bytes).staged_ns_per_byte /
                                    link.moved_ns_per_byte;
  return cost.depth * link.latency_ns + cost.messages * link.message_ns +
         (std::max(cost.bytes * link.wire_ns_per_byte, use.links_ns_per_byte) * wire.share +
          cost.bytes * wire.ns_per_byte +
          std::max(cost.moved * link.moved_ns_per_byte, cost.work * link.work_ns_per_byte) *
              measured) *
             count_bytes;
}

}  // namespace tutti::select
