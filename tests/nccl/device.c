/* Memory of a GPU is refused with a clear error: device PATH_OF_A_LIBCUDA. */
#include <dlfcn.h>

#include "tests/nccl/ranks.h"

static char* device_memory = NULL;

static void body(Member m) {
  ncclComm_t comm = join(m);
  int mine = 1, sum = 0, device = -1;
  int* there = (int*)device_memory;
  const char* why = "memory of a GPU";
  ok(ncclCommCuDevice(comm, &device), "CommCuDevice", m.rank);
  is(device == 3, "the device of the current context", m.rank);
  refused(ncclAllReduce(there, &sum, 1, ncclInt, ncclSum, comm, NULL), ncclInvalidUsage, why,
          m.rank);
  refused(ncclAllReduce(&mine, there, 1, ncclInt, ncclSum, comm, NULL), ncclInvalidUsage, why,
          m.rank);
  refused(ncclSend(there, 1, ncclInt, 0, comm, NULL), ncclInvalidUsage, why, m.rank);
  ok(ncclGroupStart(), "GroupStart", m.rank);
  ok(ncclAllReduce(&mine, &sum, 1, ncclInt, ncclSum, comm, NULL), "AllReduce", m.rank);
  refused(ncclAllReduce(there, there, 1, ncclInt, ncclSum, comm, NULL), ncclInvalidUsage, why,
          m.rank);
  refused(ncclGroupEnd(), ncclInvalidUsage, why, m.rank);
  is(sum == 0, "the group did not run", m.rank);
  /* Managed memory is the host's too, and the driver does not know the rest of the host's. */
  ok(ncclAllReduce(&mine, there + 512, 1, ncclInt, ncclSum, comm, NULL), "AllReduce", m.rank);
  is(there[512] == m.ranks, "AllReduce into managed memory", m.rank);
  ok(ncclCommDestroy(comm), "CommDestroy", m.rank);
}

int main(int argc, char** argv) {
  void* driver = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL) : NULL;
  if (driver == NULL) return 2;
  device_memory = (char*)dlsym(driver, "device_memory");
  return run_ranks(2, body);
}
