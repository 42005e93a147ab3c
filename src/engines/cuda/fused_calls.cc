#include "src/engines/cuda/fused_calls.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "src/base/words.h"
#include "src/drivers/cuda/device.h"
#include "src/engines/cuda/agreement.h"
#include "src/engines/streams/fused_words.h"

namespace tutti::engines::cuda {

using drivers::cuda::Cuda;
using drivers::cuda::CUfunction;
using types::DataType;
using types::ReduceOp;

static_assert(streams::FusedWords::kBlocks == kFusedBlocks);
static_assert(offsetof(streams::FusedWords, stop) == kFusedStop);
static_assert(offsetof(streams::FusedWords, waiting) == kFusedWaiting);
static_assert(offsetof(streams::FusedWords, expired) == kFusedExpired);
static_assert(offsetof(streams::FusedWords, finished) == kFusedFinished);
static_assert(offsetof(streams::FusedWords, begun) == kFusedBegun);
static_assert(streams::FusedWords::kRecent == kFusedRecent);

namespace {

struct FusedRow {
  DataType type;
  ReduceOp op;
  const char* name;
};

constexpr FusedRow kRows[] = {
#define TUTTI_FUSED_ROW(Type, type, Operation, operation) \
  {DataType::k##Type, ReduceOp::k##Operation, "tutti_fused_" #type "_" #operation},
    TUTTI_FOLD_KERNELS(TUTTI_FUSED_ROW)
#undef TUTTI_FUSED_ROW
};

constexpr std::string_view kHolds = "holds";

/// How many blocks a rank's kernels are to have at most.
uint32_t wanted_blocks(const exec::DeviceRankOptions& options) {
  if (options.most_ctas == 0) return kFusedBlocks;
  return std::clamp(std::max(options.least_ctas, options.most_ctas), 1u, kFusedBlocks);
}

/// The blocks of all ranks' kernels, or why these cannot wait for each other, by what each has
/// said: "holds BLOCKS MPS WANTED", or why it cannot.
Result<uint32_t> find_blocks(const std::vector<std::string>& texts,
                             const exec::DeviceRankOptions& options) {
  if (Status problem = first_problem(texts, options); !problem.ok()) return problem;
  uint32_t least = kFusedBlocks;
  for (const std::string& text : texts) {
    const std::vector<std::string_view> words = split(text, ' ');
    constexpr size_t kWords = 4;
    const uint32_t wanted = words.size() == kWords && words[0] == kHolds
                                ? parse_integer<uint32_t>(words[3]).value_or(0)
                                : 0;
    if (wanted == 0) {
      return Status::remote_error("a rank says by garbage which kernels its device holds");
    }
    least = std::min(least, wanted);
  }
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    const std::vector<std::string_view> words = split(texts[rank], ' ');
    const auto blocks = parse_integer<int64_t>(words[1]).value_or(0);
    const auto sharing = static_cast<int64_t>(
        std::count(options.devices.begin(), options.devices.end(), options.devices[rank]));
    const std::string name = options.name_of(static_cast<int>(rank));
    if (sharing > 1 && words[2] != "1") {
      return Status::unsupported(
          "kernels that wait for each other would take turns on the device "
          "of " +
          name + ", which other ranks use without MPS");
    }
    if (blocks >= sharing * int64_t{least}) continue;
    return Status::unsupported("the device of " + name + " holds " + std::to_string(blocks) +
                               " thread blocks at once, too few for kernels that wait");
  }
  return least;
}

FusedCall call_on(const exec::Call& buffers) {
  return {.send = reinterpret_cast<uint64_t>(buffers.send),
          .recv = reinterpret_cast<uint64_t>(buffers.recv)};
}

}  // namespace

Status FusedCalls::load() {
  const drivers::cuda::CudaModule& module = kernels_->module();
  for (const FusedRow& row : kRows) {
    const Result<CUfunction> function = module.function(row.name);
    if (!function.ok()) return function.status();
    functions_[static_cast<size_t>(row.type)][static_cast<size_t>(row.op)] = function.value();
    const Result<int> blocks = module.blocks_at_once(function.value(), kFusedThreads);
    if (!blocks.ok()) return blocks.status();
    const bool is_first = &row == kRows;
    blocks_at_once_ = is_first ? blocks.value() : std::min(blocks_at_once_, blocks.value());
  }
  return {};
}

std::string FusedCalls::capacity(const Cuda& cuda, const DeviceRing& ring, const FusedCalls& made) {
  const auto ask = [&](drivers::cuda::CUdevice_attribute attribute) {
    const Result<int> value = drivers::cuda::device_attribute(cuda, ring.device(), attribute);
    return value.ok() ? value.value() : 0;
  };
  const int blocks = ask(drivers::cuda::kDeviceMultiprocessors) * made.blocks_at_once_;
  const bool shared = ask(drivers::cuda::kDeviceSharedByMps) != 0;
  return std::string(kHolds) + " " + std::to_string(blocks) + (shared ? " 1 " : " 0 ") +
         std::to_string(made.blocks_);
}

// A reason that all ranks know beforehand takes no exchange.
Result<std::shared_ptr<FusedCalls>> FusedCalls::open(const Cuda& cuda,
                                                     const exec::DeviceRankOptions& options,
                                                     FusedParts parts) {
  const auto no = [](const char* why) { return Status::unsupported(why); };
  if (options.fused_bytes == 0) return no("TUTTI_MAILBOX_BYTES is 0");
  if (options.engines_alone) return no("the communicator's engine is copy_engine");
  if (options.arenas.size() < 2) return no("there is one rank");
  if (options.arenas.size() > kMostFusedRanks) return no("there are more than 16 ranks");
  if (parts.kernels == nullptr) return no("not all ranks have kernels");
  FusedAddresses addresses{.rank = static_cast<uint32_t>(options.rank),
                           .memories = parts.ring->fused_memories(),
                           .layout = parts.ring->fused_layout(),
                           .words = parts.words,
                           .scratch = parts.scratch,
                           .scratch_bytes = parts.scratch_bytes};
  Status status = parts.ring->fused();
  if (status.ok() && addresses.memories.empty()) status = no("a ring lies in pinned host memory");
  std::shared_ptr<FusedCalls> made(new FusedCalls(std::move(parts.kernels), std::move(addresses)));
  made->blocks_ = wanted_blocks(options);
  if (status.ok()) status = made->load();
  const auto texts =
      options.exchange(status.ok() ? capacity(cuda, *parts.ring, *made) : outcome_text(status));
  if (!texts.ok()) return texts.status();
  const Result<uint32_t> blocks = find_blocks(texts.value(), options);
  if (!blocks.ok()) return blocks.status();
  made->blocks_ = blocks.value();
  return made;
}

Status FusedCalls::put(const plan::Plan& plan, const FusedCall& call,
                       drivers::cuda::CUstream stream) {
  if (Status status = machine_.make(plan, call); !status.ok()) return status;
  const types::FoldKey row = fold_row(plan.type, plan.operation);
  const CUfunction function =
      functions_[static_cast<size_t>(row.type)][static_cast<size_t>(row.op)];
  if (function == nullptr) return Status::internal_error("no kernel folds so");
  const uint32_t blocks = call.most_blocks > 0 ? std::min(call.most_blocks, blocks_) : blocks_;
  return kernels_->module().launch(function, blocks, kFusedThreads, stream, &machine_.program());
}

exec::DeviceCounts FusedCalls::count(const plan::Plan& plan) const {
  // Buffers that do not overlap.
  constexpr uint64_t kApart = uint64_t{1} << 40;
  FusedMachine machine(addresses_);
  (void)machine.make(plan, {.send = kApart, .recv = 2 * kApart});
  exec::DeviceCounts counts = machine.counts();
  counts.most_ctas = blocks_;
  return counts;
}

Result<exec::FusedNeed> FusedCalls::need(const plan::Plan& plan, int rank, int ranks,
                                         const exec::Call& buffers) {
  constexpr uint64_t kAnything = uint64_t{1} << 40;
  FusedMachine machine({.rank = static_cast<uint32_t>(rank),
                        .memories = std::vector<uint64_t>(static_cast<size_t>(ranks)),
                        .layout = {.ranks = 0, .mailbox_bytes = kAnything},
                        .scratch = 0,
                        .scratch_bytes = kAnything});
  if (Status status = machine.make(plan, call_on(buffers)); !status.ok()) return status;
  return exec::FusedNeed{machine.places(), machine.place_bytes()};
}

}  // namespace tutti::engines::cuda
