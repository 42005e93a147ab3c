/* Two libraries in one process, used in turns:
 *
 *   beside                          libtutti.so and the drop-in
 *   beside nccl PATH first|last     the drop-in, and NCCL opened at PATH
 *   beside tutti PATH first|last    NCCL, and the drop-in opened at PATH
 *
 * The library at PATH is opened and used before the other one, or after it. */
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

typedef struct {
  int is_tutti;
  ncclComm_t comm; /* of Tutti */
  __typeof__(&ncclGetVersion) get_version;
  __typeof__(&ncclGetUniqueId) get_unique_id;
  __typeof__(&ncclGetErrorString) get_error_string;
  __typeof__(&ncclGetLastError) get_last_error;
  __typeof__(&ncclCommInitRank) init_rank;
  __typeof__(&ncclCommDestroy) destroy;
  __typeof__(&ncclAllReduce) all_reduce;
  __typeof__(&ncclBcast) bcast;
  __typeof__(&ncclGroupStart) group_start;
  __typeof__(&ncclGroupEnd) group_end;
  __typeof__(&ncclParamGetAllParameterKeys) parameter_keys; /* NULL before 2.30 */
} Library;

static void* find(void* handle, const char* name) { return dlsym(handle, name); }

static Library library_of(void* handle, int is_tutti) {
  Library made = {is_tutti, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL};
  *(void**)&made.get_version = find(handle, "ncclGetVersion");
  *(void**)&made.get_unique_id = find(handle, "ncclGetUniqueId");
  *(void**)&made.get_error_string = find(handle, "ncclGetErrorString");
  *(void**)&made.get_last_error = find(handle, "ncclGetLastError");
  *(void**)&made.init_rank = find(handle, "ncclCommInitRank");
  *(void**)&made.destroy = find(handle, "ncclCommDestroy");
  *(void**)&made.all_reduce = find(handle, "ncclAllReduce");
  *(void**)&made.bcast = find(handle, "ncclBcast");
  *(void**)&made.group_start = find(handle, "ncclGroupStart");
  *(void**)&made.group_end = find(handle, "ncclGroupEnd");
  *(void**)&made.parameter_keys = find(handle, "ncclParamGetAllParameterKeys");
  return made;
}

/* NCCL calls itself by names that are Tutti's, too, and come first; Tutti does not. */
static Library open_library(const char* path, int is_tutti) {
  void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | (is_tutti ? 0 : RTLD_DEEPBIND));
  if (handle == NULL) fprintf(stderr, "%s\n", dlerror());
  is(handle != NULL, "dlopen", 0);
  return library_of(handle, is_tutti);
}

static void use_tutti(Library* tutti, Member m) {
  int mine = m.rank + 1, sum = 0, copy = m.rank + 5;
  if (tutti->comm == NULL) {
    if (m.rank == 0) {
      is(tutti->get_unique_id(&m.shared->id[0]) == ncclSuccess, "Tutti's GetUniqueId", m.rank);
      __atomic_store_n(&m.shared->has_id[0], 1, __ATOMIC_RELEASE);
    }
    while (!__atomic_load_n(&m.shared->has_id[0], __ATOMIC_ACQUIRE)) usleep(1000);
    is(tutti->init_rank(&tutti->comm, m.ranks, m.shared->id[0], m.rank) == ncclSuccess,
       "Tutti's CommInitRank", m.rank);
  }
  is(tutti->all_reduce(&mine, &sum, 1, ncclInt, ncclSum, tutti->comm, NULL) == ncclSuccess,
     "Tutti's AllReduce", m.rank);
  is(sum == m.ranks * (m.ranks + 1) / 2, "Tutti's sum", m.rank);
  is(tutti->bcast(&copy, 1, ncclInt, 0, tutti->comm, NULL) == ncclSuccess, "Tutti's Bcast", m.rank);
  is(copy == 5, "Tutti's copy", m.rank);
}

/* A communicator of one rank: made where there is a GPU, and where there is none an error. */
static void use_nccl(const Library* nccl, Member m) {
  const char** keys = NULL;
  int count = 0;
  ncclComm_t comm = NULL;
  ncclUniqueId id;
  is(nccl->get_unique_id(&id) == ncclSuccess, "NCCL's GetUniqueId", m.rank);
  is(nccl->group_start() == ncclSuccess && nccl->group_end() == ncclSuccess, "NCCL's group",
     m.rank);
  if (nccl->parameter_keys != NULL) {
    is(nccl->parameter_keys(&keys, &count) == ncclSuccess && count > 0, "NCCL's parameters",
       m.rank);
  }
  const ncclResult_t result = nccl->init_rank(&comm, 1, id, 0);
  if (result == ncclSuccess) {
    is(nccl->destroy(comm) == ncclSuccess, "NCCL's CommDestroy", m.rank);
  } else {
    is(nccl->get_last_error(NULL)[0] != '\0', "NCCL's last error", m.rank);
  }
}

/* The errors of one are not seen in the other. */
static void check_apart(const Library* tutti, const Library* nccl, Member m) {
  char before[1024];
  int theirs = 0, ours = 0;
  is(tutti->get_version != nccl->get_version, "two libraries", m.rank);
  is(tutti->get_version(&ours) == ncclSuccess && ours == 23007, "Tutti's version", m.rank);
  is(nccl->get_version(&theirs) == ncclSuccess && theirs > 20000, "NCCL's version", m.rank);
  is(strcmp(tutti->get_error_string(ncclInvalidUsage), nccl->get_error_string(ncclInvalidUsage)),
     "texts", m.rank);
  is(tutti->all_reduce(NULL, NULL, 1, ncclInt, ncclSum, NULL, NULL) == ncclInvalidArgument,
     "an error of Tutti", m.rank);
  snprintf(before, sizeof before, "%s", tutti->get_last_error(NULL));
  is(strstr(before, "the communicator is null") != NULL, "Tutti's last error", m.rank);
  use_nccl(nccl, m);
  is(strcmp(before, tutti->get_last_error(NULL)) == 0, "Tutti's last error, afterwards", m.rank);
  if (m.rank == 0) printf("NCCL %d beside Tutti's %d\n", theirs, ours);
}

static const char* path;
static int opens_tutti, opens_first;

static void use(Library* library, Member m) {
  if (library->is_tutti) {
    use_tutti(library, m);
  } else {
    use_nccl(library, m);
  }
}

static void in_turns(Member m) {
  Library own, opened;
  if (opens_first) {
    opened = open_library(path, opens_tutti);
    use(&opened, m);
  }
  own = library_of(RTLD_DEFAULT, !opens_tutti);
  use(&own, m);
  if (!opens_first) opened = open_library(path, opens_tutti);
  for (int turn = 0; turn < 3; ++turn) {
    use(&opened, m);
    use(&own, m);
  }
  Library* const tutti = opens_tutti ? &opened : &own;
  Library* const nccl = opens_tutti ? &own : &opened;
  check_apart(tutti, nccl, m);
  use_tutti(tutti, m);
  is(tutti->destroy(tutti->comm) == ncclSuccess, "Tutti's CommDestroy", m.rank);
  use_nccl(nccl, m);
}

int main(int argc, char** argv) {
  if (argc == 1) return run_ranks(2, both);
  if (argc != 4) return 2;
  opens_tutti = strcmp(argv[1], "tutti") == 0;
  path = argv[2];
  opens_first = strcmp(argv[3], "first") == 0;
  return run_ranks(2, in_turns);
}
