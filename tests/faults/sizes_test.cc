// A rank that says one thing in the count round of an all_to_all_v and another in its size round:
// who is to forward its shares must not compute with that.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "src/base/clock.h"
#include "tests/faults/thread_group.h"

namespace tutti::faults {
namespace {

constexpr int kRanks = 5;
constexpr uint64_t kShare = 7;
constexpr int kLiar = 1;
constexpr size_t kRoom = 4096;

using Counts = std::array<uint64_t, kRanks>;

struct Outcome {
  std::array<Status, kRanks> statuses;
  int rounds = 0;  // plans that the liar made

  bool all_failed() const {
    for (const Status& status : statuses) {
      if (status.ok()) return false;
    }
    return true;
  }
  bool somebody_says(const std::string& text) const {
    for (const Status& status : statuses) {
      if (status.message().find(text) != std::string_view::npos) return true;
    }
    return false;
  }
};

Status all_to_all(comm::Communicator& communicator, const Counts& counts) {
  comm::CallOptions options;
  options.algorithm = "bruck";  // forwards shares
  options.timeout_ns = 60 * kNanosecondsPerSecond;
  communicator.set_options(options);
  Counts expected;
  expected.fill(kShare);
  comm::CountView view{kRanks, counts.data(), nullptr, expected.data(), nullptr};
  std::vector<std::byte> send(kRoom), recv(kRoom);
  comm::Request request;
  request.collective = schedule::Collective::kAllToAll;
  request.counts = &view;
  request.send = send.data();
  request.recv = recv.data();
  return communicator.collectives().run(request);
}

/// The liar's counts become `second` when its plan of the size round has been made.
Outcome run_after_lying(uint64_t second, bool one_process) {
  Outcome outcome;
  std::array<Counts, kRanks> counts;
  for (Counts& row : counts) row.fill(kShare);
  GroupOptions options;
  options.ranks = kRanks;
  options.one_process = one_process;
  options.tamper = [&](int rank, plan::Plan&) {
    if (rank == kLiar && ++outcome.rounds == 2) counts[kLiar].fill(second);
  };
  const std::string problem = with_group(options, [&](int rank, comm::Communicator& communicator) {
    const auto index = static_cast<size_t>(rank);
    outcome.statuses[index] = all_to_all(communicator, counts[index]);
  });
  EXPECT_EQ(problem, "");
  return outcome;
}

TEST(Sizes, ALongerShareThanAnyRankHasNamedIsNotForwarded) {
  for (const bool one_process : {true, false}) {
    const Outcome outcome = run_after_lying(kShare + 100, one_process);
    EXPECT_GE(outcome.rounds, 2);
    EXPECT_TRUE(outcome.all_failed());
    EXPECT_TRUE(outcome.somebody_says(
        "is to forward a share of 107 elements, though no rank has named a longer one than 7"));
  }
}

TEST(Sizes, TheSameInBothRoundsIsRight) {
  const Outcome outcome = run_after_lying(kShare, true);
  EXPECT_EQ(outcome.rounds, 3);
  for (const Status& status : outcome.statuses) EXPECT_TRUE(status.ok()) << status.message();
}

}  // namespace
}  // namespace tutti::faults
