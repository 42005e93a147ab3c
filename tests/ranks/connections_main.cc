// connections: how many TCP connections ranks hold that connect when they first talk.
//
//   --ranks N   processes (default 8)
//   --lazy L    1 (default) or 0: TUTTI_LAZY_CONNECT
//
// Every rank counts its own after the communicator is made, after an all_reduce by the ring, and
// after an all_to_all (up to 16 ranks). Exit status: 0 they are what they should be, and so are the
// results; 1 they are not; 2 the command line is wrong.
#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/support/connected_sockets.h"
#include "tests/support/options.h"
#include "tests/support/team.h"

namespace tutti::ranks_test {
namespace {

using testing_support::Member;
using testing_support::now_ns;
using testing_support::sleep_ns;
using testing_support::TeamShape;

constexpr uint64_t kLimitNs = 280'000'000'000;
constexpr uint64_t kSettleNs = 60'000'000'000;
constexpr uint64_t kLookNs = 10'000'000;
constexpr int kMostForAll = 16;  // an all_to_all of more takes long where they share few cores

int count_connections() { return static_cast<int>(testing_support::connected_sockets().size()); }

struct Expected {
  int least;
  int most;
};

// Connections are made beside the calls: for as long as two ranks call each other, a pair has more
// than one, and a call that was declined is held until there is a connection.
int count_settled(Expected expected) {
  const uint64_t end_ns = now_ns() + kSettleNs;
  for (;;) {
    const int found = count_connections();
    if ((found >= expected.least && found <= expected.most) || now_ns() > end_ns) return found;
    sleep_ns(kLookNs);
  }
}

bool expect(Member& member, const char* when, Expected expected) {
  if (!member.meet()) return false;  // both ends of every connection are counted
  const int found = count_settled(expected);
  if (member.rank() == 0) std::printf("%s: %d connections\n", when, found);
  if (found < expected.least || found > expected.most) {
    member.fail(std::string(when) + ": " + std::to_string(found) + " connections, expected " +
                std::to_string(expected.least) + " to " + std::to_string(expected.most));
    return false;
  }
  return member.meet();
}

bool check(Member& member, tuttiComm_t comm, tuttiResult_t result, const char* what) {
  if (result != tuttiSuccess) member.fail(std::string(what) + ": " + tuttiGetLastError(comm));
  return result == tuttiSuccess;
}

bool reduce_by_ring(Member& member, tuttiComm_t comm) {
  tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
  options.algorithm = "ring";
  if (!check(member, comm, tuttiCommSetOptions(comm, &options), "options")) return false;
  const std::vector<int32_t> mine(1000, 1);
  std::vector<int32_t> sum(mine.size());
  const tuttiResult_t result = tuttiAllReduce(mine.data(), sum.data(), mine.size(), tuttiInt32,
                                              tuttiSum, comm, tuttiBlocking());
  if (!check(member, comm, result, "all_reduce")) return false;
  if (sum != std::vector<int32_t>(mine.size(), member.ranks())) member.fail("a wrong sum");
  return check(member, comm, tuttiCommSetOptions(comm, nullptr), "options");
}

bool exchange(Member& member, tuttiComm_t comm) {
  const auto ranks = static_cast<size_t>(member.ranks());
  const std::vector<int32_t> mine(ranks, member.rank());
  std::vector<int32_t> all(ranks);
  if (!check(member, comm,
             tuttiAllToAll(mine.data(), all.data(), 1, tuttiInt32, comm, tuttiBlocking()),
             "all_to_all")) {
    return false;
  }
  for (size_t rank = 0; rank < ranks; ++rank) {
    if (all[rank] != static_cast<int32_t>(rank)) member.fail("a wrong number");
  }
  return true;
}

void run_rank(Member& member, bool lazy) {
  tuttiUniqueId id;
  tuttiComm_t comm = nullptr;
  if (!member.take_id(id)) return;
  const int before = count_connections();
  if (tuttiCommInitRank(&comm, member.ranks(), id, member.rank()) != tuttiSuccess) {
    return member.fail(tuttiGetLastError(nullptr));
  }
  const int all = before + member.ranks() - 1;
  // A rank may have some from the start (decision 0015), one for each power of two, both ways.
  const int few =
      before + 2 * static_cast<int>(std::bit_width(static_cast<unsigned>(member.ranks() - 1)));
  const Expected made = lazy ? Expected{before, std::min(few, all)} : Expected{all, all};
  const Expected talked = lazy ? Expected{before + 1, std::min(few + 2, all)} : made;
  if (!expect(member, "made", made)) return;
  if (!reduce_by_ring(member, comm)) return;
  if (!expect(member, "ring", talked)) return;
  if (member.ranks() <= kMostForAll) {
    for (int call = 0; call < 3; ++call) {
      if (!exchange(member, comm)) return;
    }
    if (!expect(member, "all_to_all", {before + 1, all})) return;
  }
  check(member, comm, tuttiCommDestroy(comm), "destroy");
}

}  // namespace
}  // namespace tutti::ranks_test

int main(int argc, char** argv) {
  using namespace tutti::ranks_test;
  using namespace tutti::testing_support;
  int ranks = 8;
  bool lazy = true;
  if (!read_options(argc, argv, {{"--ranks", into(ranks, 2, kMaxRanks)}, {"--lazy", into(lazy)}})) {
    return 2;
  }
  TeamShape shape = TeamShape::processes(ranks);
  shape.environment.assign(static_cast<size_t>(ranks), {{"TUTTI_LAZY_CONNECT", lazy ? "1" : "0"}});
  shape.use(Network::kTcp);
  const auto result = run_team(
      shape, [lazy](Member member) { run_rank(member, lazy); },
      [](uint64_t) { return std::string("the calls"); }, kLimitNs);
  if (!result.ok) std::printf("%s", result.report.c_str());
  return result.ok ? 0 : 1;
}
