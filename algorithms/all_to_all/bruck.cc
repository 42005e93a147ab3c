#include "algorithms/all_to_all/bruck.h"

#include <bit>
#include <vector>

#include "algorithms/patterns/exchange.h"
#include "algorithms/patterns/shape.h"
#include "src/schedule/builder.h"

namespace tutti::algorithms::all_to_all {

using namespace schedule;

namespace {

// A block is named by the distance it travels: one hop for every bit, the lowest first.
int first_hop(int distance) { return std::countr_zero(static_cast<unsigned>(distance)); }
int last_hop(int distance) { return std::bit_width(static_cast<unsigned>(distance)) - 1; }
bool is_forwarded(int distance) { return first_hop(distance) != last_hop(distance); }

// In place, where the block for `distance` further lies, one arrives that travels the rest of the
// circle: whether it comes before the other has left.
bool is_in_the_way(int ranks, int distance) {
  return first_hop(distance) > last_hop(ranks - distance);
}

Schedule schedule_of(const Parameters& p, int rank) {
  Builder builder(rank);
  const int n = p.ranks;
  // By distance: where the block lies that passes through here, and where it waits to hop on.
  std::vector<Block> held = {input(rank)};
  std::vector<Block> waits = {input(rank)};
  for (int distance = 1; distance < n; ++distance) {
    const Block leaving = input((rank + distance) % n);
    const bool moves_out = is_in_the_way(n, distance);
    const bool stays = moves_out || is_forwarded(distance);
    waits.push_back(stays ? builder.scratch(leaving) : leaving);
    held.push_back(moves_out ? waits[distance] : leaving);
    if (moves_out) builder.copy(waits[distance], leaving);
  }
  for (int hop = 0; hop < patterns::doubling_rounds(n); ++hop) {
    std::vector<Block> sent;
    std::vector<Block> received;
    for (int distance = 1 << hop; distance < n; ++distance) {
      if ((distance >> hop & 1) == 0) continue;
      sent.push_back(held[distance]);
      const bool arrives = hop == last_hop(distance);
      held[distance] = arrives ? output((rank - distance + n) % n) : waits[distance];
      received.push_back(held[distance]);
    }
    builder.send(sent, (rank + (1 << hop)) % n);
    builder.receive(received, (rank - (1 << hop) + n) % n);
  }
  builder.copy(output(rank), input(rank));
  return std::move(builder).finish();
}

Cost cost_of(const Parameters& p) {
  const auto rounds = static_cast<uint32_t>(patterns::doubling_rounds(p.ranks));
  uint64_t hops = 0;
  uint64_t scratch = 0;
  for (int distance = 1; distance < p.ranks; ++distance) {
    hops += std::popcount(static_cast<unsigned>(distance));
    if (is_forwarded(distance) || is_in_the_way(p.ranks, distance)) ++scratch;
  }
  return patterns::balanced(p.ranks, {.depth = rounds,
                                      .messages = rounds,
                                      .bytes = Fraction::of(hops, 1),
                                      .published = Fraction::of(hops, 1),
                                      .scratch = Fraction::of(scratch, 1)});
}

}  // namespace

Algorithm bruck() {
  return {
      .collective = Collective::kAllToAll,
      .name = "bruck",
      .summary = "blocks travel by the powers of two in their distance, many in one message",
      .wins = "very small counts on many ranks",
      .source = "Bruck, Ho, Kipnis, Upfal, Weathersby 1997",
      .forwards = true,
      .shape = patterns::shape_of<Collective::kAllToAll>,
      .schedule = schedule_of,
      .cost = cost_of,
  };
}

}  // namespace tutti::algorithms::all_to_all
