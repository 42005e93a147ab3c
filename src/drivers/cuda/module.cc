#include "src/drivers/cuda/module.h"

#include <string>

namespace tutti::drivers::cuda {

Result<CudaModule> CudaModule::load(const Cuda& cuda, const void* image) {
  CUmodule module = nullptr;
  Status status = cuda.check(cuda.call.cuModuleLoadData(&module, image), "cuModuleLoadData");
  if (!status.ok()) return status;
  return CudaModule(cuda, module);
}

CudaModule::~CudaModule() {
  if (module_ != nullptr) (void)cuda_->call.cuModuleUnload(module_);
}

Result<CUfunction> CudaModule::function(const char* name) const {
  CUfunction function = nullptr;
  Status status = cuda_->check(cuda_->call.cuModuleGetFunction(&function, module_, name),
                               "cuModuleGetFunction(" + std::string(name) + ")");
  if (!status.ok()) return status;
  return function;
}

Status CudaModule::launch(CUfunction function, uint32_t blocks, uint32_t threads, CUstream stream,
                          const void* parameter) const {
  void* parameters[] = {const_cast<void*>(parameter)};
  return cuda_->check(cuda_->call.cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream,
                                                 parameters, nullptr),
                      "cuLaunchKernel");
}

}  // namespace tutti::drivers::cuda
