#include "perf/collectives/shared_board.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <thread>

#include "perf/collectives/error.h"

namespace tutti::perf {

/// All zero is the initial state.
struct SharedBoard::Memory {
  alignas(64) std::atomic<uint32_t> arrived;
  alignas(64) std::atomic<uint32_t> epoch;
  alignas(64) std::atomic<uint32_t> failed;
  Note notes[kMaxRanks];
  double samples[kMaxRanks][kMaxSamples];
};

namespace {

constexpr int kSpins = 2000;

/// With more ranks than processors, the one that is waited for needs this one's processor.
int spins_before_yield(int ranks) {
  return ranks <= static_cast<int>(std::thread::hardware_concurrency()) ? kSpins : 0;
}

int check_ranks(int ranks) {
  if (ranks < 1 || ranks > kMaxRanks) {
    throw PerfError("the number of ranks must be 1 to " + std::to_string(kMaxRanks));
  }
  return ranks;
}

}  // namespace

SharedBoard::Memory* SharedBoard::map(int file) {
  const int flags = file < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED;
  void* memory = mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, flags, file, 0);
  if (memory == MAP_FAILED) {
    throw PerfError(std::string("cannot map the shared board: ") + std::strerror(errno));
  }
  return static_cast<Memory*>(memory);
}

void SharedBoard::Unmap::operator()(Memory* memory) const { munmap(memory, sizeof(Memory)); }

SharedBoard::SharedBoard(int ranks)
    : ranks_(check_ranks(ranks)), spins_(spins_before_yield(ranks)), memory_(map(-1)) {}

SharedBoard::SharedBoard(int ranks, const std::string& name, Access access)
    : ranks_(check_ranks(ranks)), spins_(spins_before_yield(ranks)), name_(name) {
  const int flags = access == Access::kCreate ? O_CREAT | O_EXCL | O_RDWR : O_RDWR;
  const int file = shm_open(name.c_str(), flags, 0600);
  if (file < 0) throw PerfError("cannot open shared memory " + name + ": " + std::strerror(errno));
  if (access == Access::kCreate && ftruncate(file, sizeof(Memory)) != 0) {
    throw PerfError("cannot size shared memory " + name + ": " + std::strerror(errno));
  }
  memory_.reset(map(file));
  close(file);
}

void SharedBoard::unlink() const { shm_unlink(name_.c_str()); }

void SharedBoard::barrier() {
  const uint32_t epoch = memory_->epoch.load(std::memory_order_acquire);
  if (memory_->arrived.fetch_add(1, std::memory_order_acq_rel) + 1 ==
      static_cast<uint32_t>(ranks_)) {
    memory_->arrived.store(0, std::memory_order_relaxed);
    memory_->epoch.store(epoch + 1, std::memory_order_release);
    return;
  }
  int spins = 0;
  while (memory_->epoch.load(std::memory_order_acquire) == epoch) {
    if (spins < spins_) {
      ++spins;
      relax_processor();
      continue;
    }
    if (failed()) throw PerfError("another rank failed");
    sched_yield();
  }
}

void SharedBoard::fail() noexcept { memory_->failed.store(1, std::memory_order_release); }

bool SharedBoard::failed() const noexcept {
  return memory_->failed.load(std::memory_order_acquire) != 0;
}

// The barrier orders the accesses; they are atomic because it runs through other processes, which
// the thread sanitizer does not see.
std::vector<Board::Note> SharedBoard::exchange_notes(int rank, const Note& own) {
  using Word = std::atomic_ref<uint64_t>;
  for (size_t i = 0; i < own.size(); ++i) {
    Word(memory_->notes[rank][i]).store(own[i], std::memory_order_relaxed);
  }
  barrier();
  std::vector<Note> notes(static_cast<size_t>(ranks_));
  for (int peer = 0; peer < ranks_; ++peer) {
    for (size_t i = 0; i < own.size(); ++i) {
      notes[peer][i] = Word(memory_->notes[peer][i]).load(std::memory_order_relaxed);
    }
  }
  barrier();  // nobody writes the next note before all have read this one
  return notes;
}

std::vector<std::vector<double>> SharedBoard::gather_samples(int rank,
                                                             std::span<const double> own) {
  using Sample = std::atomic_ref<double>;
  for (size_t i = 0; i < own.size(); ++i) {
    Sample(memory_->samples[rank][i]).store(own[i], std::memory_order_relaxed);
  }
  barrier();
  std::vector<std::vector<double>> all(static_cast<size_t>(ranks_));
  for (int peer = 0; peer < ranks_; ++peer) {
    for (size_t i = 0; i < own.size(); ++i) {
      all[peer].push_back(Sample(memory_->samples[peer][i]).load(std::memory_order_relaxed));
    }
  }
  barrier();
  return all;
}

}  // namespace tutti::perf
