// The host side of the device API. Kernels would read its structs, whose layout is NCCL's own, so
// it is refused. Functions that cannot refuse answer for a communicator of hosts: no rank can load
// from or store to another's device memory, so every such team (LSA) is one rank.
#include "plugins/nccl/caught.h"
#include "plugins/nccl/comm.h"

namespace {

constexpr char kRefused[] = "Tutti has no device API (ncclCommQueryProperties says so too)";

using tutti::nccl::refuse;
using tutti::nccl::unsupported;
using tutti::nccl::world_of;

ncclResult_t no_pointer(const char* function, void** pointer) {
  if (pointer == nullptr) return refuse(function, "the place for the pointer is null");
  *pointer = nullptr;
  return unsupported(function, kRefused);
}

}  // namespace

extern "C" {

ncclResult_t pncclDevCommCreate(ncclComm_t, const ncclDevCommRequirements_t*, ncclDevComm_t*) {
  return tutti::nccl::caught([&] { return unsupported("ncclDevCommCreate", kRefused); });
}

ncclResult_t pncclDevCommDestroy(ncclComm_t, const ncclDevComm_t*) {
  return tutti::nccl::caught([&] { return unsupported("ncclDevCommDestroy", kRefused); });
}

ncclResult_t pncclGetLsaDevicePointer(ncclWindow_t, size_t, int, void** pointer) {
  return tutti::nccl::caught([&] { return no_pointer("ncclGetLsaDevicePointer", pointer); });
}

ncclResult_t pncclGetPeerDevicePointer(ncclWindow_t, size_t, int, void** pointer) {
  return tutti::nccl::caught([&] { return no_pointer("ncclGetPeerDevicePointer", pointer); });
}

ncclResult_t pncclGetLsaMultimemDevicePointer(ncclWindow_t, size_t, void** pointer) {
  return tutti::nccl::caught(
      [&] { return no_pointer("ncclGetLsaMultimemDevicePointer", pointer); });
}

ncclResult_t pncclGetMultimemDevicePointer(ncclWindow_t, size_t, ncclMultimemHandle_t,
                                           void** pointer) {
  return tutti::nccl::caught([&] { return no_pointer("ncclGetMultimemDevicePointer", pointer); });
}

ncclResult_t pncclGetMultimemDeviceLeInfo(ncclWindow_t, size_t, uint32_t*, size_t*) {
  return tutti::nccl::caught([&] { return unsupported("ncclGetMultimemDeviceLeInfo", kRefused); });
}

ncclResult_t pncclGetCftDeviceLeInfo(ncclWindow_t, size_t, int, ncclTeam_t, uint32_t*, size_t*) {
  return tutti::nccl::caught([&] { return unsupported("ncclGetCftDeviceLeInfo", kRefused); });
}

ncclResult_t pncclGetPeerDeviceLeInfo(ncclWindow_t, size_t, int, uint32_t*, size_t*) {
  return tutti::nccl::caught([&] { return unsupported("ncclGetPeerDeviceLeInfo", kRefused); });
}

ncclResult_t pncclLsaBarrierCreateRequirement(ncclTeam_t, int, ncclLsaBarrierHandle_t*,
                                              ncclDevResourceRequirements_t*) {
  return tutti::nccl::caught(
      [&] { return unsupported("ncclLsaBarrierCreateRequirement", kRefused); });
}

ncclResult_t pncclGinBarrierCreateRequirement(ncclComm_t, ncclTeam_t, int, ncclGinBarrierHandle_t*,
                                              ncclDevResourceRequirements_t*) {
  return tutti::nccl::caught(
      [&] { return unsupported("ncclGinBarrierCreateRequirement", kRefused); });
}

ncclResult_t pncclGinOutboxCreateRequirement(int, int, ncclGinOutboxHandle_t*,
                                             ncclDevResourceRequirements_t*) {
  return tutti::nccl::caught(
      [&] { return unsupported("ncclGinOutboxCreateRequirement", kRefused); });
}

ncclResult_t pncclGinInboxA2ACreateRequirement(ncclTeam_t, int, int, ncclGinInboxA2AHandle_t*,
                                               ncclDevResourceRequirements_t*) {
  return tutti::nccl::caught(
      [&] { return unsupported("ncclGinInboxA2ACreateRequirement", kRefused); });
}

ncclResult_t pncclLLA2ACreateRequirement(int, int, ncclLLA2AHandle_t*,
                                         ncclDevResourceRequirements_t*) {
  return tutti::nccl::caught([&] { return unsupported("ncclLLA2ACreateRequirement", kRefused); });
}

int pncclLLA2ACalcSlots(int, int) { return 0; }

ncclTeam_t pncclTeamWorld(ncclComm_t comm) { return world_of(comm); }

ncclTeam_t pncclTeamLsa(ncclComm_t) { return {1, 0, 1}; }

ncclTeam_t pncclTeamCft(ncclComm_t, int) { return {1, 0, 1}; }
ncclTeam_t pncclTeamCftMultimem(ncclComm_t) { return {1, 0, 1}; }

/// The ranks with my place in their LSA team: all of them.
ncclTeam_t pncclTeamRail(ncclComm_t comm) { return world_of(comm); }

int pncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank) {
  return world_of(comm).rank + (rank - team.rank) * team.stride;
}

int pncclTeamRankToLsa(ncclComm_t, ncclTeam_t team, int rank) {
  return (rank - team.rank) * team.stride;
}

[[gnu::weak, gnu::alias("pncclDevCommCreate")]] decltype(pncclDevCommCreate) ncclDevCommCreate;
[[gnu::weak, gnu::alias("pncclDevCommDestroy")]] decltype(pncclDevCommDestroy) ncclDevCommDestroy;
[[gnu::weak,
  gnu::alias(
      "pncclGetLsaDevicePointer")]] decltype(pncclGetLsaDevicePointer) ncclGetLsaDevicePointer;
[[gnu::weak,
  gnu::alias(
      "pncclGetPeerDevicePointer")]] decltype(pncclGetPeerDevicePointer) ncclGetPeerDevicePointer;
[[gnu::weak,
  gnu::alias("pncclGetLsaMultimemDevicePointer")]] decltype(pncclGetLsaMultimemDevicePointer)
    ncclGetLsaMultimemDevicePointer;
[[gnu::weak, gnu::alias("pncclGetMultimemDevicePointer")]] decltype(pncclGetMultimemDevicePointer)
    ncclGetMultimemDevicePointer;
[[gnu::weak, gnu::alias("pncclGetMultimemDeviceLeInfo")]] decltype(pncclGetMultimemDeviceLeInfo)
    ncclGetMultimemDeviceLeInfo;
[[gnu::weak,
  gnu::alias("pncclGetCftDeviceLeInfo")]] decltype(pncclGetCftDeviceLeInfo) ncclGetCftDeviceLeInfo;
[[gnu::weak,
  gnu::alias(
      "pncclGetPeerDeviceLeInfo")]] decltype(pncclGetPeerDeviceLeInfo) ncclGetPeerDeviceLeInfo;
[[gnu::weak, gnu::alias("pncclTeamCft")]] decltype(pncclTeamCft) ncclTeamCft;
[[gnu::weak,
  gnu::alias("pncclTeamCftMultimem")]] decltype(pncclTeamCftMultimem) ncclTeamCftMultimem;
[[gnu::weak,
  gnu::alias("pncclLsaBarrierCreateRequirement")]] decltype(pncclLsaBarrierCreateRequirement)
    ncclLsaBarrierCreateRequirement;
[[gnu::weak,
  gnu::alias("pncclGinBarrierCreateRequirement")]] decltype(pncclGinBarrierCreateRequirement)
    ncclGinBarrierCreateRequirement;
[[gnu::weak,
  gnu::alias("pncclGinOutboxCreateRequirement")]] decltype(pncclGinOutboxCreateRequirement)
    ncclGinOutboxCreateRequirement;
[[gnu::weak,
  gnu::alias("pncclGinInboxA2ACreateRequirement")]] decltype(pncclGinInboxA2ACreateRequirement)
    ncclGinInboxA2ACreateRequirement;
[[gnu::weak, gnu::alias("pncclLLA2ACreateRequirement")]] decltype(pncclLLA2ACreateRequirement)
    ncclLLA2ACreateRequirement;
[[gnu::weak, gnu::alias("pncclLLA2ACalcSlots")]] decltype(pncclLLA2ACalcSlots) ncclLLA2ACalcSlots;
[[gnu::weak, gnu::alias("pncclTeamWorld")]] decltype(pncclTeamWorld) ncclTeamWorld;
[[gnu::weak, gnu::alias("pncclTeamLsa")]] decltype(pncclTeamLsa) ncclTeamLsa;
[[gnu::weak, gnu::alias("pncclTeamRail")]] decltype(pncclTeamRail) ncclTeamRail;
[[gnu::weak,
  gnu::alias("pncclTeamRankToWorld")]] decltype(pncclTeamRankToWorld) ncclTeamRankToWorld;
[[gnu::weak, gnu::alias("pncclTeamRankToLsa")]] decltype(pncclTeamRankToLsa) ncclTeamRankToLsa;

}  // extern "C"
