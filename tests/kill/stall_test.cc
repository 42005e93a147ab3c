// Ranks that are late or stopped: slowness is reported and no error, deadlines blame the right
// rank, and what everybody was in can be read afterwards.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "generated/test_paths.h"
#include "tests/support/metronome.h"
#include "tests/support/single_copies.h"
#include "tests/support/team.h"
#include "tests/support/team_rank.h"
#include "tests/support/thorough.h"

namespace tutti::kill_test {
namespace {

using testing_support::join;
using testing_support::Member;
using testing_support::Network;
using testing_support::sum;
using testing_support::TeamShape;

constexpr uint64_t kLimitNs = 120'000'000'000;
constexpr uint64_t kSecond = 1'000'000'000;

/// A folder that goes with the test.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "stall-test-XXXXXX").string();
    path_ = mkdtemp(name.data()) == nullptr ? "" : name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string file(const std::string& name) const { return path_ + "/" + name; }
  std::string text(const std::string& name) const {
    std::ostringstream all;
    all << std::ifstream(file(name)).rdbuf();
    return all.str();
  }

 private:
  std::string path_;
};

TeamShape shape_for(Network network, int ranks, const testing_support::Environment& environment) {
  TeamShape shape = TeamShape::processes(ranks);
  shape.environment.assign(static_cast<size_t>(ranks), environment);
  shape.use(network);
  return shape;
}

testing_support::TeamResult run(const TeamShape& shape, const testing_support::Body& body) {
  return testing_support::run_team(
      shape, body, [](uint64_t step) { return "step " + std::to_string(step); }, kLimitNs);
}

void expect_ok(const TeamShape& shape, const testing_support::Body& body) {
  testing_support::TeamResult result;
  (void)testing_support::succeeds_where_the_machine_runs([&](const auto&) {
    result = run(shape, body);
    return result.ok;
  });
  EXPECT_TRUE(result.ok) << result.report;
}

/// For the calls that follow. Those before, and the making of the communicator, have all the time
/// they need.
bool set_deadline(Member& member, tuttiComm_t comm, uint64_t timeout_ns) {
  tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
  options.timeout_ns = timeout_ns;
  const bool set = tuttiCommSetOptions(comm, &options) == tuttiSuccess;
  if (!set) member.fail(tuttiGetLastError(comm));
  return set;
}

constexpr const char* kMissed = "the reader had just left its copy when it stopped";

/// A reader that is to stop inside of a copy may miss it: then once more.
void expect_ok_if_inside(const TeamShape& shape, const testing_support::Body& body) {
  constexpr int kMostTries = 10;
  testing_support::TeamResult result;
  for (int i = 0; i < kMostTries; ++i) {
    (void)testing_support::succeeds_where_the_machine_runs([&](const auto&) {
      result = run(shape, body);
      return result.ok || result.report.find(kMissed) != std::string::npos;
    });
    if (result.report.find(kMissed) == std::string::npos) break;
  }
  EXPECT_TRUE(result.ok) << result.report;
}

class Late : public testing::TestWithParam<Network> {};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// All that a log should say of rank 3, which has not come.
bool reports_the_late_rank(const std::string& log) {
  return has(log, "all_reduce (call 2) on rank 0 (") && has(log, "rank 3 (process ") &&
         has(log, "never entered call 2: its last is call 1; ranks 0-2 wait for it");
}

TEST_P(Late, ALateRankIsReportedAndTheCallCompletes) {
  const Folder folder;
  const auto shape =
      shape_for(GetParam(), 4, {{"TUTTI_SLOW", "0.05"}, {"TUTTI_LOG_FILE", folder.file("log")}});
  const uint64_t least_ns = (testing_support::thorough() ? 30 : 1) * kSecond;
  expect_ok(shape, [&](Member& member) {
    tuttiComm_t comm = join(member);
    if (comm == nullptr) return;
    if (sum(comm, 2) != tuttiSuccess) return member.fail(tuttiGetLastError(comm));
    if (member.rank() == 3) {
      testing_support::sleep_ns(least_ns);
      const uint64_t end_ns = testing_support::now_ns() + kLimitNs / 4;
      while (!reports_the_late_rank(folder.text("log")) && testing_support::now_ns() < end_ns) {
        testing_support::sleep_ns(20'000'000);
      }
    }
    if (sum(comm, 1000) != tuttiSuccess) return member.fail(tuttiGetLastError(comm));
    tuttiCommDestroy(comm);
  });
  EXPECT_TRUE(reports_the_late_rank(folder.text("log"))) << folder.text("log");
}

// A call of nothing ends at once and is none that others could see. Where they call with something
// and nothing follows, their deadline tells.
TEST_P(Late, ARankThatPassedNoCountIsNamedAtTheDeadline) {
  const auto shape = shape_for(GetParam(), 4, {{"TUTTI_LOG", "off"}});
  expect_ok(shape, [](Member& member) {
    tuttiComm_t comm = join(member);
    if (comm == nullptr) return;
    if (sum(comm, 2) != tuttiSuccess) return member.fail(tuttiGetLastError(comm));
    if (!set_deadline(member, comm, 2 * kSecond)) return;
    const bool odd = member.rank() == 2;
    const tuttiResult_t result = sum(comm, odd ? 0 : 1000);
    const std::string message = odd ? "" : tuttiGetLastError(comm);
    if (odd && result != tuttiSuccess) member.fail(tuttiGetLastError(comm));
    // A rank that gives up because another one did hears of that one's timeout.
    if (!odd && result != tuttiTimeout && result != tuttiRemoteError) member.fail("no timeout");
    if (!odd && message.find("rank 2") == std::string::npos) member.fail(message);
    if (result == tuttiTimeout &&
        message.find("never entered call 2: its last is call 1") == std::string::npos) {
      member.fail(message);
    }
    member.meet();
    tuttiCommDestroy(comm);
  });
}

INSTANTIATE_TEST_SUITE_P(Networks, Late,
                         testing::Values(Network::kDefault, Network::kTcp, Network::kMixed));

/// The output of a command; empty if it failed.
std::string run_command(const std::string& command) {
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "";
  std::array<char, 4096> buffer;
  std::string text;
  for (size_t got = 0; (got = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    text.append(buffer.data(), got);
  }
  return pclose(pipe) == 0 ? text : "";
}

TEST(Stall, AFailedCommunicatorDumpsItsCalls) {
  const Folder folder;
  const auto shape = shape_for(
      Network::kDefault, 3,
      {{"TUTTI_LOG_FILE", folder.file("log")}, {"TUTTI_TRACE_FILE", folder.file("trace")}});
  expect_ok(shape, [](Member& member) {
    tuttiComm_t comm = join(member);
    if (comm == nullptr) return;
    if (sum(comm, 2) != tuttiSuccess) return member.fail(tuttiGetLastError(comm));
    if (!set_deadline(member, comm, kSecond)) return;
    if (member.rank() == 1) {
      member.meet();
    } else {
      if (sum(comm, 50'000) == tuttiSuccess) member.fail("no error");
      member.meet();
    }
    tuttiCommDestroy(comm);
  });
  // One line a rank that says who, in what and for how long, and where the rest is. (Rank 1, which
  // is well, may say at its end that the others were in another call.)
  const std::string log = folder.text("log");
  size_t errors = 0;
  for (size_t at = log.find(" error "); at != log.npos; at = log.find(" error ", at + 1)) ++errors;
  EXPECT_EQ(errors, 2u) << log;
  EXPECT_LE(std::count(log.begin(), log.end(), '\n'), 3) << log;
  EXPECT_NE(log.find("rank 1 (process "), std::string::npos) << log;
  EXPECT_NE(log.find("; in all_reduce, call 2, after it had waited "), std::string::npos) << log;
  const std::string command = "tutti trace dump " + folder.file("trace");
  EXPECT_NE(log.find("; its last calls: " + command + "\n"), std::string::npos) << log;
  const std::string trace = run_command(std::string(TUTTI_BINARY_DIR) + "/bin/" + command);
  EXPECT_NE(trace.find("rank 0 of 3"), std::string::npos) << trace;
  EXPECT_NE(trace.find("rank 2 of 3"), std::string::npos) << trace;
  EXPECT_NE(trace.find("  failed at 20"), std::string::npos) << trace;
  EXPECT_NE(trace.find("200000"), std::string::npos) << trace;
  // Whatever algorithm it is, somebody waited for what rank 1 never sent.
  EXPECT_NE(trace.find("from rank 1: 0 of "), std::string::npos) << trace;
  EXPECT_NE(trace.find("; the last call it entered is 1"), std::string::npos) << trace;
}
bool is_stopped(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string number, name, state;  // the name has no spaces here
  return (file >> number >> name >> state) && state == "T";
}

TEST(Stall, TheCommandReadsAStoppedProcess) {
  const auto shape = shape_for(Network::kDefault, 2, {{"TUTTI_LOG", "off"}});
  expect_ok(shape, [](Member& member) {
    tuttiComm_t comm = join(member);
    if (comm == nullptr) return;
    if (sum(comm, 2) != tuttiSuccess) return member.fail(tuttiGetLastError(comm));
    if (member.rank() == 1) {
      raise(SIGSTOP);
      return;  // rank 0 has let it go on
    }
    const pid_t other = member.board().slots[1].process.load();
    while (!is_stopped(other)) testing_support::sleep_ns(1'000'000);
    if (!set_deadline(member, comm, kSecond / 2)) return;
    const tuttiResult_t result = sum(comm, 3);
    const std::string command = std::string(TUTTI_BINARY_DIR) + "/bin/tutti trace dump --pid ";
    const std::string text = run_command(command + std::to_string(other));
    const std::string json = run_command(command + std::to_string(getpid()) + " --json");
    kill(other, SIGCONT);
    if (result != tuttiTimeout) member.fail("no timeout");
    if (text.find("rank 1 of 2") == std::string::npos ||
        text.find("all_reduce") == std::string::npos) {
      member.fail("of the stopped process: " + text);
    }
    const std::string awaited = R"({"rank":1,"direction":"from","number":0,"type":"","bytes":12,)"
                                R"("moved":0,"messages":1,"complete":0,)";
    if (json.find("\"state\":\"failed\"") == std::string::npos ||
        json.find(awaited) == std::string::npos) {
      member.fail("json: " + json);
    }
  });
}

/// Looks at what a get is writing: the thread sanitizer need not know.
__attribute__((no_sanitize("thread"))) char peek(const char* at) {
  return *static_cast<const volatile char*>(at);
}

// Its kernel accepts the call, and nothing follows: the deadline is the call's, not a handshake's.
TEST(Stall, AStoppedProcessThatWasNeverTalkedToEndsTheCallAtItsDeadline) {
  constexpr int kFar = 3;  // of six ranks on six hosts not connected with rank 0 from the start
  const auto shape =
      shape_for(Network::kTcp, 6, {{"TUTTI_LOG", "off"}, {"TUTTI_LAZY_CONNECT", "1"}});
  expect_ok(shape, [](Member& member) {
    tuttiComm_t comm = join(member);
    if (comm == nullptr) return;
    if (member.rank() != 0) {
      if (member.rank() == kFar) raise(SIGSTOP);
      member.meet();  // rank 0 lets it go on; whoever ends earlier is the reason
      return;
    }
    const pid_t other = member.board().slots[kFar].process.load();
    while (!is_stopped(other)) testing_support::sleep_ns(1'000'000);
    (void)set_deadline(member, comm, kSecond / 2);
    const uint64_t begin_ns = testing_support::now_ns();
    const int value = 3;
    const tuttiResult_t result = tuttiSend(&value, 1, tuttiInt32, kFar, comm, tuttiBlocking());
    const uint64_t took_ns = testing_support::now_ns() - begin_ns;
    const std::string message = tuttiGetLastError(comm);
    kill(other, SIGCONT);
    member.meet();
    if (result != tuttiTimeout || message.find("rank 3") == std::string::npos) {
      member.fail("not a timeout that names rank 3: " + message);
    }
    if (took_ns > 5 * kSecond) member.fail("it took longer than the deadline says");
  });
}

/// Gets from rank 0 again and again, and stops while that goes on.
void stop_in_a_get(Member& member, tuttiComm_t comm, tuttiWindow_t window, size_t bytes) {
  constexpr int kGets = 64;
  std::vector<char> target(bytes);
  tuttiStream_t stream{};
  tuttiStreamCreate(&stream);
  for (int i = 0; i < kGets; ++i) {
    if (tuttiGet(target.data(), bytes, 0, window, 0, stream) == tuttiSuccess) continue;
    return member.fail(tuttiGetLastError(comm));
  }
  while (peek(&target[bytes / 2]) == 0) {
    tuttiResult_t failure = tuttiSuccess;
    if (tuttiCommGetAsyncError(comm, &failure) != tuttiSuccess || failure != tuttiSuccess) {
      return member.fail("the get failed: " + std::to_string(failure));
    }
    testing_support::sleep_ns(100'000);
  }
  raise(SIGSTOP);
  if (tuttiCommAbort(comm) == tuttiInProgress) testing_support::await_settled(comm);
  tuttiStreamDestroy(stream);
}

/// Rank 0 ends its part of a window while rank 1 is stopped in a get.
void leave_a_stopped_reader(Member& member,
                            const std::function<void(tuttiComm_t, tuttiWindow_t)>& end_part,
                            bool blocking = true) {
  constexpr size_t kBytes = 64 << 20;  // more than sockets hold
  tuttiComm_t comm = join(member, blocking);
  if (comm == nullptr) return;
  std::vector<char> part(member.rank() == 0 ? kBytes : 0, 1);
  tuttiWindow_t window = nullptr;
  if (tuttiCommWindowRegister(comm, part.data(), part.size(), &window, 0) != tuttiSuccess) {
    return member.fail(tuttiGetLastError(comm));
  }
  if (member.rank() == 1) return stop_in_a_get(member, comm, window, kBytes);
  const pid_t other = member.board().slots[1].process.load();
  const auto& state = member.board().slots[1].state;
  while (!is_stopped(other)) {
    if (state.load() == testing_support::RankState::kFailed) return;
    testing_support::sleep_ns(1'000'000);
  }
  end_part(comm, window);
  std::vector<char>().swap(part);
  kill(other, SIGCONT);
}

/// On one host the get is a single copy, and the peer stops in it: then the memory is not free.
bool says_who_is_inside(const std::string& message) {
  return message.find("rank 1 (process ") != std::string::npos &&
         message.find("is still inside rank 0's part of a window") != std::string::npos;
}

void fails_for_a_stopped_reader(Network network) {
  const auto shape = shape_for(network, 2, {{"TUTTI_LOG", "off"}});
  expect_ok_if_inside(shape, [network](Member& member) {
    leave_a_stopped_reader(member, [&](tuttiComm_t comm, tuttiWindow_t window) {
      (void)set_deadline(member, comm, kSecond);
      const tuttiResult_t ended = tuttiCommWindowDeregister(comm, window);
      const std::string message = tuttiGetLastError(comm);
      if (ended == tuttiSuccess) {
        tuttiCommAbort(comm);
        return member.fail(kMissed);
      }
      if (ended != tuttiTimeout || says_who_is_inside(message) != (network != Network::kTcp)) {
        member.fail("deregister: " + std::to_string(ended) + ", " + message);
      }
      tuttiResult_t error = tuttiSuccess;
      tuttiCommGetAsyncError(comm, &error);
      if (error != tuttiTimeout) member.fail("other threads see: " + std::to_string(error));
      tuttiCommDestroy(comm);
    });
  });
}

TEST(Stall, AWindowWhosePeerStoppedInAGetFailsTheCommunicator) {
  fails_for_a_stopped_reader(Network::kTcp);
  if (!testing_support::siblings_may_copy()) GTEST_SKIP() << testing_support::kNoSingleCopies;
  fails_for_a_stopped_reader(Network::kDefault);
}

TEST(Stall, AnAbortSaysWhoIsStillInsideAWindow) {
  if (!testing_support::siblings_may_copy()) GTEST_SKIP() << testing_support::kNoSingleCopies;
  const auto shape = shape_for(Network::kDefault, 2, {{"TUTTI_LOG", "off"}});
  expect_ok_if_inside(shape, [](Member& member) {
    leave_a_stopped_reader(member, [&](tuttiComm_t comm, tuttiWindow_t window) {
      const tuttiResult_t ended = tuttiCommAbort(comm);
      const std::string message = tuttiGetLastError(nullptr);
      if (ended == tuttiSuccess) return member.fail(kMissed);
      if (ended != tuttiRemoteError || !says_who_is_inside(message)) {
        member.fail("abort: " + std::to_string(ended) + ", " + message);
      }
      if (tuttiCommWindowDeregister(comm, window) != tuttiInvalidUsage) member.fail("not ended");
    });
  });
}

TEST(Stall, AnAbortThatDoesNotBlockSaysSoWhenItIsOver) {
  if (!testing_support::siblings_may_copy()) GTEST_SKIP() << testing_support::kNoSingleCopies;
  const auto shape = shape_for(Network::kDefault, 2, {{"TUTTI_LOG", "off"}});
  expect_ok_if_inside(shape, [](Member& member) {
    const auto end_part = [&](tuttiComm_t comm, tuttiWindow_t) {
      tuttiResult_t ended = tuttiCommAbort(comm);
      if (ended != tuttiInProgress) return member.fail("abort: " + std::to_string(ended));
      ended = testing_support::await_settled(comm);
      if (ended == tuttiSuccess) return member.fail(kMissed);
      const std::string message = tuttiGetLastError(nullptr);
      if (ended != tuttiRemoteError || !says_who_is_inside(message)) {
        member.fail("when it was over: " + std::to_string(ended) + ", " + message);
      }
    };
    leave_a_stopped_reader(member, end_part, false);
  });
}

TEST(Stall, APeerThatStoppedInAGetDoesNotKeepARankFromLeaving) {
  if (!testing_support::thorough()) GTEST_SKIP() << "takes as long as a rank waits: 10 s";
  const auto shape = shape_for(Network::kTcp, 2, {{"TUTTI_LOG", "off"}});
  expect_ok(shape, [](Member& member) {
    leave_a_stopped_reader(member, [](tuttiComm_t comm, tuttiWindow_t) { tuttiCommDestroy(comm); });
  });
}

TEST(Stall, TheLibraryDumpsToAFile) {
  const Folder folder;
  const std::string path = folder.file("dump");
  expect_ok(shape_for(Network::kDefault, 2, {}), [&](Member& member) {
    tuttiComm_t comm = join(member);
    if (comm == nullptr) return;
    if (sum(comm, 4) != tuttiSuccess) return member.fail(tuttiGetLastError(comm));
    if (member.rank() == 0 && tuttiTraceDump(path.c_str()) != tuttiSuccess) {
      member.fail(tuttiGetLastError(nullptr));
    }
    if (tuttiTraceDump("/nowhere/at/all") != tuttiSystemError) member.fail("no error");
    tuttiCommDestroy(comm);
  });
  EXPECT_NE(folder.text("dump").find("done    all_reduce"), std::string::npos)
      << folder.text("dump");
}

}  // namespace
}  // namespace tutti::kill_test
