/* libtutti.so and the drop-in, each with a communicator, in one process; then NCCL itself if its
 * path is given: beside [PATH]. */
#include <dlfcn.h>

#include "tests/nccl/ranks.h"
#include "tutti/tutti.h"

static void both(Member m) {
  ncclComm_t theirs = join(m);
  tuttiComm_t ours = NULL;
  tuttiUniqueId id;
  int mine = m.rank + 1, first = 0, second = 0, third = 0;
  if (m.rank == 0) is(tuttiGetUniqueId(&id) == tuttiSuccess, "tuttiGetUniqueId", m.rank);
  ok(ncclBcast(&id, sizeof id, ncclUint8, 0, theirs, NULL), "Bcast", m.rank);
  is(tuttiCommInitRank(&ours, m.ranks, id, m.rank) == tuttiSuccess, "tuttiCommInitRank", m.rank);
  ok(ncclAllReduce(&mine, &first, 1, ncclInt, ncclSum, theirs, NULL), "AllReduce", m.rank);
  is(tuttiAllReduce(&mine, &second, 1, tuttiInt32, tuttiSum, ours, tuttiBlocking()) == tuttiSuccess,
     "tuttiAllReduce", m.rank);
  ok(ncclAllReduce(&mine, &third, 1, ncclInt, ncclSum, theirs, NULL), "AllReduce", m.rank);
  is(first == second && second == third && first == m.ranks * (m.ranks + 1) / 2, "sums", m.rank);
  is(tuttiCommDestroy(ours) == tuttiSuccess, "tuttiCommDestroy", m.rank);
  ok(ncclCommDestroy(theirs), "CommDestroy", m.rank);
}

/* The library at `path` keeps its own names although ours are preloaded. */
static int with_nccl(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  int theirs = 0, ours = 0;
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 77;
  }
  ncclResult_t (*get_version)(int*) = (ncclResult_t(*)(int*))dlsym(library, "ncclGetVersion");
  const char* (*error_string)(ncclResult_t) =
      (const char* (*)(ncclResult_t))dlsym(library, "ncclGetErrorString");
  ok(get_version(&theirs), "their GetVersion", 0);
  ok(ncclGetVersion(&ours), "GetVersion", 0);
  is(ours == 23007, "our version", 0);
  is((void*)get_version != (void*)ncclGetVersion, "two libraries", 0);
  is(strcmp(error_string(ncclInvalidUsage), ncclGetErrorString(ncclInvalidUsage)) != 0, "texts", 0);
  printf("NCCL %d beside Tutti's %d\n", theirs, ours);
  return 0;
}

int main(int argc, char** argv) {
  const int failed = argc > 1 ? with_nccl(argv[1]) : 0;
  return failed != 0 ? failed : run_ranks(2, both);
}
