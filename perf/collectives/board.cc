#include "perf/collectives/board.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <thread>

#include "perf/collectives/error.h"

namespace tutti::perf {
namespace {

constexpr int kSpins = 2000;

/// With more ranks than processors, the one that is waited for needs this one's processor.
int spins_before_yield(int ranks) {
  return ranks <= static_cast<int>(std::thread::hardware_concurrency()) ? kSpins : 0;
}

/// A board that is a piece of memory: for the ranks of one host.
class SharedBoard : public Board {
 public:
  SharedBoard(int ranks, const std::string& name)
      : ranks_(static_cast<size_t>(ranks)), spins_(spins_before_yield(ranks)) {
    if (ranks < 1 || ranks > kMaxRanks) {
      throw PerfError("the number of ranks must be 1 to " + std::to_string(kMaxRanks));
    }
    const auto check = [&](bool done) {
      if (!done) throw PerfError("cannot share memory " + name + ": " + std::strerror(errno));
    };
    const int file = name.empty() ? -1 : shm_open(name.c_str(), O_CREAT | O_RDWR, 0600);
    check(name.empty() || (file >= 0 && ftruncate(file, sizeof(Memory)) == 0));
    const int flags = file < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED;
    void* const memory = mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, flags, file, 0);
    check(memory != MAP_FAILED);
    if (file >= 0) close(file);
    memory_ = static_cast<Memory*>(memory);
  }
  ~SharedBoard() override { munmap(memory_, sizeof(Memory)); }

  void barrier() override {
    const uint32_t epoch = memory_->epoch.load(std::memory_order_acquire);
    if (memory_->arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == ranks_) {
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

  void fail() noexcept override { memory_->failed.store(1, std::memory_order_release); }
  bool failed() const noexcept override {
    return memory_->failed.load(std::memory_order_acquire) != 0;
  }

  // The barrier orders the accesses; they are atomic because it runs through other processes, which
  // the thread sanitizer does not see.
  std::vector<uint64_t> gather(int rank, std::span<const uint64_t> own) override {
    using Word = std::atomic_ref<uint64_t>;
    for (size_t i = 0; i < own.size(); ++i) {
      Word(memory_->words[rank][i]).store(own[i], std::memory_order_relaxed);
    }
    barrier();
    std::vector<uint64_t> all;
    for (size_t peer = 0; peer < ranks_; ++peer) {
      for (size_t i = 0; i < own.size(); ++i) {
        all.push_back(Word(memory_->words[peer][i]).load(std::memory_order_relaxed));
      }
    }
    barrier();  // nobody writes the next words before all have read these
    return all;
  }

 private:
  /// All zero is the initial state.
  struct Memory {
    alignas(64) std::atomic<uint32_t> arrived;
    alignas(64) std::atomic<uint32_t> epoch;
    alignas(64) std::atomic<uint32_t> failed;
    uint64_t words[kMaxRanks][kMaxSamples];
  };

  const size_t ranks_;
  const int spins_;
  Memory* memory_ = nullptr;
};

class GroupBoard : public Board {
 public:
  GroupBoard(const tuttiUniqueId& id, int rank, int ranks) : ranks_(static_cast<size_t>(ranks)) {
    check(tuttiCommInitRank(&comm_, ranks, id, rank), "tuttiCommInitRank");
  }
  ~GroupBoard() override {
    if (!failed_) tuttiCommDestroy(comm_);
  }

  void barrier() override { check(tuttiBarrier(comm_, tuttiBlocking()), "tuttiBarrier"); }
  void fail() noexcept override {
    if (!failed_) tuttiCommAbort(comm_);
    failed_ = true;
  }
  bool failed() const noexcept override { return failed_; }

  std::vector<uint64_t> gather(int /*rank*/, std::span<const uint64_t> own) override {
    std::vector<uint64_t> all(own.size() * ranks_);
    check(tuttiAllGather(own.data(), all.data(), own.size(), tuttiUint64, comm_, tuttiBlocking()),
          "tuttiAllGather");
    return all;
  }

 private:
  void check(tuttiResult_t result, const char* call) const {
    if (result == tuttiSuccess) return;
    throw PerfError(std::string("between measurements, ") + call + ": " + tuttiGetLastError(comm_),
                    kExitLibrary);
  }

  tuttiComm_t comm_ = nullptr;
  const size_t ranks_;
  bool failed_ = false;
};

}  // namespace

std::vector<std::string> Board::exchange_texts(int rank, const std::string& own) {
  struct Text {
    char letters[256] = {};
  } text;
  own.copy(text.letters, sizeof text.letters - 1);
  std::vector<std::string> all;
  for (const Text& one : exchange(rank, text)) all.emplace_back(one.letters);
  return all;
}

std::vector<std::vector<double>> Board::gather_samples(int rank, std::span<const double> own) {
  std::vector<uint64_t> words;
  for (const double sample : own) words.push_back(std::bit_cast<uint64_t>(sample));
  const std::vector<uint64_t> all = gather(rank, words);
  std::vector<std::vector<double>> samples(all.size() / own.size());
  for (size_t i = 0; i < all.size(); ++i) {
    samples[i / own.size()].push_back(std::bit_cast<double>(all[i]));
  }
  return samples;
}

std::shared_ptr<Board> make_shared_board(int ranks, const std::string& name) {
  return std::make_shared<SharedBoard>(ranks, name);
}

std::shared_ptr<Board> make_group_board(const tuttiUniqueId& id, int rank, int ranks) {
  return std::make_shared<GroupBoard>(id, rank, ranks);
}

}  // namespace tutti::perf
