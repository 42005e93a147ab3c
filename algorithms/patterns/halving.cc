#include "algorithms/patterns/halving.h"

#include <algorithm>
#include <bit>

#include "algorithms/patterns/exchange.h"

namespace tutti::algorithms::patterns {
namespace {

// One rank's view of a round: its group and the one that it joins.
struct Pairing {
  int size = 1;     // 2^round
  int mine = 0;     // first rank of my group
  int other = 0;    // first rank of the other one
  int members = 0;  // of the upper group; the lower one has `size`
  bool joins = false;
  bool lower = false;

  static Pairing of(int ranks, int round, int rank) {
    Pairing pairing;
    pairing.size = 1 << round;
    pairing.mine = rank / pairing.size * pairing.size;
    pairing.other = pairing.mine ^ pairing.size;
    pairing.joins = pairing.other < ranks;
    pairing.lower = pairing.mine < pairing.other;
    const int upper = std::max(pairing.mine, pairing.other);
    pairing.members = std::min(pairing.size, ranks - upper);
    return pairing;
  }
};

// The member that holds the shares of this place in a group of so many members.
int holder_of(int place, int members) {
  while (place >= members) {
    place -= static_cast<int>(std::bit_floor(static_cast<unsigned>(place)));
  }
  return place;
}

std::vector<int> shares_of(int ranks, int modulus, int residue) {
  std::vector<int> shares;
  for (int share = residue; share < ranks; share += modulus) shares.push_back(share);
  return shares;
}

uint64_t count_shares(int ranks, int modulus, int residue) {
  return residue < ranks ? static_cast<uint64_t>((ranks - 1 - residue) / modulus + 1) : 0;
}

// Which shares of `place` end in the lower group: all, where the upper one has no such place.
int kept_modulus(const Pairing& pairing, int place) {
  return place < pairing.members ? 2 * pairing.size : pairing.size;
}

}  // namespace

HalvingRound halving_round(int ranks, int round, int rank) {
  const Pairing pairing = Pairing::of(ranks, round, rank);
  HalvingRound result;
  if (!pairing.joins) return result;
  const int size = pairing.size;
  const int place = rank - pairing.mine;
  if (pairing.lower) {
    if (place < pairing.members) {
      result.sends.push_back({pairing.other + place, shares_of(ranks, 2 * size, place + size)});
    }
    result.receive = {pairing.other + holder_of(place, pairing.members),
                      shares_of(ranks, kept_modulus(pairing, place), place)};
    return result;
  }
  for (int held = place; held < size; ++held) {
    if (holder_of(held, pairing.members) != place) continue;
    result.sends.push_back(
        {pairing.other + held, shares_of(ranks, kept_modulus(pairing, held), held)});
  }
  result.receive = {pairing.other + place, shares_of(ranks, 2 * size, place + size)};
  return result;
}

HalvingLoad halving_load(int ranks) {
  const auto all = static_cast<size_t>(ranks);
  std::vector<uint32_t> sent(all, 0), arrived(all, 0);
  std::vector<uint64_t> received(all, 0);
  for (int round = 0; round < doubling_rounds(ranks); ++round) {
    for (int rank = 0; rank < ranks; ++rank) {
      const Pairing pairing = Pairing::of(ranks, round, rank);
      if (!pairing.joins) continue;
      const int place = rank - pairing.mine;
      ++arrived[rank];
      if (pairing.lower) {
        ++sent[pairing.other + holder_of(place, pairing.members)];
        received[rank] += count_shares(ranks, kept_modulus(pairing, place), place);
      } else {
        ++sent[pairing.other + place];
        received[rank] += count_shares(ranks, 2 * pairing.size, place + pairing.size);
      }
    }
  }
  HalvingLoad load;
  for (size_t rank = 0; rank < all; ++rank) {
    load.messages = std::max({load.messages, sent[rank], arrived[rank]});
    load.total_messages = std::max(load.total_messages, sent[rank] + arrived[rank]);
    load.received = std::max(load.received, received[rank]);
  }
  return load;
}

}  // namespace tutti::algorithms::patterns
