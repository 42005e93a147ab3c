// Communicators of meshes and exchanges, run by threads: bits as of one process, and no copies.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "src/runtime/crew_test.h"
#include "src/runtime/halves.h"
#include "tutti/runtime/communicators.h"
#include "tutti/runtime/exchange.h"

namespace tutti::runtime {
namespace {

using Names = std::vector<std::string>;
using Units = std::vector<int64_t>;

TEST(RuntimeCommunicators, EqualGroupsOfTwoMeshesAreOneCommunicator) {
  run_ranks(4, [](tuttiComm_t comm, int rank) {
    Communicators cache(comm);
    const Mesh mesh({{"tp", 2}, {"pp", 2}});
    const tuttiComm_t pp = cache.of(mesh, Names{"pp"});
    EXPECT_EQ(cache.splits(), 1);
    const Mesh moe = mesh.fold({{"ep", 2}, {"pp", 2}}, Names{"pp"});
    EXPECT_EQ(cache.of(moe, Names{"pp"}), pp);
    const tuttiComm_t tp = cache.of(mesh, Names{"tp"});
    EXPECT_EQ(cache.of(moe, Names{"ep"}), tp);
    EXPECT_EQ(cache.splits(), 2);
    int mine = rank, sum = 0;
    EXPECT_EQ(tuttiAllReduce(&mine, &sum, 1, tuttiInt32, tuttiSum, pp, tuttiBlocking()),
              tuttiSuccess);
    EXPECT_EQ(sum, rank % 2 == 0 ? 0 + 2 : 1 + 3);
    int place = -1;
    EXPECT_EQ(tuttiCommUserRank(pp, &place), tuttiSuccess);
    EXPECT_EQ(place, rank / 2);
  });
}

TEST(RuntimeCommunicators, ThePlaceInTheSetIsTheRankAndOthersGetNone) {
  run_ranks(3, [](tuttiComm_t comm, int rank) {
    Communicators cache(comm);
    const RankSet pair[] = {RankSet({2, 0})};
    const tuttiComm_t made = cache.of(pair);
    EXPECT_EQ(made == nullptr, rank == 1);
    int place = -1;
    if (made != nullptr) {
      EXPECT_EQ(tuttiCommUserRank(made, &place), tuttiSuccess);
    }
    EXPECT_EQ(place, rank == 2 ? 0 : rank == 0 ? 1 : -1);
    const RankSet overlapping[] = {RankSet({0, 1}), RankSet({1, 2})};
    EXPECT_REFUSED(cache.of(overlapping), "in two groups");
    const RankSet beyond[] = {RankSet({0, 3})};
    EXPECT_REFUSED(cache.of(beyond), "not in a communicator of 3");
    EXPECT_REFUSED(cache.of(Mesh({{"tp", 2}}), Names{"tp"}), "all ranks of the parent");
  });
}

/// The local buffer of a rank where element i of the sequence is i + 1.
std::vector<int32_t> local(const Sharding& s, int rank) {
  std::vector<int32_t> values;
  for (const Shard& shard : s.shards) {
    for (int64_t i = 0; shard.rank == rank && i < shard.length; ++i) {
      values.push_back(static_cast<int32_t>(shard.begin + i + 1));
    }
  }
  return values;
}

struct Case {
  const char* name;
  Sharding from, to;
  ExchangeWay way;
};

std::vector<Case> cases() {
  const Units routed{0, 100, 3, 7, 11, 2, 50, 0, 9, 8, 7, 6, 5, 4, 3, 2, 1, 30, 20, 10};
  Units counts(16);
  for (size_t i = 0; i < 16; ++i) counts[i] = routed[i];
  const int64_t all = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  return {{"even_to_all", even(4096, 4), replicated(4096, 4), ExchangeWay::kAllGather},
          {"ragged_to_all", ragged(4096, Units{1, 0, 2, 1}, 16), replicated(4096, 4),
           ExchangeWay::kAllGather},
          {"all_to_ragged", replicated(4096, 4), ragged(4096, Units{1, 0, 2, 1}, 16),
           ExchangeWay::kRounds},
          {"ragged_to_ragged", ragged(4096, Units{1, 0, 2, 1}, 16),
           ragged(4096, Units{2, 3, 2, 1}, 1), ExchangeWay::kRounds},
          {"routing", from_counts(counts, 4, RoutedSide::kSource),
           from_counts(counts, 4, RoutedSide::kTarget), ExchangeWay::kAllToAll},
          {"routing_back", from_counts(counts, 4, RoutedSide::kTarget),
           from_counts(counts, 4, RoutedSide::kSource), ExchangeWay::kAllToAll},
          {"even_to_zigzag", even(4096, 4), zigzag(4096, 4), ExchangeWay::kAllToAll},
          {"even_to_striped", even(4096, 4), striped(4096, 4, 64), ExchangeWay::kRounds},
          {"to_one_root", even(all * 4, 4), single_root(all * 4, 4, 3), ExchangeWay::kRounds},
          {"from_one_root", single_root(64, 4, 1), even(64, 4), ExchangeWay::kRounds}};
}

TEST(RuntimeExchange, BringsEveryElementToItsPlaceWithoutStaging) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const Resharding plan = reshard(c.from, c.to);
    run_ranks(4, [&](tuttiComm_t comm, int rank) {
      agree(comm, fingerprint(plan), "the resharding");
      Exchange exchange(plan, Bytes(4));
      EXPECT_EQ(exchange.way(), c.way);
      const std::vector<int32_t> source = local(c.from, rank), expected = local(c.to, rank);
      std::vector<int32_t> target(expected.size(), 0);
      exchange.run(comm, source.data(), target.data());
      EXPECT_EQ(target, expected);
      EXPECT_EQ(exchange.counters().reduction_scratch, Bytes(0));
      int64_t stays = 0;
      for (const Parcel& p : plan.parcels)
        stays += p.source == rank && p.target == rank ? p.length : 0;
      EXPECT_EQ(exchange.counters().copied.value, c.way == ExchangeWay::kRounds ? 4 * stays : 0);
    });
  }
}

// 3.1: the ragged all_gather runs in place and copies nothing.
TEST(RuntimeExchange, GathersRaggedSharesInOneBuffer) {
  const Sharding shares = ragged(4096, Units{1, 0, 2, 1}, 16);
  run_ranks(4, [&](tuttiComm_t comm, int rank) {
    Exchange exchange(reshard(shares, replicated(4096, 4)), Bytes(4));
    std::vector<int32_t> buffer(4096, 0), expected(4096);
    std::iota(expected.begin(), expected.end(), 1);
    for (const Shard& shard : shares.shards) {
      for (int64_t i = 0; shard.rank == rank && i < shard.length; ++i) {
        buffer[size_t(shard.begin + i)] = int32_t(shard.begin + i + 1);
      }
    }
    exchange.run(comm, buffer.data(), buffer.data());
    EXPECT_EQ(buffer, expected);
    EXPECT_EQ(exchange.counters().copied, Bytes(0));
  });
}

// Gradients: what replication handed out comes back as a sum.
TEST(RuntimeExchange, ReversedWithASumItAddsWhatEveryRankBrings) {
  const auto sum = sum_of(tuttiFloat64);
  const Sharding shares[] = {even(256, 4), ragged(256, Units{1, 0, 2, 1}, 16), striped(256, 4, 8)};
  for (const Sharding& share : shares) {
    const Resharding plan = reverse(reshard(share, replicated(256, 4)));
    run_ranks(4, [&](tuttiComm_t comm, int rank) {
      Exchange exchange(plan, Bytes(8), sum.get());
      EXPECT_EQ(exchange.way(),
                share.shards.size() > 4 ? ExchangeWay::kRounds : ExchangeWay::kReduceScatter);
      std::vector<double> source(256), target(size_t(share.local_size(rank)), -1);
      for (size_t i = 0; i < 256; ++i) source[i] = double(i) * (rank + 1);
      exchange.run(comm, source.data(), target.data());
      size_t next = 0;
      for (const Shard& shard : share.shards) {
        for (int64_t i = 0; shard.rank == rank && i < shard.length; ++i) {
          EXPECT_EQ(target[next++], double(shard.begin + i) * 10);
        }
      }
    });
  }
}

// 256 + 1 is 256 in bfloat16, and 2048 + 1 is 2048 in float16: sums that were rounded on their way
// would stay there.
TEST(RuntimeExchange, SumsOfHalvesAreAddedInFloatAndRoundedOnce) {
  struct HalfCase {
    tuttiDataType_t type;
    float large, expected;
  };
  const Resharding plan = reverse(reshard(even(8, 4), replicated(8, 4)));
  for (const HalfCase& c : {HalfCase{tuttiBfloat16, 256, 260}, {tuttiFloat16, 2048, 2052}}) {
    const auto sum = sum_of(c.type);
    const Halves halves(c.type);
    run_ranks(4, [&](tuttiComm_t comm, int rank) {
      Exchange exchange(plan, Bytes(2), sum.get());
      EXPECT_EQ(exchange.way(), ExchangeWay::kRounds);
      std::vector<float> mine(8, rank == 0 ? c.large : 1), got(2);
      if (rank == 3) mine[7] = std::numeric_limits<float>::infinity();
      std::vector<uint16_t> source(8), target(2, 77);
      halves.write(mine, source.data());
      exchange.run(comm, source.data(), target.data());
      halves.read(target.data(), got);
      EXPECT_EQ(got[0], c.expected);
      EXPECT_EQ(got[1], rank == 3 ? std::numeric_limits<float>::infinity() : c.expected);
      EXPECT_EQ(exchange.counters().reduction_scratch, Bytes(3 * 2 * 2 + 2 * 4));
    });
  }
}

TEST(RuntimeExchange, RefusesBeforeAnythingIsSent) {
  const Resharding gathered = reverse(reshard(even(8, 2), replicated(8, 2)));
  EXPECT_REFUSED(Exchange(gathered, Bytes(4)), "pass a reduction");
  EXPECT_REFUSED(Exchange(reshard(even(8, 2), zigzag(8, 2)), Bytes(0)), "give 1 or more");
  EXPECT_REFUSED(sum_of(tuttiInt8), "use tuttiFloat32");
  EXPECT_REFUSED(Exchange(Resharding{2, {1, 1}, {1, 1}, {{0, 1, 1, 0, 1}}}, Bytes(4)),
                 "leaves their buffers");
  run_ranks(2, [](tuttiComm_t comm, int) {
    Exchange exchange(reshard(even(8, 2), zigzag(8, 2)), Bytes(4));
    int buffer[8] = {};
    EXPECT_REFUSED(exchange.run(comm, buffer, nullptr), "no target buffer");
    EXPECT_REFUSED(exchange.run(comm, buffer, buffer + 2), "overlap");
    exchange.run(comm, buffer, buffer + 4);  // and still usable
    Exchange three(reshard(even(6, 3), single_root(6, 3, 0)), Bytes(4));
    EXPECT_REFUSED(three.run(comm, buffer, buffer + 4), "the communicator has 2");
  });
}

// Bytes and types: a reduction of another width would read and write beyond the buffers.
TEST(RuntimeExchange, RefusesAReductionOfAnotherWidth) {
  const auto doubles = sum_of(tuttiFloat64), floats = sum_of(tuttiFloat32);
  const Resharding rounds{2, {8, 8}, {8, 0}, {{0, 0, 0, 0, 8}, {1, 0, 0, 0, 8}}};
  const Resharding shares = reverse(reshard(even(8, 2), replicated(8, 2)));
  for (const Resharding& plan : {rounds, shares}) {
    EXPECT_REFUSED(Exchange(plan, Bytes(4), doubles.get()), "folds elements of 8");
    EXPECT_REFUSED(Exchange(plan, Bytes(8), floats.get()), "folds elements of 4");
  }
}

// Lengths are equal, so that nothing but the fingerprint tells the plans apart.
TEST(RuntimeExchange, PlansThatDifferAreFoundBeforeTheFirstByte) {
  run_ranks(2, [](tuttiComm_t comm, int rank) {
    const Resharding plans[] = {{2, {4, 4}, {4, 4}, {{0, 1, 0, 0, 2}, {0, 1, 2, 2, 2}}},
                                {2, {4, 4}, {4, 4}, {{0, 1, 0, 2, 2}, {0, 1, 2, 0, 2}}}};
    std::vector<int> source{1, 2, 3, 4}, target(4, 7);
    Exchange differs(plans[rank], Bytes(4));
    EXPECT_NE(
        refusal([&] { differs.run(comm, source.data(), target.data()); }, ErrorKind::kRanksDiffer)
            .find("the exchange of rank(s) 1 is another"),
        std::string::npos);
    EXPECT_EQ(target, std::vector<int>(4, 7));
    Exchange(plans[0], Bytes(4)).run(comm, source.data(), target.data());  // and still usable
    EXPECT_EQ(target, rank == 1 ? source : std::vector<int>(4, 7));
  });
}

TEST(RuntimeExchange, RunsOnAHostStreamAndReducesOnNone) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    run_ranks(4, [&](tuttiComm_t comm, int rank) {
      tuttiStream_t stream;
      ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
      const std::vector<int32_t> source = local(c.from, rank), expected = local(c.to, rank);
      std::vector<int32_t> target(expected.size(), 0);
      Exchange exchange(reshard(c.from, c.to), Bytes(4));
      exchange.run(comm, source.data(), target.data(), stream);
      EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
      EXPECT_EQ(target, expected);
    });
  }
  const auto sum = sum_of(tuttiFloat32);
  run_ranks(2, [&](tuttiComm_t comm, int) {
    tuttiStream_t stream;
    ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
    Exchange rounds(reverse(reshard(striped(8, 2, 1), replicated(8, 2))), Bytes(4), sum.get());
    float buffer[16] = {};
    EXPECT_REFUSED(rounds.run(comm, buffer, buffer + 8, stream), "on the BLOCKING stream alone");
    EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
  });
}

TEST(RuntimeExchange, RanksWhosePlansDifferAreNamed) {
  run_ranks(4, [](tuttiComm_t comm, int rank) {
    const std::string said =
        refusal([&] { agree(comm, rank == 2 ? 8 : 7, "the plan"); }, ErrorKind::kRanksDiffer);
    EXPECT_NE(said.find("of rank(s) 2 is another"), std::string::npos) << said;
  });
}

}  // namespace
}  // namespace tutti::runtime
