#include "src/engines/cuda/captured_host_staging.h"

#include "src/drivers/cuda/capture.h"
#include "src/drivers/cuda/context.h"
#include "src/engines/cuda/captured_run.h"

namespace tutti::engines::cuda {

CapturedHostStaging::CapturedHostStaging(std::unique_ptr<HostStagingCopies> copies,
                                         StreamInContext where, std::function<void()> arrived)
    : copies_(std::move(copies)), where_(where), arrived_(std::move(arrived)) {
  copies_->words().done.store(0, std::memory_order_release);
}

std::shared_ptr<exec::Fence> CapturedHostStaging::fence() {
  return std::make_shared<CapturedRun<CapturedHostStaging>>(shared_from_this());
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
