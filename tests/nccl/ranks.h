/* Ranks as forked processes of one program of NCCL, in C.
 *
 * NCCL_HEADER is the header the program is built with: ours or the toolkit's.
 * Owns: the processes; when run_ranks returns, none is left. Errors: the first
 * thing that is not as it should be is printed with its rank and ends the rank.
 */
#ifndef TUTTI_TESTS_NCCL_RANKS_H_
#define TUTTI_TESTS_NCCL_RANKS_H_

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef NCCL_HEADER
#define NCCL_HEADER "plugins/nccl/abi.h"
#endif
#include NCCL_HEADER

#define MOST_RANKS 8

typedef struct {
  volatile int has_id[6];
  ncclUniqueId id[6];
  volatile int arrived;
} Shared;

typedef struct {
  int rank;
  int ranks;
  Shared* shared;
} Member;

typedef void (*Body)(Member member);

static inline void is(int condition, const char* what, int rank) {
  if (condition) return;
  fprintf(stderr, "rank %d: not as it should be: %s\n", rank, what);
  exit(1);
}

static inline void ok(ncclResult_t result, const char* what, int rank) {
  if (result == ncclSuccess) return;
  fprintf(stderr, "rank %d: %s: %s: %s\n", rank, what, ncclGetErrorString(result),
          ncclGetLastError(NULL));
  exit(1);
}

/* The call must be refused, and say why. */
static inline void refused(ncclResult_t result, ncclResult_t wanted, const char* why, int rank) {
  if (result == wanted && strstr(ncclGetLastError(NULL), why) != NULL) return;
  fprintf(stderr, "rank %d: expected %d '%s', got %d '%s'\n", rank, wanted, why, result,
          ncclGetLastError(NULL));
  exit(1);
}

/* The id of this number, made by rank 0. */
static inline ncclUniqueId take_id(Member member, int number) {
  Shared* shared = member.shared;
  if (member.rank == 0) {
    ok(ncclGetUniqueId(&shared->id[number]), "ncclGetUniqueId", 0);
    __atomic_store_n(&shared->has_id[number], 1, __ATOMIC_RELEASE);
  }
  while (!__atomic_load_n(&shared->has_id[number], __ATOMIC_ACQUIRE)) usleep(1000);
  return shared->id[number];
}

/* Until every rank is here, without a call of NCCL: whoever aborts or revokes
 * must not catch a peer in the call before. */
static inline void meet(Member member) {
  static int meetings = 0;
  ++meetings;
  __atomic_add_fetch(&member.shared->arrived, 1, __ATOMIC_ACQ_REL);
  while (__atomic_load_n(&member.shared->arrived, __ATOMIC_ACQUIRE) < meetings * member.ranks) {
    usleep(1000);
  }
}

static inline ncclComm_t join(Member member) {
  ncclComm_t comm = NULL;
  ok(ncclCommInitRank(&comm, member.ranks, take_id(member, 0), member.rank), "ncclCommInitRank",
     member.rank);
  return comm;
}

/* 0 if every rank came to the end of the body. */
static inline int run_ranks(int ranks, Body body) {
  Member member = {0, ranks, NULL};
  pid_t children[MOST_RANKS];
  int failed = 0;
  member.shared = (Shared*)mmap(NULL, sizeof(Shared), PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (member.shared == MAP_FAILED || ranks > MOST_RANKS) return 1;
  for (member.rank = 0; member.rank < ranks; ++member.rank) {
    children[member.rank] = fork();
    if (children[member.rank] == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      alarm(240);
      body(member);
      exit(0);
    }
  }
  for (int rank = 0; rank < ranks; ++rank) {
    int status = 0;
    waitpid(children[rank], &status, 0);
    if (status == 0) continue;
    failed = 1;
    if (WIFSIGNALED(status)) {
      fprintf(stderr, "rank %d: ended by signal %d\n", rank, WTERMSIG(status));
    }
  }
  munmap(member.shared, sizeof(Shared));
  return failed;
}

#endif /* TUTTI_TESTS_NCCL_RANKS_H_ */
