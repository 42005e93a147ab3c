// early_leaver: rank 0 destroys its communicator while the others have much to do among themselves:
// for longer than a rank that leaves waits for them.
//
//   --network default|tcp|mixed  --threads 0|1
//
// Exit status: 0 all was right, 1 it was not, 2 the command line is wrong.
#include <string>

#include "tests/support/options.h"
#include "tests/support/team.h"
#include "tests/support/team_rank.h"

namespace tutti::api_test {
namespace {

using testing_support::Member;

constexpr uint64_t kLimitNs = 120'000'000'000;
constexpr uint64_t kPauseNs = 500'000'000;
constexpr int kTurns = 25;  // 12.5 s: a rank that leaves waits 10 s for the others

class Rank : testing_support::TeamRank {
 public:
  explicit Rank(Member& member) : TeamRank(member) {}

  void run() {
    if (!join() || !ok(tuttiBarrier(comm_, tuttiBlocking()))) return;
    bool good = true;
    for (int i = 0; i < kTurns && good && member_.rank() > 0; ++i) good = turn(i);
    ok(tuttiCommDestroy(comm_));
  }

 private:
  // Round all ranks but the first.
  bool turn(int number) {
    const int others = member_.ranks() - 1, place = member_.rank() - 1;
    const int next = 1 + (place + 1) % others, previous = 1 + (place + others - 1) % others;
    const int sent = number * 100 + member_.rank();
    int received = -1;
    testing_support::sleep_ns(kPauseNs);
    const bool good = ok(tuttiGroupStart()) &&
                      ok(tuttiSend(&sent, 1, tuttiInt32, next, comm_, tuttiBlocking())) &&
                      ok(tuttiRecv(&received, 1, tuttiInt32, previous, comm_, tuttiBlocking())) &&
                      ok(tuttiGroupEnd()) && ok(tuttiCommGetAsyncError(comm_, &async_)) &&
                      ok(async_);
    if (good && received == number * 100 + previous) return true;
    member_.fail("turn " + std::to_string(number));
    return false;
  }

  tuttiResult_t async_ = tuttiSuccess;
};

}  // namespace
}  // namespace tutti::api_test

int main(int argc, char** argv) {
  using namespace tutti::api_test;
  const tutti::testing_support::TeamProgram program = {
      .limit_ns = kLimitNs,
      .body = [](Member& member) { Rank(member).run(); },
      .name = [](uint64_t) { return std::string("early_leaver"); }};
  return program.run(argc, argv);
}
