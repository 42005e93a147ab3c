// Hosts that need different numbers of exchanges take part until all have made theirs, and each
// rank gets the texts of its host.
#include "src/comm/host_rounds.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "src/comm/host_numbers.h"
#include "src/group/view.h"

namespace tutti::comm {
namespace {

/// An exchange of all ranks, which are threads.
class Exchange {
 public:
  explicit Exchange(size_t ranks) : texts_(ranks), ranks_(ranks) {}

  GatherTexts of(size_t rank) {
    return [this, rank](const std::string& text) { return gather(rank, text); };
  }
  size_t rounds() const { return round_; }

 private:
  Result<std::vector<std::string>> gather(size_t rank, const std::string& text) {
    std::unique_lock lock(mutex_);
    const size_t mine = round_;
    texts_[rank] = text;
    if (++come_ == ranks_) {
      all_ = texts_;
      come_ = 0;
      ++round_;
      wake_.notify_all();
    }
    wake_.wait(lock, [&] { return round_ != mine; });
    return all_;
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::string> texts_, all_;
  const size_t ranks_;
  size_t come_ = 0, round_ = 0;
};

template <class Body>
void run_ranks(size_t ranks, Body body) {
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < ranks; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
}

TEST(HostRounds, OfHostsThatNeedDifferentNumbers) {
  const group::GroupPointer group = group::group_on_hosts({0, 1, 0, 1, 2});
  Exchange exchange(5);
  const std::vector<int> needed = {3, 1, 3, 1, 0};
  run_ranks(5, [&](size_t rank) {
    const HostNumbers numbers(*group, static_cast<int>(rank));
    const auto& ranks = numbers.ranks();
    const std::vector<int> near(ranks.begin(),
                                ranks.begin() + static_cast<std::ptrdiff_t>(numbers.near()));
    HostRounds rounds(exchange.of(rank), near);
    for (int round = 0; round < needed[rank]; ++round) {
      const auto texts = rounds.exchange(std::to_string(rank) + "/" + std::to_string(round));
      ASSERT_TRUE(texts.ok());
      ASSERT_EQ(texts.value().size(), near.size());
      for (size_t i = 0; i < near.size(); ++i) {
        EXPECT_EQ(texts.value()[i], std::to_string(near[i]) + "/" + std::to_string(round));
      }
    }
    EXPECT_TRUE(rounds.end().ok());
  });
  EXPECT_EQ(exchange.rounds(), 4u);
}

TEST(HostRounds, ARankThatEndsBeforeItsHostIsNamed) {
  Exchange exchange(2);
  run_ranks(2, [&](size_t rank) {
    HostRounds rounds(exchange.of(rank), {0, 1});
    if (rank == 1) {
      EXPECT_TRUE(exchange.of(1)(".").ok());
      return;
    }
    const auto texts = rounds.exchange("mine");
    ASSERT_FALSE(texts.ok());
    EXPECT_NE(texts.status().message().find("rank 1"), std::string_view::npos);
  });
}

TEST(HostNumbers, OwnRanksComeFirst) {
  const group::GroupPointer group = group::group_on_hosts({0, 1, 0, 1, 2});
  const HostNumbers numbers(*group, 3);
  EXPECT_EQ(numbers.near(), 2u);
  EXPECT_EQ(numbers.ranks(), (std::vector<int>{1, 3, 0, 2, 4}));
  for (int rank = 0; rank < 5; ++rank) EXPECT_EQ(numbers.rank_of(numbers.number_of(rank)), rank);
  EXPECT_EQ(numbers.number_of(-1), -1);
  EXPECT_EQ(numbers.with_numbers({4, -1}), (diagnosis::Cause{4, -1}));
  EXPECT_EQ(numbers.with_ranks({0, 1}), (diagnosis::Cause{1, 3}));
}

}  // namespace
}  // namespace tutti::comm
