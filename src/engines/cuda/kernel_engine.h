// Calls that one kernel runs (fused_calls.h), as an engine of a rank.
//
// Owns: a share of the kernels. Lifetime: the words live as long. Threads, errors: DeviceEngine's.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/engines/cuda/fused_calls.h"
#include "src/engines/streams/begun_kernels.h"
#include "src/engines/streams/device_engine.h"
#include "src/engines/streams/fused_words.h"

namespace tutti::engines::cuda {

class KernelEngine final : public streams::DeviceEngine {
 public:
  struct KernelParts {
    std::shared_ptr<FusedCalls> kernels;
    streams::FusedWords* words = nullptr;
    streams::BegunKernels::RanksOfKernels ranks;  // asked by look() and describe_wait() alone
  };
  explicit KernelEngine(KernelParts parts)
      : kernels_(std::move(parts.kernels)),
        words_(*parts.words),
        ranks_(parts.ranks.words.size()),
        rank_(parts.ranks.rank),
        name_of_(parts.ranks.name_of),
        begun_(std::move(parts.ranks)) {}

  Result<std::vector<uint64_t>> put(const exec::StreamedCall& call, uint64_t place) override;
  Status capture(const exec::StreamedCall& call) override;
  bool runs_alone() const override { return true; }
  uint64_t runs_alone_so_far() const override;
  std::optional<EngineTrouble> look() override;
  uint64_t finished() const override { return words_.last_finished(); }
  std::optional<int> find_late() const override;
  std::string describe_wait() const override { return begun_.describe_wait(); }
  void let_go() override { words_.stop.store(1, std::memory_order_release); }

 private:
  const std::shared_ptr<FusedCalls> kernels_;
  streams::FusedWords& words_;
  const size_t ranks_;
  const int rank_;
  const std::function<std::string(int)> name_of_;
  const streams::BegunKernels begun_;
  std::atomic<bool> is_in_graphs_{false};
};

}  // namespace tutti::engines::cuda
