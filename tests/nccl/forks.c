/* A rank forks after its communicator exists, as data loaders do; the parent must not notice. */
#include "tests/nccl/ranks.h"

static int status_of(pid_t child) {
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

static void body(Member m) {
  ncclComm_t comm = join(m), own = NULL;
  ncclUniqueId id;
  int mine = m.rank, sum = 0;
  for (int turn = 0; turn < 3; ++turn) {
    const pid_t child = fork();
    if (child == 0 && turn == 0) exit(0); /* with everything that exit runs */
    if (child == 0 && turn == 1) {
      refused(ncclAllReduce(&mine, &sum, 1, ncclInt, ncclSum, comm, NULL), ncclInvalidUsage,
              "forked child", m.rank);
      refused(ncclCommDestroy(comm), ncclInvalidUsage, "forked child", m.rank);
      exit(0);
    }
    if (child == 0) { /* a communicator of its own */
      ok(ncclGetUniqueId(&id), "GetUniqueId", m.rank);
      ok(ncclCommInitRank(&own, 1, id, 0), "CommInitRank", m.rank);
      ok(ncclAllReduce(&mine, &sum, 1, ncclInt, ncclSum, own, NULL), "AllReduce", m.rank);
      ok(ncclCommDestroy(own), "CommDestroy", m.rank);
      exit(sum == m.rank ? 0 : 1);
    }
    is(status_of(child) == 0, "the child", m.rank);
    ok(ncclAllReduce(&mine, &sum, 1, ncclInt, ncclSum, comm, NULL), "AllReduce", m.rank);
    is(sum == m.ranks * (m.ranks - 1) / 2, "AllReduce after a fork", m.rank);
  }
  ok(ncclCommDestroy(comm), "CommDestroy", m.rank);
}

int main(int argc, char** argv) { return run_ranks(argc > 1 ? atoi(argv[1]) : 2, body); }
