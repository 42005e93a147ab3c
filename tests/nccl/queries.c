/* Calls what NCCL has had since 2.29, and the host side of the device API: queries RANKS. */
#include "tests/nccl/ranks.h"

static void check_properties(Member m, ncclComm_t comm) {
  struct {
    ncclCommProperties_t properties;
    char behind[16];
  } space = {NCCL_COMM_PROPERTIES_INITIALIZER, "untouched"};
  ok(ncclCommQueryProperties(comm, &space.properties), "CommQueryProperties", m.rank);
  is(space.properties.rank == m.rank && space.properties.nRanks == m.ranks, "properties", m.rank);
  is(!space.properties.deviceApiSupport && !space.properties.multimemSupport, "device", m.rank);
  is(space.properties.nLsaTeams == m.ranks, "teams", m.rank);
  is(strcmp(space.behind, "untouched") == 0, "no write behind the struct", m.rank);
  /* A program of an older header has a shorter struct. */
  space.properties.size = offsetof(ncclCommProperties_t, nLsaTeams);
  space.properties.nLsaTeams = 99;
  ok(ncclCommQueryProperties(comm, &space.properties), "CommQueryProperties", m.rank);
  is(space.properties.nLsaTeams == 99, "no write behind a shorter struct", m.rank);
  space.properties.magic = 0;
  refused(ncclCommQueryProperties(comm, &space.properties), ncclInvalidUsage, "INITIALIZER",
          m.rank);
}

static void check_window(Member m, ncclComm_t comm) {
  int32_t memory[16] = {0};
  void* found = NULL;
  ncclWindow_t window = NULL;
  ok(ncclCommWindowRegister(comm, memory, sizeof memory, &window, 0), "WindowRegister", m.rank);
  ok(ncclWinGetUserPtr(comm, window, &found), "WinGetUserPtr", m.rank);
  is(found == memory, "WinGetUserPtr", m.rank);
  ok(ncclCommWindowDeregister(comm, window), "WindowDeregister", m.rank);
  refused(ncclWinGetUserPtr(comm, window, &found), ncclInvalidArgument, "not a window", m.rank);
}

static void check_suspend(Member m, ncclComm_t comm) {
  int mine = 1, sum = 0;
  uint64_t value = 99;
  ok(ncclCommMemStats(comm, ncclStatGpuMemTotal, &value), "CommMemStats", m.rank);
  is(value == 0, "no memory of a GPU", m.rank);
  refused(ncclCommMemStats(comm, (ncclCommMemStat_t)9, &value), ncclInvalidArgument, "statistic",
          m.rank);
  refused(ncclCommResume(comm), ncclInvalidUsage, "not suspended", m.rank);
  refused(ncclCommSuspend(comm, 0), ncclInvalidArgument, "NCCL_SUSPEND_MEM", m.rank);
  ok(ncclCommSuspend(comm, NCCL_SUSPEND_MEM), "CommSuspend", m.rank);
  ok(ncclCommMemStats(comm, ncclStatGpuMemSuspended, &value), "CommMemStats", m.rank);
  is(value == 1, "suspended", m.rank);
  refused(ncclAllReduce(&mine, &sum, 1, ncclInt, ncclSum, comm, NULL), ncclInvalidUsage,
          "ncclCommResume", m.rank);
  refused(ncclCommSuspend(comm, NCCL_SUSPEND_MEM), ncclInvalidUsage, "suspended", m.rank);
  ok(ncclCommResume(comm), "CommResume", m.rank);
  ok(ncclAllReduce(&mine, &sum, 1, ncclInt, ncclSum, comm, NULL), "AllReduce", m.rank);
  is(sum == m.ranks, "AllReduce", m.rank);
}

static void check_integers(int rank) {
  ncclParamHandle_t bytes = NULL, word = NULL;
  int8_t i8;
  int16_t i16;
  int32_t i32;
  int64_t i64;
  uint8_t u8;
  uint16_t u16;
  uint32_t u32;
  uint64_t u64;
  ok(ncclParamBind(&bytes, "TUTTI_INLINE_BYTES"), "ParamBind", rank);
  refused(ncclParamGetI8(bytes, &i8), ncclInvalidArgument, "TUTTI_INLINE_BYTES", rank);
  refused(ncclParamGetU8(bytes, &u8), ncclInvalidArgument, "TUTTI_INLINE_BYTES", rank);
  ok(ncclParamGetI16(bytes, &i16), "ParamGetI16", rank);
  ok(ncclParamGetU16(bytes, &u16), "ParamGetU16", rank);
  ok(ncclParamGetI32(bytes, &i32), "ParamGetI32", rank);
  ok(ncclParamGetU32(bytes, &u32), "ParamGetU32", rank);
  ok(ncclParamGetI64(bytes, &i64), "ParamGetI64", rank);
  ok(ncclParamGetU64(bytes, &u64), "ParamGetU64", rank);
  is(i16 == 1024 && u16 == 1024 && i32 == 1024 && u32 == 1024 && i64 == 1024 && u64 == 1024,
     "the inline bytes", rank);
  ok(ncclParamBind(&word, "NCCL_DEBUG"), "ParamBind", rank);
  refused(ncclParamGetI32(word, &i32), ncclInvalidArgument, "NCCL_DEBUG", rank);
  refused(ncclParamGetI32(NULL, &i32), ncclInvalidArgument, "not a parameter", rank);
}

static void check_parameters(int rank) {
  ncclParamHandle_t word = NULL;
  const char *text = NULL, **keys = NULL;
  char buffer[64];
  int length = 0, count = 0, found = 0;
  check_integers(rank);
  refused(ncclParamBind(&word, "NCCL_NONSENSE"), ncclInvalidArgument, "NCCL_NONSENSE", rank);
  ok(ncclParamBind(&word, "NCCL_SOCKET_IFNAME"), "ParamBind", rank);
  ok(ncclParamGetStr(word, &text), "ParamGetStr", rank);
  is(strcmp(text, "lo") == 0, "the value of NCCL_SOCKET_IFNAME", rank);
  ok(ncclParamGet(word, buffer, sizeof buffer, &length), "ParamGet", rank);
  is(strcmp(buffer, "lo") == 0 && length == 3, "ParamGet", rank);
  refused(ncclParamGet(word, buffer, 1, &length), ncclInvalidArgument, "too small", rank);
  ok(ncclParamGetParameter("TUTTI_SOCKET_IFNAME", &text, &length), "ParamGetParameter", rank);
  is(strcmp(text, "lo") == 0 && length == 2, "ParamGetParameter", rank);
  refused(ncclParamGetParameter("NONSENSE", &text, &length), ncclInvalidArgument, "NONSENSE", rank);
  ok(ncclParamGetAllParameterKeys(&keys, &count), "ParamGetAllParameterKeys", rank);
  for (int i = 0; i < count; ++i) found += strcmp(keys[i], "NCCL_SOCKET_IFNAME") == 0;
  is(found == 1, "ParamGetAllParameterKeys", rank);
  if (rank == 0) ncclParamDumpAll();
  ncclResetDebugInit();
}

static void check_device_api(Member m, ncclComm_t comm) {
  const ncclTeam_t world = ncclTeamWorld(comm), lsa = ncclTeamLsa(comm), rail = ncclTeamRail(comm);
  const ncclMultimemHandle_t multimem = {NULL};
  void* pointer = &pointer;
  const char* why = "no device API";
  is(world.nRanks == m.ranks && world.rank == m.rank && world.stride == 1, "TeamWorld", m.rank);
  is(lsa.nRanks == 1 && lsa.rank == 0 && lsa.stride == 1, "TeamLsa", m.rank);
  is(rail.nRanks == m.ranks && rail.rank == m.rank, "TeamRail", m.rank);
  is(ncclTeamRankToWorld(comm, lsa, 0) == m.rank, "TeamRankToWorld", m.rank);
  is(ncclTeamRankToWorld(comm, rail, 0) == 0, "TeamRankToWorld", m.rank);
  is(ncclTeamRankToLsa(comm, world, m.rank) == 0, "TeamRankToLsa", m.rank);
  is(ncclLLA2ACalcSlots(8, 8) == 0, "LLA2ACalcSlots", m.rank);
  refused(ncclDevCommCreate(comm, NULL, NULL), ncclInvalidUsage, why, m.rank);
  refused(ncclDevCommDestroy(comm, NULL), ncclInvalidUsage, why, m.rank);
  refused(ncclGetLsaDevicePointer(NULL, 0, 0, &pointer), ncclInvalidUsage, why, m.rank);
  is(pointer == NULL, "no pointer", m.rank);
  refused(ncclGetPeerDevicePointer(NULL, 0, 0, &pointer), ncclInvalidUsage, why, m.rank);
  refused(ncclGetLsaMultimemDevicePointer(NULL, 0, &pointer), ncclInvalidUsage, why, m.rank);
  refused(ncclGetMultimemDevicePointer(NULL, 0, multimem, &pointer), ncclInvalidUsage, why, m.rank);
  refused(ncclLsaBarrierCreateRequirement(lsa, 1, NULL, NULL), ncclInvalidUsage, why, m.rank);
  refused(ncclGinBarrierCreateRequirement(comm, rail, 1, NULL, NULL), ncclInvalidUsage, why,
          m.rank);
  refused(ncclGinOutboxCreateRequirement(1, 1, NULL, NULL), ncclInvalidUsage, why, m.rank);
  refused(ncclGinInboxA2ACreateRequirement(rail, 1, 1, NULL, NULL), ncclInvalidUsage, why, m.rank);
  refused(ncclLLA2ACreateRequirement(1, 1, NULL, NULL), ncclInvalidUsage, why, m.rank);
}

/* A communicator that is still being made has no rank yet; it is when the others come. */
static void check_early(Member m) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclCommProperties_t properties = NCCL_COMM_PROPERTIES_INITIALIZER;
  ncclComm_t comm = NULL;
  ncclResult_t error = ncclInProgress;
  const ncclUniqueId id = take_id(m, 1);
  config.blocking = 0;
  if (m.rank != 0) meet(m);
  is(ncclCommInitRankConfig(&comm, m.ranks, id, m.rank, &config) == ncclInProgress,
     "InitRankConfig", m.rank);
  if (m.rank == 0) {
    if (m.ranks > 1)
      refused(ncclCommQueryProperties(comm, &properties), ncclInvalidUsage, "being made", m.rank);
    meet(m);
  }
  while (error == ncclInProgress) ok(ncclCommGetAsyncError(comm, &error), "AsyncError", m.rank);
  ok(ncclCommQueryProperties(comm, &properties), "CommQueryProperties", m.rank);
  is(properties.rank == m.rank && properties.nRanks == m.ranks, "properties", m.rank);
  ok(ncclCommDestroy(comm), "CommDestroy", m.rank);
  refused(ncclCommDestroy(comm), ncclInvalidUsage, "destroyed", m.rank);
}

static void check_destroyed(Member m, ncclComm_t comm) {
  ncclCommProperties_t properties = NCCL_COMM_PROPERTIES_INITIALIZER;
  const char* why = "has been destroyed";
  ncclResult_t error = ncclSuccess;
  uint64_t value = 0;
  int device = 0;
  void* handle = NULL;
  refused(ncclCommQueryProperties(comm, &properties), ncclInvalidUsage, why, m.rank);
  refused(ncclCommMemStats(comm, ncclStatGpuMemTotal, &value), ncclInvalidUsage, why, m.rank);
  refused(ncclCommCuDevice(comm, &device), ncclInvalidUsage, why, m.rank);
  refused(ncclCommRegister(comm, &value, sizeof value, &handle), ncclInvalidUsage, why, m.rank);
  refused(ncclCommSuspend(comm, NCCL_SUSPEND_MEM), ncclInvalidUsage, why, m.rank);
  refused(ncclCommResume(comm), ncclInvalidUsage, why, m.rank);
  refused(ncclCommGetAsyncError(comm, &error), ncclInvalidUsage, why, m.rank);
  refused(ncclCommAbort(comm), ncclInvalidUsage, why, m.rank);
  refused(ncclCommDestroy(comm), ncclInvalidUsage, why, m.rank);
}

static void body(Member m) {
  ncclComm_t comm = join(m);
  check_properties(m, comm);
  check_window(m, comm);
  check_suspend(m, comm);
  check_parameters(m.rank);
  check_device_api(m, comm);
  ok(ncclCommDestroy(comm), "CommDestroy", m.rank);
  check_destroyed(m, comm);
  check_early(m);
}

int main(int argc, char** argv) { return run_ranks(argc > 1 ? atoi(argv[1]) : 2, body); }
