// Tutti's kernels as functions of the host: the same work of a thread, for each of the threads.
#include "tests/software_device/device/kernels.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "src/engines/cuda/fold.h"
#include "src/engines/cuda/placed_pieces.h"
#include "tests/software_device/device/chance.h"
#include "tests/software_device/device/settings.h"

namespace softdev {
namespace {

using tutti::engines::cuda::FactorIs;
using tutti::engines::cuda::FoldParameters;
using tutti::engines::cuda::FoldThread;
using tutti::engines::cuda::PieceCopy;
using tutti::engines::cuda::PlacedPiece;
using tutti::engines::cuda::PlacedPieces;
namespace types = tutti::types;

/// The parameters with the host's addresses; false: the memory is not there.
bool find_memory(FoldParameters& given, size_t element, int device) {
  const auto find = [&](uint64_t& address, size_t bytes, bool writes) {
    address = reinterpret_cast<uint64_t>(softdev_touch(address, bytes, device, writes));
    return address != 0;
  };
  const size_t bytes = given.count * element;
  bool found = given.factor_is != FactorIs::kInMemory || find(given.factor, element, false);
  for (uint32_t i = 0; i < given.source_count; ++i) {
    found = found && find(given.sources[i], bytes, false);
  }
  for (uint32_t i = 0; i < given.target_count; ++i) {
    found = found && find(given.targets[i], bytes, true);
  }
  return found;
}

/// Threads have no order: blocks in a random one, and what is in a block by odd steps.
template <class Thread>
void run_threads(const SoftdevLaunch& launch, const Thread& thread) {
  std::vector<uint64_t> blocks(launch.blocks);
  std::iota(blocks.begin(), blocks.end(), 0);
  if (settings().shuffle != 0) std::shuffle(blocks.begin(), blocks.end(), dice());
  const uint64_t threads = uint64_t{launch.blocks} * launch.threads;
  const uint64_t step = launch.threads % 7 != 0 ? 7 : 1;
  for (const uint64_t block : blocks) {
    for (uint64_t i = 0; i < launch.threads; ++i) {
      thread.run(block * launch.threads + i * step % launch.threads, threads);
    }
    stall();
  }
}

template <types::DataType kType, types::ReduceOp kOp>
void fold(const SoftdevLaunch& launch, void** parameters) {
  FoldParameters given = *static_cast<const FoldParameters*>(parameters[0]);
  if (!find_memory(given, types::size_of(kType), launch.device)) return;
  run_threads(launch, FoldThread<kType, kOp>(given));
}

void copy_pieces(const SoftdevLaunch& launch, void** parameters) {
  const auto& given = *static_cast<const PlacedPieces*>(parameters[0]);
  for (uint32_t i = 0; i < given.count; ++i) {
    const PlacedPiece& piece = given.pieces[i];
    const auto find = [&](uint64_t address, uint64_t bytes, bool writes) {
      return softdev_touch(address, bytes, launch.device, writes);
    };
    const auto* const word = static_cast<const uint64_t*>(find(piece.place, 8, false));
    if (word == nullptr) return;
    const uint64_t from = source_of(piece, given.mark, *word);
    const void* const source = find(from, piece.bytes, false);
    void* const target = find(piece.target, piece.bytes, true);
    if (source == nullptr || target == nullptr) return;
    run_threads(launch, PieceCopy{reinterpret_cast<uint64_t>(target),
                                  reinterpret_cast<uint64_t>(source), piece.bytes});
  }
}

}  // namespace

std::vector<KnownKernel> known_kernels() {
  constexpr size_t kBytes = sizeof(FoldParameters);
  return {{"tutti_copy_pieces", copy_pieces, sizeof(PlacedPieces)},
#define SOFTDEV_FOLD(Type, type, Operation, operation) \
  {"tutti_fold_" #type "_" #operation,                 \
   fold<types::DataType::k##Type, types::ReduceOp::k##Operation>, kBytes},
          TUTTI_FOLD_KERNELS(SOFTDEV_FOLD)
#undef SOFTDEV_FOLD
  };
}

}  // namespace softdev
