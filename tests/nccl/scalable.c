/* Communicators of several unique ids, each made by another rank: scalable RANKS. */
#include <limits.h>

#include "tests/nccl/ranks.h"

/* Ids from `first` on in what the ranks share; rank i makes the i-th. */
static void make_ids(Member m, int first, int count) {
  Shared* shared = m.shared;
  if (m.rank < count) {
    ok(ncclGetUniqueId(&shared->id[first + m.rank]), "GetUniqueId", m.rank);
    __atomic_store_n(&shared->has_id[first + m.rank], 1, __ATOMIC_RELEASE);
  }
  for (int i = first; i < first + count; ++i) {
    while (!__atomic_load_n(&shared->has_id[i], __ATOMIC_ACQUIRE)) usleep(1000);
  }
}

static void check_ids(Member m, int first, int count) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t comm = NULL;
  int ranks = 0, rank = -1, mine = m.rank + 1, sum = 0;
  if (count > m.ranks) return;
  make_ids(m, first, count);
  config.commName = "large";
  ok(ncclCommInitRankScalable(&comm, m.ranks, m.rank, count, &m.shared->id[first],
                              count == 2 ? &config : NULL),
     "CommInitRankScalable", m.rank);
  ok(ncclCommCount(comm, &ranks), "CommCount", m.rank);
  ok(ncclCommUserRank(comm, &rank), "CommUserRank", m.rank);
  is(ranks == m.ranks && rank == m.rank, "rank and ranks", m.rank);
  ok(ncclAllReduce(&mine, &sum, 1, ncclInt, ncclSum, comm, NULL), "AllReduce", m.rank);
  is(sum == m.ranks * (m.ranks + 1) / 2, "AllReduce", m.rank);
  ok(ncclCommDestroy(comm), "CommDestroy", m.rank);
}

/* The call clears *comm, however it is refused. */
static void check_refused(Member m, int rank, int count, ncclUniqueId* ids, const char* why) {
  ncclComm_t comm = (ncclComm_t)&m;
  refused(ncclCommInitRankScalable(&comm, m.ranks, rank, count, ids, NULL), ncclInvalidArgument,
          why, m.rank);
  is(comm == NULL, "no communicator", m.rank);
}

static void check_refusals(Member m) {
  ncclUniqueId ids[MOST_RANKS + 1];
  memset(ids, 0, sizeof ids);
  check_refused(m, m.rank, -1, ids, "at least one unique id");
  check_refused(m, m.rank, 0, ids, "at least one unique id");
  check_refused(m, m.rank, 1, NULL, "at least one unique id");
  check_refused(m, m.rank, m.ranks + 1, ids, "ids for");
  check_refused(m, m.rank, INT_MAX, ids, "ids for");
  check_refused(m, m.ranks, 1, ids, "rank");
}

static void body(Member m) {
  check_ids(m, 0, 1);
  check_ids(m, 1, 2);
  check_ids(m, 3, 3);
  check_refusals(m);
}

int main(int argc, char** argv) { return run_ranks(argc > 1 ? atoi(argv[1]) : 2, body); }
