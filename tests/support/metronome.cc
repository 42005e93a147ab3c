#include "tests/support/metronome.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "tests/support/team.h"

namespace tutti::testing_support {
namespace {

constexpr size_t kMostProcessors = 64;
constexpr uint64_t kBeatNs = 1'000'000;
// The length of a beat on a busy machine; a grace period takes 9 ms there, and 40 ms at times.
constexpr uint64_t kUsualNs = 20'000'000;
constexpr uint64_t kUsualOfKernelNs = 150'000'000;
// After it enough of a second is left for all that ranks do in one.
constexpr uint64_t kStandstillNs = 250'000'000;

uint64_t beyond(uint64_t usual_ns, uint64_t gap_ns) {
  return gap_ns > usual_ns ? gap_ns - kBeatNs : 0;
}

std::vector<int> processors_of_this_process() {
  std::vector<int> processors;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return processors;
  for (int i = 0; i < CPU_SETSIZE && processors.size() < kMostProcessors; ++i) {
    if (CPU_ISSET(i, &set)) processors.push_back(i);
  }
  return processors;
}

void stay_on(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  sched_setaffinity(0, sizeof set, &set);
}

void pass_grace_period() { syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0); }

}  // namespace

struct Metronome::Beats {
  struct Place {
    uint64_t usual_ns = 0;
    std::atomic<uint64_t> last_ns;
    std::atomic<uint64_t> missed_ns;
  };
  Place places[kMostProcessors + 1];
};

Metronome::Metronome() {
  void* memory =
      mmap(nullptr, sizeof(Beats), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  beats_ = new (memory) Beats();
  std::fflush(nullptr);
  for (const int processor : processors_of_this_process()) {
    if (!add(
            kUsualNs, [processor] { stay_on(processor); }, [] {}))
      return;
  }
  add(
      kUsualOfKernelNs, [] {}, pass_grace_period);
}

bool Metronome::add(uint64_t usual_ns, const std::function<void()>& prepare,
                    const std::function<void()>& pause) {
  Beats::Place& place = beats_->places[processes_.size()];
  place.usual_ns = usual_ns;
  place.last_ns.store(now_ns());
  const pid_t process = fork();
  if (process < 0) return false;
  processes_.push_back(process);
  if (process > 0) return true;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prepare();
  for (;;) {
    sleep_ns(kBeatNs);
    pause();
    const uint64_t beat_ns = now_ns();
    place.missed_ns.fetch_add(beyond(usual_ns, beat_ns - place.last_ns.load()));
    place.last_ns.store(beat_ns);
  }
}

Metronome::~Metronome() {
  for (const pid_t process : processes_) {
    kill(process, SIGKILL);
    waitpid(process, nullptr, 0);
  }
  munmap(beats_, sizeof(Beats));
}

uint64_t Metronome::stood_still_ns() const {
  uint64_t worst_ns = 0;
  for (size_t i = 0; i < processes_.size(); ++i) {
    const Beats::Place& place = beats_->places[i];
    const uint64_t last_ns = place.last_ns.load(), at_ns = now_ns();
    const uint64_t since_ns = at_ns > last_ns ? beyond(place.usual_ns, at_ns - last_ns) : 0;
    worst_ns = std::max(worst_ns, place.missed_ns.load() + since_ns);
  }
  return worst_ns;
}

Pulse::Pulse() : last_ns_(now_ns()), last_grace_ns_(last_ns_) {}

void Pulse::beat() {
  constexpr uint64_t kGraceEveryNs = 1'000'000'000;
  const uint64_t from_ns = last_ns_;
  if (now_ns() - last_grace_ns_ >= kGraceEveryNs) {
    pass_grace_period();
    last_grace_ns_ = now_ns();
  }
  last_ns_ = now_ns();
  if (last_ns_ - from_ns >= kLongNs) stood_still_ns_ += last_ns_ - from_ns;
}

bool succeeds_where_the_machine_runs(const Attempt& attempt) {
  constexpr int kMostAttempts = 5;
  for (int i = 1;; ++i) {
    const Metronome metronome;
    if (attempt(metronome)) return true;
    const uint64_t still_ns = metronome.stood_still_ns();
    if (still_ns < kStandstillNs || i == kMostAttempts) return false;
    std::printf("the machine stood still for %d ms: once more\n",
                static_cast<int>(still_ns / 1'000'000));
    std::fflush(stdout);
  }
}

}  // namespace tutti::testing_support
