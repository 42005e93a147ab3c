/* Every type with every operation and with whatever moves data: types RANKS. */
#include <stdint.h>

#include "tests/nccl/ranks.h"

#define COUNT 37

typedef struct {
  ncclDataType_t type;
  int bytes;
  int mantissa; /* bits; 0: an integer */
  int bias;
} Type;

static const Type kTypes[] = {
    {ncclInt8, 1, 0, 0},       {ncclUint8, 1, 0, 0},      {ncclInt32, 4, 0, 0},
    {ncclUint32, 4, 0, 0},     {ncclInt64, 8, 0, 0},      {ncclUint64, 8, 0, 0},
    {ncclFloat16, 2, 10, 15},  {ncclFloat32, 4, 23, 127}, {ncclFloat64, 8, 52, 1023},
    {ncclBfloat16, 2, 7, 127}, {ncclFloat8e4m3, 1, 3, 7}, {ncclFloat8e5m2, 1, 2, 15}};

#define TYPES (sizeof kTypes / sizeof *kTypes)

typedef struct {
  char bytes[COUNT * 8];
} Buffer;

/* The bits of a whole number that has few of them. */
static uint64_t bits_of(Type type, uint64_t value) {
  int exponent = 0;
  if (type.mantissa == 0 || value == 0) return value;
  while (value >> (exponent + 1) != 0) ++exponent;
  const uint64_t rest = (value ^ (uint64_t)1 << exponent) << type.mantissa >> exponent;
  return (uint64_t)(exponent + type.bias) << type.mantissa | rest;
}

static void put(Buffer* buffer, Type type, int i, uint64_t value) {
  const uint64_t bits = bits_of(type, value);
  memcpy(buffer->bytes + i * type.bytes, &bits, (size_t)type.bytes);
}

static void check(const Buffer* got, const Buffer* wanted, Type type, const char* what, int rank) {
  char text[64];
  snprintf(text, sizeof text, "%s of type %d", what, (int)type.type);
  is(memcmp(got, wanted, (size_t)(COUNT * type.bytes)) == 0, text, rank);
}

/* Small enough for 2 bits of mantissa: sums of up to 8 ranks, and products of powers of two. The
 * average is of no rank's value. */
static uint64_t value(int op, int rank, int ranks, int i) {
  if (op == ncclProd) return rank < 3 ? 2 : 1;
  if (op == ncclAvg) return rank == 0 ? 4 * (uint64_t)ranks : 0;
  return (uint64_t)(rank + i) % 2;
}

static uint64_t result_of(int op, int ranks, int i) {
  uint64_t sum = 0, product = 1, least = 8, most = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const uint64_t one = value(op, rank, ranks, i);
    sum += one;
    product *= one;
    if (one < least) least = one;
    if (one > most) most = one;
  }
  if (op == ncclSum) return sum;
  if (op == ncclProd) return product;
  if (op == ncclMin) return least;
  return op == ncclMax ? most : sum / (uint64_t)ranks;
}

static void check_reductions(Member m, ncclComm_t comm, Type type) {
  static const char* const kNames[] = {"sum", "product", "maximum", "minimum", "average"};
  const int is_power_of_two = (m.ranks & (m.ranks - 1)) == 0;
  for (int op = ncclSum; op <= ncclAvg; ++op) {
    /* As NCCL's, it is a sum of parts of which each is rounded. */
    if (op == ncclAvg && type.mantissa > 0 && !is_power_of_two) continue;
    Buffer send, recv, wanted;
    for (int i = 0; i < COUNT; ++i) {
      put(&send, type, i, value(op, m.rank, m.ranks, i));
      put(&wanted, type, i, result_of(op, m.ranks, i));
    }
    memset(&recv, 0x5a, sizeof recv);
    ok(ncclAllReduce(&send, &recv, COUNT, type.type, (ncclRedOp_t)op, comm, NULL), "AllReduce",
       m.rank);
    check(&recv, &wanted, type, kNames[op], m.rank);
    ok(ncclReduce(&send, &send, COUNT, type.type, (ncclRedOp_t)op, 0, comm, NULL), "Reduce",
       m.rank);
    if (m.rank == 0) check(&send, &wanted, type, kNames[op], m.rank);
  }
}

/* Fills in the rank's values, with all bits of the element in use. */
static void fill(Buffer* buffer, Type type, int rank) {
  for (int i = 0; i < COUNT * type.bytes; ++i) buffer->bytes[i] = (char)(rank * 41 + i * 7);
}

static void check_moves(Member m, ncclComm_t comm, Type type) {
  const int next = (m.rank + 1) % m.ranks, previous = (m.rank + m.ranks - 1) % m.ranks;
  const size_t bytes = (size_t)(COUNT * type.bytes);
  Buffer own, other, of_root, of_previous;
  char all[MOST_RANKS * sizeof(Buffer)];
  fill(&own, type, m.rank);
  fill(&of_root, type, m.ranks - 1);
  fill(&of_previous, type, previous);
  ok(ncclBroadcast(&own, &other, COUNT, type.type, m.ranks - 1, comm, NULL), "Broadcast", m.rank);
  check(&other, &of_root, type, "broadcast", m.rank);
  ok(ncclAllGather(&own, all, COUNT, type.type, comm, NULL), "AllGather", m.rank);
  is(memcmp(all + (size_t)previous * bytes, &of_previous, bytes) == 0, "AllGather", m.rank);
  memset(&other, 0, sizeof other);
  ok(ncclGroupStart(), "GroupStart", m.rank);
  ok(ncclSend(&own, COUNT, type.type, next, comm, NULL), "Send", m.rank);
  ok(ncclRecv(&other, COUNT, type.type, previous, comm, NULL), "Recv", m.rank);
  ok(ncclGroupEnd(), "GroupEnd", m.rank);
  check(&other, &of_previous, type, "send", m.rank);
}

#if NCCL_VERSION_CODE >= 22900
static void check_puts(Member m, ncclComm_t comm, Type type, Buffer* mine, ncclWindow_t window) {
  const int next = (m.rank + 1) % m.ranks, previous = (m.rank + m.ranks - 1) % m.ranks;
  ncclWaitSignalDesc_t wait = {1, previous, 0, 0};
  Buffer own, wanted;
  int all_read = 0;
  memset(mine, 0, sizeof *mine);
  fill(&own, type, m.rank);
  fill(&wanted, type, previous);
  ok(ncclAllReduce(&all_read, &all_read, 1, ncclInt32, ncclSum, comm, NULL), "AllReduce", m.rank);
  ok(ncclPutSignal(&own, COUNT, type.type, next, window, 0, 0, 0, 0, comm, NULL), "PutSignal",
     m.rank);
  ok(ncclWaitSignal(1, &wait, comm, NULL), "WaitSignal", m.rank);
  check(mine, &wanted, type, "put", m.rank);
  for (size_t i = (size_t)(COUNT * type.bytes); i < sizeof *mine; ++i) {
    is(mine->bytes[i] == 0, "nothing behind a put", m.rank);
  }
}

static void check_window(Member m, ncclComm_t comm) {
  ncclWindow_t window;
  void* mine;
  ok(ncclMemAlloc(&mine, sizeof(Buffer)), "MemAlloc", m.rank);
  ok(ncclCommWindowRegister(comm, mine, sizeof(Buffer), &window, 0), "WindowRegister", m.rank);
  for (size_t i = 0; i < TYPES; ++i) check_puts(m, comm, kTypes[i], (Buffer*)mine, window);
  ok(ncclCommWindowDeregister(comm, window), "WindowDeregister", m.rank);
  ok(ncclMemFree(mine), "MemFree", m.rank);
}
#else
static void check_window(Member m, ncclComm_t comm) { (void)m, (void)comm; }
#endif

static void body(Member m) {
  ncclComm_t comm = join(m);
  for (size_t i = 0; i < TYPES; ++i) {
    check_reductions(m, comm, kTypes[i]);
    check_moves(m, comm, kTypes[i]);
  }
  check_window(m, comm);
  ok(ncclCommDestroy(comm), "CommDestroy", m.rank);
}

int main(int argc, char** argv) { return run_ranks(argc > 1 ? atoi(argv[1]) : 2, body); }
