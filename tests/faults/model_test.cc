// A rank that chooses by another model than the others is found out in its first call, by name. A
// model that is measured when a group is made is equal on all of its ranks, and a rank that is not
// there meanwhile is named.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/faults/thread_group.h"

namespace tutti::faults {
namespace {

using comm::AgreedModel;

Status all_reduce(comm::Communicator& communicator) {
  std::vector<float> input(64, 1), output(64);
  comm::Request request{.collective = schedule::Collective::kAllReduce,
                        .type = types::DataType::kFloat32,
                        .count = input.size()};
  request.send = input.data();
  request.recv = output.data();
  return communicator.collectives().run(request);
}

std::vector<Status> outcomes(const GroupOptions& options) {
  std::vector<Status> statuses(static_cast<size_t>(options.ranks));
  const std::string none = with_group(options, [&](int rank, comm::Communicator& communicator) {
    statuses[static_cast<size_t>(rank)] = all_reduce(communicator);
  });
  EXPECT_EQ(none, "");
  return statuses;
}

class ModelOfOne : public testing::TestWithParam<int> {};

// Whose message it is that does not fit depends on who comes first; the others hear of the two.
TEST_P(ModelOfOne, IsNamedWhereCallsDiffer) {
  GroupOptions options;
  options.hosts = GetParam();
  options.models.resize(4);
  for (const Status& status : outcomes(options)) EXPECT_TRUE(status.ok()) << status.message();
  options.models[2].levels = {{"a level that nobody has", 1, 1}};
  std::string all;
  for (const Status& status : outcomes(options)) {
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.message().find("rank 2"), std::string::npos) << status.message();
    all += std::string(status.message()) + "\n";
  }
  EXPECT_NE(all.find(": model"), std::string::npos) << all;
}

/// The errors with which makings end.
class Measuring : public testing::Test {
 protected:
  Measuring() {
    options_.measures = true;
    options_.hosts = 2;
  }

  GroupOptions options_;
};

TEST_F(Measuring, LeavesAllRanksWithOneModelByWhichTheyCall) {
  options_.ranks = 5;
  std::vector<AgreedModel> models(5);
  std::vector<Status> statuses(5);
  const std::string none = with_group(options_, [&](int rank, comm::Communicator& communicator) {
    models[static_cast<size_t>(rank)] = communicator.model();
    statuses[static_cast<size_t>(rank)] = all_reduce(communicator);
  });
  EXPECT_EQ(none, "");
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.message();
  for (const AgreedModel& model : models) {
    EXPECT_TRUE(model.is_known);
    EXPECT_EQ(model.model, models[0].model);
    EXPECT_NE(model.origin.find("what was measured when it was made: network"), std::string::npos)
        << model.origin;
    ASSERT_EQ(model.model.levels.size(), 1u);
    EXPECT_GT(model.model.levels[0].latency_ns, 0);
    EXPECT_GT(model.model.levels[0].ns_per_byte, 0);
  }
}

TEST_F(Measuring, IsLeftOutOnOneHostAndWhereNobodyAsksForIt) {
  for (const bool measures : {true, false}) {
    options_.measures = measures;
    options_.hosts = measures ? 1 : 2;
    std::atomic<int> known{0};
    EXPECT_EQ(with_group(options_,
                         [&](int, comm::Communicator& communicator) {
                           known += communicator.model().is_known ? 1 : 0;
                         }),
              "");
    EXPECT_EQ(known, 0);
  }
}

TEST_F(Measuring, IsLeftOutInAPartOfAGroupWhichHasItsModel) {
  options_.inherited = select::Model{{}, {{"network", 12345, 6}}};
  std::vector<AgreedModel> models(4);
  const auto keep = [&](int rank, comm::Communicator& communicator) {
    models[static_cast<size_t>(rank)] = communicator.model();
    EXPECT_TRUE(all_reduce(communicator).ok());
  };
  EXPECT_EQ(with_group(options_, keep), "");
  for (const AgreedModel& model : models) {
    EXPECT_EQ(model.model, *options_.inherited);
    EXPECT_EQ(model.origin, "the model of the group that this one is part of");
  }
}

/// A rank that is there and does not measure, as if it were stopped, until the others have given
/// up.
class MeasuringBesideAStoppedRank : public Measuring {
 protected:
  /// The texts of the others: one that gives up a little later may name one that gave up before it.
  std::string run(int ranks) {
    options_.ranks = ranks;
    options_.making_ns = 3'000'000'000;
    left_ = ranks - 1;
    options_.ended = [this](int, const Status& status) {
      const std::lock_guard lock(mutex_);
      if (left_ > 0) said_ += std::string(status.message()) + "\n";
      --left_;
    };
    EXPECT_NE(with_group(options_, [](int, comm::Communicator&) {}), "");
    return said_;
  }
  Status stop() const {
    while (left_.load() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return {};
  }

 private:
  std::atomic<int> left_{0};
  std::mutex mutex_;  // guards said_
  std::string said_;
};

TEST_F(MeasuringBesideAStoppedRank, OfItsPairEndsWithTheMakingsTimeAndNamesIt) {
  options_.after_meeting = [this](int rank) { return rank == 1 ? stop() : Status(); };
  const std::string found = run(2);
  EXPECT_NE(found.find("while the network was measured"), std::string::npos) << found;
  EXPECT_NE(found.find("rank 1"), std::string::npos) << found;
}

TEST_F(MeasuringBesideAStoppedRank, OfNoPairEndsWithTheMakingsTimeAndNamesIt) {
  options_.tamper = [this](int rank, plan::Plan&) {
    if (rank == 2) (void)stop();
  };
  const std::string found = run(4);
  EXPECT_NE(found.find("while the network was measured"), std::string::npos) << found;
  EXPECT_NE(found.find("rank 2 ("), std::string::npos) << found;
}

TEST_F(Measuring, OfARankThatIsGoneNamesIt) {
  options_.ranks = 2;
  options_.after_meeting = [](int rank) {
    return rank == 1 ? Status::internal_error("the one that is gone") : Status();
  };
  std::string other;
  options_.ended = [&](int rank, const Status& status) {
    if (rank == 0) other = status.message();
  };
  EXPECT_NE(with_group(options_, [](int, comm::Communicator&) {}), "");
  EXPECT_NE(other.find("while the network was measured"), std::string::npos) << other;
  EXPECT_NE(other.find("rank 1"), std::string::npos) << other;
}

INSTANTIATE_TEST_SUITE_P(OnHosts, ModelOfOne, testing::Values(1, 2));

}  // namespace
}  // namespace tutti::faults
