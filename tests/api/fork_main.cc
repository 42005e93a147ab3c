// fork: a process forks after it has made communicators; what the child does, ending included, must
// not reach the parent's, and the child can make groups of its own.
//
//   --network default|tcp
//
// Exit status: 0 all was right, 1 it was not, 2 the command line is wrong.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "tests/support/options.h"
#include "tests/support/team.h"

namespace tutti::api_test {
namespace {

using testing_support::Member;

constexpr int kTurns = 4;
constexpr uint64_t kLimitNs = 60'000'000'000;

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

// Children end in the three ways there are.
pid_t fork_child(int turn) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  if (turn % 3 == 0) _exit(0);
  if (turn % 3 == 1) std::exit(0);
  _exit(own_group());
}

void run_rank(Member& member) {
  tuttiUniqueId id;
  if (!member.take_id(id)) return;
  tuttiComm_t comm = nullptr;
  if (tuttiCommInitRank(&comm, member.ranks(), id, member.rank()) != tuttiSuccess) {
    return member.fail(tuttiGetLastError(nullptr));
  }
  for (int turn = 0; turn < kTurns; ++turn) {
    member.at(static_cast<uint64_t>(turn));
    if (!expect_sum(member, comm, member.ranks())) return;
    const pid_t child = fork_child(turn);
    if (!expect_sum(member, comm, member.ranks())) return;  // while it lives
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
      return member.fail("the child ended with status " + std::to_string(status));
    }
    if (!expect_sum(member, comm, member.ranks())) return;
  }
  if (tuttiCommDestroy(comm) != tuttiSuccess) member.fail(tuttiGetLastError(comm));
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
