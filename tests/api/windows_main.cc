// windows: ranks put to their neighbours and get from them, in rounds ordered by signals alone.
//
//   --network default|tcp|mixed  --threads 0|1
//
// Exit status: 0 all was right, 1 it was not, 2 the command line is wrong.
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/options.h"
#include "tests/support/team.h"
#include "tests/support/team_rank.h"

namespace tutti::api_test {
namespace {

using testing_support::Member;

constexpr int kRounds = 30;
constexpr size_t kPage = 4096;
constexpr size_t kBytes = 1 << 20;
constexpr uint64_t kLimitNs = 180'000'000'000;
constexpr uint32_t kData = 3, kTaken = 4;  // signals

class Rank : testing_support::TeamRank {
 public:
  explicit Rank(Member& member) : TeamRank(member) {
    next_ = (member.rank() + 1) % member.ranks();
    previous_ = (member.rank() + member.ranks() - 1) % member.ranks();
  }

  void run() {
    if (!open()) return;
    bool good = to_myself();
    for (int round = 0; round < kRounds && good; ++round) good = turn(round);
    good = good && signals_are_counted() && group() && from_all();
    ok(tuttiBarrier(comm_, tuttiBlocking()));
    ok(tuttiCommWindowDeregister(comm_, window_));
    ok(tuttiBarrier(comm_, tuttiBlocking()));
    ok(tuttiStreamDestroy(queue_));
    ok(tuttiCommDestroy(comm_));
    ok(tuttiMemFree(memory_));
  }

 private:
  bool right(bool condition, const char* what) {
    if (!condition) member_.fail(what);
    return condition;
  }

  bool open() {
    return join() && ok(tuttiStreamCreate(&queue_)) &&
           ok(tuttiMemAlloc(&memory_, kBytes + kPage)) &&
           // Not where the memory begins.
           ok(tuttiCommWindowRegister(comm_, mine(), kBytes, &window_, 0));
  }
  char* mine() const { return static_cast<char*>(memory_) + kPage; }

  bool to_myself() {
    const char text[] = "here";
    return ok(tuttiPutSignal(text, sizeof text, member_.rank(), window_, 100, 1, queue_)) &&
           ok(tuttiWaitSignal(member_.rank(), window_, 1, 1, queue_)) &&
           ok(tuttiStreamSynchronize(queue_)) &&
           right(std::strcmp(mine() + 100, text) == 0, "a put to myself is not there");
  }

  // All data of my neighbour's put is there when its signal is, and it puts again when I say so.
  bool turn(int round) {
    const tuttiStream_t stream = round % 2 == 0 ? tuttiBlocking() : queue_;
    const size_t bytes = round % 3 == 0 ? 8 : kBytes;
    std::vector<unsigned char> sent(bytes, static_cast<unsigned char>(member_.rank() + round));
    if (!ok(tuttiPutSignal(sent.data(), bytes, next_, window_, 0, kData, stream)) ||
        !ok(tuttiWaitSignal(previous_, window_, kData, 1, stream)) ||
        !ok(tuttiStreamSynchronize(stream))) {
      return false;
    }
    const std::vector<unsigned char> wanted(bytes, static_cast<unsigned char>(previous_ + round));
    return right(std::memcmp(mine(), wanted.data(), bytes) == 0, "a put is not as it was sent") &&
           ok(tuttiSignal(previous_, window_, kTaken, stream)) &&
           ok(tuttiWaitSignal(next_, window_, kTaken, 1, stream));
  }

  bool signals_are_counted() {
    for (int i = 0; i < 5; ++i) {
      if (!ok(tuttiSignal(next_, window_, 0, tuttiBlocking()))) return false;
    }
    return ok(tuttiWaitSignal(previous_, window_, 0, 0, tuttiBlocking())) &&
           ok(tuttiWaitSignal(previous_, window_, 0, 3, tuttiBlocking())) &&
           ok(tuttiWaitSignal(previous_, window_, 0, 2, tuttiBlocking()));
  }

  // Every rank names its wait first, and two its collective last.
  bool group() {
    int one = 1, sum = 0;
    return ok(tuttiGroupStart()) &&
           ok(tuttiWaitSignal(previous_, window_, 5, 1, tuttiBlocking())) &&
           ok(tuttiSignal(next_, window_, 5, queue_)) &&
           ok(tuttiAllReduce(&one, &sum, 1, tuttiInt32, tuttiSum, comm_, tuttiBlocking())) &&
           ok(tuttiGroupEnd()) && right(sum == member_.ranks(), "a wrong sum in a group");
  }

  bool from_all() {
    int value = member_.rank() + 1000;
    if (!ok(tuttiPut(&value, sizeof value, member_.rank(), window_, kBytes - 4, tuttiBlocking())) ||
        !ok(tuttiBarrier(comm_, tuttiBlocking()))) {
      return false;
    }
    for (int peer = 0; peer < member_.ranks(); ++peer) {
      int got = 0;
      if (!ok(tuttiGet(&got, sizeof got, peer, window_, kBytes - 4, queue_)) ||
          !ok(tuttiStreamSynchronize(queue_)) || !right(got == peer + 1000, "a wrong get")) {
        return false;
      }
    }
    return true;
  }

  int next_ = 0, previous_ = 0;
  tuttiStream_t queue_{};
  void* memory_ = nullptr;
  tuttiWindow_t window_ = nullptr;
};

}  // namespace
}  // namespace tutti::api_test

int main(int argc, char** argv) {
  using namespace tutti::api_test;
  const tutti::testing_support::TeamProgram program = {
      .limit_ns = kLimitNs,
      .body = [](Member& member) { Rank(member).run(); },
      .name = [](uint64_t) { return std::string("windows"); }};
  return program.run(argc, argv);
}
