/* One rank by itself, as a program that knows nothing but NCCL_COMM_ID: comm_id
 * RANK RANKS. */
#include "tests/nccl/ranks.h"

int main(int argc, char** argv) {
  const int rank = argc > 2 ? atoi(argv[1]) : 0;
  const int ranks = argc > 2 ? atoi(argv[2]) : 1;
  ncclUniqueId id;
  ncclComm_t comm = NULL;
  int mine = rank, sum = 0;
  ok(ncclGetUniqueId(&id), "GetUniqueId", rank);
  ok(ncclCommInitRank(&comm, ranks, id, rank), "CommInitRank", rank);
  ok(ncclAllReduce(&mine, &sum, 1, ncclInt, ncclSum, comm, NULL), "AllReduce", rank);
  is(sum == ranks * (ranks - 1) / 2, "AllReduce", rank);
  ok(ncclCommDestroy(comm), "CommDestroy", rank);
  return 0;
}
