// fork: a process forks after it has made communicators; what the child does, ending included, must
// not reach the parent's, and the child can make groups of its own.
//
//   --network default|tcp
//
// Exit status: 0 all was right, 1 it was not, 2 the command line is wrong.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "tests/support/options.h"
#include "tests/support/team.h"

namespace tutti::api_test {
namespace {

using testing_support::Member;

constexpr int kTurns = 5;
constexpr uint64_t kLimitNs = 180'000'000'000;

bool expect_sum(Member& member, tuttiComm_t comm, int wanted) {
  int one = 1, sum = 0;
  const tuttiResult_t result =
      tuttiAllReduce(&one, &sum, 1, tuttiInt32, tuttiSum, comm, tuttiBlocking());
  if (result == tuttiSuccess && sum == wanted) return true;
  member.fail(result == tuttiSuccess ? "a wrong sum" : tuttiGetLastError(comm));
  return false;
}

// 0 if a group of two threads' ranks, made by one thread, works in the child.
int own_group() {
  tuttiComm_t comms[2] = {};
  if (tuttiCommInitAll(comms, 2, nullptr) != tuttiSuccess) return 1;
  int values[2] = {1, 2};
  tuttiGroupStart();
  for (int i = 0; i < 2; ++i) {
    tuttiAllReduce(&values[i], &values[i], 1, tuttiInt32, tuttiSum, comms[i], tuttiBlocking());
  }
  if (tuttiGroupEnd() != tuttiSuccess || values[0] != 3 || values[1] != 3) return 2;
  for (tuttiComm_t comm : comms) {
    if (tuttiCommDestroy(comm) != tuttiSuccess) return 3;
  }
  return 0;
}

/// Everything of a rank that a forked child finds in its memory.
struct Handles {
  tuttiComm_t comm = nullptr;
  tuttiWindow_t window = nullptr;
  tuttiStream_t stream = tuttiBlocking();
  tuttiRequest_t request = nullptr;
  void* memory = nullptr;
  void* registration = nullptr;
  tuttiComm_t made = nullptr;  // by the group that is open
};

constexpr size_t kBytes = 4096;

// 0 if every call with a handle of the parent's is refused, with words that say why.
int touch_handles(Handles& mine) {
  int one = 1, number = 0;
  tuttiResult_t error = tuttiSuccess;
  tuttiComm_t made = nullptr;
  tuttiCall_t call = TUTTI_CALL_INITIALIZER;
  const auto all_reduce = [&](tuttiStream_t stream) {
    return tuttiAllReduce(&one, &number, 1, tuttiInt32, tuttiSum, mine.comm, stream);
  };
  tuttiResult_t results[] = {
      all_reduce(tuttiBlocking()),
      all_reduce(mine.stream),
      tuttiSubmit(&call, mine.comm, tuttiBlocking(), nullptr, nullptr),
      tuttiSend(&one, 1, tuttiInt32, 0, mine.comm, tuttiBlocking()),
      tuttiPutSignal(&one, sizeof one, 0, mine.window, 0, 0, tuttiBlocking()),
      tuttiCommWindowDeregister(mine.comm, mine.window),
      tuttiCommDeregister(mine.comm, mine.registration),
      tuttiRequestWait(mine.request),
      tuttiStreamSynchronize(mine.stream),
      tuttiStreamDestroy(mine.stream),
      tuttiGroupEnd(),  // that the parent began
      tuttiCommUserRank(mine.comm, &number),
      tuttiCommGetAsyncError(mine.comm, &error),
      tuttiCommSplit(mine.comm, 0, 0, &made, nullptr),
      tuttiCommRevoke(mine.comm, TUTTI_REVOKE_DEFAULT),
      tuttiCommFinalize(mine.comm),
      tuttiCommDestroy(mine.comm),
      tuttiCommAbort(mine.comm),
  };
  int at = 1;
  for (tuttiResult_t result : results) {
    if (result != tuttiInvalidUsage) return at;
    ++at;
  }
  const bool said = std::string(tuttiGetLastError(mine.comm)).find("fork") != std::string::npos;
  return said ? 0 : at;
}

// A process that connects there when the parent is gone would wait for one that never answers.
bool has_listener() {
  constexpr int kMostDescriptors = 1024;
  for (int fd = 0; fd < kMostDescriptors; ++fd) {
    int listens = 0;
    socklen_t bytes = sizeof listens;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) == 0 && listens != 0) {
      return true;
    }
  }
  return false;
}

// Children end in every way there is.
pid_t fork_child(int turn, Handles& mine) {
  constexpr int kHasListener = 100;
  const pid_t pid = fork();
  if (pid != 0) return pid;
  if (has_listener()) _exit(kHasListener);
  switch (turn) {
    case 0:
      _exit(0);
    case 1:
      std::exit(0);
    case 2:
      tuttiGroupDiscard();  // the parent's
      _exit(own_group());
    case 3:
      std::exit(touch_handles(mine));
    default:
      break;
  }
  const int refused = touch_handles(mine);
  _exit(refused == 0 ? own_group() : refused);
}

tuttiResult_t make_handles(Handles& mine) {
  tuttiResult_t result = tuttiMemAlloc(&mine.memory, kBytes);
  if (result == tuttiSuccess)
    result = tuttiCommRegister(mine.comm, mine.memory, kBytes, &mine.registration);
  if (result == tuttiSuccess) {
    result = tuttiCommWindowRegister(mine.comm, mine.memory, kBytes, &mine.window, 0);
  }
  if (result == tuttiSuccess) result = tuttiStreamCreate(&mine.stream);
  if (result != tuttiSuccess) return result;
  tuttiCall_t barrier = TUTTI_CALL_INITIALIZER;
  return tuttiSubmit(&barrier, mine.comm, mine.stream, nullptr, &mine.request);
}

// The group that is open across the fork makes a communicator when the parent ends it, and only
// there.
bool end_group(Member& member, Handles& mine) {
  const bool done = tuttiGroupEnd() == tuttiSuccess && expect_sum(member, mine.made, 1) &&
                    tuttiCommDestroy(mine.made) == tuttiSuccess;
  if (!done) member.fail(tuttiGetLastError(nullptr));
  return done;
}

bool free_handles(Handles& mine) {
  int received = 0;
  return tuttiRequestWait(mine.request) == tuttiSuccess &&
         tuttiPut(&received, sizeof received, 0, mine.window, 0, tuttiBlocking()) == tuttiSuccess &&
         tuttiStreamDestroy(mine.stream) == tuttiSuccess &&
         tuttiBarrier(mine.comm, tuttiBlocking()) == tuttiSuccess &&  // nobody puts any more
         tuttiCommWindowDeregister(mine.comm, mine.window) == tuttiSuccess &&
         tuttiCommDeregister(mine.comm, mine.registration) == tuttiSuccess &&
         tuttiCommDestroy(mine.comm) == tuttiSuccess && tuttiMemFree(mine.memory) == tuttiSuccess;
}

void run_rank(Member& member) {
  tuttiUniqueId id;
  if (!member.take_id(id)) return;
  Handles mine;
  if (tuttiCommInitRank(&mine.comm, member.ranks(), id, member.rank()) != tuttiSuccess ||
      make_handles(mine) != tuttiSuccess) {
    return member.fail(tuttiGetLastError(nullptr));
  }
  tuttiComm_t comm = mine.comm;
  for (int turn = 0; turn < kTurns; ++turn) {
    member.at(static_cast<uint64_t>(turn));
    if (!expect_sum(member, comm, member.ranks())) return;
    if (tuttiGetUniqueId(&id) != tuttiSuccess) return member.fail(tuttiGetLastError(nullptr));
    tuttiGroupStart();
    tuttiCommInitRank(&mine.made, 1, id, 0);
    const pid_t child = fork_child(turn, mine);
    if (!end_group(member, mine)) return;
    if (!expect_sum(member, comm, member.ranks())) return;  // while it lives
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
      return member.fail("the child ended with status " + std::to_string(status));
    }
    if (!expect_sum(member, comm, member.ranks())) return;
  }
  if (!free_handles(mine)) member.fail(tuttiGetLastError(nullptr));
}

}  // namespace
}  // namespace tutti::api_test

int main(int argc, char** argv) {
  using namespace tutti::api_test;
  const tutti::testing_support::TeamProgram program = {
      .limit_ns = kLimitNs, .body = run_rank, .name = [](uint64_t step) {
        return "turn " + std::to_string(step);
      }};
  return program.run(argc, argv);
}
