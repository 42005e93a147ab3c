#include "src/engines/cuda/captured_host_staging.h"

#include <atomic>

#include "src/drivers/cuda/capture.h"
#include "src/drivers/cuda/context.h"

namespace tutti::engines::cuda {

/// One run of the call. It lets the stream go on once, whoever asks.
class CapturedHostStaging::Run final : public exec::Fence {
 public:
  explicit Run(std::shared_ptr<CapturedHostStaging> of) : of_(std::move(of)) {}
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  ~Run() override { release(); }

  bool is_open() const override { return true; }
  void release() override {
    if (!released_.exchange(true)) of_->skip();
  }
  // The next run's input comes behind it in the stream.
  bool is_over() const override { return true; }

 private:
  const std::shared_ptr<CapturedHostStaging> of_;
  std::atomic<bool> released_{false};
};

CapturedHostStaging::CapturedHostStaging(std::unique_ptr<HostStagingCopies> copies,
                                         StreamInContext where, std::function<void()> arrived)
    : copies_(std::move(copies)), where_(where), arrived_(std::move(arrived)) {
  copies_->words().done.store(0, std::memory_order_release);
}

std::shared_ptr<exec::Fence> CapturedHostStaging::fence() {
  return std::make_shared<Run>(shared_from_this());
}

Status CapturedHostStaging::enter() {
  const drivers::cuda::ContextScope scope(copies_->cuda(), where_.context);
  if (!scope.status().ok()) return scope.status();
  if (Status status = copies_->copy_in(where_.stream); !status.ok()) return status;
  const auto arrive = [](void* data) { static_cast<CapturedHostStaging*>(data)->arrived_(); };
  return drivers::cuda::call_on_host(copies_->cuda(), where_.stream, arrive, this);
}

Status CapturedHostStaging::leave() {
  const drivers::cuda::ContextScope scope(copies_->cuda(), where_.context);
  if (!scope.status().ok()) return scope.status();
  const auto done = reinterpret_cast<drivers::cuda::CUdeviceptr>(&copies_->words().done);
  drivers::cuda::MemoryOps words;
  words.wait_at_least_64(done, 1);
  words.write_64(done, 0);
  if (Status status = words.submit(copies_->cuda(), where_.stream); !status.ok()) return status;
  return copies_->copy_out(where_.stream);
}

}  // namespace tutti::engines::cuda
