// Tutti's kernels that wait, as functions of the host: the work of each thread is a fiber, and
// chance decides which one goes on, after each load and store. Blocks have two threads.
//
// Nothing of it is told to the checker but what a program reads and writes of its own rank's
// buffers: lines carry their own order.
#include <algorithm>
#include <memory>
#include <utility>

#include "src/base/clock.h"
#include "src/engines/cuda/fused_thread.h"
#include "tests/software_device/device/chance.h"
#include "tests/software_device/device/kernels.h"
#include "tests/software_device/device/memory.h"
#include "tests/software_device/device/stream.h"
#include "tests/support/fibers.h"
#include "tests/support/stepped_lines.h"

namespace softdev {
namespace {

using namespace tutti::engines::cuda;  // NOLINT(build/namespaces)
namespace types = tutti::types;
using tutti::testing_support::Fibers;
using tutti::testing_support::SteppedLines;

/// The program with the host's addresses; false: the memory is not there.
bool find_memory(FusedProgram& program, uint64_t element, int device) {
  const auto find = [device](uint64_t& address, uint64_t bytes) {
    const Range range = addresses().locate(address, bytes, device);
    const bool found = range.valid && range.segments.size() == 1;
    if (!found) fail_operation("a kernel that waits reaches for", address, bytes);
    address = found ? reinterpret_cast<uint64_t>(range.segments[0].data) : 0;
    return found;
  };
  bool found = find(program.memory, FusedLayout::kMailboxes + 2 * program.parity_bytes) &&
               find(program.words, kFusedBegun + kFusedRecent * sizeof(uint64_t));
  for (uint32_t peer = 0; peer < program.ranks; ++peer) {
    found = found && find(program.credits[peer], sizeof(uint64_t));
  }
  const bool reads_factor = program.factor_is == FactorIs::kInMemory;
  if (reads_factor) {
    program.factor =
        reinterpret_cast<uint64_t>(softdev_touch(program.factor, element, device, false));
  }
  for (uint32_t i = 0; i < program.steps; ++i) {
    const FusedStep& step = program.step[i];
    for (uint32_t k = 0; k < uint32_t{step.targets} + step.sources; ++k) {
      uint64_t& address = program.address[step.first + k];
      const uint64_t bytes = step.count * element;
      if (program.line_of[step.first + k] == 0) {
        void* const place = softdev_touch(address, bytes, device, k < step.targets);
        address = reinterpret_cast<uint64_t>(place);
        found = found && place != nullptr;
        continue;
      }
      const uint64_t lines = std::max<uint64_t>(1, (bytes + kLinePayload - 1) / kLinePayload);
      found = found && find(address, program.parity_bytes + lines * kLineBytes);
    }
  }
  return found;
}

/// A launch that is under way.
template <types::DataType kType, types::ReduceOp kOp>
class Launch {
 public:
  Launch(const FusedProgram& program, const SoftdevLaunch& launch) : program_(program) {
    if (!find_memory(program_, types::size_of(kType), launch.device)) return;
    left_.assign(launch.blocks, kThreads);
    for (uint32_t block = 0; block < launch.blocks; ++block) {
      for (uint32_t thread = 0; thread < kThreads; ++thread) {
        const GridPlace at{block, launch.blocks, thread, kThreads};
        running_.push_back(fibers_.add([this, at] { run(at); }));
      }
    }
  }
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  /// False: some thread waits.
  bool go_on() {
    missed_ = false;
    while (!running_.empty() && !missed_) {
      const size_t one = dice()() % running_.size();
      if (fibers_.run(running_[one])) continue;
      running_[one] = running_.back();
      running_.pop_back();
    }
    return running_.empty();
  }

  // SteppedLines asks these.
  void before_access() {
    if (dice()() % 3 == 0) Fibers::give_way();
  }
  void missed() {
    missed_ = true;
    Fibers::give_way();
  }
  static uint64_t now_ns() { return tutti::monotonic_ns(); }

 private:
  static constexpr uint32_t kThreads = 2;

  void run(const GridPlace& at) {
    SteppedLines<Launch> lines(*this);
    FusedThread<kType, kOp, SteppedLines<Launch>> thread(program_, at, lines);
    thread.run();
    if (--left_[at.block] == 0) thread.finish();  // as behind a barrier
  }

  FusedProgram program_;
  Fibers fibers_;
  std::vector<size_t> running_;
  std::vector<uint32_t> left_;  // by block: threads that run
  bool missed_ = false;
};

template <types::DataType kType, types::ReduceOp kOp>
std::function<bool()> start(const SoftdevLaunch& launch, const void* parameter) {
  const auto made =
      std::make_shared<Launch<kType, kOp>>(*static_cast<const FusedProgram*>(parameter), launch);
  return [made] { return made->go_on(); };
}

}  // namespace

std::vector<KnownKernel> waiting_kernels() {
  constexpr size_t kBytes = sizeof(FusedProgram);
  return {
#define SOFTDEV_FUSED(Type, type, Operation, operation)  \
  {"tutti_fused_" #type "_" #operation, nullptr, kBytes, \
   start<types::DataType::k##Type, types::ReduceOp::k##Operation>},
      TUTTI_FOLD_KERNELS(SOFTDEV_FUSED)
#undef SOFTDEV_FUSED
  };
}

}  // namespace softdev
