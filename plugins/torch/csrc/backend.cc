#include "backend.h"

#include <utility>

#include "operations.h"

namespace tutti_torch {
namespace {

/// The one tensor that c10d passes in a list, from the time of several devices in one process.
at::Tensor& single(Tensors& tensors) {
  TORCH_CHECK_VALUE(tensors.size() == 1, "tutti: one tensor was expected, not ", tensors.size());
  return tensors.front();
}

Tensors& single(TensorLists& lists) {
  TORCH_CHECK_VALUE(lists.size() == 1, "tutti: one list of tensors was expected, not ",
                    lists.size());
  return lists.front();
}

void check_as_many(const Tensors& outputs, const Tensors& inputs) {
  TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "tutti: ", outputs.size(), " outputs and ",
                    inputs.size(), " inputs");
}

}  // namespace

WorkPtr ProcessGroupTutti::broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) {
  const at::Tensor& tensor = single(tensors);
  return issue(
      broadcast_of(group_of(*this), tensor, static_cast<int>(opts.rootRank)),
      {c10d::OpType::BROADCAST, "tutti:broadcast", tensors, tensors, opts.timeout, opts.asyncOp});
}

WorkPtr ProcessGroupTutti::allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  const at::Tensor& tensor = single(tensors);
  return issue(
      all_reduce_of(group_of(*this), tensor, opts.reduceOp),
      {c10d::OpType::ALLREDUCE, "tutti:all_reduce", tensors, tensors, opts.timeout, opts.asyncOp});
}

WorkPtr ProcessGroupTutti::allreduce_sparse(Tensors&, const c10d::AllreduceOptions&) {
  TORCH_CHECK_NOT_IMPLEMENTED(false,
                              "tutti has no all_reduce of sparse tensors; gather their "
                              "indices and values by all_gather, or convert to_dense()");
}

WorkPtr ProcessGroupTutti::allreduce_coalesced(Tensors& tensors,
                                               const c10d::AllreduceCoalescedOptions& opts) {
  Operation all;
  for (const at::Tensor& tensor : tensors) {
    all.append(all_reduce_of(group_of(*this), tensor, opts.reduceOp));
  }
  return issue(std::move(all), {c10d::OpType::ALLREDUCE_COALESCED, "tutti:all_reduce_coalesced",
                                tensors, tensors, opts.timeout, opts.asyncOp});
}

WorkPtr ProcessGroupTutti::reduce(Tensors& tensors, const c10d::ReduceOptions& opts) {
  const at::Tensor& tensor = single(tensors);
  return issue(
      reduce_of(group_of(*this), tensor, opts.reduceOp, static_cast<int>(opts.rootRank)),
      {c10d::OpType::REDUCE, "tutti:reduce", tensors, tensors, opts.timeout, opts.asyncOp});
}

WorkPtr ProcessGroupTutti::allgather(TensorLists& outputs, Tensors& inputs,
                                     const c10d::AllgatherOptions& opts) {
  return issue(all_gather_of(group_of(*this), single(outputs), single(inputs)),
               {c10d::OpType::ALLGATHER, "tutti:all_gather", inputs, outputs.front(), opts.timeout,
                opts.asyncOp});
}

WorkPtr ProcessGroupTutti::_allgather_base(at::Tensor& output, at::Tensor& input,
                                           const c10d::AllgatherOptions& opts) {
  return issue(all_gather_of(group_of(*this), output, input), {c10d::OpType::_ALLGATHER_BASE,
                                                               "tutti:all_gather_into_tensor",
                                                               {input},
                                                               {output},
                                                               opts.timeout,
                                                               opts.asyncOp});
}

WorkPtr ProcessGroupTutti::allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                               const c10d::AllgatherOptions& opts) {
  // c10d gives a list for each rank here, with an entry for each input.
  TORCH_CHECK_VALUE(outputs.size() == static_cast<size_t>(getSize()), "tutti: ", outputs.size(),
                    " lists for ", getSize(), " ranks");
  Operation all;
  Tensors written;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Tensors of_input;
    for (const Tensors& list : outputs) {
      check_as_many(list, inputs);
      of_input.push_back(list[i]);
    }
    all.append(all_gather_of(group_of(*this), of_input, inputs[i]));
    written.insert(written.end(), of_input.begin(), of_input.end());
  }
  return issue(std::move(all), {c10d::OpType::ALLGATHER_COALESCED, "tutti:all_gather_coalesced",
                                inputs, std::move(written), opts.timeout, opts.asyncOp});
}

WorkPtr ProcessGroupTutti::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                           const c10d::AllgatherOptions& opts) {
  check_as_many(outputs, inputs);
  Operation all;
  for (size_t i = 0; i < inputs.size(); ++i) {
    all.append(all_gather_of(group_of(*this), outputs[i], inputs[i]));
  }
  return issue(std::move(all), {c10d::OpType::COALESCED, "tutti:all_gather_into_tensor_coalesced",
                                inputs, outputs, opts.timeout, opts.asyncOp});
}

WorkPtr ProcessGroupTutti::gather(TensorLists& outputs, Tensors& inputs,
                                  const c10d::GatherOptions& opts) {
  const bool is_root = getRank() == opts.rootRank;
  TORCH_CHECK_VALUE(is_root || outputs.empty(), "gather: only the root gives a list to gather to");
  const Tensors written = is_root ? single(outputs) : Tensors();
  return issue(gather_of(group_of(*this), written, single(inputs), static_cast<int>(opts.rootRank)),
               {c10d::OpType::GATHER, "tutti:gather", inputs, written, opts.timeout, opts.asyncOp});
}

WorkPtr ProcessGroupTutti::gather_into_tensor(at::Tensor& output, at::Tensor& input,
                                              const c10d::GatherOptions& opts) {
  return issue(gather_of(group_of(*this), output, input, static_cast<int>(opts.rootRank)),
               {c10d::OpType::GATHER,
                "tutti:gather_into_tensor",
                {input},
                {output},
                opts.timeout,
                opts.asyncOp});
}

WorkPtr ProcessGroupTutti::scatter(Tensors& outputs, TensorLists& inputs,
                                   const c10d::ScatterOptions& opts) {
  const bool is_root = getRank() == opts.rootRank;
  TORCH_CHECK_VALUE(is_root || inputs.empty(), "scatter: only the root gives a list to scatter");
  const Tensors read = is_root ? single(inputs) : Tensors();
  return issue(scatter_of(group_of(*this), single(outputs), read, static_cast<int>(opts.rootRank)),
               {c10d::OpType::SCATTER, "tutti:scatter", read, outputs, opts.timeout, opts.asyncOp});
}

WorkPtr ProcessGroupTutti::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                          const c10d::ReduceScatterOptions& opts) {
  return issue(reduce_scatter_of(group_of(*this), single(outputs), single(inputs), opts.reduceOp),
               {c10d::OpType::REDUCE_SCATTER, "tutti:reduce_scatter", inputs.front(), outputs,
                opts.timeout, opts.asyncOp});
}

WorkPtr ProcessGroupTutti::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                const c10d::ReduceScatterOptions& opts) {
  return issue(reduce_scatter_of(group_of(*this), output, input, opts.reduceOp),
               {c10d::OpType::_REDUCE_SCATTER_BASE,
                "tutti:reduce_scatter_tensor",
                {input},
                {output},
                opts.timeout,
                opts.asyncOp});
}

WorkPtr ProcessGroupTutti::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                           const c10d::ReduceScatterOptions& opts) {
  check_as_many(outputs, inputs);
  Operation all;
  for (size_t i = 0; i < inputs.size(); ++i) {
    all.append(reduce_scatter_of(group_of(*this), outputs[i], inputs[i], opts.reduceOp));
  }
  return issue(std::move(all), {c10d::OpType::COALESCED, "tutti:reduce_scatter_tensor_coalesced",
                                inputs, outputs, opts.timeout, opts.asyncOp});
}

WorkPtr ProcessGroupTutti::alltoall_base(at::Tensor& output, at::Tensor& input,
                                         std::vector<int64_t>& output_splits,
                                         std::vector<int64_t>& input_splits,
                                         const c10d::AllToAllOptions& opts) {
  return issue(all_to_all_of(group_of(*this), output, input, output_splits, input_splits),
               {c10d::OpType::ALLTOALL_BASE,
                "tutti:all_to_all_single",
                {input},
                {output},
                opts.timeout,
                opts.asyncOp});
}

WorkPtr ProcessGroupTutti::alltoall(Tensors& outputs, Tensors& inputs,
                                    const c10d::AllToAllOptions& opts) {
  return issue(
      all_to_all_of(group_of(*this), outputs, inputs),
      {c10d::OpType::ALLTOALL, "tutti:all_to_all", inputs, outputs, opts.timeout, opts.asyncOp});
}

WorkPtr ProcessGroupTutti::barrier(const c10d::BarrierOptions& opts) {
  return issue(barrier_of(),
               {c10d::OpType::BARRIER, "tutti:barrier", {}, {}, opts.timeout, opts.asyncOp});
}

void ProcessGroupTutti::check_peer(int peer, int tag, const Tensors& tensors) const {
  TORCH_CHECK_VALUE(tag == 0,
                    "tutti matches messages of two ranks by their order and has no tags; "
                    "leave the tag at 0, or use a process group for each kind of message");
  TORCH_CHECK_VALUE(peer >= 0 && peer < getSize(), "tutti: there is no rank ", peer, " among ",
                    getSize());
  TORCH_CHECK_VALUE(peer != getRank(), "tutti: rank ", peer,
                    " cannot send to itself; copy the tensor");
  check_tensors(tensors);
}

WorkPtr ProcessGroupTutti::send(Tensors& tensors, int destination, int tag) {
  const at::Tensor& tensor = single(tensors);
  check_peer(destination, tag, tensors);
  return issue_on(pair_lane(getRank(), destination), send_of(tensor, 1),
                  {c10d::OpType::SEND, "tutti:send", tensors, tensors, c10d::kUnsetTimeout});
}

WorkPtr ProcessGroupTutti::recv(Tensors& tensors, int source, int tag) {
  const at::Tensor& tensor = single(tensors);
  check_peer(source, tag, tensors);
  return issue_on(
      pair_lane(source, getRank()), recv_of(tensor, 0),
      {c10d::OpType::RECV, "tutti:recv", {}, tensors, c10d::kUnsetTimeout, true, source});
}

WorkPtr ProcessGroupTutti::recvAnysource(Tensors&, int) {
  TORCH_CHECK_NOT_IMPLEMENTED(false,
                              "tutti cannot receive from any source; give the source, or "
                              "let the ranks agree on it by all_gather first");
}

}  // namespace tutti_torch
