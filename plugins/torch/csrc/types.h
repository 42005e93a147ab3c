// The types and operations of PyTorch in those of Tutti.
//
// Errors: c10::TypeError, c10::ValueError and CallError say what to use instead. Threads: no state.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tutti/tutti.h"

namespace tutti_torch {

/// How elements travel where nothing is computed: as themselves, or as bytes.
struct Carried {
  tuttiDataType_t type = tuttiUint8;
  size_t per_element = 1;
};
Carried carried(const at::Tensor& tensor);

/// A reduction that the library computes.
struct Reduction {
  tuttiDataType_t type = tuttiFloat32;
  tuttiRedOp_t op = tuttiSum;
  std::vector<uint8_t> scale;  // of a scaled sum: one element of the type
};
/// Nothing where the library has no such type or operation; fold() computes it then.
std::optional<Reduction> reduction_of(const c10d::ReduceOp& op, at::ScalarType type);

/// Throws for what neither the library nor fold() computes.
void require_reducible(const c10d::ReduceOp& op, at::ScalarType type);
/// The reduction over the first dimension of `parts`, in its order.
at::Tensor fold(const c10d::ReduceOp& op, const at::Tensor& parts);

}  // namespace tutti_torch
