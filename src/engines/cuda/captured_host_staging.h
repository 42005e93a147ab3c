// The way of a captured call through pinned host memory: what host_staging.h does for a call that
// is put into a stream once, a graph does as often as it runs.
//
// A graph holds constants, so a run cannot have a number of its own. Its first point is a function
// of the host that the stream calls: it says that this run has come. At the second one the stream
// waits until the word `done` is 1, and writes 0.
//
// Why no run takes another one's 1: runs of a graph follow each other, and of one host staging the
// 1 is written once for each call of the function (a Fence does it once, and each run has its own).
// The stream calls the function before it waits, and waits before it writes the 0; so between two
// stores of 1 there is the 0 of the run of the first one.
//
// Owns: a slot of the pool until its graph is gone. Threads: as exec::HostStaging.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "src/engines/cuda/host_staging.h"

namespace tutti::engines::cuda {

class CapturedHostStaging final : public exec::HostStaging,
                                  public std::enable_shared_from_this<CapturedHostStaging> {
 public:
  CapturedHostStaging(std::unique_ptr<HostStagingCopies> copies, StreamInContext where,
                      std::function<void()> arrived);

  std::shared_ptr<exec::Fence> fence() override;
  void skip() override { copies_->words().done.store(1, std::memory_order_release); }
  std::byte* input() const override { return copies_->input(); }
  std::byte* output() const override { return copies_->output(); }
  Status enter() override;
  Status leave() override;

 private:
  const std::unique_ptr<HostStagingCopies> copies_;
  const StreamInContext where_;
  const std::function<void()> arrived_;
};

}  // namespace tutti::engines::cuda
