// The collectives of c10d as operations of Tutti, for one rank of a group. Nothing runs here.
//
// Errors: ValueError and TypeError for tensors that do not fit the call. Threads: no state.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <vector>

#include "operation.h"

namespace tutti_torch {

struct Group {
  int rank = 0;
  int size = 1;
};
inline Group group_of(const c10d::Backend& backend) {
  return {backend.getRank(), backend.getSize()};
}

/// Dense tensors in host memory, all of one type, at least one.
void check_tensors(const std::vector<at::Tensor>& tensors);

Operation broadcast_of(Group group, const at::Tensor& tensor, int root);
Operation all_reduce_of(Group group, const at::Tensor& tensor, const c10d::ReduceOp& op);
Operation reduce_of(Group group, const at::Tensor& tensor, const c10d::ReduceOp& op, int root);
/// `outputs`: one tensor for each rank; their sizes may differ from rank to rank.
Operation all_gather_of(Group group, const std::vector<at::Tensor>& outputs,
                        const at::Tensor& input);
Operation all_gather_of(Group group, const at::Tensor& output, const at::Tensor& input);
/// `outputs` are used on the root only.
Operation gather_of(Group group, const std::vector<at::Tensor>& outputs, const at::Tensor& input,
                    int root);
Operation gather_of(Group group, const at::Tensor& output, const at::Tensor& input, int root);
/// `inputs` are used on the root only.
Operation scatter_of(Group group, const at::Tensor& output, const std::vector<at::Tensor>& inputs,
                     int root);
/// `inputs`: one tensor for each rank; their sizes may differ from rank to rank.
Operation reduce_scatter_of(Group group, const at::Tensor& output,
                            const std::vector<at::Tensor>& inputs, const c10d::ReduceOp& op);
Operation reduce_scatter_of(Group group, const at::Tensor& output, const at::Tensor& input,
                            const c10d::ReduceOp& op);
/// Splits count entries of the first dimension; none: equal parts.
Operation all_to_all_of(Group group, const at::Tensor& output, const at::Tensor& input,
                        const std::vector<int64_t>& output_splits,
                        const std::vector<int64_t>& input_splits);
Operation all_to_all_of(Group group, const std::vector<at::Tensor>& outputs,
                        const std::vector<at::Tensor>& inputs);
Operation barrier_of();
/// `peer` is the peer's rank in the communicator of the pair.
Operation send_of(const at::Tensor& tensor, int peer);
Operation recv_of(const at::Tensor& tensor, int peer);

}  // namespace tutti_torch
