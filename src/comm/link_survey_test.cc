#include "src/comm/link_survey.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

#include "src/group/members.h"

namespace tutti::comm {
namespace {

using Pair = LinkSurvey::Pair;

group::GroupPointer group_of(std::vector<group::Level> levels) {
  std::vector<MemberId> members = group::placeholder_members(levels[0].nodes.size());
  return group::GroupView::make(1, 0, std::move(members), std::move(levels)).value();
}

group::Level network(std::string name, std::vector<uint32_t> nodes, double latency_ns = 0) {
  return {std::move(name), {.map = false, .stream = true}, std::move(nodes), latency_ns};
}

group::Level host(std::vector<uint32_t> nodes) {
  return {"host", {.map = true, .stream = false}, std::move(nodes)};
}

TEST(LinkSurvey, HasAPairOfFirstRanksForEveryTwoHostsButFewOfMany) {
  EXPECT_EQ(LinkSurvey(*group::group_on_hosts({0, 0, 1, 1})).pairs(),
            (std::vector<Pair>{{1, 0, 2}}));
  EXPECT_EQ(LinkSurvey(*group::group_on_hosts({0, 1, 2})).pairs().size(), 1u);
  std::vector<int> hosts(3000);
  for (size_t rank = 0; rank < hosts.size(); ++rank) hosts[rank] = static_cast<int>(rank / 2);
  const LinkSurvey many(*group::group_on_hosts(hosts));
  ASSERT_EQ(many.pairs().size(), LinkSurvey::kMostPairs);
  for (const Pair& pair : many.pairs()) EXPECT_EQ(pair.answers - pair.leads, 1500);
}

TEST(LinkSurvey, OfOneHostOrOfAKnownNetworkIsEmpty) {
  EXPECT_TRUE(LinkSurvey(*group::group_on_hosts({0, 0, 0})).pairs().empty());
  EXPECT_TRUE(LinkSurvey(*group_of({host({0, 0, 1}), network("network", {0, 0, 0}, 5000)}))
                  .pairs()
                  .empty());
  group::Level with_uplinks = host({0, 0, 1});
  with_uplinks.uplinks = {12, 12, 12};
  EXPECT_TRUE(LinkSurvey(*group_of({with_uplinks, network("network", {0, 0, 0})})).pairs().empty());
}

TEST(LinkSurvey, MeasuresLevelsOfWhichTheGroupSaysNothing) {
  const LinkSurvey survey(
      *group_of({host({0, 0, 1, 1, 2, 2, 3, 3}), network("rack", {0, 0, 0, 0, 1, 1, 1, 1}),
                 network("site", {0, 0, 0, 0, 0, 0, 0, 0})}));
  EXPECT_EQ(survey.pairs(), (std::vector<Pair>{{1, 0, 2}, {1, 4, 6}, {2, 0, 4}}));
  // In a round nobody is in two pairs, or the one would wait for the other.
  const auto rates = survey.rates(std::vector<double>{10, 1, 30, 3, 70, 7});
  ASSERT_EQ(rates.size(), 2u);
  EXPECT_EQ(rates[0], (select::LevelRates{"rack", 30, 3}));
  EXPECT_EQ(rates[1], (select::LevelRates{"site", 70, 7}));
}

/// Two threads that send each other bytes, in order; each message takes a while.
class Wire {
 public:
  explicit Wire(int ranks) : queues_(static_cast<size_t>(ranks)) {}

  std::chrono::microseconds latency{0};
  double ns_per_byte = 0;
  int exchanges = 0;  // of rank 0
  size_t longest = 0;

  Status exchange(int rank, std::span<const exec::Transfer> transfers) {
    if (rank == 0) ++exchanges;
    for (const exec::Transfer& one : transfers) {
      if (one.is_send) put(one.peer, one);
    }
    for (const exec::Transfer& one : transfers) {
      if (!one.is_send) take(rank, one);
    }
    return {};
  }

 private:
  void put(uint32_t peer, const exec::Transfer& one) {
    std::this_thread::sleep_for(latency + std::chrono::nanoseconds(static_cast<int64_t>(
                                              ns_per_byte * static_cast<double>(one.bytes))));
    const std::lock_guard lock(mutex_);
    queues_[peer].emplace_back(one.data, one.data + one.bytes);
    longest = std::max<size_t>(longest, one.bytes);
    come_.notify_all();
  }
  void take(int rank, const exec::Transfer& one) {
    std::unique_lock lock(mutex_);
    auto& queue = queues_[static_cast<size_t>(rank)];
    come_.wait(lock, [&] { return !queue.empty(); });
    EXPECT_EQ(queue.front().size(), one.bytes);
    std::memcpy(one.data, queue.front().data(), std::min<size_t>(one.bytes, queue.front().size()));
    queue.pop_front();
  }

  std::mutex mutex_;
  std::condition_variable come_;
  std::vector<std::deque<std::vector<std::byte>>> queues_;
};

std::vector<double> run(Wire& wire, uint64_t time_ns) {
  const auto group = group::group_on_hosts({0, 1});
  const LinkSurvey survey(*group, time_ns);
  std::vector<double> found(survey.numbers()), others(survey.numbers());
  const auto exchange_of = [&](int rank) {
    return [&wire, rank](std::span<const exec::Transfer> all) { return wire.exchange(rank, all); };
  };
  std::thread other([&] { EXPECT_TRUE(survey.measure(1, exchange_of(1), others).ok()); });
  EXPECT_TRUE(survey.measure(0, exchange_of(0), found).ok());
  other.join();
  EXPECT_EQ(others, (std::vector<double>{0, 0}));
  return found;
}

TEST(LinkSurvey, FindsNoLessThanWhatTheWireTakes) {
  Wire wire(2);
  wire.latency = std::chrono::microseconds(300);
  wire.ns_per_byte = 2;
  const std::vector<double> found = run(wire, LinkSurvey::kTimeNs);
  EXPECT_GE(found[0], 300e3);
  EXPECT_GT(found[1], 0);
  EXPECT_GT(wire.longest, size_t{60} << 10);
}

// As many exchanges as fit are made, however slow the wire is: none of them can be left out.
TEST(LinkSurvey, MakesFewExchangesWhereEachUsesUpTheTime) {
  Wire wire(2);
  wire.latency = std::chrono::milliseconds(5);
  const std::vector<double> found = run(wire, 1'000'000);
  EXPECT_GE(found[0], 5e6);
  EXPECT_GT(found[1], 0);
  EXPECT_LE(wire.exchanges, 5);  // to meet, for latency, to announce, for the rate, to end
  EXPECT_EQ(wire.longest, size_t{8} << 10);
}

TEST(LinkSurvey, EndsWithTheErrorOfAnExchange) {
  const LinkSurvey survey(*group::group_on_hosts({0, 1}));
  std::vector<double> found(survey.numbers());
  for (const int rank : {0, 1}) {
    int left = 3;
    const Status status = survey.measure(
        rank,
        [&](std::span<const exec::Transfer> all) {
          if (--left == 0) return Status::remote_error("rank 1 is gone");
          for (const exec::Transfer& one : all) {  // the answer that is waited for
            if (!one.is_send) std::memset(one.data, 0, one.bytes);
          }
          return Status();
        },
        found);
    EXPECT_EQ(status.message(), "rank 1 is gone");
  }
}

TEST(LinkSurvey, RefusesAnswersAndAnnouncementsThatAreNone) {
  const LinkSurvey survey(*group::group_on_hosts({0, 1}));
  std::vector<double> found(survey.numbers());
  for (const int rank : {0, 1}) {
    const Status status = survey.measure(
        rank,
        [](std::span<const exec::Transfer> all) {
          for (const exec::Transfer& one : all) {
            if (!one.is_send) std::memset(one.data, 0x77, one.bytes);
          }
          return Status();
        },
        found);
    EXPECT_EQ(status.code(), Code::kRemoteError) << status.message();
  }
}

}  // namespace
}  // namespace tutti::comm
