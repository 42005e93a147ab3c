/* Calls every host function of NCCL on buffers in host memory: calls RANKS. */
#include <limits.h>

#include "tests/nccl/ranks.h"

#define COUNT 1000

static int32_t value(int rank, int i) { return rank * 1000 + i % 97; }

static int32_t sum_at(int ranks, int i) {
  int32_t sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += value(rank, i);
  return sum;
}

static void fill(int32_t* buffer, int rank, int count) {
  for (int i = 0; i < count; ++i) buffer[i] = value(rank, i);
}

static void check_all_reduce(Member m, ncclComm_t comm) {
  int32_t send[COUNT], recv[COUNT];
  double half = m.rank + 0.5, average = 0;
  fill(send, m.rank, COUNT);
  ok(ncclAllReduce(send, recv, COUNT, ncclInt32, ncclSum, comm, NULL), "AllReduce", m.rank);
  for (int i = 0; i < COUNT; ++i) is(recv[i] == sum_at(m.ranks, i), "AllReduce", m.rank);
  ok(ncclAllReduce(send, send, COUNT, ncclInt32, ncclMax, comm, NULL), "AllReduce", m.rank);
  is(send[5] == value(m.ranks - 1, 5), "AllReduce in place", m.rank);
  ok(ncclAllReduce(&half, &average, 1, ncclDouble, ncclAvg, comm, NULL), "AllReduce", m.rank);
  is(average > m.ranks / 2.0 - 1e-9 && average < m.ranks / 2.0 + 1e-9, "average", m.rank);
  /* Any stream is taken; what is on it does not matter to host buffers. */
  ok(ncclAllReduce(&half, &average, 0, ncclDouble, ncclSum, comm, (cudaStream_t)&half), "count 0",
     m.rank);
}

/* The operation may be destroyed in the group that uses it. */
static void check_scaled_sum(Member m, ncclComm_t comm) {
  double factor = m.rank + 1, mine = 2, sum = 0, wanted = m.ranks * (m.ranks + 1);
  ncclRedOp_t op;
  ok(ncclRedOpCreatePreMulSum(&op, &factor, ncclDouble, ncclScalarHostImmediate, comm),
     "RedOpCreatePreMulSum", m.rank);
  is((int)op >= (int)ncclNumOps, "an operation of the program", m.rank);
  factor = 0;
  ok(ncclAllReduce(&mine, &sum, 1, ncclDouble, op, comm, NULL), "AllReduce", m.rank);
  is(sum == wanted, "scaled sum", m.rank);
  sum = 0;
  ok(ncclGroupStart(), "GroupStart", m.rank);
  ok(ncclAllReduce(&mine, &sum, 1, ncclDouble, op, comm, NULL), "AllReduce", m.rank);
  ok(ncclRedOpDestroy(op, comm), "RedOpDestroy", m.rank);
  ok(ncclGroupEnd(), "GroupEnd", m.rank);
  is(sum == wanted, "scaled sum in a group", m.rank);
  refused(ncclAllReduce(&mine, &sum, 1, ncclDouble, op, comm, NULL), ncclInvalidArgument, "",
          m.rank);
}

static void check_broadcast(Member m, ncclComm_t comm) {
  const int root = m.ranks - 1;
  int32_t send[COUNT], recv[COUNT];
  fill(send, m.rank, COUNT);
  ok(ncclBroadcast(send, recv, COUNT, ncclInt32, root, comm, NULL), "Broadcast", m.rank);
  for (int i = 0; i < COUNT; ++i) is(recv[i] == value(root, i), "Broadcast", m.rank);
  ok(ncclBcast(send, COUNT, ncclInt32, 0, comm, NULL), "Bcast", m.rank);
  for (int i = 0; i < COUNT; ++i) is(send[i] == value(0, i), "Bcast", m.rank);
}

static void check_gathering(Member m, ncclComm_t comm) {
  int32_t send[COUNT], recv[MOST_RANKS * COUNT];
  fill(send, m.rank, COUNT);
  ok(ncclAllGather(send, recv, COUNT, ncclInt32, comm, NULL), "AllGather", m.rank);
  for (int i = 0; i < m.ranks * COUNT; ++i) {
    is(recv[i] == value(i / COUNT, i % COUNT), "AllGather", m.rank);
  }
}

static void check_rooted(Member m, ncclComm_t comm) {
  const int root = m.ranks / 2;
  int32_t send[COUNT], recv[MOST_RANKS * COUNT], back[COUNT];
  fill(send, m.rank, COUNT);
  ok(ncclReduce(send, recv, COUNT, ncclInt32, ncclSum, root, comm, NULL), "Reduce", m.rank);
  for (int i = 0; m.rank == root && i < COUNT; ++i) {
    is(recv[i] == sum_at(m.ranks, i), "Reduce", m.rank);
  }
  ok(ncclGather(send, m.rank == root ? recv : NULL, COUNT, ncclInt32, root, comm, NULL), "Gather",
     m.rank);
  for (int i = 0; m.rank == root && i < m.ranks * COUNT; ++i) {
    is(recv[i] == value(i / COUNT, i % COUNT), "Gather", m.rank);
  }
  ok(ncclScatter(m.rank == root ? recv : NULL, back, COUNT, ncclInt32, root, comm, NULL), "Scatter",
     m.rank);
  for (int i = 0; i < COUNT; ++i) is(back[i] == send[i], "Scatter", m.rank);
}

static void check_scattering(Member m, ncclComm_t comm) {
  int32_t send[MOST_RANKS * COUNT], recv[MOST_RANKS * COUNT];
  fill(send, m.rank, m.ranks * COUNT);
  ok(ncclReduceScatter(send, recv, COUNT, ncclInt32, ncclSum, comm, NULL), "ReduceScatter", m.rank);
  for (int i = 0; i < COUNT; ++i) {
    is(recv[i] == sum_at(m.ranks, m.rank * COUNT + i), "ReduceScatter", m.rank);
  }
  ok(ncclAlltoAll(send, recv, COUNT, ncclInt32, comm, NULL), "AlltoAll", m.rank);
  for (int i = 0; i < m.ranks * COUNT; ++i) {
    is(recv[i] == value(i / COUNT, m.rank * COUNT + i % COUNT), "AlltoAll", m.rank);
  }
}

static void check_point_to_point(Member m, ncclComm_t comm) {
  int32_t send[COUNT], recv[COUNT];
  const int next = (m.rank + 1) % m.ranks, previous = (m.rank + m.ranks - 1) % m.ranks;
  fill(send, m.rank, COUNT);
  ok(ncclGroupStart(), "GroupStart", m.rank);
  ok(ncclGroupStart(), "GroupStart", m.rank);
  ok(ncclSend(send, COUNT, ncclInt32, next, comm, NULL), "Send", m.rank);
  ok(ncclGroupEnd(), "GroupEnd", m.rank);
  ok(ncclRecv(recv, COUNT, ncclInt32, previous, comm, NULL), "Recv", m.rank);
  ok(ncclGroupEnd(), "GroupEnd", m.rank);
  for (int i = 0; i < COUNT; ++i) is(recv[i] == value(previous, i), "Recv", m.rank);
}

/* A window is a hint: a rank may call with one where another has none, or none any more. */
static void check_windows_beside_ordinary_memory(Member m, ncclComm_t comm) {
  enum { kWords = 4096 };
  const int root = m.ranks / 2;
  int32_t *in_window = NULL, *ordinary = (int32_t*)malloc(MOST_RANKS * kWords * sizeof *ordinary);
  const size_t bytes = (size_t)m.ranks * kWords * sizeof *in_window;
  ncclWindow_t window = NULL;
  ok(ncclMemAlloc((void**)&in_window, bytes), "MemAlloc", m.rank);
  ok(ncclCommWindowRegister(comm, in_window, bytes, &window, NCCL_WIN_DEFAULT), "WindowRegister",
     m.rank);
  fill(in_window, m.rank, kWords);
  ok(ncclReduce(in_window, ordinary, kWords, ncclInt32, ncclSum, root, comm, NULL), "Reduce",
     m.rank);
  for (int i = 0; m.rank == root && i < kWords; ++i) {
    is(ordinary[i] == sum_at(m.ranks, i), "Reduce from windows", m.rank);
  }
  ok(ncclGather(in_window, ordinary, kWords, ncclInt32, root, comm, NULL), "Gather", m.rank);
  for (int i = 0; m.rank == root && i < m.ranks * kWords; ++i) {
    is(ordinary[i] == value(i / kWords, i % kWords), "Gather from windows", m.rank);
  }
  int32_t* mine = m.rank == root ? ordinary : in_window;
  fill(mine, m.rank, kWords);
  ok(ncclBroadcast(mine, mine, kWords, ncclInt32, root, comm, NULL), "Broadcast", m.rank);
  for (int i = 0; i < kWords; ++i) is(mine[i] == value(root, i), "Broadcast to windows", m.rank);
  /* Deregistering is each rank's own affair. */
  if (m.rank == 0) ok(ncclCommWindowDeregister(comm, window), "WindowDeregister", m.rank);
  fill(in_window, m.rank, kWords);
  ok(ncclAllReduce(in_window, in_window, kWords, ncclInt32, ncclSum, comm, NULL), "AllReduce",
     m.rank);
  for (int i = 0; i < kWords; ++i) {
    is(in_window[i] == sum_at(m.ranks, i), "AllReduce in windows", m.rank);
  }
  if (m.rank != 0) ok(ncclCommWindowDeregister(comm, window), "WindowDeregister", m.rank);
  ok(ncclMemFree(in_window), "MemFree", m.rank);
  free(ordinary);
}

/* A refused call inside a group is what the end returns, and nothing of the group runs. */
static void check_groups(Member m, ncclComm_t comm) {
  ncclSimInfo_t simulation = NCCL_SIM_INFO_INITIALIZER;
  int32_t mine = 1, sum = 0;
  ok(ncclGroupStart(), "GroupStart", m.rank);
  ok(ncclAllReduce(&mine, &sum, 1, ncclInt32, ncclSum, comm, NULL), "AllReduce", m.rank);
  refused(ncclSend(&mine, 1, ncclInt32, m.ranks, comm, NULL), ncclInvalidArgument, "peer", m.rank);
  refused(ncclGroupEnd(), ncclInvalidArgument, "peer", m.rank);
  is(sum == 0, "a group with an error did not run", m.rank);
  refused(ncclGroupEnd(), ncclInvalidUsage, "ncclGroupStart", m.rank);
  ok(ncclGroupStart(), "GroupStart", m.rank);
  ok(ncclAllReduce(&mine, &sum, 1, ncclInt32, ncclSum, comm, NULL), "AllReduce", m.rank);
  ok(ncclGroupSimulateEnd(&simulation), "GroupSimulateEnd", m.rank);
  is(sum == 0, "a simulated group did not run", m.rank);
  is(m.ranks == 1 || simulation.estimatedTime > 0, "a predicted time", m.rank);
  ok(ncclAllReduce(&mine, &sum, 1, ncclInt32, ncclSum, comm, NULL), "AllReduce", m.rank);
  is(sum == m.ranks, "the ranks are still together", m.rank);
  sum = 0;
  refused(ncclGroupSimulateEnd(&simulation), ncclInvalidUsage, "ncclGroupStart", m.rank);
}

static void check_memory(Member m, ncclComm_t comm) {
  void* memory = NULL;
  void* handle = NULL;
  ncclWindow_t window = NULL;
  int32_t recv[4] = {0};
  ok(ncclMemAlloc(&memory, 1 << 20), "MemAlloc", m.rank);
  ok(ncclCommRegister(comm, memory, 1 << 20, &handle), "CommRegister", m.rank);
  ok(ncclCommWindowRegister(comm, memory, 1 << 20, &window, NCCL_WIN_COLL_SYMMETRIC),
     "CommWindowRegister", m.rank);
  is(window != NULL, "a window", m.rank);
  ((int32_t*)memory)[0] = m.rank;
  ok(ncclAllReduce(memory, memory, 1, ncclInt32, ncclSum, comm, NULL), "AllReduce", m.rank);
  is(((int32_t*)memory)[0] == m.ranks * (m.ranks - 1) / 2, "AllReduce in a window", m.rank);
  ok(ncclCommWindowDeregister(comm, window), "CommWindowDeregister", m.rank);
  refused(ncclCommWindowDeregister(comm, window), ncclInvalidArgument, "neither", m.rank);
  ok(ncclCommDeregister(comm, handle), "CommDeregister", m.rank);
  ok(ncclMemFree(memory), "MemFree", m.rank);
  /* Memory from elsewhere on one of the ranks: a window all the same, without the speed. */
  ok(ncclMemAlloc(&memory, 4096), "MemAlloc", m.rank);
  ok(ncclCommWindowRegister(comm, m.rank == 0 ? (void*)recv : memory, sizeof recv, &window, 0),
     "CommWindowRegister", m.rank);
  ok(ncclCommWindowDeregister(comm, window), "CommWindowDeregister", m.rank);
  ok(ncclMemFree(memory), "MemFree", m.rank);
  ok(ncclMemFree(NULL), "MemFree", m.rank);
}

static void check_queries(Member m, ncclComm_t comm) {
  int ranks = 0, rank = -1, device = -1, version = 0;
  ncclResult_t error = ncclSystemError;
  ok(ncclCommCount(comm, &ranks), "CommCount", m.rank);
  ok(ncclCommUserRank(comm, &rank), "CommUserRank", m.rank);
  ok(ncclCommCuDevice(comm, &device), "CommCuDevice", m.rank);
  is(ranks == m.ranks && rank == m.rank && device == 0, "queries", m.rank);
  ok(ncclGetVersion(&version), "GetVersion", m.rank);
  is(version == 23007, "GetVersion", m.rank);
  ok(ncclCommGetAsyncError(comm, &error), "CommGetAsyncError", m.rank);
  is(error == ncclSuccess, "CommGetAsyncError", m.rank);
  refused(ncclCommCount(NULL, &ranks), ncclInvalidArgument, "the communicator is null", m.rank);
  refused(ncclAllReduce(&rank, &ranks, 1, (ncclDataType_t)77, ncclSum, comm, NULL),
          ncclInvalidArgument, "type", m.rank);
}

/* C passes any number for an enumeration; none may be read as one before it is looked at. */
static void check_enumerations(Member m, ncclComm_t comm) {
  static const int kTypes[] = {INT_MIN, -1, ncclNumTypes, 13, 14, 15, 16, 77, 1 << 20, INT_MAX};
  static const int kOps[] = {INT_MIN, -1, ncclNumOps, 6, 7, 8, 77, INT_MAX};
  int32_t mine = 1, other = 0;
  ncclRedOp_t made;
  for (size_t i = 0; i < sizeof kTypes / sizeof *kTypes; ++i) {
    const ncclDataType_t type = (ncclDataType_t)kTypes[i];
    refused(ncclAllReduce(&mine, &other, 1, type, ncclSum, comm, NULL), ncclInvalidArgument, "type",
            m.rank);
    refused(ncclSend(&mine, 1, type, 0, comm, NULL), ncclInvalidArgument, "type", m.rank);
    refused(ncclRedOpCreatePreMulSum(&made, &mine, type, ncclScalarHostImmediate, comm),
            ncclInvalidArgument, "type", m.rank);
  }
  for (size_t i = 0; i < sizeof kOps / sizeof *kOps; ++i) {
    const ncclRedOp_t op = (ncclRedOp_t)kOps[i];
    refused(ncclAllReduce(&mine, &other, 1, ncclInt, op, comm, NULL), ncclInvalidArgument,
            "operation", m.rank);
    refused(ncclRedOpDestroy(op, comm), ncclInvalidArgument, "operation", m.rank);
  }
  for (int odd = -1; odd <= 2; odd += 3) {
    refused(ncclRedOpCreatePreMulSum(&made, &mine, ncclInt, (ncclScalarResidence_t)odd, comm),
            ncclInvalidArgument, "residence", m.rank);
    is(ncclGetErrorString((ncclResult_t)(100 * odd)) != NULL, "GetErrorString", m.rank);
  }
}

static void body(Member m) {
  ncclComm_t comm = join(m);
  check_queries(m, comm);
  check_enumerations(m, comm);
  check_all_reduce(m, comm);
  check_scaled_sum(m, comm);
  check_broadcast(m, comm);
  check_gathering(m, comm);
  check_rooted(m, comm);
  check_windows_beside_ordinary_memory(m, comm);
  check_scattering(m, comm);
  check_point_to_point(m, comm);
  check_groups(m, comm);
  check_memory(m, comm);
  ok(ncclCommFinalize(comm), "CommFinalize", m.rank);
  ok(ncclCommDestroy(comm), "CommDestroy", m.rank);
  refused(ncclCommDestroy(comm), ncclInvalidUsage, "has been destroyed", m.rank);
}

int main(int argc, char** argv) { return run_ranks(argc > 1 ? atoi(argv[1]) : 2, body); }
