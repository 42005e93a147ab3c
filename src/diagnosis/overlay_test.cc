// The notice of a loss reaches every rank: the graph of the overlay is flooded as PeerWatch does
// it.
#include "src/diagnosis/overlay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <set>

#include "src/base/prng.h"
#include "src/group/levels.h"

namespace tutti::diagnosis {
namespace {

using Ranks = uint64_t;  // a bit each

constexpr Ranks bit(int rank) { return Ranks{1} << rank; }

struct Group {
  explicit Group(std::vector<int> hosts) : first(std::move(hosts)), links(first.size()) {
    const std::set<int> firsts(first.begin(), first.end());
    const std::vector<int> ring(firsts.begin(), firsts.end());
    for (int rank = 0; rank < ranks(); ++rank) peers.push_back(overlay_peers(ring, rank));
    for (int rank = 0; rank < ranks(); ++rank) {
      Ranks& linked = links[static_cast<size_t>(rank)];
      for (int other = 0; other < ranks(); ++other) {
        if (other != rank && host_of(other) == host_of(rank)) linked |= bit(other);
      }
      for (int peer : peers_of(rank)) linked |= bit(peer);
    }
  }

  int ranks() const { return static_cast<int>(first.size()); }
  int host_of(int rank) const { return first[static_cast<size_t>(rank)]; }
  int hosts() const { return static_cast<int>(std::set<int>(first.begin(), first.end()).size()); }
  const std::vector<int>& peers_of(int rank) const { return peers[static_cast<size_t>(rank)]; }
  Ranks all() const { return ranks() == 64 ? ~Ranks{0} : bit(ranks()) - 1; }
  Ranks linked_with(Ranks some) const {
    Ranks linked = 0;
    for (; some != 0; some &= some - 1)
      linked |= links[static_cast<size_t>(std::countr_zero(some))];
    return linked;
  }

  std::vector<int> first;
  std::vector<std::vector<int>> peers;
  std::vector<Ranks> links;  // the same host, or the overlay
};

struct Flood {
  Ranks knows = 0;  // that somebody died
  int steps = 0;    // of telling it on; who is linked with the dead sees it
};

Flood flood(const Group& group, Ranks dead, Ranks stopped) {
  Flood flood;
  for (Ranks fresh = group.linked_with(dead) & ~dead; fresh != 0; ++flood.steps) {
    flood.knows |= fresh;
    fresh = group.linked_with(fresh & ~stopped) & ~dead & ~flood.knows;
  }
  return flood;
}

void expect_all_know(const Group& group, Ranks dead, Ranks stopped) {
  const Ranks unknowing = group.all() & ~dead & ~stopped & ~flood(group, dead, stopped).knows;
  ASSERT_EQ(unknowing, 0u) << group.ranks() << " ranks on " << group.hosts() << " hosts, dead "
                           << dead << ", stopped " << stopped;
}

/// Hosts of `size` ranks each; the last one may be smaller.
Group in_blocks(int ranks, int size) {
  std::vector<int> first;
  for (int rank = 0; rank < ranks; ++rank) first.push_back(rank / size * size);
  return Group(first);
}

Group scattered(int ranks, uint64_t seed) {
  Prng random(seed);
  std::vector<std::string> texts;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string host = std::to_string(random.below(static_cast<uint64_t>(ranks)));
    texts.push_back(host == "0" ? "" : host);  // alone
  }
  const std::vector<std::vector<std::string>> of_one_transport = {texts};
  const auto nodes = group::nodes_of(of_one_transport, static_cast<size_t>(ranks));
  return Group(std::vector<int>(nodes[0].begin(), nodes[0].end()));
}

std::vector<Group> groups_of(int ranks) {
  std::vector<Group> groups;
  for (int size : {1, 2, 3, 8, ranks}) groups.push_back(in_blocks(ranks, size));
  for (uint64_t seed = 1; seed <= 3; ++seed) groups.push_back(scattered(ranks, seed));
  return groups;
}

TEST(Overlay, IsSymmetricSmallAndBetweenFirstRanks) {
  for (int ranks = 1; ranks <= 64; ++ranks) {
    for (const Group& group : groups_of(ranks)) {
      const int most = 2 * std::bit_width(static_cast<unsigned>(group.hosts() - 1));
      for (int rank = 0; rank < ranks; ++rank) {
        EXPECT_LE(static_cast<int>(group.peers_of(rank).size()), most);
        for (int peer : group.peers_of(rank)) {
          EXPECT_EQ(group.host_of(peer), peer);
          EXPECT_EQ(group.host_of(rank), rank);
          EXPECT_TRUE(std::ranges::binary_search(group.peers_of(peer), rank));
        }
      }
    }
  }
}

TEST(Overlay, AnyDeathReachesEverySurvivorInFewSteps) {
  for (int ranks = 2; ranks <= 64; ++ranks) {
    for (const Group& group : groups_of(ranks)) {
      const int most = std::bit_width(static_cast<unsigned>(group.hosts())) + 1;
      for (int gone = 0; gone < ranks; ++gone) {
        expect_all_know(group, bit(gone), 0);
        EXPECT_LE(flood(group, bit(gone), 0).steps, most) << ranks << " ranks";
      }
    }
  }
}

TEST(Overlay, WhoeverElseIsDeadTooEverySurvivorLearnsOfADeath) {
  for (int ranks = 3; ranks <= 64; ++ranks) {
    Prng random(static_cast<uint64_t>(ranks));
    for (const Group& group : groups_of(ranks)) {
      for (int gone = 0; gone < ranks; ++gone) {
        for (int other = 0; other < gone; ++other) {
          expect_all_know(group, bit(gone) | bit(other), 0);
        }
        Ranks many = bit(gone);
        const uint64_t more = random.below(static_cast<uint64_t>(ranks));
        for (uint64_t i = 0; i < more; ++i) {
          many |= bit(static_cast<int>(random.below(static_cast<uint64_t>(ranks))));
        }
        expect_all_know(group, many, 0);
      }
    }
  }
}

// Of a host with several ranks, its first one would hide what it is told.
TEST(Overlay, AStoppedRankHidesNoDeathOfAnother) {
  for (int ranks = 3; ranks <= 64; ++ranks) {
    const Group group = in_blocks(ranks, 1);
    for (int gone = 0; gone < ranks; ++gone) {
      for (int stopped = 0; stopped < ranks; ++stopped) {
        if (stopped != gone) expect_all_know(group, bit(gone), bit(stopped));
      }
    }
  }
}

// The check itself: in a ring of nearest neighbours two stopped ranks cut the others off.
TEST(Overlay, AGraphWithTooFewConnectionsIsFound) {
  Group ring = in_blocks(8, 1);
  for (int rank = 0; rank < 8; ++rank) {
    ring.links[static_cast<size_t>(rank)] = bit((rank + 1) % 8) | bit((rank + 7) % 8);
  }
  const Ranks stopped = bit(1) | bit(7);
  EXPECT_EQ(flood(ring, bit(0), stopped).knows & bit(4), 0u);
  EXPECT_NE(flood(in_blocks(8, 1), bit(0), stopped).knows & bit(4), 0u);
}

}  // namespace
}  // namespace tutti::diagnosis
