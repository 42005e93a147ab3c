// The fence of one run of a captured call that the host takes part in.
//
// Threads: any. Errors: none. Lifetime: it keeps what it is a run of.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "src/exec/staging.h"

namespace tutti::engines::cuda {

/// It lets the stream go on once, however many threads ask for that. `Staged` has skip().
template <class Staged>
class CapturedRun final : public exec::Fence {
 public:
  explicit CapturedRun(std::shared_ptr<Staged> of) : of_(std::move(of)) {}
  CapturedRun(const CapturedRun&) = delete;
  CapturedRun& operator=(const CapturedRun&) = delete;
  ~CapturedRun() override { release(); }

  bool is_open() const override { return true; }
  void release() override {
    if (!released_.exchange(true)) of_->skip();
  }
  /// The next run comes behind this one in the stream.
  bool is_over() const override { return true; }

 private:
  const std::shared_ptr<Staged> of_;
  std::atomic<bool> released_{false};
};

}  // namespace tutti::engines::cuda
