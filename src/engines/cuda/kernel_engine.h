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
#include "src/engines/streams/device_engine.h"
#include "src/engines/streams/fused_words.h"

namespace tutti::engines::cuda {

class KernelEngine final : public streams::DeviceEngine {
 public:
  struct KernelParts {
    std::shared_ptr<FusedCalls> kernels;
    streams::FusedWords* words = nullptr;
    int rank = 0;
    size_t ranks = 0;
    std::function<std::string(int)> name_of;  // a rank, in messages
  };
  explicit KernelEngine(KernelParts parts) : parts_(std::move(parts)) {}

  Result<std::vector<uint64_t>> put(const exec::StreamedCall& call, uint64_t place) override;
  Status capture(const exec::StreamedCall& call) override;
  bool runs_alone() const override { return true; }
  std::optional<EngineTrouble> look() override;
  uint64_t finished() const override { return parts_.words->last_finished(); }
  std::optional<int> find_late() const override;
  void let_go() override { parts_.words->stop.store(1, std::memory_order_release); }

 private:
  const KernelParts parts_;
  std::atomic<bool> is_in_graphs_{false};
};

}  // namespace tutti::engines::cuda
