/* A fork while another thread is held up in its first call: early_forks PLACE. The child must be
 * able to make a communicator of its own. PLACE is where the thread is held up, by a function of
 * the C library that the program has in its stead (link with -rdynamic):
 *
 *   log        it logs the version
 *   handlers   it has handlers of forks registered, unless that is never done so late */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sys/syscall.h>

#include "tests/nccl/ranks.h"

static int in_log, in_handlers; /* where to hold up */
static int is_held, is_over, let_go;

static void hold_up(void) {
  __atomic_store_n(&is_held, 1, __ATOMIC_RELEASE);
  while (!__atomic_load_n(&let_go, __ATOMIC_ACQUIRE)) usleep(1000);
}

ssize_t write(int fd, const void* bytes, size_t count) {
  if (in_log && memmem(bytes, count, "NCCL version", 12) != NULL) hold_up();
  return syscall(SYS_write, fd, bytes, count);
}

/* The functions that pthread_atfork registers. */
typedef void (*Handler)(void);
int __register_atfork(Handler before, Handler in_parent, Handler in_child, void* library) {
  int (*next)(Handler, Handler, Handler, void*) = NULL;
  if (in_handlers) hold_up();
  *(void**)&next = dlsym(RTLD_NEXT, "__register_atfork");
  return next(before, in_parent, in_child, library);
}

static void make_and_destroy(int rank) {
  ncclComm_t comm = NULL;
  ok(ncclCommInitAll(&comm, 1, NULL), "CommInitAll", rank);
  ok(ncclCommDestroy(comm), "CommDestroy", rank);
}

static void* call_first(void* nothing) {
  make_and_destroy(0);
  __atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
  return nothing;
}

static void await_first_call(void) {
  while (!__atomic_load_n(&is_held, __ATOMIC_ACQUIRE)) {
    if (__atomic_load_n(&is_over, __ATOMIC_ACQUIRE)) return;
    usleep(1000);
  }
}

int main(int argc, char** argv) {
  pthread_t thread;
  int status = -1;
  if (argc != 2) return 2;
  in_log = strcmp(argv[1], "log") == 0;
  in_handlers = strcmp(argv[1], "handlers") == 0;
  is(pthread_create(&thread, NULL, call_first, NULL) == 0, "a thread", 0);
  await_first_call();
  is(is_held || in_handlers, "the place is passed", 0);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    in_log = in_handlers = 0;
    make_and_destroy(1);
    _exit(0);
  }
  waitpid(child, &status, 0);
  is(status == 0, "the child", 0);
  __atomic_store_n(&let_go, 1, __ATOMIC_RELEASE);
  pthread_join(thread, NULL);
  return 0;
}
