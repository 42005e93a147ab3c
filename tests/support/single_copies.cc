#include "tests/support/single_copies.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <iterator>

namespace tutti::testing_support {
namespace {

/// Both ways, at an address that both have, since they have one parent.
bool copies_to_and_from(pid_t sibling, long* there) {
  long here = 0;
  const iovec local{&here, sizeof here}, remote{there, sizeof *there};
  return process_vm_readv(sibling, &local, 1, &remote, 1, 0) == sizeof here &&
         process_vm_writev(sibling, &local, 1, &remote, 1, 0) == sizeof here;
}

}  // namespace

bool siblings_may_copy() {
  long word = 4711;
  const pid_t target = fork();
  if (target == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) pause();
  }
  const pid_t origin = target < 0 ? -1 : fork();
  if (origin == 0) _exit(copies_to_and_from(target, &word) ? 0 : 1);
  int status = 1;
  if (origin > 0) waitpid(origin, &status, 0);
  if (target > 0) {
    kill(target, SIGKILL);
    waitpid(target, nullptr, 0);
  }
  return status == 0;
}

bool refuse_single_copies() {
  const sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{std::size(filter), const_cast<sock_filter*>(filter)};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace tutti::testing_support
