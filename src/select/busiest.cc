#include "src/select/busiest.h"

#include <algorithm>

namespace tutti::select {
namespace {

using schedule::RankTraffic;

double moved_by(const RankTraffic& at) { return at.published + at.moved; }

// By streams a rank works for what it sends and for what it receives; in memory that all map who
// sends does the work.
uint32_t messages_of(const RankTraffic& at, const PricedLevel& level) {
  return level.maps ? schedule::messages_of(at) : at.sent + at.received;
}

/// The bytes that a rank sends, or those that it receives: both go on at the same time.
struct BusyWay {
  const RankUse* rank = nullptr;
  double RankTraffic::*bytes = nullptr;
};

double time_of(const BusyWay& way, std::span<const PricedLevel> priced) {
  double time = 0;
  for (size_t i = 0; i < priced.size(); ++i) {
    const RankTraffic& at = (*way.rank->traffic)[i];
    const double bytes = at.*way.bytes;
    const double links = bytes > 0 ? way.rank->links_ns_per_byte[i] : 0;
    time += std::max(bytes * priced[i].link.wire_ns_per_byte, links) +
            moved_by(at) * priced[i].link.moved_ns_per_byte;
  }
  return time;
}

double messages_time(const RankUse& rank, std::span<const PricedLevel> priced) {
  double time = 0;
  for (size_t i = 0; i < priced.size(); ++i) {
    time += messages_of((*rank.traffic)[i], priced[i]) * priced[i].link.message_ns;
  }
  return time;
}

}  // namespace

void take_busiest(std::span<const RankUse> ranks, std::span<const PricedLevel> priced,
                  std::vector<LevelUse>& uses) {
  const RankUse* of_messages = nullptr;
  BusyWay of_bytes;
  double most_messages = -1, most_bytes = -1;
  for (const RankUse& rank : ranks) {
    if (const double time = messages_time(rank, priced); time > most_messages) {
      of_messages = &rank;
      most_messages = time;
    }
    for (const auto bytes : {&RankTraffic::bytes_sent, &RankTraffic::bytes_received}) {
      const BusyWay way{&rank, bytes};
      if (const double time = time_of(way, priced); time > most_bytes) {
        of_bytes = way;
        most_bytes = time;
      }
    }
  }
  for (size_t i = 0; i < uses.size(); ++i) {
    for (const RankUse& rank : ranks) {
      const RankTraffic& at = (*rank.traffic)[i];
      uses[i].message_bytes =
          std::max({uses[i].message_bytes, at.bytes_sent / std::max(1u, at.sent),
                    at.bytes_received / std::max(1u, at.received)});
    }
    const RankTraffic& at = (*of_bytes.rank->traffic)[i];
    uses[i].cost.messages = messages_of((*of_messages->traffic)[i], priced[i]);
    uses[i].cost.bytes = at.*of_bytes.bytes;
    uses[i].cost.moved = moved_by(at);
    uses[i].links_ns_per_byte = uses[i].cost.bytes > 0 ? of_bytes.rank->links_ns_per_byte[i] : 0;
  }
}

}  // namespace tutti::select
