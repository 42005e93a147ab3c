#include "perf/collectives/board.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <thread>

#include "perf/collectives/error.h"

namespace tutti::perf {

/// All zero is the initial state.
struct Board::Memory {
  alignas(64) std::atomic<uint32_t> arrived;
  alignas(64) std::atomic<uint32_t> epoch;
  alignas(64) std::atomic<uint32_t> failed;
  tuttiUniqueId id;
  double values[kMaxRanks];
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

Board::Memory* Board::map(int file) {
  const int flags = file < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED;
  void* memory = mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, flags, file, 0);
  if (memory == MAP_FAILED) {
    throw PerfError(std::string("cannot map the shared board: ") + std::strerror(errno));
  }
  return static_cast<Memory*>(memory);
}

void Board::Unmap::operator()(Memory* memory) const { munmap(memory, sizeof(Memory)); }

Board::Board(int ranks)
    : ranks_(check_ranks(ranks)), spins_(spins_before_yield(ranks)), memory_(map(-1)) {}

Board::Board(int ranks, const std::string& name, Access access)
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

void Board::unlink() const { shm_unlink(name_.c_str()); }

void Board::barrier() {
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

void Board::fail() noexcept { memory_->failed.store(1, std::memory_order_release); }

bool Board::failed() const noexcept { return memory_->failed.load(std::memory_order_acquire) != 0; }

// The barrier orders the accesses; they are atomic because it runs through other processes, which
// the thread sanitizer does not see.
std::vector<double> Board::exchange(int rank, double value) {
  using Value = std::atomic_ref<double>;
  Value(memory_->values[rank]).store(value, std::memory_order_relaxed);
  barrier();
  std::vector<double> values(static_cast<size_t>(ranks_));
  for (int i = 0; i < ranks_; ++i) {
    values[i] = Value(memory_->values[i]).load(std::memory_order_relaxed);
  }
  barrier();  // nobody writes the next value before all have read this one
  return values;
}

double Board::max(int rank, double value) {
  const std::vector<double> values = exchange(rank, value);
  return *std::max_element(values.begin(), values.end());
}

double Board::sum(int rank, double value) {
  const std::vector<double> values = exchange(rank, value);
  return std::accumulate(values.begin(), values.end(), 0.0);
}

tuttiUniqueId Board::share_id(int rank, const tuttiUniqueId& id) {
  if (rank == 0) memory_->id = id;
  barrier();
  return memory_->id;
}

std::span<double> Board::samples(int rank) { return memory_->samples[rank]; }

}  // namespace tutti::perf
