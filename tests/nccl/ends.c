/* Calls from where a thread or a process ends, behind the end of what C++ calls thread_local: ends
 * NAME. They do what they do elsewhere, and the last of them says "ended". */
#include <pthread.h>
#include <stdint.h>

#include "tests/nccl/ranks.h"

/* How g++ has the destructors of a thread's thread_local objects called, the last one first.
 * `place` is anything of the library that has the object. */
extern int __cxa_thread_atexit_impl(void (*destructor)(void*), void* object, void* place);

static ncclComm_t comms[2];

/* ranks.h ends with exit(), which has been called already. */
static void must(int condition, const char* what) {
  if (condition) return;
  fprintf(stderr, "not as it should be: %s (%s)\n", what, ncclGetLastError(NULL));
  _exit(1);
}

static void works(ncclResult_t result, const char* what) { must(result == ncclSuccess, what); }

static void say_ended(void) { must(write(STDOUT_FILENO, "ended\n", 6) == 6, "write"); }

static void sum_in_group(void) {
  int mine[2] = {1, 2}, sums[2] = {0, 0};
  works(ncclGroupStart(), "GroupStart");
  for (int i = 0; i < 2; ++i) {
    works(ncclAllReduce(&mine[i], &sums[i], 1, ncclInt, ncclSum, comms[i], NULL), "AllReduce");
  }
  works(ncclGroupEnd(), "GroupEnd");
  must(sums[0] == 3 && sums[1] == 3, "the sums of a group");
}

static void destroy_in_group(void) {
  works(ncclGroupStart(), "GroupStart");
  for (int i = 0; i < 2; ++i) works(ncclCommDestroy(comms[i]), "CommDestroy");
  works(ncclGroupEnd(), "GroupEnd");
}

static void sum_and_destroy(void) {
  sum_in_group();
  destroy_in_group();
  say_ended();
}

static void groups_in_handlers(void) {
  must(atexit(sum_and_destroy) == 0, "atexit");
  works(ncclCommInitAll(comms, 2, NULL), "CommInitAll");
  sum_in_group();
}

static void sum_late(void* nothing) {
  (void)nothing;
  sum_in_group();
}

/* Behind the end of what the library has for the thread: its keys are older. */
static void destroy_later(void* nothing) {
  (void)nothing;
  sum_and_destroy();
}

static void* end_thread(void* nothing) {
  pthread_key_t key;
  must(__cxa_thread_atexit_impl(sum_late, NULL, comms) == 0, "a destructor");
  works(ncclCommInitAll(comms, 2, NULL), "CommInitAll");
  sum_in_group();
  must(pthread_key_create(&key, destroy_later) == 0, "pthread_key_create");
  must(pthread_setspecific(key, comms) == 0, "pthread_setspecific");
  return nothing;
}

static void groups_of_threads(void) {
  pthread_t thread;
  must(pthread_create(&thread, NULL, end_thread, NULL) == 0, "pthread_create");
  must(pthread_join(thread, NULL) == 0, "pthread_join");
}

enum { kPieces = 64, kLeast = 24, kMost = 4096, kStep = 16 };
static unsigned char* hoard[kMost / kStep][kPieces];

/* Takes what was freed, so that whoever still writes there is seen. */
static void take_hoard(void) {
  for (size_t bytes = kLeast; bytes < kMost; bytes += kStep) {
    for (int i = 0; i < kPieces; ++i) {
      hoard[bytes / kStep][i] = memset(malloc(bytes), 0x5a, bytes);
    }
  }
}

static void check_hoard(void) {
  for (size_t bytes = kLeast; bytes < kMost; bytes += kStep) {
    for (size_t i = 0; i < kPieces * bytes; ++i) {
      must(hoard[bytes / kStep][i / bytes][i % bytes] == 0x5a, "memory that was freed");
    }
  }
}

static ncclComm_t polled;

static void communicators_that_poll(void) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclResult_t error = ncclInProgress;
  ncclUniqueId id;
  config.blocking = 0;
  works(ncclGetUniqueId(&id), "GetUniqueId");
  must(ncclCommInitRankConfig(&polled, 1, id, 0, &config) == ncclInProgress, "InitRankConfig");
  while (error == ncclInProgress) works(ncclCommGetAsyncError(polled, &error), "GetAsyncError");
  works(error, "making a communicator");
}

__attribute__((destructor)) static void destroy_polled(void) {
  if (polled == NULL) return;
  take_hoard();
  works(ncclCommDestroy(polled), "CommDestroy");
  check_hoard();
  say_ended();
}

/* Everything whose text stays valid until the thread asks again. */
static void ask(const char* key) {
  const char *text = NULL, *by_key = NULL, **keys = NULL;
  ncclParamHandle_t handle;
  int length = 0, count = 0;
  must(ncclParamBind(&handle, "no such key, and more than what a string has room for") ==
           ncclInvalidArgument,
       "an error");
  must(strstr(ncclGetLastError(NULL), "no such key") != NULL, "its text");
  must(ncclCommDestroy(comms[0]) == ncclInvalidUsage, "an error of tutti.h");
  must(strstr(ncclGetLastError(NULL), "has been destroyed") != NULL, "its text");
  works(ncclParamBind(&handle, key), "ParamBind");
  works(ncclParamGetStr(handle, &text), "ParamGetStr");
  works(ncclParamGetParameter(key, &by_key, &length), "ParamGetParameter");
  must(strcmp(text, getenv(key)) == 0 && strcmp(by_key, text) == 0, "a setting");
  works(ncclParamGetAllParameterKeys(&keys, &count), "ParamGetAllParameterKeys");
  must(count > 0 && keys[0] != NULL && keys[count - 1] != NULL, "the keys");
}

static void ask_again(void) {
  take_hoard();
  ask("NCCL_DEBUG_FILE");
  check_hoard();
  say_ended();
}

static void texts_in_handlers(void) {
  must(atexit(ask_again) == 0, "atexit");
  works(ncclCommInitAll(comms, 2, NULL), "CommInitAll");
  destroy_in_group();
  ask("NCCL_DEBUG_FILE");
  exit(0);
}

static const struct {
  const char* name;
  void (*body)(void);
} kEnds[] = {
    {"groups_in_handlers", groups_in_handlers},
    {"groups_of_threads", groups_of_threads},
    {"communicators_that_poll", communicators_that_poll},
    {"texts_in_handlers", texts_in_handlers},
};

int main(int argc, char** argv) {
  for (size_t i = 0; argc > 1 && i < sizeof kEnds / sizeof *kEnds; ++i) {
    if (strcmp(argv[1], kEnds[i].name) != 0) continue;
    kEnds[i].body();
    return 0;
  }
  return 2;
}
