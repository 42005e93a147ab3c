/* The collectives with a configuration, and Tutti's options in them: configured RANKS. */
#include "tests/nccl/ranks.h"
#include "tutti/nccl_options.h"

#define COUNT 500
#define MOST_VALUES (MOST_RANKS * COUNT)

static ncclCollConfig_t with(ncclConfigExt_t* list) {
  ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
  config.ext = list;
  return config;
}

static ncclConfigExt_t number(int option, int value) {
  ncclConfigExt_t entry = {NULL, {TUTTI_NCCL_VENDOR, option}, {.i = value}};
  return entry;
}

static ncclConfigExt_t text(int option, const char* value) {
  ncclConfigExt_t entry = {NULL, {TUTTI_NCCL_VENDOR, option}, {.s = value}};
  return entry;
}

static int32_t value(int rank, int i) { return rank * 1000 + i % 97; }

static int32_t sum_at(int ranks, int i) {
  int32_t sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += value(rank, i);
  return sum;
}

static void check_reductions(Member m, ncclComm_t comm, const ncclCollConfig_t* config) {
  int32_t send[MOST_VALUES], recv[MOST_VALUES];
  const int root = m.ranks - 1;
  for (int i = 0; i < m.ranks * COUNT; ++i) send[i] = value(m.rank, i);
  ok(ncclAllReduceConfig(send, recv, COUNT, ncclInt32, ncclSum, comm, NULL, config), "AllReduce",
     m.rank);
  for (int i = 0; i < COUNT; ++i) is(recv[i] == sum_at(m.ranks, i), "AllReduce", m.rank);
  ok(ncclAllReduceConfig(send, recv, COUNT, ncclInt32, ncclMax, comm, NULL, config), "AllReduce",
     m.rank);
  is(recv[3] == value(m.ranks - 1, 3), "the operation", m.rank);
  ok(ncclReduceConfig(send, recv, COUNT, ncclInt32, ncclSum, root, comm, NULL, config), "Reduce",
     m.rank);
  for (int i = 0; m.rank == root && i < COUNT; ++i) {
    is(recv[i] == sum_at(m.ranks, i), "Reduce", m.rank);
  }
  ok(ncclReduceScatterConfig(send, recv, COUNT, ncclInt32, ncclSum, comm, NULL, config),
     "ReduceScatter", m.rank);
  for (int i = 0; i < COUNT; ++i) {
    is(recv[i] == sum_at(m.ranks, m.rank * COUNT + i), "ReduceScatter", m.rank);
  }
}

static void check_copies(Member m, ncclComm_t comm, const ncclCollConfig_t* config) {
  int32_t send[MOST_VALUES], recv[MOST_VALUES], back[COUNT];
  const int root = m.ranks / 2, all = m.ranks * COUNT;
  for (int i = 0; i < all; ++i) send[i] = value(m.rank, i);
  ok(ncclBroadcastConfig(send, recv, COUNT, ncclInt32, root, comm, NULL, config), "Broadcast",
     m.rank);
  for (int i = 0; i < COUNT; ++i) is(recv[i] == value(root, i), "Broadcast", m.rank);
  ok(ncclAllGatherConfig(send, recv, COUNT, ncclInt32, comm, NULL, config), "AllGather", m.rank);
  for (int i = 0; i < all; ++i) is(recv[i] == value(i / COUNT, i % COUNT), "AllGather", m.rank);
  ok(ncclAlltoAllConfig(send, recv, COUNT, ncclInt32, comm, NULL, config), "AlltoAll", m.rank);
  for (int i = 0; i < all; ++i) {
    is(recv[i] == value(i / COUNT, m.rank * COUNT + i % COUNT), "AlltoAll", m.rank);
  }
  ok(ncclGatherConfig(send, recv, COUNT, ncclInt32, root, comm, NULL, config), "Gather", m.rank);
  for (int i = 0; m.rank == root && i < all; ++i) {
    is(recv[i] == value(i / COUNT, i % COUNT), "Gather", m.rank);
  }
  ok(ncclScatterConfig(recv, back, COUNT, ncclInt32, root, comm, NULL, config), "Scatter", m.rank);
  for (int i = 0; i < COUNT; ++i) is(back[i] == send[i], "Scatter", m.rank);
}

static void check_every_collective(Member m, ncclComm_t comm) {
  ncclConfigExt_t limit = number(tuttiNcclTimeoutMs, 60000);
  ncclConfigExt_t order = number(tuttiNcclDeterministic, 1);
  ncclConfigExt_t urgency = number(tuttiNcclPriority, -3);
  ncclConfigExt_t none = text(tuttiNcclAlgorithm, NULL);
  ncclConfigExt_t theirs = {&limit, {TUTTI_NCCL_VENDOR - 1, 99}, {.raw = (void*)1}};
  ncclConfigExt_t zero = {&theirs, {0, tuttiNcclDeterministic}, {.i = 77}};
  const ncclCollConfig_t empty = with(NULL), all = with(&zero);
  limit.next = &order;
  order.next = &urgency;
  urgency.next = &none;
  const ncclCollConfig_t* const configs[] = {NULL, &empty, &all};
  for (int i = 0; i < 3; ++i) {
    check_reductions(m, comm, configs[i]);
    check_copies(m, comm, configs[i]);
  }
}

static ncclResult_t sum(ncclComm_t comm, const ncclCollConfig_t* config) {
  int32_t mine = 1, all = 0;
  return ncclAllReduceConfig(&mine, &all, 1, ncclInt32, ncclSum, comm, NULL, config);
}

static void list_refused(ncclComm_t comm, ncclConfigExt_t* list, const char* why, int rank) {
  const ncclCollConfig_t config = with(list);
  refused(sum(comm, &config), ncclInvalidArgument, why, rank);
}

static void check_refused_options(Member m, ncclComm_t comm) {
  ncclConfigExt_t unknown = number(99, 0), zero = number(0, 0);
  ncclConfigExt_t half = number(tuttiNcclDeterministic, 2);
  ncclConfigExt_t past = number(tuttiNcclTimeoutMs, -1);
  ncclConfigExt_t nonsense = text(tuttiNcclAlgorithm, "nonsense");
  ncclConfigExt_t first = number(tuttiNcclPriority, 1), second = number(tuttiNcclPriority, 1);
  list_refused(comm, &unknown, "ncclAllReduceConfig: config.ext: Tutti has no option 99", m.rank);
  list_refused(comm, &zero, "no option 0", m.rank);
  list_refused(comm, &half, "tuttiNcclDeterministic is 2; it may be 0 or 1", m.rank);
  list_refused(comm, &past, "tuttiNcclTimeoutMs is -1; it may be 0 or more", m.rank);
  list_refused(comm, &nonsense, "'nonsense'", m.rank);
  first.next = &second;
  list_refused(comm, &first, "option 3 is there twice", m.rank);
}

static void check_lists(Member m, ncclComm_t comm) {
  static ncclConfigExt_t list[TUTTI_NCCL_MOST_EXTENSIONS + 1];
  ncclCollConfig_t config = with(list);
  memset(list, 0, sizeof list);
  for (int i = 0; i + 1 < TUTTI_NCCL_MOST_EXTENSIONS; ++i) list[i].next = &list[i + 1];
  ok(sum(comm, &config), "the longest list", m.rank);
  list[TUTTI_NCCL_MOST_EXTENSIONS - 1].next = &list[TUTTI_NCCL_MOST_EXTENSIONS];
  refused(sum(comm, &config), ncclInvalidArgument, "more than 256 entries", m.rank);
  list[2].next = &list[1];
  refused(sum(comm, &config), ncclInvalidArgument, "a circle", m.rank);
  list[0].next = &list[0];
  refused(sum(comm, &config), ncclInvalidArgument, "a circle", m.rank);
}

/* The fields of NCCL: checked as NCCL does. */
static void check_fields(Member m, ncclComm_t comm) {
  ncclConfigExt_t named = text(tuttiNcclAlgorithm, "two_shot");
  ncclCollConfig_t config = with(NULL);
  config.minCTAs = config.maxCTAs = config.nvlsCTAs = config.cgaClusterSize = 1 << 30;
  config.userProfilerTag = 42;
  config.CTAPolicy = NCCL_CTA_POLICY_ZERO;
  ok(sum(comm, &config), "fields without effect", m.rank);
  config.algSelection = "";
  ok(sum(comm, &config), "no selection", m.rank);
  config.algSelection = "RING";
  refused(sum(comm, &config), ncclInvalidArgument, "\"RING\" names algorithms of NCCL", m.rank);
  config.ext = &named;
  ok(sum(comm, &config), "Tutti's name beside NCCL's", m.rank);
  config.ext = NULL;
  config.forceAlgSelection = 0;
  ok(sum(comm, &config), "a selection that is not forced", m.rank);
  config.forceAlgSelection = 2;
  refused(sum(comm, &config), ncclInvalidArgument, "forceAlgSelection is 2", m.rank);
  config.forceAlgSelection = 1;
  config = with(NULL);
  config.CTAPolicy = 4;
  refused(sum(comm, &config), ncclInvalidArgument, "CTAPolicy is 4", m.rank);
  config.CTAPolicy = -1;
  refused(sum(comm, &config), ncclInvalidArgument, "CTAPolicy is -1", m.rank);
}

/* 64 bytes in 2.31, 72 in 2.32; what lies behind is not looked at. */
static void check_sizes(Member m, ncclComm_t comm) {
  struct {
    ncclCollConfig_t config;
    char behind[24];
  } space;
  memset(&space, 0x77, sizeof space);
  const ncclCollConfig_t whole = with(NULL);
  memcpy(&space.config, &whole, 64);
  for (size_t size = 64; size <= sizeof space; size += 8) {
    space.config.size = size;
    space.config.version = size == 64 ? 23102 : 23206;
    ok(sum(comm, &space.config), "a configuration of another version", m.rank);
  }
  space.config.size = 63;
  refused(sum(comm, &space.config), ncclInvalidArgument, "NCCL_COLLCONFIG_INITIALIZER", m.rank);
  space.config.size = 72;
  space.config.magic = 0;
  refused(sum(comm, &space.config), ncclInvalidArgument, "NCCL_COLLCONFIG_INITIALIZER", m.rank);
}

/* The call does what its options ask for. */
static void check_effects(Member m, ncclComm_t comm) {
  ncclConfigExt_t algorithm = text(tuttiNcclAlgorithm, "ring");
  ncclConfigExt_t order = number(tuttiNcclDeterministic, 1);
  const ncclCollConfig_t config = with(&algorithm);
  ok(sum(comm, &config), "an algorithm by name", m.rank);
  algorithm.val.s = "pairwise"; /* an all_to_all */
  if (m.ranks > 1)
    refused(sum(comm, &config), ncclInvalidArgument,
            "pairwise is forced by the options of the call", m.rank);
  algorithm.val.s = "ring";
  algorithm.next = &order;
  if (m.ranks > 2) refused(sum(comm, &config), ncclInvalidArgument, "ring", m.rank);
  algorithm.val.s = "two_shot";
  ok(sum(comm, &config), "a deterministic algorithm by name", m.rank);
  ok(sum(comm, NULL), "the next call", m.rank);
}

/* The configuration may be gone when the group ends; a refused one keeps the group from running. */
static void check_groups(Member m, ncclComm_t comm) {
  char name[] = "two_shot";
  ncclConfigExt_t algorithm = text(tuttiNcclAlgorithm, name);
  ncclConfigExt_t urgency = number(tuttiNcclPriority, 5);
  ncclCollConfig_t config = with(&algorithm);
  int32_t mine = 1, all = 0, copy = -1;
  algorithm.next = &urgency;
  ok(ncclGroupStart(), "GroupStart", m.rank);
  ok(ncclAllReduceConfig(&mine, &all, 1, ncclInt32, ncclSum, comm, NULL, &config), "AllReduce",
     m.rank);
  config.ext = &urgency;
  ok(ncclBroadcastConfig(&m.rank, &copy, 1, ncclInt32, 0, comm, NULL, &config), "Broadcast",
     m.rank);
  memset(name, 'x', sizeof name - 1);
  memset(&algorithm, 0x77, sizeof algorithm);
  memset(&urgency, 0x77, sizeof urgency);
  memset(&config, 0x77, sizeof config);
  ok(ncclGroupEnd(), "GroupEnd", m.rank);
  is(all == m.ranks && copy == 0, "a group", m.rank);
  urgency = number(99, 0);
  config = with(&urgency);
  ok(ncclGroupStart(), "GroupStart", m.rank);
  ok(ncclAllReduce(&mine, &copy, 1, ncclInt32, ncclSum, comm, NULL), "AllReduce", m.rank);
  refused(sum(comm, &config), ncclInvalidArgument, "no option 99", m.rank);
  refused(ncclGroupEnd(), ncclInvalidArgument, "no option 99", m.rank);
  is(copy == 0, "the group did not run", m.rank);
  refused(sum(NULL, NULL), ncclInvalidArgument, "null", m.rank);
}

/* Nobody else calls, so the deadline passes. */
static void check_timeout(Member m, ncclComm_t comm) {
  ncclConfigExt_t limit = number(tuttiNcclTimeoutMs, 100);
  const ncclCollConfig_t config = with(&limit);
  if (m.ranks > 1 && m.rank == 0) refused(sum(comm, &config), ncclTimeout, "", m.rank);
  meet(m);
  ok(ncclCommAbort(comm), "CommAbort", m.rank);
}

static void body(Member m) {
  ncclComm_t comm = join(m);
  check_every_collective(m, comm);
  check_refused_options(m, comm);
  check_lists(m, comm);
  check_fields(m, comm);
  check_sizes(m, comm);
  check_effects(m, comm);
  check_groups(m, comm);
  check_timeout(m, comm);
}

int main(int argc, char** argv) { return run_ranks(argc > 1 ? atoi(argv[1]) : 2, body); }
