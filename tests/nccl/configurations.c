/* ncclConfig_t of any size and version: configurations RANKS.
 *
 * A program has the struct of its header, which has grown at its end from 24 bytes (2.14) to 120
 * (2.32). The library must not read bytes behind it, nor fields that its version did not have. */
#include "tests/nccl/ranks.h"

#define LEAST 24
#define MOST 120
#define NAME_AT 48
#define NETWORK_AT 32
#define CLUSTER_AT 20
#define TRAFFIC_AT 44
#define CHANNELS_AT 72
#define ORDERING_AT 92

typedef union {
  ncclConfig_t config;
  char bytes[MOST + 64];
} Space;

typedef struct {
  size_t size;
  unsigned version;
} Version;

/* Undefined in all fields up to its end, and random bytes behind it. */
static void fill(Space* space, Version version, const char* name) {
  const unsigned magic = 0xcafebeef;
  const int undefined = NCCL_CONFIG_UNDEF_INT;
  const char* const network = NULL;
  char whole[MOST];
  memset(space, 0x77, sizeof *space);
  for (size_t at = 0; at < MOST; at += sizeof undefined) memcpy(whole + at, &undefined, 4);
  memcpy(whole, &version.size, sizeof version.size);
  memcpy(whole + 8, &magic, sizeof magic);
  memcpy(whole + 12, &version.version, sizeof version.version);
  memcpy(whole + NETWORK_AT, &network, sizeof network);
  memcpy(whole + NAME_AT, &name, sizeof name);
  if (version.version < 23005) memset(whole + ORDERING_AT, 0x99, 4); /* padding until then */
  memcpy(space, whole, version.size < MOST ? version.size : MOST);
}

static ncclComm_t make(Member m, ncclComm_t base, Space* space) {
  ncclUniqueId id;
  ncclComm_t comm = NULL;
  if (m.rank == 0) ok(ncclGetUniqueId(&id), "GetUniqueId", m.rank);
  ok(ncclBcast(&id, sizeof id, ncclChar, 0, base, NULL), "Bcast", m.rank);
  ok(ncclCommInitRankConfig(&comm, m.ranks, id, m.rank, &space->config), "InitRankConfig", m.rank);
  return comm;
}

/* Messages have the name of the communicator, if it has one. */
static void check_name(Member m, ncclComm_t comm, const char* name) {
  char wanted[64] = "";
  int word = 1;
  if (name != NULL && *name != '\0') snprintf(wanted, sizeof wanted, "communicator '%s'", name);
  refused(ncclBcast(&word, 1, ncclInt, m.ranks, comm, NULL), ncclInvalidArgument, wanted, m.rank);
  is(*wanted != '\0' || strstr(ncclGetLastError(comm), "communicator '") == NULL, "no name",
     m.rank);
}

static void check(Member m, ncclComm_t base, Version version, const char* name, int has_name) {
  Space space;
  char passed[32];
  int mine = 1, sum = 0;
  snprintf(passed, sizeof passed, "%s", name == NULL ? "" : name);
  fill(&space, version, name == NULL ? NULL : passed);
  ncclComm_t comm = make(m, base, &space);
  memset(passed, 'x', sizeof passed); /* it was copied */
  memset(&space, 0x77, sizeof space);
  check_name(m, comm, has_name ? name : NULL);
  ok(ncclAllReduce(&mine, &sum, 1, ncclInt, ncclSum, comm, NULL), "AllReduce", m.rank);
  is(sum == m.ranks, "AllReduce", m.rank);
  ok(ncclCommDestroy(comm), "CommDestroy", m.rank);
}

/* Any size of the newest version: the struct may end between two fields, and in one. */
static void check_sizes(Member m, ncclComm_t base) {
  for (size_t size = LEAST; size <= MOST + 16; size += 4) {
    const Version version = {size, 23206};
    char name[16];
    snprintf(name, sizeof name, "of %zu", size);
    check(m, base, version, name, size >= NAME_AT + sizeof(char*));
  }
}

/* Each version's own; no name, an empty one; and an old version in a large struct. */
static void check_versions(Member m, ncclComm_t base) {
  static const Version kVersions[] = {{24, 21400}, {40, 21703},  {48, 21801}, {48, 22602},
                                      {72, 22703}, {80, 22809},  {88, 22907}, {96, 23004},
                                      {96, 23007}, {104, 23102}, {120, 23206}};
  for (size_t i = 0; i < sizeof kVersions / sizeof *kVersions; ++i) {
    const Version large = {MOST, kVersions[i].version};
    const int has_name = kVersions[i].version >= 22703;
    check(m, base, kVersions[i], "data parallel", has_name);
    check(m, base, kVersions[i], NULL, 0);
    check(m, base, kVersions[i], "", 0);
    check(m, base, large, "data parallel", has_name);
  }
}

/* NCCL takes a name of any length; messages have its beginning. */
static void check_long_name(Member m, ncclComm_t base) {
  const Version version = {MOST, 23206};
  char name[300], wanted[200];
  Space space;
  int word = 1;
  memset(name, 'x', sizeof name - 1);
  name[sizeof name - 1] = '\0';
  fill(&space, version, name);
  ncclComm_t comm = make(m, base, &space);
  snprintf(wanted, sizeof wanted, "communicator '%.128s'", name);
  refused(ncclBcast(&word, 1, ncclInt, m.ranks, comm, NULL), ncclInvalidArgument, wanted, m.rank);
  ok(ncclCommDestroy(comm), "CommDestroy", m.rank);
}

/* Bytes that an old program has behind its fields are read neither as text nor as numbers. */
static void check_rubbish(Member m, ncclComm_t base) {
  Space space;
  const Version old = {LEAST, 21400};
  const size_t size = MOST;
  int mine = 1, sum = 0;
  fill(&space, old, NULL);
  memcpy(&space, &size, sizeof size);
  ncclComm_t comm = make(m, base, &space);
  ok(ncclAllReduce(&mine, &sum, 1, ncclInt, ncclSum, comm, NULL), "AllReduce", m.rank);
  check_name(m, comm, NULL);
  ok(ncclCommDestroy(comm), "CommDestroy", m.rank);
}

static void set(Space* space, size_t at, int value) {
  memcpy(space->bytes + at, &value, sizeof value);
}

/* Values that NCCL takes are taken, and those that it refuses are refused. */
static void check_values(Member m, ncclComm_t base) {
  static const struct {
    size_t at;
    int value;
  } kRefused[] = {{CLUSTER_AT, -1}, {CHANNELS_AT, 0}, {CHANNELS_AT, 65}, {ORDERING_AT, 2}};
  const Version whole = {MOST, 23206};
  ncclUniqueId id;
  Space space;
  fill(&space, whole, NULL);
  set(&space, CLUSTER_AT, 16);
  set(&space, TRAFFIC_AT, -5);
  set(&space, CHANNELS_AT, 64);
  set(&space, ORDERING_AT, 1);
  ok(ncclCommDestroy(make(m, base, &space)), "CommDestroy", m.rank);
  ok(ncclGetUniqueId(&id), "GetUniqueId", m.rank);
  for (size_t i = 0; i < sizeof kRefused / sizeof *kRefused; ++i) {
    ncclComm_t comm = NULL;
    fill(&space, whole, NULL);
    set(&space, kRefused[i].at, kRefused[i].value);
    refused(ncclCommInitRankConfig(&comm, 1, id, 0, &space.config), ncclInvalidArgument,
            "it may be", m.rank);
  }
}

static void check_refusals(Member m) {
  static const size_t kTooSmall[] = {0, 4, 16, LEAST - 4};
  const Version whole = {MOST, 23206};
  ncclUniqueId id;
  Space space;
  ok(ncclGetUniqueId(&id), "GetUniqueId", m.rank);
  for (size_t i = 0; i < sizeof kTooSmall / sizeof *kTooSmall; ++i) {
    fill(&space, whole, NULL);
    memcpy(&space, &kTooSmall[i], sizeof kTooSmall[i]);
    ncclComm_t comm = (ncclComm_t)&space; /* what was there before */
    refused(ncclCommInitRankConfig(&comm, 1, id, 0, &space.config), ncclInvalidArgument,
            "NCCL_CONFIG_INITIALIZER", m.rank);
    is(comm == NULL, "no communicator", m.rank);
  }
}

static void body(Member m) {
  ncclComm_t base = join(m);
  check_sizes(m, base);
  check_versions(m, base);
  check_long_name(m, base);
  check_rubbish(m, base);
  check_values(m, base);
  check_refusals(m);
  ok(ncclCommDestroy(base), "CommDestroy", m.rank);
}

int main(int argc, char** argv) { return run_ranks(argc > 1 ? atoi(argv[1]) : 2, body); }
