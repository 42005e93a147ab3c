/* Prints what a header of NCCL says about the binary interface: one "name value" a line. */
#include <stddef.h>
#include <stdio.h>

#include NCCL_HEADER

#define VALUE(name) printf(#name " %lld\n", (long long)(name))
#define OFFSET(type, field) printf(#type "." #field " %zu\n", offsetof(type, field))

static void print_values(void) {
  VALUE(ncclSuccess);
  VALUE(ncclUnhandledCudaError);
  VALUE(ncclSystemError);
  VALUE(ncclInternalError);
  VALUE(ncclInvalidArgument);
  VALUE(ncclInvalidUsage);
  VALUE(ncclRemoteError);
  VALUE(ncclInProgress);
  VALUE(ncclSum);
  VALUE(ncclProd);
  VALUE(ncclMax);
  VALUE(ncclMin);
  VALUE(ncclAvg);
  VALUE(ncclNumOps);
  VALUE(ncclMaxRedOp);
  VALUE(ncclInt8);
  VALUE(ncclChar);
  VALUE(ncclUint8);
  VALUE(ncclInt32);
  VALUE(ncclInt);
  VALUE(ncclUint32);
  VALUE(ncclInt64);
  VALUE(ncclUint64);
  VALUE(ncclFloat16);
  VALUE(ncclHalf);
  VALUE(ncclFloat32);
  VALUE(ncclFloat);
  VALUE(ncclFloat64);
  VALUE(ncclDouble);
  VALUE(ncclBfloat16);
  VALUE(ncclFloat8e4m3);
  VALUE(ncclFloat8e5m2);
  VALUE(ncclNumTypes);
  VALUE(ncclScalarDevice);
  VALUE(ncclScalarHostImmediate);
}

static void print_constants(void) {
  VALUE(NCCL_UNIQUE_ID_BYTES);
  VALUE(NCCL_CONFIG_UNDEF_INT);
  VALUE(NCCL_SPLIT_NOCOLOR);
  VALUE(NCCL_SHRINK_DEFAULT);
  VALUE(NCCL_SHRINK_ABORT);
  VALUE(NCCL_REVOKE_DEFAULT);
  VALUE(NCCL_CTA_POLICY_DEFAULT);
  VALUE(NCCL_CTA_POLICY_EFFICIENCY);
  VALUE(NCCL_CTA_POLICY_ZERO);
  VALUE(NCCL_WIN_DEFAULT);
  VALUE(NCCL_WIN_COLL_SYMMETRIC);
  VALUE(NCCL_WIN_REQUIRED_ALIGNMENT);
  VALUE(NCCL_VERSION(2, 7, 8));
  VALUE(NCCL_VERSION(2, 28, 9));
}

static void print_layouts(void) {
  const ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  const ncclSimInfo_t simulation = NCCL_SIM_INFO_INITIALIZER;
  OFFSET(ncclConfig_t, size);
  OFFSET(ncclConfig_t, magic);
  OFFSET(ncclConfig_t, version);
  OFFSET(ncclConfig_t, blocking);
  OFFSET(ncclConfig_t, cgaClusterSize);
  OFFSET(ncclConfig_t, minCTAs);
  OFFSET(ncclConfig_t, maxCTAs);
  OFFSET(ncclConfig_t, netName);
  OFFSET(ncclConfig_t, splitShare);
  OFFSET(ncclConfig_t, trafficClass);
  OFFSET(ncclConfig_t, commName);
  OFFSET(ncclConfig_t, collnetEnable);
  OFFSET(ncclConfig_t, CTAPolicy);
  OFFSET(ncclConfig_t, shrinkShare);
  OFFSET(ncclConfig_t, nvlsCTAs);
  OFFSET(ncclConfig_t, nChannelsPerNetPeer);
  OFFSET(ncclConfig_t, nvlinkCentricSched);
  OFFSET(ncclSimInfo_t, estimatedTime);
  printf("config.magic %u\n", config.magic);
  printf("config.blocking %d\n", config.blocking);
  printf("config.nvlinkCentricSched %d\n", config.nvlinkCentricSched);
  printf("simulation.magic %u\n", simulation.magic);
  printf("simulation.estimatedTime %g\n", (double)simulation.estimatedTime);
  printf("sizeof(ncclSimInfo_t) %zu\n", sizeof(ncclSimInfo_t));
  printf("sizeof(ncclUniqueId) %zu\n", sizeof(ncclUniqueId));
  printf("sizeof(ncclResult_t) %zu\n", sizeof(ncclResult_t));
  printf("sizeof(ncclRedOp_t) %zu\n", sizeof(ncclRedOp_t));
  printf("sizeof(ncclDataType_t) %zu\n", sizeof(ncclDataType_t));
}

/* Newer than most toolkits' headers. */
static void print_call_configuration(void) {
#ifdef NCCL_COLLCONFIG_INITIALIZER
  const ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
  OFFSET(ncclConfigExt_t, next);
  OFFSET(ncclConfigExt_t, key.vendorId);
  OFFSET(ncclConfigExt_t, key.optionId);
  OFFSET(ncclConfigExt_t, val);
  OFFSET(ncclCollConfig_t, size);
  OFFSET(ncclCollConfig_t, magic);
  OFFSET(ncclCollConfig_t, version);
  OFFSET(ncclCollConfig_t, ext);
  OFFSET(ncclCollConfig_t, minCTAs);
  OFFSET(ncclCollConfig_t, maxCTAs);
  OFFSET(ncclCollConfig_t, nvlsCTAs);
  OFFSET(ncclCollConfig_t, cgaClusterSize);
  OFFSET(ncclCollConfig_t, algSelection);
  OFFSET(ncclCollConfig_t, forceAlgSelection);
  OFFSET(ncclCollConfig_t, CTAPolicy);
  OFFSET(ncclCollConfig_t, userProfilerTag);
  printf("config.magic of a call %u\n", config.magic);
  printf("config.forceAlgSelection %d\n", config.forceAlgSelection);
  printf("config.CTAPolicy of a call %d\n", config.CTAPolicy);
#endif
}

int main(void) {
  print_call_configuration();
  print_values();
  print_constants();
  print_layouts();
  return 0;
}
