#include "tests/support/system_calls.h"

#if defined(__linux__) && defined(__x86_64__)
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <vector>

// Makes a system call from a place that the filter knows by its address.
extern "C" long tutti_forward_system_call(long number, const long long* arguments);
extern "C" const char tutti_behind_forwarded[];
asm(R"(
.text
.type tutti_forward_system_call, @function
.globl tutti_forward_system_call
tutti_forward_system_call:
  mov %rdi, %rax
  mov %rsi, %r11
  mov 0(%r11), %rdi
  mov 8(%r11), %rsi
  mov 16(%r11), %rdx
  mov 24(%r11), %r10
  mov 32(%r11), %r8
  mov 40(%r11), %r9
  syscall
.globl tutti_behind_forwarded
tutti_behind_forwarded:
  ret
.size tutti_forward_system_call, . - tutti_forward_system_call
)");

namespace tutti::testing_support {
namespace {

// tidy: allow mutable (a signal handler has no other place to count)
thread_local volatile uint64_t counted = 0;
// tidy: allow mutable (likewise)
thread_local volatile int last_number = -1;

// How a thread waits; and what must not return through a signal's frame.
constexpr unsigned kNotWatched[] = {SYS_sched_yield,  SYS_nanosleep, SYS_clock_nanosleep,
                                    SYS_rt_sigreturn, SYS_clone,     SYS_clone3,
                                    SYS_fork,         SYS_vfork,     SYS_clock_gettime};

/// On the mask that the thread will have when the handler returns. A trap whose signal is blocked
/// would end the process, and threads begin and end with all of them blocked.
long long change_mask(ucontext_t& context, const long long* arguments) {
  uint64_t mask = 0, change = 0;
  std::memcpy(&mask, &context.uc_sigmask, sizeof mask);
  const auto* const set = reinterpret_cast<const void*>(arguments[1]);
  auto* const old_set = reinterpret_cast<void*>(arguments[2]);  // may be the same
  if (set != nullptr) std::memcpy(&change, set, sizeof change);
  if (old_set != nullptr) std::memcpy(old_set, &mask, sizeof mask);
  if (set == nullptr) return 0;
  if (arguments[0] == SIG_BLOCK) mask |= change;
  if (arguments[0] == SIG_UNBLOCK) mask &= ~change;
  if (arguments[0] == SIG_SETMASK) mask = change;
  mask &= ~(uint64_t{1} << (SIGSYS - 1));
  std::memcpy(&context.uc_sigmask, &mask, sizeof mask);
  return 0;
}

void count_and_make(int, siginfo_t* info, void* context) {
  const int saved = errno;
  counted = counted + 1;
  last_number = info->si_syscall;
  ucontext_t& thread = *static_cast<ucontext_t*>(context);
  greg_t* const registers = thread.uc_mcontext.gregs;
  const long long arguments[] = {registers[REG_RDI], registers[REG_RSI], registers[REG_RDX],
                                 registers[REG_R10], registers[REG_R8],  registers[REG_R9]};
  registers[REG_RAX] = info->si_syscall == SYS_rt_sigprocmask
                           ? change_mask(thread, arguments)
                           : tutti_forward_system_call(info->si_syscall, arguments);
  errno = saved;
}

sock_filter load(size_t offset) {
  return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<unsigned>(offset));
}

std::vector<sock_filter> make_filter() {
  constexpr size_t kPointer = offsetof(seccomp_data, instruction_pointer);
  const auto forwarded = reinterpret_cast<uintptr_t>(tutti_behind_forwarded);
  std::vector<sock_filter> filter = {
      load(kPointer),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(forwarded), 0, 3),
      load(kPointer + sizeof(uint32_t)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(forwarded >> 32), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      load(offsetof(seccomp_data, nr))};
  for (const unsigned number : kNotWatched) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1));
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP));
  return filter;
}

}  // namespace

bool watch_system_calls() {
  struct sigaction action {};
  action.sa_sigaction = count_and_make;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  if (sigaction(SIGSYS, &action, nullptr) != 0) return false;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  std::vector<sock_filter> filter = make_filter();
  const sock_fprog program = {static_cast<unsigned short>(filter.size()), filter.data()};
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

uint64_t system_calls() { return counted; }

int last_system_call() { return last_number; }

}  // namespace tutti::testing_support

#else

namespace tutti::testing_support {

bool watch_system_calls() { return false; }
uint64_t system_calls() { return 0; }
int last_system_call() { return -1; }

}  // namespace tutti::testing_support

#endif
