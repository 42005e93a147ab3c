#include "algorithms/all_to_all/bruck.h"

#include <bit>
#include <vector>

#include "algorithms/patterns/exchange.h"
#include "src/schedule/builder.h"

namespace tutti::algorithms::all_to_all {

using namespace schedule;

namespace {

// Blocks are named by how far they travel: by the bits of that distance, in as many hops as it has
// bits.
int first_hop(int distance) { return std::countr_zero(static_cast<unsigned>(distance)); }
int last_hop(int distance) { return std::bit_width(static_cast<unsigned>(distance)) - 1; }
bool is_forwarded(int distance) { return first_hop(distance) != last_hop(distance); }

// A block that arrives from `ranks - distance` before takes, in place, the place of the one that
// leaves for `distance` further: whether it comes too early.
bool is_in_the_way(int ranks, int distance) {
  return first_hop(distance) > last_hop(ranks - distance);
}

Shape shape_of(const Parameters& p) {
  return {.collective = Collective::kAllToAll,
          .ranks = p.ranks,
          .input = Partition::equal(static_cast<uint32_t>(p.ranks)),
          .output = Partition::equal(static_cast<uint32_t>(p.ranks))};
}

Schedule schedule_of(const Parameters& p, int rank) {
  Builder builder(rank);
  const int n = p.ranks;
  std::vector<Block> here;     // by distance: where the block that passes through here lies now
  std::vector<Block> passing;  // where it stays until its next hop
  for (int distance = 0; distance < n; ++distance) {
    const Block leaving = input((rank + distance) % n);
    const bool moves_out = distance > 0 && is_in_the_way(n, distance);
    const bool stays = distance > 0 && (moves_out || is_forwarded(distance));
    here.push_back(leaving);
    passing.push_back(stays ? builder.scratch(leaving) : leaving);
    if (!moves_out) continue;
    builder.copy(passing[distance], leaving);
    here[distance] = passing[distance];
  }
  for (int hop = 0; hop < patterns::doubling_rounds(n); ++hop) {
    std::vector<Block> sent;
    std::vector<Block> received;
    for (int distance = 1 << hop; distance < n; ++distance) {
      if ((distance >> hop & 1) == 0) continue;
      sent.push_back(here[distance]);
      const bool arrives = hop == last_hop(distance);
      here[distance] = arrives ? output((rank - distance + n) % n) : passing[distance];
      received.push_back(here[distance]);
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
  return {.depth = rounds,
          .messages = rounds,
          .bytes = Fraction::of(hops, 1),
          .published = Fraction::of(hops, 1),
          .scratch = Fraction::of(scratch, 1)};
}

}  // namespace

Algorithm bruck() {
  return {
      .collective = Collective::kAllToAll,
      .name = "bruck",
      .summary = "blocks travel by the powers of two in their distance, many in one message",
      .wins = "very small counts on many ranks",
      .source = "Bruck, Ho, Kipnis, Upfal, Weathersby 1997",
      .shape = shape_of,
      .schedule = schedule_of,
      .cost = cost_of,
  };
}

}  // namespace tutti::algorithms::all_to_all
