// device_deaths: four processes, which take the devices in turn, make random calls, and at a random
// time one of them is killed, or stopped: the others' streams go on, and each is told which rank it
// was.
//
//   --fault kill | stop    with stop, calls have a deadline of 500 ms
//   --rounds N (default 40)  --seed S (default 1)
//
// Each survivor prints how long its stream took to go on. Exit status: 0 all was right, 1 not,
// 2 the command line.
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <thread>

#include "tests/device/seat.h"
#include "tests/support/dice.h"
#include "tests/support/options.h"

namespace tutti::device_programs {
namespace {

using testing_support::Member;
using testing_support::now_ns;
using testing_support::sleep_ns;

constexpr int kRanks = 4;
constexpr int kVictim = 2;
constexpr uint64_t kMsNs = 1'000'000;
constexpr uint64_t kDeadlineNs = 500 * kMsNs;
constexpr uint64_t kMostNs = 10'000 * kMsNs;  // a stream that takes longer hangs
constexpr size_t kWords = 1 << 16;            // of each buffer
constexpr tuttiCollective_t kCalls[] = {tuttiCollAllGather, tuttiCollAllToAll, tuttiCollBroadcast,
                                        tuttiCollGather,    tuttiCollScatter,  tuttiCollAllReduce};

struct Plan {
  bool stops = false;
  uint64_t rounds = 40;
  uint64_t seed = 1;
};

/// Numbers of the board.
enum { kStruckNs, kEnded };

class Rank {
 public:
  Rank(Member& member, Seat& seat, const Plan& plan)
      : member_(member),
        seat_(seat),
        plan_(plan),
        send_(seat.allocate(kWords * 8)),
        recv_(seat.allocate(kWords * 8)) {}

  void run() {
    if (plan_.stops && !set_deadline()) return;
    if (!member_.meet()) return;
    std::thread striker;
    if (member_.rank() == 0) striker = std::thread([this] { strike(); });
    const tuttiResult_t error = call_on();
    if (!seat_.synchronize()) member_.fail("its stream failed");
    judge(error);
    numbers()[kEnded].fetch_add(1);
    if (striker.joinable()) striker.join();
  }

 private:
  std::atomic<uint64_t>* numbers() { return member_.board().numbers; }

  bool set_deadline() {
    tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
    options.timeout_ns = kDeadlineNs;
    return went(member_, tuttiCommSetOptions(seat_.comm(), &options), seat_.comm(), "options");
  }

  void strike() {
    testing_support::Dice dice(testing_support::mix(plan_.seed, 1));
    sleep_ns(dice.below(150) * kMsNs);
    testing_support::RankSlot& victim = member_.board().slots[kVictim];
    // The team would take a rank that is not done for a failed one.
    victim.state.store(testing_support::RankState::kDone);
    numbers()[kStruckNs].store(now_ns());
    kill(victim.process.load(), plan_.stops ? SIGSTOP : SIGKILL);
    const uint64_t until_ns = now_ns() + kMostNs;
    while (numbers()[kEnded].load() < kRanks - 1 && now_ns() < until_ns) sleep_ns(kMsNs);
    if (plan_.stops) kill(victim.process.load(), SIGKILL);
  }

  /// Until a call fails, when it is made or on its way.
  tuttiResult_t call_on() {
    constexpr uint64_t kCallsAtOnce = 4;
    const uint64_t until_ns = now_ns() + 2 * kMostNs;
    for (uint64_t number = 0; now_ns() < until_ns; ++number) {
      tuttiResult_t result = call(number);
      if (number % kCallsAtOnce == 0) seat_.synchronize();
      if (result == tuttiSuccess) tuttiCommGetAsyncError(seat_.comm(), &result);
      if (result != tuttiSuccess) return result;
    }
    return tuttiSuccess;
  }

  tuttiResult_t call(uint64_t number) {
    testing_support::Dice dice(testing_support::mix(plan_.seed, 2 + number));
    tuttiCall_t call = TUTTI_CALL_INITIALIZER;
    call.collective = kCalls[dice.below(std::size(kCalls))];
    call.send = pointer(send_);
    call.recv = pointer(recv_);
    call.count = 1 + dice.below(kWords / kRanks);
    call.type = tuttiUint64;
    call.op = tuttiSum;
    call.root = static_cast<int>(dice.below(kRanks));
    return tuttiSubmit(&call, seat_.comm(), seat_.stream(), nullptr, nullptr);
  }

  void judge(tuttiResult_t error) {
    const uint64_t struck_ns = numbers()[kStruckNs].load();
    const std::string text = tuttiGetLastError(seat_.comm());
    if (error == tuttiSuccess || struck_ns == 0) return member_.fail("no call failed: " + text);
    const std::string victim = "rank " + std::to_string(kVictim);
    if (text.find(victim) == std::string::npos) return member_.fail("another rank: " + text);
    const uint64_t took_ns = now_ns() - struck_ns;
    if (took_ns > kMostNs) return member_.fail("its stream stood still");
    std::printf("took %d ms\n", static_cast<int>(took_ns / kMsNs));
    std::fflush(stdout);
  }

  Member& member_;
  Seat& seat_;
  const Plan& plan_;
  const drivers::cuda::DeviceMemory send_, recv_;
};

bool run_round(const Plan& plan) {
  const testing_support::TeamResult result = testing_support::run_team(
      testing_support::TeamShape::processes(kRanks),
      [&](Member& member) {
        const std::unique_ptr<Seat> seat = Seat::open(member);
        if (seat != nullptr) Rank(member, *seat, plan).run();
      },
      [](uint64_t) { return std::string("its calls"); }, 6 * kMostNs);
  const std::string expected = "  process " + std::to_string(kVictim) + " ended by signal 9\n";
  if (result.ok || result.report == expected) return true;
  std::printf("seed %llu: %s", static_cast<unsigned long long>(plan.seed), result.report.c_str());
  return false;
}

}  // namespace
}  // namespace tutti::device_programs

int main(int argc, char** argv) {
  using namespace tutti::testing_support;
  tutti::device_programs::Plan plan;
  std::string fault;
  if (!read_options(argc, argv,
                    {{"--fault", into(fault)},
                     {"--rounds", into(plan.rounds)},
                     {"--seed", into(plan.seed)}})) {
    return 2;
  }
  if (fault != "kill" && fault != "stop") return 2;
  plan.stops = fault == "stop";
  uint64_t wrong = 0;
  for (uint64_t round = 0; round < plan.rounds; ++round, ++plan.seed) {
    wrong += tutti::device_programs::run_round(plan) ? 0 : 1;
  }
  std::printf("%llu of %llu rounds were wrong\n", static_cast<unsigned long long>(wrong),
              static_cast<unsigned long long>(plan.rounds));
  return wrong == 0 ? 0 : 1;
}
