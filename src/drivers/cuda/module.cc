#include "src/drivers/cuda/module.h"

#include <algorithm>
#include <string>

#include "src/drivers/cuda/context.h"

namespace tutti::drivers::cuda {
namespace {

/// Whether the driver says of the image that it will never run here. Any other error may be one of
/// the moment: no memory, a stream that is captured.
bool refuses_image(CUresult result) {
  constexpr CUresult kOfImages[] = {
      kErrorInvalidImage,        kErrorNoBinaryForGpu,        kErrorInvalidPtx,
      kErrorJitCompilerNotFound, kErrorUnsupportedPtxVersion, kErrorJitCompilationDisabled};
  return std::find(std::begin(kOfImages), std::end(kOfImages), result) != std::end(kOfImages);
}

}  // namespace

Result<CudaModule> CudaModule::load(const Cuda& cuda, const void* image) {
  const UncapturedScope uncaptured(cuda);
  CUmodule module = nullptr;
  const CUresult result = cuda.call.cuModuleLoadData(&module, image);
  if (result == kSuccess) return CudaModule(cuda, module);
  const Status error = cuda.error_status(result, "cuModuleLoadData");
  return refuses_image(result) ? Status::unsupported(std::string(error.message())) : error;
}

CudaModule::~CudaModule() {
  if (module_ == nullptr) return;
  const UncapturedScope uncaptured(*cuda_);
  (void)cuda_->call.cuModuleUnload(module_);
}

Result<CUfunction> CudaModule::function(const char* name) const {
  const UncapturedScope uncaptured(*cuda_);
  CUfunction function = nullptr;
  const CUresult result = cuda_->call.cuModuleGetFunction(&function, module_, name);
  if (result == kSuccess) return function;
  const Status error =
      cuda_->error_status(result, "cuModuleGetFunction(" + std::string(name) + ")");
  const bool is_missing = result == kErrorNotFound || refuses_image(result);
  return is_missing ? Status::unsupported(std::string(error.message())) : error;
}

Result<int> CudaModule::blocks_at_once(CUfunction function, uint32_t threads) const {
  int blocks = 0;
  Status asked = cuda_->check(cuda_->call.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                                  &blocks, function, static_cast<int>(threads), 0),
                              "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  if (!asked.ok()) return asked;
  return blocks;
}

Status CudaModule::launch(CUfunction function, uint32_t blocks, uint32_t threads, CUstream stream,
                          const void* parameter) const {
  void* parameters[] = {const_cast<void*>(parameter)};
  return cuda_->check(cuda_->call.cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream,
                                                 parameters, nullptr),
                      "cuLaunchKernel");
}

}  // namespace tutti::drivers::cuda
