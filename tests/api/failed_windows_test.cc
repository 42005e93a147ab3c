// Windows of a communicator that has failed or was given up: peers touch the part no more, and
// learn of the failure.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/team.h"
#include "tests/support/team_rank.h"

namespace tutti::api_test {
namespace {

using testing_support::Member;
using testing_support::TeamShape;

constexpr uint64_t kLimitNs = 120'000'000'000;

/// Rank 0 ends its communicator in a way of its own; rank 1, which has not noticed, puts there.
class Pair : testing_support::TeamRank {
 public:
  explicit Pair(Member& member) : TeamRank(member) {}

  template <class End>
  void run(End end) {
    if (!open()) return;
    if (member_.rank() == 0) end(*this);
    member_.meet();
    if (member_.rank() == 1) put();
    member_.meet();
    if (*mine_ != 0) member_.fail("the part of a failed communicator was written");
    tuttiCommDestroy(comm_);
    tuttiMemFree(memory_);
  }

  void revoke() { ok(tuttiCommRevoke(comm_, TUTTI_REVOKE_DEFAULT)); }
  void fail() {
    tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
    options.timeout_ns = 300'000'000;
    ok(tuttiCommSetOptions(comm_, &options));
    if (tuttiWaitSignal(1, window_, 0, 1, tuttiBlocking()) != tuttiTimeout) {
      member_.fail("no timeout");
    }
  }
  void deregister() { ok(tuttiCommWindowDeregister(comm_, window_)); }

 private:
  bool open() {
    if (!join() || !ok(tuttiMemAlloc(&memory_, 64))) return false;
    mine_ = static_cast<volatile char*>(memory_);
    *mine_ = 0;
    return ok(tuttiCommWindowRegister(comm_, memory_, 64, &window_, 0));
  }

  void put() {
    const char value = 1;
    const tuttiResult_t result = tuttiPut(&value, 1, 0, window_, 0, tuttiBlocking());
    const std::string message = tuttiGetLastError(comm_);
    if (result != tuttiRemoteError || message.find("rank 0 (process ") == std::string::npos) {
      member_.fail("put: " + std::to_string(result) + ", " + message);
    }
    tuttiResult_t failure = tuttiSuccess;
    tuttiCommGetAsyncError(comm_, &failure);
    if (failure != tuttiRemoteError) member_.fail("the communicator has not failed");
  }

  tuttiWindow_t window_ = nullptr;
  void* memory_ = nullptr;
  volatile char* mine_ = nullptr;
};

template <class End>
void run_pair(End end) {
  TeamShape shape = TeamShape::processes(2);
  shape.environment.assign(2, {{"TUTTI_TIMEOUT", "30"}, {"TUTTI_LOG", "off"}});
  const auto result = testing_support::run_team(
      shape, [&](Member& member) { Pair(member).run(end); },
      [](uint64_t) { return std::string("put"); }, kLimitNs);
  EXPECT_TRUE(result.ok) << result.report;
}

TEST(FailedWindows, ARevokedCommunicatorsPartIsPutToNoMore) {
  run_pair([](Pair& pair) { pair.revoke(); });
}

TEST(FailedWindows, AFailedCommunicatorsPartIsPutToNoMore) {
  run_pair([](Pair& pair) { pair.fail(); });
}

// Not "has deregistered", after which the communicator would be as good as before.
TEST(FailedWindows, WhoDeregistersAfterAFailureTellsOfTheFailure) {
  run_pair([](Pair& pair) {
    pair.fail();
    pair.deregister();
  });
}

}  // namespace
}  // namespace tutti::api_test
