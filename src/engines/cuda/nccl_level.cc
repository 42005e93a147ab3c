#include "src/engines/cuda/nccl_level.h"

#include <cstring>

#include "src/engines/cuda/nccl_scaled_sum.h"
#include "src/types/narrow_float.h"
#include "src/types/types.h"

namespace tutti::engines::cuda {

using drivers::cuda::CUdeviceptr;
using drivers::nccl::kSuccess;
using drivers::nccl::NcclFunctions;
using drivers::nccl::NcclOp;
using drivers::nccl::NcclResult;
using drivers::nccl::NcclType;
using plan::LevelRowKind;
using plan::LevelWhole;

namespace {

void* pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

class NcclLevel {
 public:
  NcclLevel(const NcclFunctions& nccl, const LevelWork& work, const NcclRank& here, NcclOp op,
            void* stream)
      : nccl_(nccl),
        work_(work),
        here_(here),
        stream_(stream),
        element_(types::size_of(work.type)),
        type_(static_cast<NcclType>(work.type)),
        op_(op) {}

  NcclResult put() const {
    if (work_.whole == LevelWhole::kNone) {
      return each(1, [this](size_t row) { return put_row(work_.parts[row]); });
    }
    const auto ranks = static_cast<size_t>(here_.ranks);
    return each(ranks, [this](size_t first) {
      return work_.whole == LevelWhole::kReduceScatter ? reduce_scatter(first) : all_gather(first);
    });
  }

 private:
  template <class Each>
  NcclResult each(size_t rows, const Each& put_one) const {
    NcclResult result = kSuccess;
    for (size_t i = 0; i < work_.parts.size() && result == kSuccess; i += rows) {
      result = put_one(i);
    }
    return result;
  }

  const LevelPart& own(size_t first) const {
    return work_.parts[first + static_cast<size_t>(here_.rank)];
  }

  NcclResult reduce_scatter(size_t first) const {
    return nccl_.ncclReduceScatter(pointer(work_.parts[first].source), pointer(own(first).target),
                                   own(first).count, type_, op_, here_.comm, stream_);
  }

  // The rank's own block lies among the others', where it ends.
  NcclResult all_gather(size_t first) const {
    const LevelPart& begin = work_.parts[first];
    const CUdeviceptr whole = here_.rank == 0 ? begin.source : begin.target;
    return nccl_.ncclAllGather(pointer(own(first).source), pointer(whole),
                               own(first).count * element_,
                               static_cast<NcclType>(types::DataType::kUint8), here_.comm, stream_);
  }

  NcclResult put_row(const LevelPart& row) const {
    const auto bytes_type = static_cast<NcclType>(types::DataType::kUint8);
    void* const source = pointer(row.source);
    void* const target = pointer(row.target);
    const size_t bytes = row.count * element_;
    switch (row.kind) {
      case LevelRowKind::kFold:
        return nccl_.ncclReduce(source, target, row.count, type_, op_, row.root, here_.comm,
                                stream_);
      case LevelRowKind::kFoldForAll:
        return nccl_.ncclAllReduce(source, target, row.count, type_, op_, here_.comm, stream_);
      case LevelRowKind::kSpread: {
        void* const block = row.source != 0 ? source : target;  // in place on the root
        return nccl_.ncclBroadcast(block, block, bytes, bytes_type, row.root, here_.comm, stream_);
      }
      case LevelRowKind::kPair:
        break;
    }
    return row.source != 0
               ? nccl_.ncclSend(source, bytes, bytes_type, row.peer, here_.comm, stream_)
               : nccl_.ncclRecv(target, bytes, bytes_type, row.root, here_.comm, stream_);
  }

  const NcclFunctions& nccl_;
  const LevelWork& work_;
  const NcclRank here_;
  void* const stream_;
  const size_t element_;
  const NcclType type_;
  const NcclOp op_;
};

}  // namespace

namespace {

// A group ends whatever happened within.
NcclResult put_group(const NcclFunctions& functions, const LevelWork& work, const NcclRank& here,
                     NcclOp op, void* stream) {
  NcclResult first = functions.ncclGroupStart();
  if (first != kSuccess) return first;
  first = NcclLevel(functions, work, here, op, stream).put();
  const NcclResult ended = functions.ncclGroupEnd();
  return first == kSuccess ? ended : first;
}

template <class Code>
types::Scalar scalar_of(Code code) {
  types::Scalar scalar;
  std::memcpy(scalar.value.data(), &code, sizeof(code));
  return scalar;
}

/// Floats only: of other types no average is made so.
types::Scalar scalar_of(types::DataType type, double value) {
  const auto single = static_cast<float>(value);
  switch (type) {
    case types::DataType::kFloat64:
      return scalar_of(value);
    case types::DataType::kFloat16:
      return scalar_of(static_cast<uint16_t>(types::encoded(types::kHalfFormat, single)));
    case types::DataType::kBfloat16:
      return scalar_of(static_cast<uint16_t>(types::encoded_bfloat16(single)));
    case types::DataType::kFloat8E4M3:
      return scalar_of(static_cast<uint8_t>(types::encoded(types::kE4M3Format, single)));
    case types::DataType::kFloat8E5M2:
      return scalar_of(static_cast<uint8_t>(types::encoded(types::kE5M2Format, single)));
    default:
      return scalar_of(single);
  }
}

}  // namespace

NcclResult put_level_by_nccl(const NcclFunctions& functions, const LevelWork& work,
                             const NcclRank& here, void* stream) {
  if (work.factor == nullptr && work.scale == 1) {
    return put_group(functions, work, here, static_cast<NcclOp>(work.op), stream);
  }
  const types::Scalar factor =
      work.factor != nullptr ? *work.factor : scalar_of(work.type, work.scale);
  const NcclScaledSum scaled(functions, factor, static_cast<NcclType>(work.type), here.comm);
  if (scaled.made() != kSuccess) return scaled.made();
  return put_group(functions, work, here, scaled.op(), stream);
}

}  // namespace tutti::engines::cuda
