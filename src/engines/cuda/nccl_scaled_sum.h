// A scaled sum as an operation of NCCL's.
//
// Owns: the operation. Threads: one. Errors: made().
#pragma once

#include <array>

#include "src/drivers/nccl/library.h"
#include "src/types/scalar.h"

namespace tutti::engines::cuda {

/// Contributions are multiplied by the factor, of the type, and added up.
class NcclScaledSum {
 public:
  NcclScaledSum(const drivers::nccl::NcclFunctions& nccl, const types::Scalar& factor,
                drivers::nccl::NcclType type, drivers::nccl::NcclComm comm)
      : nccl_(nccl), comm_(comm), value_(factor.value) {
    void* const scalar =
        factor.memory != nullptr ? const_cast<void*>(factor.memory) : value_.data();
    const int where = factor.memory != nullptr ? drivers::nccl::api::kScalarIsOnDevice
                                               : drivers::nccl::api::kScalarIsOnHost;
    made_ = nccl.ncclRedOpCreatePreMulSum(&op_, scalar, type, where, comm);
  }
  NcclScaledSum(const NcclScaledSum&) = delete;
  NcclScaledSum& operator=(const NcclScaledSum&) = delete;
  ~NcclScaledSum() {
    if (made_ == drivers::nccl::kSuccess) (void)nccl_.ncclRedOpDestroy(op_, comm_);
  }
  drivers::nccl::NcclResult made() const { return made_; }
  drivers::nccl::NcclOp op() const { return op_; }

 private:
  const drivers::nccl::NcclFunctions& nccl_;
  const drivers::nccl::NcclComm comm_;
  std::array<std::byte, 8> value_;
  drivers::nccl::NcclOp op_ = 0;
  drivers::nccl::NcclResult made_;
};

}  // namespace tutti::engines::cuda
