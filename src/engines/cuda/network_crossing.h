// The points of a CUDA stream between which a call has a bounce buffer to other hosts
// (exec::NetworkCrossing), in a slot of pinned memory that the pool keeps: the slot's own words
// tell of the points, those of the bounce buffer (exec::BounceWords) of the slices between them.
//
// An eager call has the slot until its host's part is done with it. A captured one keeps it with
// its graph, whose every run begins with a function of the host: that sets the words to 0, and it
// may, since the run before has ended behind `done`, which the host writes last.
//
// Owns: a slot of the pool. Threads: as exec::HostStaging. Errors: of leave(): those of the call
// that it puts; the slot is used no more then.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "src/engines/cuda/host_staging.h"
#include "src/exec/stream_rank.h"

namespace tutti::engines::cuda {

/// A slot as a bounce.
class BounceSlot {
 public:
  /// A context of the device is current. The pool lives longer.
  static Result<std::unique_ptr<BounceSlot>> take(HostStagingPool& pool,
                                                  std::shared_ptr<const exec::BounceShape> shape);
  ~BounceSlot();
  BounceSlot(const BounceSlot&) = delete;
  BounceSlot& operator=(const BounceSlot&) = delete;

  const drivers::cuda::Cuda& cuda() const { return pool_.cuda(); }
  HostStagingSlot& slot() const { return *slot_; }
  HostStagingWords& words() const { return slot_->words(); }
  /// Behind the words of the slot.
  std::byte* memory() const;
  exec::PinnedRange pinned() const;
  /// Before a run.
  void begin() const { shape_->begin(memory()); }
  /// The network may write there until that is true; null: it does not.
  void set_quiet(std::shared_ptr<const std::atomic<bool>> quiet) { quiet_ = std::move(quiet); }
  void keep(std::shared_ptr<const void> kept) { kept_ = std::move(kept); }
  void let_go() const { shape_->let_go(memory()); }
  /// Nobody gets the slot any more: nobody knows what a stream still does there.
  void abandon() { abandoned_ = true; }

 private:
  BounceSlot(HostStagingPool& pool, HostStagingSlot* slot,
             std::shared_ptr<const exec::BounceShape> shape)
      : pool_(pool), slot_(slot), shape_(std::move(shape)) {}

  HostStagingPool& pool_;
  HostStagingSlot* const slot_;
  const std::shared_ptr<const exec::BounceShape> shape_;
  std::shared_ptr<const std::atomic<bool>> quiet_;  // null: the network does not write there
  std::shared_ptr<const void> kept_;
  bool abandoned_ = false;
};

/// Puts the call into its stream.
using PutCall = std::function<Status()>;

class CudaNetworkCrossing final : public exec::NetworkCrossing,
                                  public exec::Fence,
                                  public std::enable_shared_from_this<CudaNetworkCrossing> {
 public:
  CudaNetworkCrossing(std::unique_ptr<BounceSlot> slot, StreamInContext where)
      : slot_(std::move(slot)), where_(where) {}
  CudaNetworkCrossing(const CudaNetworkCrossing&) = delete;
  CudaNetworkCrossing& operator=(const CudaNetworkCrossing&) = delete;
  ~CudaNetworkCrossing() override { release(); }

  /// Before leave().
  void set(PutCall put) { put_ = std::move(put); }
  std::byte* memory() const override { return slot_->memory(); }
  std::shared_ptr<exec::Fence> fence() override { return shared_from_this(); }
  exec::PinnedRange pinned() const override { return slot_->pinned(); }
  void keep(std::shared_ptr<const void> kept) override { slot_->keep(std::move(kept)); }
  void skip() override { release(); }
  void begin(std::shared_ptr<const std::atomic<bool>> left) override {
    slot_->set_quiet(std::move(left));
    let_stream_pass();
  }
  void end() override { slot_->set_quiet({}); }
  bool is_open() const override;
  void release() override {
    let_stream_pass();
    slot_->let_go();
  }
  bool is_over() const override { return slot_->slot().is_over(); }
  std::byte* input() const override { return nullptr; }
  std::byte* output() const override { return nullptr; }
  Status enter() override;
  Status leave() override;

 private:
  void let_stream_pass() {
    slot_->words().done.store(slot_->slot().use, std::memory_order_release);
  }
  Status write(std::atomic<uint64_t>& word, bool behind_begin) const;

  const std::unique_ptr<BounceSlot> slot_;
  const StreamInContext where_;
  PutCall put_;
};

class CapturedNetworkCrossing final : public exec::NetworkCrossing,
                                      public std::enable_shared_from_this<CapturedNetworkCrossing> {
 public:
  CapturedNetworkCrossing(std::unique_ptr<BounceSlot> slot, StreamInContext where,
                          std::function<void()> arrived)
      : slot_(std::move(slot)), where_(where), arrived_(std::move(arrived)) {
    slot_->words().done.store(0, std::memory_order_release);
  }

  void set(PutCall put) { put_ = std::move(put); }
  std::byte* memory() const override { return slot_->memory(); }
  exec::PinnedRange pinned() const override { return slot_->pinned(); }
  void keep(std::shared_ptr<const void> kept) override { slot_->keep(std::move(kept)); }
  // The stream waits for the host's end anyway.
  void begin(std::shared_ptr<const std::atomic<bool>> left) override {
    slot_->set_quiet(std::move(left));
  }
  void end() override { slot_->set_quiet({}); }
  std::shared_ptr<exec::Fence> fence() override;
  void skip() override;
  std::byte* input() const override { return nullptr; }
  std::byte* output() const override { return nullptr; }
  Status enter() override;
  Status leave() override;

 private:
  void begin_run();

  const std::unique_ptr<BounceSlot> slot_;
  const StreamInContext where_;
  const std::function<void()> arrived_;
  PutCall put_;
};

}  // namespace tutti::engines::cuda
