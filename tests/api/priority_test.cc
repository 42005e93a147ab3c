// tuttiOptions_t.priority decides which of two calls that could both begin does so first.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/api/crowd.h"

namespace tutti::api_test {
namespace {

/// Options of one call, or of all that follow on its communicator.
enum class Way { kSubmit, kSetOptions };

class PriorityTest : public testing::TestWithParam<Way> {
 protected:
  PriorityTest() {
    for (tuttiComm_t& comm : alone_) EXPECT_EQ(tuttiCommInitAll(&comm, 1, nullptr), tuttiSuccess);
  }
  ~PriorityTest() override {
    for (tuttiComm_t comm : alone_) EXPECT_OK(tuttiCommDestroy(comm), comm);
  }

  /// Copies a value by a call of a communicator of one rank.
  void copy(size_t comm, const int* from, int* to, int priority, tuttiStream_t stream) {
    tuttiCall_t call = TUTTI_CALL_INITIALIZER;
    call.collective = tuttiCollAllReduce;
    call.send = from;
    call.recv = to;
    call.count = 1;
    call.type = tuttiInt32;
    tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
    options.priority = priority;
    const bool by_submit = GetParam() == Way::kSubmit;
    if (!by_submit) {
      EXPECT_OK(tuttiCommSetOptions(alone_[comm], &options), alone_[comm]);
    }
    EXPECT_OK(tuttiSubmit(&call, alone_[comm], stream, by_submit ? &options : nullptr, nullptr),
              alone_[comm]);
  }

  /// True if the second of two calls of a group ran before the first. Both wait in one stream for
  /// a call that ends when both are queued; then the engine's thread takes one after the other. The
  /// first call copies what the second one writes.
  bool second_overtakes(int first_priority, int second_priority) {
    const int news = 7;
    int board = 0, seen = -1;
    std::atomic<bool> queued{false};
    run_ranks(2, [&](tuttiComm_t& comm, int rank) {
      if (rank == 1) {
        while (!queued.load()) std::this_thread::yield();
        EXPECT_OK(tuttiBarrier(comm, tuttiBlocking()), comm);
        return;
      }
      tuttiStream_t stream{};
      EXPECT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
      EXPECT_OK(tuttiBarrier(comm, stream), comm);
      EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
      copy(0, &board, &seen, first_priority, stream);
      copy(1, &news, &board, second_priority, stream);
      EXPECT_OK(tuttiGroupEnd(), nullptr);
      queued.store(true);
      EXPECT_OK(tuttiStreamDestroy(stream), nullptr);
    });
    EXPECT_EQ(board, news);
    EXPECT_TRUE(seen == 0 || seen == news) << seen;
    return seen == news;
  }

 private:
  std::vector<tuttiComm_t> alone_ = std::vector<tuttiComm_t>(2);
};

TEST_P(PriorityTest, AHigherOneGoesFirst) {
  EXPECT_TRUE(second_overtakes(0, 1));
  EXPECT_TRUE(second_overtakes(-2, -1));
  EXPECT_TRUE(second_overtakes(-1, 100));
}

TEST_P(PriorityTest, OtherwiseTheEarlierOneDoes) {
  EXPECT_FALSE(second_overtakes(0, 0));
  EXPECT_FALSE(second_overtakes(5, 5));
  EXPECT_FALSE(second_overtakes(1, 0));
  EXPECT_FALSE(second_overtakes(0, -1));
}

INSTANTIATE_TEST_SUITE_P(Ways, PriorityTest, testing::Values(Way::kSubmit, Way::kSetOptions),
                         [](const auto& way) {
                           return way.param == Way::kSubmit ? "Submit" : "SetOptions";
                         });

}  // namespace
}  // namespace tutti::api_test
