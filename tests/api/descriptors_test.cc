// Descriptors and mappings. A rank that has no descriptors left when a window is registered: every
// rank gets an error that says so, nothing hangs, and the communicator is as good as before.
// Registering and deregistering leaves nothing behind.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/few_descriptors.h"
#include "tests/support/single_copies.h"
#include "tests/support/team.h"
#include "tests/support/team_rank.h"

namespace tutti::api_test {
namespace {

using testing_support::FewDescriptors;
using testing_support::kSanitizerNeedsDescriptors;
using testing_support::Member;
using testing_support::TeamShape;

constexpr int kRanks = 3;
constexpr int kPoor = 1;  // the rank
constexpr size_t kBytes = 10'000;
constexpr uint64_t kLimitNs = 240'000'000'000;

class Rank : testing_support::TeamRank {
 public:
  explicit Rank(Member& member) : TeamRank(member) {}

  void run() {
    if (!join()) return;
    size_t failures = 0;
    // With one more each time, so that every descriptor of a registration is once the missing one.
    while (failures < kMostFailures && !registered(failures)) {
      if (!is_fine(failures++)) return;
    }
    if (failures == 0) return member_.fail("without descriptors it was registered");
    if (failures == kMostFailures) return member_.fail("it was never registered");
    if (use()) ok(tuttiCommDestroy(comm_));
  }

 private:
  static constexpr size_t kMostFailures = 20;

  bool registered(size_t room) {
    if (member_.rank() == kPoor) {
      const FewDescriptors few(room);
      result_ = tuttiCommWindowRegister(comm_, memory_.data(), kBytes, &window_, 0);
    } else {
      result_ = tuttiCommWindowRegister(comm_, memory_.data(), kBytes, &window_, 0);
    }
    message_ = tuttiGetLastError(comm_);
    return result_ == tuttiSuccess;
  }

  bool is_fine(size_t room) {
    const bool poor = member_.rank() == kPoor;
    const std::string who = poor ? "" : "rank 1 (process ";
    const std::string wanted = poor ? "Too many open files" : ") could not register its part";
    if (result_ != (poor ? tuttiSystemError : tuttiInvalidUsage) || window_ != nullptr ||
        message_.find(who) == std::string::npos || message_.find(wanted) == std::string::npos) {
      member_.fail("with " + std::to_string(room) + ": " + tuttiGetErrorString(result_) + ", " +
                   message_);
      return false;
    }
    return ok(tuttiBarrier(comm_, tuttiBlocking()));
  }

  bool use() {
    const int next = (member_.rank() + 1) % kRanks, previous = (member_.rank() + 2) % kRanks;
    const std::vector<char> data(kBytes, static_cast<char>(member_.rank() + 1));
    if (!ok(tuttiPutSignal(data.data(), kBytes, next, window_, 0, 0, tuttiBlocking())) ||
        !ok(tuttiWaitSignal(previous, window_, 0, 1, tuttiBlocking()))) {
      return false;
    }
    if (memory_ != std::vector<char>(kBytes, static_cast<char>(previous + 1))) {
      member_.fail("the put is not there");
    }
    return ok(tuttiBarrier(comm_, tuttiBlocking()));
  }

  tuttiWindow_t window_ = nullptr;
  tuttiResult_t result_ = tuttiSuccess;
  std::string message_;
  std::vector<char> memory_ = std::vector<char>(kBytes);
};

class FewDescriptorsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (kSanitizerNeedsDescriptors) GTEST_SKIP() << "the sanitizer itself needs descriptors";
  }
};

void register_with_few(const std::string& network) {
  TeamShape shape = TeamShape::processes(kRanks);
  for (int rank = 0; rank < kRanks; ++rank) {
    // Connected beforehand: what is missing shall be missing in the registration.
    testing_support::Environment own = {{"TUTTI_TIMEOUT", "20"}, {"TUTTI_LAZY_CONNECT", "0"}};
    if (network == "tcp") own["TUTTI_TRANSPORTS"] = "tcp";
    if (network == "mixed") own["TUTTI_HOST_ID"] = rank == 0 ? "first" : "second";
    shape.environment.push_back(own);
  }
  const auto result = testing_support::run_team(
      shape, [](Member& member) { Rank(member).run(); },
      [](uint64_t) { return std::string("registration"); }, kLimitNs);
  EXPECT_TRUE(result.ok) << result.report;
}

TEST_F(FewDescriptorsTest, RegisteringAWindowOnOneHost) {
  if (!testing_support::siblings_may_copy()) GTEST_SKIP() << testing_support::kNoSingleCopies;
  register_with_few("default");
}
TEST_F(FewDescriptorsTest, RegisteringAWindowOverTcp) { register_with_few("tcp"); }
TEST_F(FewDescriptorsTest, RegisteringAWindowOnTwoHosts) {
  if (!testing_support::siblings_may_copy()) GTEST_SKIP() << testing_support::kNoSingleCopies;
  register_with_few("mixed");
}

/// Rank 1 splits with few descriptors to open: the soft limit is raised for it. Then with the hard
/// limit as low, which it says instead of waiting for the others; they learn of it when it aborts.
void split_with_few(Member& member) {
  tuttiUniqueId id;
  tuttiComm_t comm = nullptr, made = nullptr;
  if (!member.take_id(id) ||
      tuttiCommInitRank(&comm, member.ranks(), id, member.rank()) != tuttiSuccess) {
    return member.fail(tuttiGetLastError(comm));
  }
  const bool poor = member.rank() == kPoor;
  for (const size_t room : {0, 1}) {
    const auto few = poor ? std::make_unique<FewDescriptors>(room) : nullptr;
    if (tuttiCommSplit(comm, 0, 0, &made, nullptr) != tuttiSuccess ||
        tuttiCommDestroy(made) != tuttiSuccess) {
      return member.fail(std::to_string(room) + ": " + tuttiGetLastError(comm));
    }
  }
  const auto few = poor ? std::make_unique<FewDescriptors>(1) : nullptr;
  if (poor) {
    rlimit low{};
    getrlimit(RLIMIT_NOFILE, &low);
    low.rlim_max = low.rlim_cur;
    setrlimit(RLIMIT_NOFILE, &low);
  }
  const tuttiResult_t result = tuttiCommSplit(comm, 0, 0, &made, nullptr);
  const std::string message = tuttiGetLastError(comm);
  if (result != (poor ? tuttiSystemError : tuttiRemoteError) ||
      (poor && (message.find("Too many open files") == std::string::npos ||
                message.find("raise it (ulimit -Hn)") == std::string::npos))) {
    member.fail(std::string(tuttiGetErrorString(result)) + ", " + message);
  }
  tuttiCommAbort(comm);
}

TEST_F(FewDescriptorsTest, Splitting) {
  TeamShape shape = TeamShape::processes(kRanks);
  const auto result = testing_support::run_team(
      shape, split_with_few, [](uint64_t) { return std::string("split"); }, kLimitNs);
  EXPECT_TRUE(result.ok) << result.report;
}

/// Ports of this process at which it listens.
int listening() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    int family = 0, listens = 0;
    socklen_t bytes = sizeof family;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &bytes) != 0) continue;
    getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes);
    count += listens != 0 && (family == AF_INET || family == AF_INET6) ? 1 : 0;
  }
  return count;
}

/// The number of ports that every rank has once its communicator is made.
void expect_ports(testing_support::Network network, int ports) {
  const TeamShape shape = TeamShape::of(2, false, network);
  const auto result = testing_support::run_team(
      shape,
      [ports](Member& member) {
        tuttiUniqueId id;
        tuttiComm_t comm = nullptr;
        if (!member.take_id(id) ||
            tuttiCommInitRank(&comm, member.ranks(), id, member.rank()) != tuttiSuccess) {
          return member.fail(tuttiGetLastError(comm));
        }
        float value = 1;
        if (tuttiAllReduce(&value, &value, 1, tuttiFloat32, tuttiSum, comm, tuttiBlocking()) !=
            tuttiSuccess) {
          return member.fail(tuttiGetLastError(comm));
        }
        // The id's server of rank 0 ends when all have their answers, which may be later.
        int found = listening();
        for (int look = 0; found != ports && look < 1000; ++look) {
          testing_support::sleep_ns(10'000'000);
          found = listening();
        }
        if (found != ports) member.fail("it listens at " + std::to_string(found));
        if (tuttiCommDestroy(comm) != tuttiSuccess) member.fail(tuttiGetLastError(comm));
      },
      [](uint64_t) { return std::string("ports"); }, kLimitNs);
  EXPECT_TRUE(result.ok) << result.report;
}

// Ports are few where a firewall says which (docs/several_hosts.md).
TEST(Ports, ARankOfOneHostHasOneAndOthersTwo) {
  expect_ports(testing_support::Network::kDefault, 1);
  expect_ports(testing_support::Network::kMixed, 2);
}

struct Held {
  size_t descriptors = 0;
  size_t mappings = 0;
};

// Of memory that ranks share; what an allocator or a sanitizer maps is its own affair.
Held held() {
  Held held;
  for ([[maybe_unused]] const auto& fd : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++held.descriptors;
  }
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:") != std::string::npos) ++held.mappings;
  }
  return held;
}

/// Everything that ends again, again and again.
class Cycles : testing_support::TeamRank {
 public:
  explicit Cycles(Member& member) : TeamRank(member) {}

  void run() {
    constexpr int kWarm = 10, kCycles = 300;
    if (!join()) return;
    for (int i = 0; i < kWarm; ++i) {
      if (!cycle()) return;
    }
    const Held before = held_by_all();
    for (int i = 0; i < kCycles; ++i) {
      member_.at(static_cast<uint64_t>(i));
      if (!cycle()) return;
    }
    const Held after = held_by_all();
    // Other ranks of this process count at the same time, each with a descriptor of its own.
    const size_t counting = static_cast<size_t>(member_.ranks());
    if (after.descriptors > before.descriptors + counting || after.mappings > before.mappings) {
      member_.fail("descriptors " + std::to_string(before.descriptors) + " -> " +
                   std::to_string(after.descriptors) + ", mappings " +
                   std::to_string(before.mappings) + " -> " + std::to_string(after.mappings));
    }
    ok(tuttiCommDestroy(comm_));
  }

 private:
  static constexpr size_t kSize = 1 << 16;

  // All ranks of a process are between two cycles while one of them counts.
  Held held_by_all() {
    member_.meet();
    const Held now = held();
    member_.meet();
    return now;
  }

  bool cycle() {
    void *memory = nullptr, *registered = nullptr;
    tuttiWindow_t shared = nullptr, ordinary = nullptr;
    return ok(tuttiMemAlloc(&memory, kSize)) &&
           ok(tuttiCommRegister(comm_, memory, kSize, &registered)) &&
           ok(tuttiAllReduce(memory, memory, kSize, tuttiUint8, tuttiSum, comm_,
                             tuttiBlocking())) &&
           ok(tuttiCommWindowRegister(comm_, memory, kSize, &shared, 0)) &&
           ok(tuttiCommWindowRegister(comm_, own_, sizeof own_, &ordinary, 0)) && touch(shared) &&
           ok(tuttiBarrier(comm_, tuttiBlocking())) &&
           ok(tuttiCommWindowDeregister(comm_, shared)) &&
           ok(tuttiCommWindowDeregister(comm_, ordinary)) &&
           ok(tuttiCommDeregister(comm_, registered)) && ok(tuttiMemFree(memory));
  }

  bool touch(tuttiWindow_t window) {
    const int next = (member_.rank() + 1) % member_.ranks();
    const int previous = (member_.rank() + member_.ranks() - 1) % member_.ranks();
    return ok(tuttiPutSignal(own_, sizeof own_, next, window, 0, 0, tuttiBlocking())) &&
           ok(tuttiWaitSignal(previous, window, 0, 1, tuttiBlocking()));
  }

  char own_[64] = {};
};

void expect_nothing_left(const TeamShape& shape) {
  const auto result = testing_support::run_team(
      shape, [](Member& member) { Cycles(member).run(); },
      [](uint64_t cycle) { return "cycle " + std::to_string(cycle); }, kLimitNs);
  EXPECT_TRUE(result.ok) << result.report;
}

TEST(Registrations, LeaveNothingInProcesses) { expect_nothing_left(TeamShape::processes(kRanks)); }
TEST(Registrations, LeaveNothingInThreads) { expect_nothing_left(TeamShape::threads(kRanks)); }
TEST(Registrations, LeaveNothingOnTwoHosts) {
  expect_nothing_left(TeamShape::of(4, false, testing_support::Network::kMixed));
}

/// Leaves this process a soft limit that lets it open no more than a few, for good.
void leave_few() {
  constexpr rlim_t kUsed = 100, kMore = 10;
  while (fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0) < static_cast<int>(kUsed)) {
  }
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = kUsed + kMore;
  setrlimit(RLIMIT_NOFILE, &limit);
}

void make_with_few(Member& member) {
  leave_few();
  tuttiUniqueId id;
  tuttiComm_t comm = nullptr;
  if (!member.take_id(id) ||
      tuttiCommInitRank(&comm, member.ranks(), id, member.rank()) != tuttiSuccess ||
      tuttiBarrier(comm, tuttiBlocking()) != tuttiSuccess) {
    return member.fail(tuttiGetLastError(comm));
  }
  if (tuttiCommDestroy(comm) != tuttiSuccess) member.fail("destroy");
}

void expect_made_with_few(TeamShape shape) {
  shape.set("TUTTI_TIMEOUT", "20");
  shape.set("TUTTI_INIT_TIMEOUT", "20");
  const auto result = testing_support::run_team(
      shape, make_with_few, [](uint64_t) { return std::string("making"); }, kLimitNs);
  EXPECT_TRUE(result.ok) << result.report;
}

// The soft limit is raised for a communicator that does not fit below it.
TEST_F(FewDescriptorsTest, MakingACommunicatorOnOneHost) {
  expect_made_with_few(TeamShape::processes(8));
}
TEST_F(FewDescriptorsTest, MakingACommunicatorOverTcp) {
  TeamShape shape = TeamShape::processes(8);
  shape.use(testing_support::Network::kTcp);
  expect_made_with_few(shape);
}

// Of six ranks on six hosts the first and the fourth are not connected from the start.
void send_without_descriptors(Member& member) {
  constexpr int kFar = 3;
  tuttiUniqueId id;
  tuttiComm_t comm = nullptr;
  if (!member.take_id(id) || tuttiCommInitRank(&comm, 6, id, member.rank()) != tuttiSuccess) {
    return member.fail(tuttiGetLastError(nullptr));
  }
  // The connections that a barrier needs are those from the start.
  if (tuttiBarrier(comm, tuttiBlocking()) != tuttiSuccess) member.fail(tuttiGetLastError(comm));
  if (member.rank() == 0) {  // the others are in no call, so none of them connects with it
    const int value = 1;
    const FewDescriptors few(0);
    const tuttiResult_t sent = tuttiSend(&value, 1, tuttiInt32, kFar, comm, tuttiBlocking());
    const std::string message = tuttiGetLastError(comm);
    if (sent == tuttiSuccess || message.find("Too many open files") == std::string::npos) {
      member.fail("not the error of a rank without descriptors: " + message);
    }
  }
  member.meet();  // the abort of one would be the others' reason
  tuttiCommAbort(comm);
}

TEST_F(FewDescriptorsTest, AFirstSendThatCannotConnectSaysWhy) {
  TeamShape shape = TeamShape::processes(6);
  shape.environment.assign(6, {{"TUTTI_TIMEOUT", "20"}, {"TUTTI_LOG", "off"}});
  shape.use(testing_support::Network::kTcp);
  const auto result = testing_support::run_team(
      shape, send_without_descriptors, [](uint64_t) { return std::string("sending"); }, kLimitNs);
  EXPECT_TRUE(result.ok) << result.report;
}

}  // namespace
}  // namespace tutti::api_test
