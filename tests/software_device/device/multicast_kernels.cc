// Tutti's kernels that fold a team's memory, as functions of the host. Threads have no order, and
// neither have the devices of the team: each vector is summed in an order of its own.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "src/engines/cuda/multicast_fold.h"
#include "tests/software_device/device/chance.h"
#include "tests/software_device/device/kernels.h"
#include "tests/software_device/device/settings.h"

namespace softdev {
namespace {

using namespace tutti::engines::cuda;  // NOLINT(build/namespaces)
namespace types = tutti::types;

/// The work of the switch. Addresses are offsets from that of the launch.
class HostTeam {
 public:
  explicit HostTeam(std::vector<char*> places) : places_(std::move(places)) {}

  template <types::DataType kType, types::ReduceOp kOp>
  FoldWords load(uint64_t offset) const {
    using E = FoldElement<kType>;
    constexpr uint32_t kLanes = kFoldWordsBytes / E::kBytes;
    std::vector<char*> order = places_;
    if (settings().multicast_fault == 1) order.resize(1);
    if (settings().shuffle != 0) std::shuffle(order.begin(), order.end(), dice());
    FoldWords folded;
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      typename E::Wide value{};
      for (size_t i = 0; i < order.size(); ++i) {
        typename E::Raw raw;
        std::memcpy(&raw, order[i] + offset + lane * E::kBytes, sizeof raw);
        value = i == 0 ? E::widen(raw) : combined<kOp>(value, E::widen(raw));
      }
      E::set_lane(folded, lane, E::narrow(value));
    }
    return folded;
  }

  void store(uint64_t offset, const FoldWords& words) const {
    for (char* place : places_) {
      std::memcpy(place + offset, words.word, sizeof words.word);
      if (settings().multicast_fault == 2) return;
    }
  }

 private:
  std::vector<char*> places_;
};

template <types::DataType kType, types::ReduceOp kOp>
void fold_by_switch(const SoftdevLaunch& launch, void** parameters) {
  MulticastParameters given = *static_cast<const MulticastParameters*>(parameters[0]);
  const bool aligned = given.address % kFoldWordsBytes == 0;
  std::vector<char*> places =
      touch_team(aligned ? given.address : 0, given.words * kFoldWordsBytes, launch.device, true);
  if (places.empty()) return;
  const HostTeam team(std::move(places));
  given.address = 0;
  const uint64_t threads = uint64_t{launch.blocks} * launch.threads;
  std::vector<uint64_t> blocks(launch.blocks);
  std::iota(blocks.begin(), blocks.end(), 0);
  if (settings().shuffle != 0) std::shuffle(blocks.begin(), blocks.end(), dice());
  for (const uint64_t block : blocks) {
    for (uint64_t i = 0; i < launch.threads; ++i) {
      fold_team<kType, kOp>(given, team, block * launch.threads + i, threads);
    }
    stall();
  }
}

}  // namespace

std::vector<KnownKernel> multicast_kernels() {
  constexpr size_t kBytes = sizeof(MulticastParameters);
  return {
#define SOFTDEV_MULTICAST(Type, type, Operation, operation) \
  {"tutti_multicast_" #type "_" #operation,                 \
   fold_by_switch<types::DataType::k##Type, types::ReduceOp::k##Operation>, kBytes},
      TUTTI_MULTICAST_KERNELS(SOFTDEV_MULTICAST)
#undef SOFTDEV_MULTICAST
  };
}

}  // namespace softdev
