#include "types.h"

#include <c10/util/Exception.h>

#include <cstring>

namespace tutti_torch {
namespace {

using c10d::ReduceOp;

std::optional<tuttiDataType_t> type_of(at::ScalarType type) {
  switch (type) {
    case at::kChar:
      return tuttiInt8;
    case at::kByte:
      return tuttiUint8;
    case at::kShort:
      return tuttiInt16;
    case at::kUInt16:
      return tuttiUint16;
    case at::kBool:
      return tuttiBool;
    case at::kInt:
      return tuttiInt32;
    case at::kUInt32:
      return tuttiUint32;
    case at::kLong:
      return tuttiInt64;
    case at::kUInt64:
      return tuttiUint64;
    case at::kHalf:
      return tuttiFloat16;
    case at::kFloat:
      return tuttiFloat32;
    case at::kDouble:
      return tuttiFloat64;
    case at::kBFloat16:
      return tuttiBfloat16;
    case at::kFloat8_e4m3fn:
      return tuttiFloat8e4m3;
    case at::kFloat8_e5m2:
      return tuttiFloat8e5m2;
    default:
      return std::nullopt;
  }
}

std::optional<tuttiRedOp_t> op_of(ReduceOp::RedOpType op) {
  switch (op) {
    case ReduceOp::SUM:
      return tuttiSum;
    case ReduceOp::AVG:
      return tuttiAvg;
    case ReduceOp::PRODUCT:
      return tuttiProd;
    case ReduceOp::MIN:
      return tuttiMin;
    case ReduceOp::MAX:
      return tuttiMax;
    case ReduceOp::PREMUL_SUM:
      return tuttiSum;
    case ReduceOp::BAND:
      return tuttiBitAnd;
    case ReduceOp::BOR:
      return tuttiBitOr;
    case ReduceOp::BXOR:
      return tuttiBitXor;
    default:
      return std::nullopt;
  }
}

bool is_bitwise(ReduceOp::RedOpType op) {
  return op == ReduceOp::BAND || op == ReduceOp::BOR || op == ReduceOp::BXOR;
}

/// Whether the operation means anything for the type.
bool is_defined(ReduceOp::RedOpType op, at::ScalarType type) {
  if (is_bitwise(op)) return at::isIntegralType(type, true);
  return type != at::kBool || (op != ReduceOp::AVG && op != ReduceOp::PREMUL_SUM);
}

std::vector<uint8_t> scale_of(const ReduceOp& op, at::ScalarType type) {
  const auto* given = dynamic_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
  TORCH_CHECK_VALUE(given != nullptr, "tutti: PREMUL_SUM without its factor");
  const at::Tensor factor =
      (given->tensor_factor.defined() ? given->tensor_factor.to(at::kCPU)
                                      : at::scalar_tensor(given->double_factor, at::kDouble))
          .to(type)
          .contiguous();
  std::vector<uint8_t> bytes(factor.nbytes());
  std::memcpy(bytes.data(), factor.data_ptr(), bytes.size());
  return bytes;
}

at::Tensor sum_of(const at::Tensor& parts) { return at::sum(parts, 0, false, parts.scalar_type()); }

}  // namespace

Carried carried(const at::Tensor& tensor) {
  if (const auto type = type_of(tensor.scalar_type())) return {*type, 1};
  return {tuttiUint8, static_cast<size_t>(tensor.element_size())};
}

std::optional<Reduction> reduction_of(const ReduceOp& op, at::ScalarType type) {
  if (!is_defined(op.op_, type)) return std::nullopt;
  const auto known_type = type_of(type);
  const auto known_op = op_of(op.op_);
  if (!known_type || !known_op) return std::nullopt;
  Reduction reduction{*known_type, *known_op, {}};
  if (op.op_ == ReduceOp::PREMUL_SUM) reduction.scale = scale_of(op, type);
  return reduction;
}

void require_reducible(const ReduceOp& op, at::ScalarType type) {
  if (reduction_of(op, type)) return;
  const auto kind = op.op_;
  TORCH_CHECK_TYPE(type != at::kBool,
                   "tutti: AVG and PREMUL_SUM have no meaning for bool; use SUM, MAX, MIN, "
                   "PRODUCT, BAND, BOR or BXOR");
  TORCH_CHECK_TYPE(kind != ReduceOp::PREMUL_SUM,
                   "tutti: PREMUL_SUM needs a type that the library "
                   "adds itself, not ",
                   type, "; convert the tensor first");
  TORCH_CHECK_TYPE(!is_bitwise(kind), "tutti: BAND, BOR and BXOR are for integers and bool, not ",
                   type);
  const bool ordered = kind == ReduceOp::MIN || kind == ReduceOp::MAX;
  TORCH_CHECK_TYPE(!ordered || !at::isComplexType(type), "tutti: complex numbers have no order");
}

at::Tensor fold(const ReduceOp& op, const at::Tensor& parts) {
  const auto kind = op.op_;
  if (kind == ReduceOp::SUM) return sum_of(parts);
  if (kind == ReduceOp::AVG) {
    const at::Tensor sum = sum_of(parts);
    return at::isIntegralType(sum.scalar_type(), true) ? at::div(sum, parts.size(0), "trunc")
                                                       : at::div(sum, parts.size(0));
  }
  at::Tensor result = parts[0].clone();
  for (int64_t i = 1; i < parts.size(0); ++i) {
    switch (kind) {
      case ReduceOp::PRODUCT:
        result.mul_(parts[i]);
        break;
      case ReduceOp::MIN:
        result = at::minimum(result, parts[i]);
        break;
      case ReduceOp::MAX:
        result = at::maximum(result, parts[i]);
        break;
      default:
        TORCH_CHECK_VALUE(false, "tutti: this reduction is unknown");
    }
  }
  return result;
}

}  // namespace tutti_torch
