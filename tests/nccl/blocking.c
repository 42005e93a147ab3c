/* Checks whether NCCL_COMM_BLOCKING decides if communicators block: blocking WANTED [CONFIGURED].
 * They should be WANTED (1: blocking), whatever the configuration says. */
#include "tests/nccl/ranks.h"

static int wanted = 1, configured = NCCL_CONFIG_UNDEF_INT;

static void wait_for(ncclComm_t comm, const char* what, int rank) {
  ncclResult_t error = ncclInProgress;
  while (error == ncclInProgress) {
    ok(ncclCommGetAsyncError(comm, &error), "GetAsyncError", rank);
    usleep(100);
  }
  ok(error, what, rank);
}

/* A call that does not block says so at once. */
static void settle(ncclResult_t result, const ncclComm_t* comm, const char* what, int rank) {
  if (wanted == 1) ok(result, what, rank);
  is(wanted == 1 || result == ncclInProgress, what, rank);
  wait_for(*comm, what, rank);
}

static void body(Member m) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t comm = NULL, child = NULL, other = NULL;
  int mine = 1, sum = 0;
  config.blocking = configured;
  settle(ncclCommInitRankConfig(&comm, m.ranks, take_id(m, 0), m.rank, &config), &comm,
         "InitRankConfig", m.rank);
  settle(ncclCommSplit(comm, 0, m.rank, &child, NULL), &child, "as the parent", m.rank);
  wait_for(comm, "the parent", m.rank);
  ok(ncclAllReduce(&mine, &sum, 1, ncclInt, ncclSum, child, NULL), "AllReduce", m.rank);
  is(sum == m.ranks, "AllReduce", m.rank);
  if (getenv("NCCL_COMM_BLOCKING") != NULL) {
    settle(ncclCommInitRank(&other, m.ranks, take_id(m, 1), m.rank), &other,
           "without a configuration", m.rank);
    ok(ncclAllReduce(&mine, &sum, 1, ncclInt, ncclSum, other, NULL), "AllReduce", m.rank);
  }
  meet(m);
}

int main(int argc, char** argv) {
  if (argc > 1) wanted = atoi(argv[1]);
  if (argc > 2) configured = atoi(argv[2]);
  return run_ranks(2, body);
}
