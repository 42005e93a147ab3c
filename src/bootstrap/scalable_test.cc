// Large groups: many ranks at one meeting place, and ranks spread over several.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <string>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "src/bootstrap/group.h"
#include "src/bootstrap/rendezvous.h"
#include "src/bootstrap/server.h"
#include "tests/support/raw_rank.h"

namespace tutti::bootstrap {
namespace {

using Pairs = std::vector<std::pair<int, int>>;

uint64_t in(uint64_t milliseconds) { return monotonic_ns() + milliseconds * 1'000'000; }

std::unique_ptr<Server> start() {
  UniqueId id;
  id.addresses = {Address::parse("127.0.0.1").value()};
  EXPECT_TRUE(make_secrets(id).ok());
  Result<std::unique_ptr<Server>> server = Server::start(id, {});
  EXPECT_TRUE(server.ok()) << server.status().message();
  return std::move(server).value();
}

struct Places {
  std::vector<std::unique_ptr<Server>> servers;
  std::vector<UniqueId> ids;

  explicit Places(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      servers.push_back(start());
      ids.push_back(servers.back()->id());
    }
  }
};

/// Both ends of every connection are in this process.
bool raise_descriptor_limit(rlim_t wanted) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max < wanted) return false;
  limit.rlim_cur = std::max(limit.rlim_cur, wanted);
  return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

std::string card(int rank) { return std::string(50, 'c') + std::to_string(rank); }

/// Every rank's sentence; "" if it has everybody's card.
std::vector<std::string> run(const std::vector<UniqueId>& ids, const std::vector<int>& who,
                             int ranks, uint64_t deadline_ns) {
  std::vector<std::string> errors(who.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < who.size(); ++i) {
    threads.emplace_back([&, i] {
      const auto cards = exchange(std::span(ids), who[i], ranks, card(who[i]), deadline_ns);
      if (!cards.ok()) errors[i] = cards.status().message();
      for (int rank = 0; cards.ok() && rank < ranks; ++rank) {
        if (cards.value()[static_cast<size_t>(rank)] != card(rank)) errors[i] = "a wrong card";
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

std::vector<int> everybody(int ranks) {
  std::vector<int> who;
  for (int rank = 0; rank < ranks; ++rank) who.push_back(rank);
  return who;
}

TEST(Scalable, PartsAreRunsOfNearlyEqualSize) {
  for (const auto& [ranks, parts] : Pairs{{10, 3}, {8, 4}, {5, 5}, {7, 1}, {1000, 7}}) {
    int next = 0;
    for (int index = 0; index < parts; ++index) {
      const RanksOfId part = part_of(next, ranks, parts);
      EXPECT_EQ(part.index, index);
      EXPECT_EQ(part.first, next);
      EXPECT_EQ(part.ranks, ranks / parts + (index < ranks % parts ? 1 : 0));
      EXPECT_EQ(part_of(next + part.ranks - 1, ranks, parts).index, index);
      next += part.ranks;
    }
    EXPECT_EQ(next, ranks);
  }
}

TEST(Scalable, SeveralPlacesMerge) {
  for (const auto& [ranks, count] : Pairs{{2, 2}, {5, 2}, {9, 4}, {16, 16}, {3, 1}}) {
    const Places places(static_cast<size_t>(count));
    for (const std::string& error : run(places.ids, everybody(ranks), ranks, in(60'000))) {
      EXPECT_EQ(error, "") << ranks << " ranks, " << count << " ids";
    }
    for (const auto& server : places.servers) {
      const uint64_t deadline_ns = in(60'000);
      while (!server->finished() && monotonic_ns() < deadline_ns) std::this_thread::yield();
      EXPECT_TRUE(server->finished()) << "the server outlives its group";
    }
  }
}

TEST(Scalable, AMissingRankIsNamedInItsPart) {
  std::vector<std::string> errors;
  bool named = false;
  // At this moment rank 3's own time is over, too, and that may be heard of first.
  for (int attempt = 0; attempt < 5 && !named; ++attempt) {
    const Places places(2);
    errors = run(places.ids, {0, 1, 2, 3, 5}, 6, in(3000));
    named = errors[3].find("rank 4 of ranks 3-5 did not come") != std::string::npos;
  }
  EXPECT_TRUE(named) << errors[3];
  EXPECT_NE(errors[0].find("merging"), std::string::npos) << errors[0];
  // The other part's time was over at this moment, too, and it says so if it is the first.
  EXPECT_TRUE(errors[0].find("rank 1 of 2 did not come") != std::string::npos ||
              errors[0].find("rank 1 aborted") != std::string::npos)
      << errors[0];
}

// Ranks that wait for the answer of the first rank of their part are told, though it is no more.
TEST(Scalable, APartWhoseFirstRankIsGoneIsToldThatTheMergeFailed) {
  const Places places(2);
  const KeptFd gone = testing_support::bring(places.ids[1], 3, {3, 3, 0, 2}, card(3));
  std::vector<std::string> of_part;
  std::thread part([&] { of_part = run(places.ids, {4, 5}, 6, in(60'000)); });
  const auto errors = run(places.ids, {0, 1, 2}, 6, in(2000));
  part.join();
  EXPECT_NE(errors[0].find("rank 1 of 2 did not come"), std::string::npos) << errors[0];
  for (const std::string& error : of_part) {
    EXPECT_NE(error.find("rank 3 aborted"), std::string::npos) << error;
  }
}

TEST(Scalable, OtherIdsOnSomeRankAreFound) {
  const Places places(2);
  std::vector<std::string> errors(2);
  std::thread other([&] {
    const auto cards = exchange(std::span(places.ids).first(1), 0, 2, "", in(60'000));
    errors[0] = cards.status().message();
  });
  errors[1] = exchange(std::span(places.ids), 0, 2, "", in(60'000)).status().message();
  other.join();
  EXPECT_TRUE(errors[0].find("unique ids") != std::string::npos ||
              errors[1].find("unique ids") != std::string::npos)
      << errors[0] << "\n"
      << errors[1];
}

TEST(Scalable, NoneOrTooManyIdsAreRefused) {
  const Places places(3);
  EXPECT_EQ(exchange(std::span<const UniqueId>(), 0, 2, "", in(100)).status().code(),
            Code::kInvalidArgument);
  EXPECT_EQ(exchange(std::span(places.ids), 0, 2, "", in(100)).status().code(),
            Code::kInvalidArgument);
}

class Thousand : public testing::TestWithParam<int> {};

TEST_P(Thousand, RanksMeet) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "a thousand threads are too many for a sanitizer";
#endif
  constexpr int kRanks = 1000;
  if (!raise_descriptor_limit(3 * kRanks)) GTEST_SKIP() << "too few descriptors (ulimit -Hn)";
  const Places places(static_cast<size_t>(GetParam()));
  int failed = 0;
  std::string first;
  for (const std::string& error : run(places.ids, everybody(kRanks), kRanks, in(300'000))) {
    if (!error.empty() && failed++ == 0) first = error;
  }
  EXPECT_EQ(failed, 0) << first;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  RecordProperty("peak_memory_kib", static_cast<int>(usage.ru_maxrss));
}

INSTANTIATE_TEST_SUITE_P(Ids, Thousand, testing::Values(1, 8));

}  // namespace
}  // namespace tutti::bootstrap
