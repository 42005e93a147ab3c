// An all-gather by copy engines among processes or threads (protocol/rank.h), on a board or on the
// software device, and with faults that something must find.
//
// Exit status: see ProtocolExit. A line for each rank on the output.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "tests/software_device/protocol/rank.h"
#include "tests/software_device/send_memory.h"

namespace softdev {
namespace {

/// Objects of the driver that this process still has.
unsigned long left_over(const SoftdevStatistics& now) {
  return now.live_allocations + now.live_handles + now.live_reservations + now.live_mappings +
         now.live_imports + now.live_registrations + now.live_streams + now.live_events;
}

/// Wrong bytes, and races where somebody looked for them. A race is the better answer: it says why.
int verdict(const Client& client, int me, bool right) {
  const bool looked = client.hooks.races != nullptr;
  const unsigned races = looked ? client.hooks.races() : 0;
  const unsigned overflows = looked ? client.hooks.checker_overflows() : 0;
  std::printf("rank %d: %s bytes, %u races%s, %lu batches, %lu kernels, %lu left\n", me,
              right ? "right" : "wrong", races, overflows > 0 ? " (checker overflowed)" : "",
              static_cast<unsigned long>(client.statistics().batches),
              static_cast<unsigned long>(client.statistics().kernels),
              left_over(client.statistics()));
  std::fflush(stdout);
  if (overflows > 0) return kDriverFailed;
  if (races > 0) return kRaces;
  return right ? kRight : kWrongBytes;
}

int run_rank(const Meeting& meeting, const Client& client, int me) {
  bool right = false;
  {
    Rank rank(meeting, client, me);
    right = rank.run();
  }
  return verdict(client, me, right);
}

int run_threads(const Meeting& meeting) {
  const Result<Client> opened = Client::open();
  if (!opened.ok()) return kNoDevice;
  std::atomic<int> worst{kRight};
  std::vector<std::thread> threads;
  for (int me = 0; me < meeting.options->ranks; ++me) {
    threads.emplace_back([&, me] {
      const int status = run_rank(meeting, opened.value(), me);
      int before = worst;
      while (before < status && !worst.compare_exchange_weak(before, status)) {
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return worst;
}

int run_process(const Meeting& meeting, int me) {
  alarm(meeting.options->limit_s);
  const Result<Client> opened = Client::open();
  return opened.ok() ? run_rank(meeting, opened.value(), me) : kNoDevice;
}

/// The worst of all: a rank that hangs is one that a signal ended.
int run_processes(const Meeting& meeting) {
  std::vector<pid_t> processes;
  for (int me = 0; me < meeting.options->ranks; ++me) {
    const pid_t process = fork();
    if (process == 0) std::exit(run_process(meeting, me));
    processes.push_back(process);
  }
  int worst = kRight;
  for (const pid_t process : processes) {
    int status = 0;
    waitpid(process, &status, 0);
    const bool hang = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
    const int rank = hang ? kHang : WIFSIGNALED(status) ? kDriverFailed : WEXITSTATUS(status);
    worst = std::max(worst, rank);
  }
  return worst;
}

void* shared_memory(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  return memory;
}

int run(int argc, char** argv) {
  const std::optional<ProtocolOptions> options = parse_options(argc, argv);
  if (!options) {
    std::fputs(kProtocolUsage, stderr);
    return kWrongArguments;
  }
  Meeting meeting;
  meeting.options = &*options;
  meeting.board = new (shared_memory(sizeof(Board))) Board();
  meeting.host_flags = shared_memory(kHostFlagBytes * kMostRanks);
  for (auto& from : meeting.sockets) {
    for (auto& to : from) std::tie(to[0], to[1]) = socket_pair();
  }
  if (!options->threads) return run_processes(meeting);
  signal(SIGALRM, [](int) { _exit(kHang); });
  alarm(options->limit_s);
  return run_threads(meeting);
}

}  // namespace
}  // namespace softdev

int main(int argc, char** argv) { return softdev::run(argc, argv); }
