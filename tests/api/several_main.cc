// several: communicators beside each other in the same processes, over one pair of connections or
// one shared memory: on two HOST streams in opposite order, mixed with blocking calls, and groups
// of nothing but transfers.
//
//   --network default|tcp  --threads 0|1
//
// Exit status: 0 all was right, 1 it was not, 2 the command line is wrong.
#include <iterator>
#include <string>
#include <vector>

#include "tests/support/options.h"
#include "tests/support/team.h"

namespace tutti::api_test {
namespace {

using testing_support::Member;

constexpr int kComms = 3;
constexpr int kTurns = 40;
constexpr uint64_t kLimitNs = 180'000'000'000;

class Rank {
 public:
  explicit Rank(Member& member) : member_(member) {}

  void run() {
    if (!open()) return;
    for (int turn = 0; turn < kTurns; ++turn) {
      member_.at(static_cast<uint64_t>(turn) + 1);
      if (!step(turn)) return;
      if (turn % 8 == 0 && !exchange(turn)) return;
      if (!write_letters(turn)) return;
    }
    for (tuttiStream_t stream : streams_) ok(tuttiStreamDestroy(stream), nullptr);
    for (tuttiComm_t comm : comms_) ok(tuttiCommDestroy(comm), comm);
  }

 private:
  bool ok(tuttiResult_t result, tuttiComm_t comm) {
    if (result != tuttiSuccess) member_.fail(tuttiGetLastError(comm));
    return result == tuttiSuccess;
  }

  // The ids of the further communicators travel over the first.
  bool open() {
    tuttiUniqueId id;
    if (!member_.take_id(id)) return false;
    if (!ok(tuttiCommInitRank(&comms_[0], member_.ranks(), id, member_.rank()), nullptr)) {
      return false;
    }
    for (int i = 1; i < kComms; ++i) {
      if (member_.rank() == 0 && !ok(tuttiGetUniqueId(&id), nullptr)) return false;
      if (!ok(tuttiBroadcast(&id, &id, sizeof id, tuttiUint8, 0, comms_[0], tuttiBlocking()),
              comms_[0])) {
        return false;
      }
      if (!ok(tuttiCommInitRank(&comms_[i], member_.ranks(), id, member_.rank()), nullptr)) {
        return false;
      }
    }
    for (tuttiStream_t& stream : streams_) {
      if (!ok(tuttiStreamCreate(&stream), nullptr)) return false;
    }
    return true;
  }

  // Ranks name the communicators in different orders; each has a stream of its own.
  bool step(int turn) {
    const size_t count = turn % 3 == 0 ? 3 : turn % 3 == 1 ? 5000 : 120'000;
    std::vector<std::vector<int>> sent, got;
    for (int i = 0; i < kComms; ++i) {
      sent.emplace_back(count, value(member_.rank(), i, turn));
      got.emplace_back(count, -1);
    }
    for (int k = 0; k < kComms; ++k) {
      const int i = (k + member_.rank()) % kComms;
      const auto at = static_cast<size_t>(i);
      if (!ok(tuttiAllReduce(sent[at].data(), got[at].data(), count, tuttiInt32, tuttiSum,
                             comms_[i], streams_[i]),
              comms_[i])) {
        return false;
      }
    }
    // A blocking call of a communicator runs behind what it has queued.
    if (turn % 2 == 0 && !ok(tuttiBarrier(comms_[0], tuttiBlocking()), comms_[0])) return false;
    for (tuttiStream_t stream : streams_) {
      if (!ok(tuttiStreamSynchronize(stream), nullptr)) return false;
    }
    return check(turn, got);
  }

  // One group: every rank names the communicators in another order, and on each of them sends more
  // to all others than lies between two ranks, while they do the same.
  bool exchange(int turn) {
    constexpr size_t kCount = 100'000;
    const int ranks = member_.ranks();
    std::vector<std::vector<int>> sums(kComms), got(static_cast<size_t>(kComms * ranks));
    std::vector<std::vector<int>> sent;
    for (int i = 0; i < kComms; ++i) {
      sent.emplace_back(kCount, value(member_.rank(), i, turn));
    }
    if (!ok(tuttiGroupStart(), nullptr)) return false;
    for (int k = 0; k < kComms; ++k) {
      const int i = (k + member_.rank()) % kComms;
      const auto at = static_cast<size_t>(i);
      for (int peer = 0; peer < ranks; ++peer) {
        std::vector<int>& target = got[static_cast<size_t>(i * ranks + peer)];
        target.assign(kCount, -1);
        if (!ok(tuttiSend(sent[at].data(), kCount, tuttiInt32, peer, comms_[i], streams_[i]),
                comms_[i]) ||
            !ok(tuttiRecv(target.data(), kCount, tuttiInt32, peer, comms_[i], tuttiBlocking()),
                comms_[i])) {
          return false;
        }
      }
      sums[at].assign(kCount, -1);
      if (!ok(tuttiAllReduce(sent[at].data(), sums[at].data(), kCount, tuttiInt32, tuttiSum,
                             comms_[i], streams_[0]),
              comms_[i])) {
        return false;
      }
    }
    if (!ok(tuttiGroupEnd(), nullptr)) return false;
    for (tuttiStream_t stream : streams_) {
      if (!ok(tuttiStreamSynchronize(stream), nullptr)) return false;
    }
    for (int i = 0; i < kComms * ranks; ++i) {
      const int expected = value(i % ranks, i / ranks, turn);
      for (const int element : got[static_cast<size_t>(i)]) {
        if (element == expected) continue;
        member_.fail("communicator " + std::to_string(i / ranks) + ": a wrong message");
        return false;
      }
    }
    return check(turn, sums);
  }

  // To every rank several messages in one group, short ones behind long ones: they keep their
  // order.
  bool write_letters(int turn) {
    constexpr size_t kLengths[] = {70'000, 1, 300, 0, 5000, 2};
    constexpr size_t kLetters = std::size(kLengths);
    tuttiComm_t comm = comms_[turn % kComms];
    std::vector<std::vector<int>> sent, got;
    for (size_t i = 0; i < kLetters; ++i) {
      sent.emplace_back(kLengths[i], value(member_.rank(), static_cast<int>(i), turn));
    }
    if (!ok(tuttiGroupStart(), nullptr)) return false;
    for (int peer = 0; peer < member_.ranks(); ++peer) {
      for (size_t i = 0; i < kLetters; ++i) {
        got.emplace_back(kLengths[i], -1);
        if (!ok(tuttiSend(sent[i].data(), kLengths[i], tuttiInt32, peer, comm, tuttiBlocking()),
                comm) ||
            !ok(tuttiRecv(got.back().data(), kLengths[i], tuttiInt32, peer, comm, tuttiBlocking()),
                comm)) {
          return false;
        }
      }
    }
    if (!ok(tuttiGroupEnd(), nullptr)) return false;
    for (size_t i = 0; i < got.size(); ++i) {
      const auto rank = static_cast<int>(i / kLetters), letter = static_cast<int>(i % kLetters);
      for (const int element : got[i]) {
        if (element == value(rank, letter, turn)) continue;
        member_.fail("a wrong letter");
        return false;
      }
    }
    return true;
  }

  bool check(int turn, const std::vector<std::vector<int>>& got) {
    for (int i = 0; i < kComms; ++i) {
      int sum = 0;
      for (int rank = 0; rank < member_.ranks(); ++rank) sum += value(rank, i, turn);
      for (const int element : got[static_cast<size_t>(i)]) {
        if (element == sum) continue;
        member_.fail("communicator " + std::to_string(i) + ": a wrong sum");
        return false;
      }
    }
    return true;
  }

  static int value(int rank, int comm, int turn) { return rank * 100 + comm * 10'000 + turn; }

  Member& member_;
  tuttiComm_t comms_[kComms] = {};
  tuttiStream_t streams_[kComms] = {};
};

}  // namespace
}  // namespace tutti::api_test

int main(int argc, char** argv) {
  using namespace tutti::api_test;
  const tutti::testing_support::TeamProgram program = {
      .limit_ns = kLimitNs,
      .body = [](Member& member) { Rank(member).run(); },
      .name = [](uint64_t step) { return "turn " + std::to_string(step); }};
  return program.run(argc, argv);
}
