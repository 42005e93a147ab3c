#include "src/drivers/cuda/context.h"

namespace tutti::drivers::cuda {

ContextScope::ContextScope(const Cuda& cuda, CUcontext context) : cuda_(cuda) {
  CUcontext current = nullptr;
  const bool asked = cuda.call.cuCtxGetCurrent(&current) == kSuccess;
  if (asked && context != nullptr && current == context) return;
  status_ = cuda.check(cuda.call.cuCtxPushCurrent(context), "cuCtxPushCurrent");
  pushed_ = status_.ok();
}

ContextScope::~ContextScope() {
  CUcontext popped = nullptr;
  if (pushed_) cuda_.call.cuCtxPopCurrent(&popped);
}

Result<PrimaryContext> PrimaryContext::retain(const Cuda& cuda, CUdevice device) {
  const UncapturedScope uncaptured(cuda);
  CUcontext context = nullptr;
  const CUresult result = cuda.call.cuDevicePrimaryCtxRetain(&context, device);
  if (result != kSuccess) return cuda.error_status(result, "cuDevicePrimaryCtxRetain");
  return PrimaryContext(cuda, device, context);
}

bool PrimaryContext::is_active(const Cuda& cuda, int number) {
  CUdevice device = 0;
  unsigned flags = 0;
  int active = 0;
  if (cuda.call.cuDeviceGet(&device, number) != kSuccess) return false;
  const CUresult asked = cuda.call.cuDevicePrimaryCtxGetState(device, &flags, &active);
  return asked == kSuccess && active != 0;
}

PrimaryContext::~PrimaryContext() {
  if (context_ != nullptr) cuda_->call.cuDevicePrimaryCtxRelease(device_);
}

}  // namespace tutti::drivers::cuda
