/* A program of NCCL on device memory: on_device RANKS. All it knows of CUDA is the driver's
 * interface, by cuGetProcAddress_v2. */
#include <dlfcn.h>
#include <stdint.h>

#include "tests/nccl/ranks.h"

#define COUNT 1000
#define PART 200000 /* more than a frame of a ring of 2 MiB */

typedef uint64_t Pointer;
typedef int (*GetProcAddress)(const char*, void**, int, uint64_t, int*);

static int (*init)(unsigned);
static int (*retain_context)(void**, int);
static int (*set_context)(void*);
static int (*allocate)(Pointer*, size_t);
static int (*copy_to_device)(Pointer, const void*, size_t);
static int (*copy_to_host)(void*, Pointer, size_t);
static int (*create_stream)(void**, unsigned);
static int (*synchronize)(void*);
static int (*begin_capture)(void*, int);
static int (*end_capture)(void*, void**);
static int (*instantiate)(void**, void*, unsigned long long);
static int (*launch)(void*, void*);
static int (*destroy_graph)(void*);
static int (*destroy_instance)(void*);
static uint64_t (*statistic)(const char*); /* of the software device */

static void cuda(int result, const char* what, int rank) { is(result == 0, what, rank); }

static void load_driver(int rank) {
  const struct {
    const char* name;
    int version;
    void* function;
  } wanted[] = {{"cuInit", 2000, &init},
                {"cuDevicePrimaryCtxRetain", 7000, &retain_context},
                {"cuCtxSetCurrent", 4000, &set_context},
                {"cuMemAlloc", 3020, &allocate},
                {"cuMemcpyHtoD", 3020, &copy_to_device},
                {"cuMemcpyDtoH", 3020, &copy_to_host},
                {"cuStreamCreate", 2000, &create_stream},
                {"cuStreamSynchronize", 2000, &synchronize},
                {"cuStreamBeginCapture", 10010, &begin_capture},
                {"cuStreamEndCapture", 10000, &end_capture},
                {"cuGraphInstantiateWithFlags", 11040, &instantiate},
                {"cuGraphLaunch", 10000, &launch},
                {"cuGraphDestroy", 10000, &destroy_graph},
                {"cuGraphExecDestroy", 10000, &destroy_instance}};
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  is(library != NULL, "libcuda.so.1", rank);
  const GetProcAddress get = (GetProcAddress)dlsym(library, "cuGetProcAddress_v2");
  for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; ++i) {
    int found = 0;
    cuda(get(wanted[i].name, (void**)wanted[i].function, wanted[i].version, 0, &found),
         wanted[i].name, rank);
  }
  *(void**)&statistic = dlsym(library, "softdev_statistic");
  is(statistic != NULL, "the software device", rank);
  void* context = NULL;
  cuda(init(0), "cuInit", rank);
  cuda(retain_context(&context, 0), "cuDevicePrimaryCtxRetain", rank);
  cuda(set_context(context), "cuCtxSetCurrent", rank);
}

static Pointer address(const void* memory) { return (Pointer)(uintptr_t)memory; }

/* Element i is i + rank. */
static void fill(void* device, int rank) {
  int values[COUNT];
  for (int i = 0; i < COUNT; ++i) values[i] = i + rank;
  cuda(copy_to_device(address(device), values, sizeof values), "copy to the device", rank);
}

/* Once the stream is past it: the first `count` elements. */
static void take(int* values, const void* device, int count, void* stream, int rank) {
  cuda(synchronize(stream), "cuStreamSynchronize", rank);
  cuda(copy_to_host(values, address(device), (size_t)count * sizeof *values), "copy to the host",
       rank);
}

static void check_collectives(Member m, ncclComm_t comm, void* send, void* recv, void* stream) {
  int values[COUNT * MOST_RANKS];
  const int sum = m.ranks * (m.ranks - 1) / 2, root = m.ranks - 1;
  ok(ncclAllReduce(send, recv, COUNT, ncclInt, ncclSum, comm, stream), "AllReduce", m.rank);
  take(values, recv, COUNT, stream, m.rank);
  for (int i = 0; i < COUNT; ++i) is(values[i] == m.ranks * i + sum, "all_reduce", m.rank);
  ok(ncclAllGather(send, recv, COUNT, ncclInt, comm, stream), "AllGather", m.rank);
  take(values, recv, COUNT * m.ranks, stream, m.rank);
  for (int i = 0; i < COUNT * m.ranks; ++i) {
    is(values[i] == i % COUNT + i / COUNT, "all_gather", m.rank);
  }
  ok(ncclBroadcast(send, recv, COUNT, ncclInt, root, comm, stream), "Broadcast", m.rank);
  take(values, recv, COUNT, stream, m.rank);
  for (int i = 0; i < COUNT; ++i) is(values[i] == i + root, "broadcast", m.rank);
  ok(ncclReduce(send, m.rank == root ? recv : NULL, COUNT, ncclInt, ncclMax, root, comm, stream),
     "Reduce", m.rank);
  take(values, recv, COUNT, stream, m.rank);
  is(m.rank != root || values[5] == 5 + root, "reduce", m.rank);
}

static void check_group(Member m, ncclComm_t comm, void* send, void* recv, void* stream) {
  int values[COUNT];
  const int next = (m.rank + 1) % m.ranks, previous = (m.rank + m.ranks - 1) % m.ranks;
  ok(ncclGroupStart(), "GroupStart", m.rank);
  ok(ncclSend(send, COUNT, ncclInt, next, comm, stream), "Send", m.rank);
  ok(ncclRecv(recv, COUNT, ncclInt, previous, comm, stream), "Recv", m.rank);
  ok(ncclGroupEnd(), "GroupEnd", m.rank);
  take(values, recv, COUNT, stream, m.rank);
  for (int i = 0; i < COUNT; ++i) is(values[i] == i + previous, "send/recv", m.rank);
}

/* A sum and a gathering of it in a graph, which runs on other numbers each time; an eager call
 * between its runs. */
static void check_graph(Member m, ncclComm_t comm, void* send, void* recv, void* stream) {
  int values[COUNT * MOST_RANKS];
  void *graph = NULL, *instance = NULL;
  cuda(begin_capture(stream, 0), "cuStreamBeginCapture", m.rank);
  ok(ncclAllReduce(send, send, COUNT, ncclInt, ncclSum, comm, stream), "AllReduce", m.rank);
  ok(ncclAllGather(send, recv, COUNT, ncclInt, comm, stream), "AllGather", m.rank);
  cuda(end_capture(stream, &graph), "cuStreamEndCapture", m.rank);
  cuda(instantiate(&instance, graph, 0), "cuGraphInstantiateWithFlags", m.rank);
  cuda(destroy_graph(graph), "cuGraphDestroy", m.rank);
  for (int run = 0; run < 3; ++run) {
    fill(send, m.rank + run);
    cuda(launch(instance, stream), "cuGraphLaunch", m.rank);
    take(values, recv, COUNT * m.ranks, stream, m.rank);
    const int sum = m.ranks * (m.ranks - 1) / 2 + m.ranks * run;
    for (int i = 0; i < COUNT * m.ranks; ++i) {
      is(values[i] == m.ranks * (i % COUNT) + sum, "a run of a graph", m.rank);
    }
    ok(ncclAllReduce(send, recv, COUNT, ncclInt, ncclMax, comm, stream), "AllReduce", m.rank);
    take(values, recv, COUNT, stream, m.rank);
    is(values[1] == m.ranks + sum, "an all_reduce behind a graph", m.rank);
  }
  cuda(destroy_instance(instance), "cuGraphExecDestroy", m.rank);
  fill(send, m.rank);
}

/* Each half of the ranks by itself, in place; the end of the communicator waits for the stream. */
static void check_split(Member m, ncclComm_t comm, void* memory, void* stream) {
  int values[COUNT], ranks = 0;
  ncclComm_t half = NULL;
  ok(ncclCommSplit(comm, m.rank % 2, m.rank, &half, NULL), "CommSplit", m.rank);
  ok(ncclCommCount(half, &ranks), "CommCount", m.rank);
  ok(ncclAllReduce(memory, memory, COUNT, ncclInt, ncclMin, half, stream), "AllReduce", m.rank);
  ok(ncclCommFinalize(half), "CommFinalize", m.rank);
  ok(ncclCommDestroy(half), "CommDestroy", m.rank);
  take(values, memory, COUNT, stream, m.rank);
  is(values[3] == 3 + m.rank % 2, "the half's all_reduce", m.rank);
}

/* Ends the communicator. Each kernel of its all_reduce has so many thread blocks. */
static void check_blocks(Member m, ncclComm_t comm, uint64_t blocks, void* memory, void* stream) {
  const char* ring = getenv("TUTTI_DEVICE_RING_BYTES");
  const int by_host = ring != NULL && strcmp(ring, "0") == 0;
  const uint64_t kernels = statistic("kernels"), before = statistic("thread_blocks");
  ok(ncclAllReduce(memory, memory, COUNT, ncclInt, ncclMin, comm, stream), "AllReduce", m.rank);
  cuda(synchronize(stream), "cuStreamSynchronize", m.rank);
  const uint64_t launched = statistic("kernels") - kernels;
  is((launched == 0) == by_host, "kernels", m.rank);
  is(statistic("thread_blocks") - before == launched * blocks, "thread blocks", m.rank);
  ok(ncclCommDestroy(comm), "CommDestroy", m.rank);
}

/* NCCL_MAX_CTAS wins over the configuration; without one a split has that of its parent. */
static void check_thread_blocks(Member m, ncclComm_t comm, void* memory, void* stream) {
  const char* most = getenv("NCCL_MAX_CTAS");
  const uint64_t blocks = most == NULL ? 3 : (uint64_t)atoi(most);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t bound = NULL, same = NULL, other = NULL;
  config.minCTAs = config.maxCTAs = 3;
  ok(ncclCommSplit(comm, 0, m.rank, &bound, &config), "CommSplit", m.rank);
  ok(ncclCommSplit(bound, 0, m.rank, &same, NULL), "CommSplit", m.rank);
  config.minCTAs = config.maxCTAs = NCCL_CONFIG_UNDEF_INT;
  ok(ncclCommSplit(bound, 0, m.rank, &other, &config), "CommSplit", m.rank);
  check_blocks(m, other, 1, memory, stream);
  check_blocks(m, same, blocks, memory, stream);
  check_blocks(m, bound, blocks, memory, stream);
  config.minCTAs = 4;
  config.maxCTAs = 3;
  refused(ncclCommSplit(comm, 0, m.rank, &bound, &config), ncclInvalidArgument,
          "config.minCTAs is above config.maxCTAs", m.rank);
  config.minCTAs = 0;
  refused(ncclCommSplit(comm, 0, m.rank, &bound, &config), ncclInvalidArgument,
          "config.minCTAs is 0; it may be 1 or more", m.rank);
  config.minCTAs = NCCL_CONFIG_UNDEF_INT;
  config.maxCTAs = -1;
  refused(ncclCommSplit(comm, 0, m.rank, &bound, &config), ncclInvalidArgument,
          "config.maxCTAs is -1; it may be 1 or more", m.rank);
}

/* A put into the next rank's part, from the own one, by the stream: what is there is no source. */
static void check_put(Member m, ncclComm_t comm, ncclWindow_t window, int may, void* stream) {
  const int next = (m.rank + 1) % m.ranks, previous = (m.rank + m.ranks - 1) % m.ranks;
  const size_t place = (size_t)next * PART + PART / 2;
  int* memory = NULL;
  ok(ncclWinGetUserPtr(comm, window, (void**)&memory), "WinGetUserPtr", m.rank);
  const ncclResult_t put = ncclPutSignal(memory + m.rank * PART + 5, COUNT, ncclInt, next, window,
                                         place * sizeof(int), 2, 0, 0, comm, stream);
  if (!may) return refused(put, ncclInvalidUsage, "is none for one-sided access", m.rank);
  ncclWaitSignalDesc_t wait = {1, previous, 2, 0};
  int values[COUNT];
  ok(put, "PutSignal", m.rank);
  ok(ncclWaitSignal(1, &wait, comm, stream), "WaitSignal", m.rank);
  take(values, memory + m.rank * PART + PART / 2, COUNT, stream, m.rank);
  for (int i = 0; i < COUNT; ++i) is(values[i] == (i + 5) * 7 + previous, "a put", m.rank);
}

/* In place in a window of all ranks; `is_shared`: of memory that processes can share, so that each
 * copies nothing but what it takes from its peers. */
static void check_window(Member m, ncclComm_t comm, void* memory, int is_shared, void* stream) {
  const size_t all = (size_t)m.ranks * PART;
  int* values = malloc(all * sizeof *values);
  ncclWindow_t window = NULL;
  ok(ncclCommWindowRegister(comm, memory, all * sizeof *values, &window, NCCL_WIN_COLL_SYMMETRIC),
     "WindowRegister", m.rank);
  is(window != NULL, "a window", m.rank);
  for (int i = 0; i < PART; ++i) values[i] = i * 7 + m.rank;
  int* const own = (int*)memory + (size_t)m.rank * PART;
  cuda(copy_to_device(address(own), values, PART * sizeof *values), "copy to the device", m.rank);
  const uint64_t before = statistic("copies");
  ok(ncclAllGather(own, memory, PART, ncclInt, comm, stream), "AllGather", m.rank);
  cuda(synchronize(stream), "cuStreamSynchronize", m.rank);
  const int is_direct = statistic("copies") - before == (uint64_t)m.ranks - 1;
  const int by_host = strcmp(getenv("TUTTI_DEVICE_RING_BYTES"), "0") == 0;
  const int may = is_shared && getenv("NCCL_P2P_DISABLE") == NULL;
  is(by_host || is_direct == may, "direct or not", m.rank);
  cuda(copy_to_host(values, address(memory), all * sizeof *values), "copy to the host", m.rank);
  for (size_t i = 0; i < all; ++i) {
    is(values[i] == (int)(i % PART * 7 + i / PART), "all_gather in a window", m.rank);
  }
  meet(m);
  check_put(m, comm, window, may, stream);
  meet(m);
  ok(ncclCommWindowDeregister(comm, window), "WindowDeregister", m.rank);
  free(values);
}

static void check_windows(Member m, ncclComm_t comm, void* stream) {
  const size_t bytes = (size_t)m.ranks * PART * sizeof(int);
  void* memory = NULL;
  Pointer plain = 0;
  ok(ncclMemAlloc(&memory, bytes), "MemAlloc", m.rank);
  check_window(m, comm, memory, 1, stream);
  ok(ncclMemFree(memory), "MemFree", m.rank);
  cuda(allocate(&plain, bytes), "cuMemAlloc", m.rank);
  check_window(m, comm, (void*)(uintptr_t)plain, 0, stream);
}

/* The other ranks never call: the stream goes on all the same. */
static void check_abort(Member m, ncclComm_t comm, void* send, void* recv, void* stream) {
  meet(m);
  if (m.rank == 0) {
    ok(ncclAllReduce(send, recv, COUNT, ncclInt, ncclSum, comm, stream), "alone", m.rank);
  }
  usleep(50000);
  ok(ncclCommAbort(comm), "CommAbort", m.rank);
  cuda(synchronize(stream), "cuStreamSynchronize after an abort", m.rank);
}

static void body(Member m) {
  void *stream = NULL, *send = NULL;
  Pointer recv = 0;
  load_driver(m.rank);
  ncclComm_t comm = join(m);
  cuda(create_stream(&stream, 1), "cuStreamCreate", m.rank);
  ok(ncclMemAlloc(&send, COUNT * sizeof(int)), "MemAlloc", m.rank);
  cuda(allocate(&recv, COUNT * MOST_RANKS * sizeof(int)), "cuMemAlloc", m.rank);
  fill(send, m.rank);
  check_collectives(m, comm, send, (void*)(uintptr_t)recv, stream);
  check_group(m, comm, send, (void*)(uintptr_t)recv, stream);
  check_graph(m, comm, send, (void*)(uintptr_t)recv, stream);
  check_split(m, comm, send, stream);
  check_thread_blocks(m, comm, send, stream);
  check_windows(m, comm, stream);
  check_abort(m, comm, send, (void*)(uintptr_t)recv, stream);
  ok(ncclMemFree(send), "MemFree", m.rank);
}

int main(int count, char** words) { return run_ranks(count > 1 ? atoi(words[1]) : 2, body); }
