// one_sided: many origins to one target, all sizes, targets that call nothing, windows that are
// deregistered while peers still use them, and what is refused.
//
//   --network default|tcp|mixed  --threads 0|1  --ranks N
//
// Exit status: 0 all was right, 1 it was not, 2 the command line is wrong.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/dice.h"
#include "tests/support/options.h"
#include "tests/support/sanitizer.h"
#include "tests/support/team.h"
#include "tests/support/team_rank.h"

namespace tutti::api_test {
namespace {

using testing_support::Member;

constexpr size_t kBytes = 16 << 20;
constexpr size_t kSlot = 2 << 20;  // of each origin in a target's part
constexpr uint64_t kLimitNs = 300'000'000'000;
constexpr uint64_t kPatienceNs = 20'000'000'000;
constexpr uint32_t kData = 0, kTaken = 1, kCount = 15;  // signals

using Bytes = std::vector<unsigned char>;

Bytes pattern(size_t bytes, uint64_t seed) {
  Bytes data(bytes);
  for (size_t i = 0; i < bytes; ++i) {
    data[i] = static_cast<unsigned char>(testing_support::mix(seed, i / 8) >> (i % 8 * 8));
  }
  return data;
}

uint64_t seed_of(int origin, int target, size_t bytes) {
  return bytes * 10'000 + static_cast<uint64_t>(origin * 100 + target);
}

class Rank : testing_support::TeamRank {
 public:
  explicit Rank(Member& member) : TeamRank(member), rank_(member.rank()), ranks_(member.ranks()) {}

  void run() {
    if (!open()) return;
    using Scenario = bool (Rank::*)();
    constexpr Scenario kScenarios[] = {
        &Rank::everybody_to_each,   &Rank::large,  &Rank::passive_target, &Rank::signals_count,
        &Rank::beside_a_collective, &Rank::bounds, &Rank::deregistered,   &Rank::many_windows,
    };
    uint64_t step = 0;
    for (const Scenario scenario : kScenarios) {
      member_.at(++step);
      // By the library, because a put of the next one is ordered behind what I read in this one.
      if (!(this->*scenario)() || !ok(tuttiBarrier(comm_, tuttiBlocking()))) return;
    }
    // The window stays open: who leaves is not put to any more, so its memory may go.
    if (ok(tuttiCommDestroy(comm_))) ok(tuttiMemFree(memory_));
  }

 private:
  bool right(bool condition, const std::string& what) {
    if (!condition) member_.fail(what);
    return condition;
  }
  bool refused(tuttiResult_t result, tuttiResult_t wanted, const std::string& what) {
    return right(result == wanted,
                 what + ": " + tuttiGetErrorString(result) + ", " + tuttiGetLastError(comm_));
  }

  bool open() {
    return join() && ok(tuttiMemAlloc(&memory_, kBytes)) &&
           ok(tuttiCommWindowRegister(comm_, memory_, kBytes, &window_, 0));
  }
  unsigned char* mine() const { return static_cast<unsigned char*>(memory_); }
  bool holds(size_t offset, const Bytes& wanted, const std::string& what) {
    return right(std::equal(wanted.begin(), wanted.end(), mine() + offset), what);
  }

  // In turn every rank is the target of all, itself included.
  bool everybody_to_each() {
    for (const size_t bytes :
         {size_t{0}, size_t{1}, size_t{3}, size_t{4097}, size_t{65537}, size_t{1048577}}) {
      for (int target = 0; target < ranks_; ++target) {
        if (!put_to(target, bytes) || (rank_ == target && !take_all(bytes))) return false;
        if (!ok(tuttiWaitSignal(target, window_, kTaken, 1, tuttiBlocking()))) return false;
      }
    }
    return true;
  }

  bool put_to(int target, size_t bytes) {
    Bytes data = pattern(bytes, seed_of(rank_, target, bytes));
    const size_t offset = static_cast<size_t>(rank_) * kSlot;
    // In two halves: the signal is behind both.
    const size_t half = bytes / 2;
    if (!ok(tuttiPut(data.data(), half, target, window_, offset, tuttiBlocking())) ||
        !ok(tuttiPutSignal(data.data() + half, bytes - half, target, window_, offset + half, kData,
                           tuttiBlocking()))) {
      return false;
    }
    std::fill(data.begin(), data.end(), static_cast<unsigned char>(0xee));  // it is mine again
    return true;
  }

  bool take_all(size_t bytes) {
    for (int origin = ranks_ - 1; origin >= 0; --origin) {
      if (!ok(tuttiWaitSignal(origin, window_, kData, 1, tuttiBlocking())) ||
          !holds(static_cast<size_t>(origin) * kSlot, pattern(bytes, seed_of(origin, rank_, bytes)),
                 std::to_string(bytes) + " bytes of rank " + std::to_string(origin) +
                     " are not as they were put")) {
        return false;
      }
    }
    for (int origin = 0; origin < ranks_; ++origin) {
      if (!ok(tuttiSignal(origin, window_, kTaken, tuttiBlocking()))) return false;
    }
    return true;
  }

  // All at once, in a ring.
  bool large() {
    const int next = (rank_ + 1) % ranks_, previous = (rank_ + ranks_ - 1) % ranks_;
    const Bytes data = pattern(kBytes, static_cast<uint64_t>(rank_));
    return ok(tuttiBarrier(comm_, tuttiBlocking())) &&
           ok(tuttiPutSignal(data.data(), kBytes, next, window_, 0, kData, tuttiBlocking())) &&
           ok(tuttiWaitSignal(previous, window_, kData, 1, tuttiBlocking())) &&
           holds(0, pattern(kBytes, static_cast<uint64_t>(previous)), "16 MiB are not as put");
  }

  // Rank 0 is in no call of the library, and is put to and got from all the same. A get sees the
  // puts before it, so one of nothing waits until they are there.
  bool passive_target() {
    bool good = true;
    if (rank_ > 0) {
      const size_t offset = static_cast<size_t>(rank_) * kSlot;
      for (const size_t bytes : {size_t{8}, kSlot}) {
        const Bytes data = pattern(bytes, static_cast<uint64_t>(rank_));
        Bytes back(bytes);
        good = good && ok(tuttiPut(data.data(), bytes, 0, window_, offset, tuttiBlocking())) &&
               ok(tuttiGet(nullptr, 0, 0, window_, 0, tuttiBlocking())) &&
               ok(tuttiGet(back.data(), bytes, 0, window_, offset, tuttiBlocking())) &&
               right(back == data, "a get does not see the put before it");
      }
      good = good && ok(tuttiSignal(0, window_, kData, tuttiBlocking()));
    }
    if (!good || !member_.meet() || rank_ > 0) return good;
    for (int origin = 1; origin < ranks_ && good; ++origin) {
      good = ok(tuttiWaitSignal(origin, window_, kData, 1, tuttiBlocking())) &&
             holds(static_cast<size_t>(origin) * kSlot,
                   pattern(kSlot, static_cast<uint64_t>(origin)), "a put is not there");
    }
    return good;
  }

  bool signals_count() {
    constexpr int kTimes = testing_support::kSanitized ? 100 : 500;
    for (int i = 0; i < kTimes; ++i) {
      for (int peer = 0; peer < ranks_; ++peer) {
        if (!ok(tuttiSignal(peer, window_, kCount, tuttiBlocking()))) return false;
      }
    }
    for (int peer = 0; peer < ranks_; ++peer) {
      for (const uint64_t times : {uint64_t{1}, uint64_t{0}, uint64_t{kTimes - 1}}) {
        if (!ok(tuttiWaitSignal(peer, window_, kCount, times, tuttiBlocking()))) return false;
      }
    }
    return true;
  }

  // Puts arrive while their target is in collectives of the same communicator, in a group, too.
  bool beside_a_collective() {
    const int next = (rank_ + 1) % ranks_, previous = (rank_ + ranks_ - 1) % ranks_;
    std::vector<float> send(100'000, 1.0f), recv(send.size());
    constexpr int kRounds = testing_support::kSanitized ? 5 : 20;
    for (int round = 0; round < kRounds; ++round) {
      const Bytes data = pattern(kSlot - 1, static_cast<uint64_t>(rank_ * 100 + round));
      const bool good =
          ok(tuttiPutSignal(data.data(), data.size(), next, window_, 1, kData, tuttiBlocking())) &&
          ok(tuttiGroupStart()) &&
          ok(tuttiWaitSignal(previous, window_, kData, 1, tuttiBlocking())) &&
          ok(tuttiAllReduce(send.data(), recv.data(), send.size(), tuttiFloat32, tuttiSum, comm_,
                            tuttiBlocking())) &&
          ok(tuttiGroupEnd()) &&
          holds(1, pattern(kSlot - 1, static_cast<uint64_t>(previous * 100 + round)),
                "a put beside a collective") &&
          right(recv[99'999] == static_cast<float>(ranks_), "a wrong sum beside puts") &&
          ok(tuttiBarrier(comm_, tuttiBlocking()));
      if (!good) return false;
    }
    return true;
  }

  bool bounds() {
    const Bytes data(16, 0xcc);
    Bytes here(16);
    for (int peer = 0; peer < ranks_; ++peer) {
      const size_t ends[] = {kBytes - 15, kBytes, kBytes + 1, SIZE_MAX - 8};
      for (const size_t offset : ends) {
        if (!refused(tuttiPut(data.data(), 16, peer, window_, offset, tuttiBlocking()),
                     tuttiInvalidArgument, "a put beyond the end") ||
            !refused(tuttiGet(here.data(), 16, peer, window_, offset, tuttiBlocking()),
                     tuttiInvalidArgument, "a get beyond the end")) {
          return false;
        }
      }
      const std::string whose = "rank " + std::to_string(peer);
      if (!right(std::strstr(tuttiGetLastError(comm_), whose.c_str()) != nullptr,
                 "the message does not name the rank")) {
        return false;
      }
    }
    return ok(tuttiBarrier(comm_, tuttiBlocking()));
  }

  // Rank 0 ends its part while the others still put there: they are told, and nothing is written.
  bool deregistered() {
    void* memory = nullptr;
    tuttiWindow_t window = nullptr;
    if (!ok(tuttiMemAlloc(&memory, kSlot)) ||
        !ok(tuttiCommWindowRegister(comm_, memory, kSlot, &window, 0))) {
      return false;
    }
    const Bytes data(kSlot / static_cast<size_t>(ranks_), 0x55);
    bool good = true;
    if (rank_ == 0) {
      testing_support::sleep_ns(3'000'000);  // the others are at it
      good = ok(tuttiCommWindowDeregister(comm_, window));
      std::memset(memory, 0x77, kSlot);
    } else {
      good = put_until_refused(window, data);
    }
    if (!good || !member_.meet()) return false;
    if (rank_ == 0) {
      const auto* bytes = static_cast<const unsigned char*>(memory);
      good = right(std::all_of(bytes, bytes + kSlot, [](unsigned char b) { return b == 0x77; }),
                   "a put came after the window was deregistered");
    } else {
      Bytes back(8);
      good = refused(tuttiGet(back.data(), 8, 0, window, 0, tuttiBlocking()), tuttiInvalidUsage,
                     "a get from a deregistered part") &&
             ok(tuttiCommWindowDeregister(comm_, window));
    }
    // The communicator is as good as before.
    return good && ok(tuttiBarrier(comm_, tuttiBlocking())) && ok(tuttiMemFree(memory));
  }

  // Each where no other puts: nothing orders them.
  bool put_until_refused(tuttiWindow_t window, const Bytes& data) {
    const size_t offset = static_cast<size_t>(rank_) * data.size();
    for (const uint64_t end_ns = testing_support::now_ns() + kPatienceNs;
         testing_support::now_ns() < end_ns;) {
      const tuttiResult_t result =
          tuttiPut(data.data(), data.size(), 0, window, offset, tuttiBlocking());
      if (result == tuttiSuccess) continue;
      return refused(result, tuttiInvalidUsage, "a put to a deregistered part") &&
             right(std::strstr(tuttiGetLastError(comm_), "rank 0") != nullptr,
                   "the refusal does not name rank 0");
    }
    return right(false, "puts to a deregistered part were never refused");
  }

  // A put into one window, the signal in another, which has no memory: order holds for both.
  bool many_windows() {
    tuttiWindow_t signals = nullptr;
    if (!ok(tuttiCommWindowRegister(comm_, nullptr, 0, &signals, 0))) return false;
    for (int peer = 0; peer < ranks_; ++peer) {
      const Bytes data = pattern(kSlot, static_cast<uint64_t>(rank_ + 7));
      if (!ok(tuttiPut(data.data(), kSlot, peer, window_, static_cast<size_t>(rank_) * kSlot,
                       tuttiBlocking())) ||
          !ok(tuttiSignal(peer, signals, 0, tuttiBlocking()))) {
        return false;
      }
    }
    for (int peer = 0; peer < ranks_; ++peer) {
      if (!ok(tuttiWaitSignal(peer, signals, 0, 1, tuttiBlocking())) ||
          !holds(static_cast<size_t>(peer) * kSlot, pattern(kSlot, static_cast<uint64_t>(peer + 7)),
                 "a signal of another window overtook a put")) {
        return false;
      }
    }
    return ok(tuttiBarrier(comm_, tuttiBlocking())) &&
           ok(tuttiCommWindowDeregister(comm_, signals));
  }

  const int rank_, ranks_;
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
      .name = [](uint64_t step) { return "scenario " + std::to_string(step); }};
  return program.run(argc, argv);
}
