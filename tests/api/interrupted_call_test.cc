// A signal handler runs in a thread that waits in a call, and what it calls (in programs: exit(),
// which runs what ends communicators) is in that call itself: nothing may wait for it.
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/in_call.h"
#include "tests/support/sanitizer.h"
#include "tests/support/team.h"
#include "tests/support/team_rank.h"

namespace tutti::api_test {
namespace {

using testing_support::Member;

enum class Way { kCall, kGroup, kMaking, kFinalize };

// The handler's inputs and its output.
tuttiComm_t interrupted = nullptr;
std::atomic<uint64_t>* answers = nullptr;

/// The results of all that ends a communicator, in decimal places.
void end_it(int /*signal*/) {
  const uint64_t results = static_cast<uint64_t>(tuttiCommAbort(interrupted)) * 100 +
                           static_cast<uint64_t>(tuttiCommDestroy(interrupted)) * 10 +
                           static_cast<uint64_t>(tuttiCommFinalize(interrupted));
  answers->store(results + 1'000);
}

class Rank : testing_support::TeamRank {
 public:
  Rank(Member& member, Way way) : TeamRank(member), way_(way) {}

  void run() {
    if (!join() || !ok(tuttiBarrier(comm_, tuttiBlocking()))) return;
    std::atomic<uint64_t>& answer = member_.board().numbers[0];
    if (member_.rank() == 1) {
      interrupted = comm_;
      answers = &answer;
      std::signal(SIGUSR1, end_it);
      interrupter_ = std::thread([this, caller = pthread_self()] {
        await_call();
        pthread_kill(caller, SIGUSR1);
      });
    } else {
      while (answer.load() == 0) testing_support::sleep_ns(1'000'000);
      constexpr uint64_t kAllRefused =
          1'000 + uint64_t{tuttiInvalidUsage} * 100 + tuttiInvalidUsage * 10 + tuttiInvalidUsage;
      if (answer.load() != kAllRefused) {
        member_.fail("the handler was told " + std::to_string(answer.load() - 1'000));
      }
    }
    const bool well = ok(call());
    if (interrupter_.joinable()) interrupter_.join();
    if (well) ok(tuttiCommDestroy(comm_));
  }

 private:
  void await_call() const {
    if (way_ == Way::kCall || way_ == Way::kGroup) {
      testing_support::await_waiting(1);
      return;
    }
    // The call is to wait for its peer when the signal comes: a handler that interrupts the C
    // library's malloc() must not call what allocates.
    constexpr uint64_t kUntilItWaitsNs = 100'000'000;
    tuttiResult_t state = tuttiSuccess;
    while (state != tuttiInProgress) tuttiCommGetAsyncError(comm_, &state);
    testing_support::sleep_ns(kUntilItWaitsNs);
  }

  tuttiResult_t call() {
    tuttiComm_t half = nullptr;
    switch (way_) {
      case Way::kCall:
        break;
      case Way::kGroup:
        return in_group();
      case Way::kMaking: {
        const tuttiResult_t made = tuttiCommSplit(comm_, 0, 0, &half, nullptr);
        return made == tuttiSuccess ? tuttiCommDestroy(half) : made;
      }
      case Way::kFinalize:
        return member_.rank() == 1 ? finalize() : testing_support::sum(comm_, 100);
    }
    return testing_support::sum(comm_, 100);
  }

  tuttiResult_t in_group() {
    std::vector<float> data(100, 1.0f);
    tuttiGroupStart();
    tuttiAllReduce(data.data(), data.data(), 100, tuttiFloat32, tuttiSum, comm_, tuttiBlocking());
    tuttiAllReduce(data.data(), data.data(), 50, tuttiFloat32, tuttiMax, comm_, tuttiBlocking());
    return tuttiGroupEnd();
  }

  /// With a call on a stream, which it waits for.
  tuttiResult_t finalize() {
    tuttiStream_t stream = tuttiBlocking();
    std::vector<float> data(100, 1.0f);
    tuttiStreamCreate(&stream);
    tuttiAllReduce(data.data(), data.data(), 100, tuttiFloat32, tuttiSum, comm_, stream);
    const tuttiResult_t result = tuttiCommFinalize(comm_);
    tuttiStreamDestroy(stream);
    return result;
  }

  const Way way_;
  std::thread interrupter_;
};

class InterruptedCall : public testing::TestWithParam<Way> {};

TEST_P(InterruptedCall, IsNotWaitedForByItsOwnThread) {
  if (testing_support::kSanitized) GTEST_SKIP() << "a sanitizer does not take calls in handlers";
  constexpr uint64_t kLimitNs = 60'000'000'000;
  const auto result = testing_support::run_team(
      testing_support::TeamShape::processes(2),
      [](Member& member) { Rank(member, GetParam()).run(); },
      [](uint64_t) { return std::string("an interrupted call"); }, kLimitNs);
  EXPECT_TRUE(result.ok) << result.report;
}

INSTANTIATE_TEST_SUITE_P(Ways, InterruptedCall,
                         testing::Values(Way::kCall, Way::kGroup, Way::kMaking, Way::kFinalize));

}  // namespace
}  // namespace tutti::api_test
