// shared_connections: ranks that meet in many communicators hold as many TCP connections as with
// one, and what becomes of one communicator is nothing to the others.
//
//   --ranks N           processes (default 3)
//   --communicators N   as many, by unique ids and by splits that turn the ranks round (default 50)
//
// Each rank makes one communicator, lets all pairs talk and counts its connections. Then it makes
// and uses the others; destroys some, aborts one, and lets the calls of one differ, and uses the
// rest after each. The connections are counted by the sockets that the kernel knows: they stay what
// they were. Exit status: 0 they did; 1 they did not; 2 the command line is wrong.
#include <sys/types.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "tests/support/connected_sockets.h"
#include "tests/support/options.h"
#include "tests/support/team.h"

namespace tutti::ranks_test {
namespace {

using testing_support::connected_sockets;
using testing_support::Member;
using testing_support::now_ns;
using testing_support::sleep_ns;
using testing_support::TeamShape;

constexpr uint64_t kLimitNs = 280'000'000'000;
constexpr uint64_t kSettleNs = 60'000'000'000;
constexpr uint64_t kLookNs = 10'000'000;

class Rank {
 public:
  Rank(Member& member, int communicators) : member_(member), count_(communicators) {}

  void run() {
    tuttiUniqueId id;
    if (!member_.take_id(id)) return;
    tuttiComm_t first = nullptr;
    if (!check(nullptr, tuttiCommInitRank(&first, member_.ranks(), id, member_.rank()), "first")) {
      return;
    }
    comms_.push_back(first);
    if (!use_all() || !remember()) return;
    if (!make_others() || !use_all() || !same("all are in use")) return;
    if (!destroy_some() || !use_all() || !same("some were destroyed")) return;
    if (!fail_by_mismatch() || !use_all() || !same("the calls of one differed")) return;
    if (!abort_one() || !use_all() || !same("one was aborted")) return;
    while (!comms_.empty()) {
      if (!end(comms_.size() - 1)) return;
    }
  }

 private:
  bool check(tuttiComm_t comm, tuttiResult_t result, const char* what) {
    if (result == tuttiSuccess) return true;
    member_.fail(std::string(what) + ": " + tuttiGetLastError(comm));
    return false;
  }

  /// Every rank talks with every other one.
  bool use(tuttiComm_t comm) {
    const auto ranks = static_cast<size_t>(member_.ranks());
    int own = -1;
    if (!check(comm, tuttiCommUserRank(comm, &own), "rank")) return false;
    const std::vector<int32_t> mine(ranks, own);
    std::vector<int32_t> all(ranks, -1);
    if (!check(comm, tuttiAllToAll(mine.data(), all.data(), 1, tuttiInt32, comm, tuttiBlocking()),
               "all_to_all")) {
      return false;
    }
    for (size_t rank = 0; rank < ranks; ++rank) {
      if (all[rank] == static_cast<int32_t>(rank)) continue;
      member_.fail("a wrong number");
      return false;
    }
    return true;
  }

  bool use_all() {
    return std::all_of(comms_.begin(), comms_.end(), [&](tuttiComm_t comm) { return use(comm); });
  }

  bool make_by_id(tuttiComm_t& made) {
    tuttiUniqueId id{};
    if (member_.rank() == 0 && !check(nullptr, tuttiGetUniqueId(&id), "id")) return false;
    return check(comms_[0],
                 tuttiBroadcast(id.internal, id.internal, sizeof id.internal, tuttiInt8, 0,
                                comms_[0], tuttiBlocking()),
                 "broadcast of an id") &&
           check(nullptr, tuttiCommInitRank(&made, member_.ranks(), id, member_.rank()), "init");
  }

  bool make_others() {
    for (int i = 1; i < count_; ++i) {
      tuttiComm_t made = nullptr;
      // The ranks of every other split are turned round.
      const int key = i % 4 == 0 ? -member_.rank() : member_.rank();
      const bool ok =
          i % 2 == 1 ? make_by_id(made)
                     : check(comms_[0], tuttiCommSplit(comms_[0], 0, key, &made, nullptr), "split");
      if (!ok) return false;
      comms_.push_back(made);
    }
    return true;
  }

  bool end(size_t at) {
    tuttiComm_t comm = comms_[at];
    comms_.erase(comms_.begin() + static_cast<std::ptrdiff_t>(at));
    return check(nullptr, tuttiCommDestroy(comm), "destroy");
  }

  /// Every third one, the first too, with whose key the connections were made.
  bool destroy_some() {
    for (size_t at = 0; at + 3 < comms_.size(); at += 2) {
      if (!end(at)) return false;
    }
    return true;
  }

  bool abort_one() {
    tuttiComm_t comm = comms_.back();
    comms_.pop_back();
    return check(nullptr, tuttiCommAbort(comm), "abort");
  }

  bool fail_by_mismatch() {
    tuttiComm_t comm = comms_.back();
    comms_.pop_back();
    const size_t count = member_.rank() == 0 ? 1000 : 2000;
    std::vector<int32_t> send(count, 1), recv(count);
    const tuttiResult_t result = tuttiAllReduce(send.data(), recv.data(), count, tuttiInt32,
                                                tuttiSum, comm, tuttiBlocking());
    if (result == tuttiSuccess) {
      member_.fail("calls that differ have succeeded");
      return false;
    }
    return check(nullptr, tuttiCommAbort(comm), "abort after a mismatch");
  }

  bool remember() {
    if (!member_.meet()) return false;
    const auto expected = static_cast<size_t>(member_.ranks() - 1);
    const uint64_t end_ns = now_ns() + kSettleNs;
    while ((first_ = connected_sockets()).size() != expected && now_ns() < end_ns)
      sleep_ns(kLookNs);
    if (first_.size() != expected) {
      member_.fail("one communicator has " + std::to_string(first_.size()) + " connections");
      return false;
    }
    return member_.meet();
  }

  /// Ranks that meet to split have connections of their own for a moment.
  bool same(const char* when) {
    if (!member_.meet()) return false;
    const uint64_t end_ns = now_ns() + kSettleNs;
    std::set<ino_t> found;
    while ((found = connected_sockets()) != first_ && now_ns() < end_ns) sleep_ns(kLookNs);
    if (member_.rank() == 0) {
      std::printf("%s: %zu communicators, %zu connections\n", when, comms_.size(), found.size());
    }
    if (found != first_) {
      member_.fail(std::string(when) + ": " + std::to_string(found.size()) +
                   " connections, and they were " + std::to_string(first_.size()) +
                   ", or these are others");
      return false;
    }
    return member_.meet();
  }

  Member& member_;
  const int count_;
  std::vector<tuttiComm_t> comms_;
  std::set<ino_t> first_;
};

}  // namespace
}  // namespace tutti::ranks_test

int main(int argc, char** argv) {
  using namespace tutti::ranks_test;
  using namespace tutti::testing_support;
  int ranks = 3, communicators = 50;
  if (!read_options(argc, argv,
                    {{"--ranks", into(ranks, 2, kMaxRanks)},
                     {"--communicators", into(communicators, 8, 1000)}})) {
    return 2;
  }
  TeamShape shape = TeamShape::processes(ranks);
  shape.use(Network::kTcp);
  const auto result = run_team(
      shape, [=](Member member) { Rank(member, communicators).run(); },
      [](uint64_t) { return std::string("the calls"); }, kLimitNs);
  if (!result.ok) std::printf("%s", result.report.c_str());
  return result.ok ? 0 : 1;
}
