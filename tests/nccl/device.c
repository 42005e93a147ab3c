/* Memory of a GPU is refused with a clear error: device PATH_OF_A_LIBCUDA [late]. The driver is
 * loaded before there is a communicator, or behind its first call. */
#include <dlfcn.h>

#include "tests/nccl/ranks.h"

static const char* path = NULL;
static int late = 0;

static int* load_driver(void) {
  void* driver = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  if (driver == NULL) exit(2);
  return (int*)dlsym(driver, "device_memory");
}

/* Registering is collective: whose memory is the host's is told of the other's. */
static void check_windows(Member m, ncclComm_t comm, int* there) {
  int here[4];
  ncclWindow_t window = NULL;
  refused(ncclCommWindowRegister(comm, m.rank == 0 ? there : here, sizeof here, &window, 0),
          ncclInvalidUsage, m.rank == 0 ? "memory of a GPU" : "another rank lies in a GPU", m.rank);
  is(window == NULL, "no window", m.rank);
  ok(ncclCommWindowRegister(comm, here, sizeof here, &window, 0), "WindowRegister", m.rank);
  ok(ncclCommWindowDeregister(comm, window), "WindowDeregister", m.rank);
}

static void body(Member m) {
  int* there = late ? NULL : load_driver();
  ncclComm_t comm = join(m);
  int mine = 1, sum = 0, device = -1;
  const char* why = "memory of a GPU";
  ok(ncclCommCuDevice(comm, &device), "CommCuDevice", m.rank);
  is(device == (late ? 0 : 3), "the device of the current context", m.rank);
  if (late) {
    ok(ncclAllReduce(&mine, &sum, 1, ncclInt, ncclSum, comm, NULL), "AllReduce", m.rank);
    there = load_driver();
    usleep(20000); /* it is noticed within 10 ms */
    sum = 0;
  }
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
  check_windows(m, comm, there);
  /* Managed memory is the host's too, and the driver does not know the rest of the host's. */
  ok(ncclAllReduce(&mine, there + 512, 1, ncclInt, ncclSum, comm, NULL), "AllReduce", m.rank);
  is(there[512] == m.ranks, "AllReduce into managed memory", m.rank);
  ok(ncclCommDestroy(comm), "CommDestroy", m.rank);
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  path = argv[1];
  late = argc > 2;
  return run_ranks(2, body);
}
