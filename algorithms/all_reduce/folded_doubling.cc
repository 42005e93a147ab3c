#include "algorithms/all_reduce/folded_doubling.h"

#include <bit>
#include <utility>

#include "algorithms/patterns/shape.h"
#include "src/schedule/builder.h"

namespace tutti::algorithms::all_reduce {

using namespace schedule;

namespace {

int rounds_of(int ranks) { return std::bit_width(static_cast<unsigned>(ranks)) - 1; }

// Pairs that are one place of the doubling.
int pairs_of(int ranks) { return ranks - (1 << rounds_of(ranks)); }

// The rank that takes part for a place.
int rank_at(int pairs, int place) { return place < pairs ? 2 * place : place + pairs; }

int place_of(int pairs, int rank) { return rank < 2 * pairs ? rank / 2 : rank - pairs; }

Schedule schedule_of(const Parameters& p, int rank) {
  Builder builder(rank);
  const int pairs = pairs_of(p.ranks);
  const bool is_paired = rank < 2 * pairs;
  if (is_paired && rank % 2 == 1) {
    builder.send(input(0), rank - 1);
    builder.receive(output(0), rank - 1);
    return std::move(builder).finish();
  }
  Block sum = input(0);
  const auto fold = [&](int peer, bool peer_is_lower) {
    MoveSource sources[] = {MoveSource::local(sum), MoveSource::message(peer)};
    if (peer_is_lower) std::swap(sources[0], sources[1]);
    builder.move(output(0), sources);
    sum = output(0);
  };
  if (is_paired) fold(rank + 1, false);
  const int place = place_of(pairs, rank);
  for (int round = 0; round < rounds_of(p.ranks); ++round) {
    const int other = place ^ (1 << round);
    builder.send(sum, rank_at(pairs, other));
    fold(rank_at(pairs, other), other < place);
  }
  if (is_paired) builder.send(sum, rank + 1);
  if (p.ranks == 1) builder.copy(output(0), input(0));
  return std::move(builder).finish();
}

// A chain of messages through all rounds ends at the place whose number is the complement of the
// first's. Both are pairs only where pairs are more than half of the places.
Cost cost_of(const Parameters& p) {
  const auto rounds = static_cast<uint32_t>(rounds_of(p.ranks));
  const auto pairs = static_cast<uint64_t>(pairs_of(p.ranks));
  const uint32_t messages = rounds + (pairs > 0 ? 1 : 0);
  return {.depth = messages + (2 * pairs > uint64_t{1} << rounds ? 1 : 0),
          .messages = messages,
          .bytes = Fraction::of(messages, 1),
          .published = Fraction::of(messages, 1),
          .moved = Fraction::of(2 * messages, 1),
          .work = Fraction::of((uint64_t{2} * rounds << rounds) + 4 * pairs, 1),
          .scratch = {}};
}

}  // namespace

Algorithm folded_doubling() {
  return {
      .collective = Collective::kAllReduce,
      .name = "folded_doubling",
      .summary = "recursive doubling among a power of two of ranks; the others go through one each",
      .wins = "small counts over a network, where the number of ranks is no power of two",
      .source = "Rabenseifner 2004",
      .shape = patterns::shape_of<Collective::kAllReduce>,
      .schedule = schedule_of,
      .cost = cost_of,
  };
}

}  // namespace tutti::algorithms::all_reduce
