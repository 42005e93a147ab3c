#include "operations.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "types.h"

namespace tutti_torch {
namespace {

using c10d::ReduceOp;
using Tensors = std::vector<at::Tensor>;

tuttiCall_t call_of(tuttiCollective_t collective) {
  tuttiCall_t call = TUTTI_CALL_INITIALIZER;
  call.collective = collective;
  return call;
}

size_t elements(const at::Tensor& tensor) { return static_cast<size_t>(tensor.numel()); }

/// A call that moves `count` elements of what `like` holds.
tuttiCall_t carrying(tuttiCollective_t collective, const at::Tensor& like, size_t count) {
  const Carried by = carried(like);
  tuttiCall_t call = call_of(collective);
  call.type = by.type;
  call.count = count * by.per_element;
  return call;
}

tuttiCall_t reducing(tuttiCollective_t collective, const Reduction& by, size_t count) {
  tuttiCall_t call = call_of(collective);
  call.type = by.type;
  call.op = by.op;
  call.count = count;
  return call;
}

std::vector<size_t> counts_of(const Tensors& tensors) {
  std::vector<size_t> counts;
  for (const at::Tensor& tensor : tensors) {
    counts.push_back(elements(tensor) * carried(tensor).per_element);
  }
  return counts;
}

bool are_equal(const std::vector<size_t>& counts) {
  return std::adjacent_find(counts.begin(), counts.end(), std::not_equal_to<>()) == counts.end();
}

void check_list(const char* call, Group group, const Tensors& tensors, const at::Tensor& own) {
  TORCH_CHECK_VALUE(tensors.size() == static_cast<size_t>(group.size), call, ": a list of ",
                    tensors.size(), " tensors for ", group.size, " ranks; give one for each rank");
  check_tensors(tensors);
  TORCH_CHECK_TYPE(tensors.front().scalar_type() == own.scalar_type(), call, ": the list holds ",
                   tensors.front().scalar_type(), ", the tensor ", own.scalar_type());
  TORCH_CHECK_VALUE(tensors[group.rank].numel() == own.numel(), call, ": entry ", group.rank,
                    " of the list has ", tensors[group.rank].numel(),
                    " elements, this rank's tensor ", own.numel());
}

void check_pair(const char* call, const at::Tensor& whole, const at::Tensor& part, int size) {
  check_tensors({whole, part});
  TORCH_CHECK_VALUE(whole.numel() == part.numel() * size, call, ": ", whole.numel(),
                    " elements on one side and ", part.numel(), " on the other; for ", size,
                    " ranks the larger must hold ", part.numel() * size);
}

/// A reduction of the parts that each rank gave, computed here where the library cannot.
void add_fold(Operation& made, const ReduceOp& op, const at::Tensor& parts,
              const at::Tensor& output) {
  made.add_fold([op, parts, output = output.detach()] {
    output.copy_(fold(op, parts).view(output.sizes()));
  });
}

at::Tensor parts_for(Operation& made, int size, const at::Tensor& each) {
  return made.keep(at::empty({size, each.numel()}, each.options().requires_grad(false)));
}

void check_root(const char* call, Group group, int64_t root) {
  TORCH_CHECK_VALUE(root >= 0 && root < group.size, call, ": there is no rank ", root, " among ",
                    group.size);
}

}  // namespace

void check_tensors(const Tensors& tensors) {
  TORCH_CHECK_VALUE(!tensors.empty(), "tutti: no tensors were given");
  for (const at::Tensor& tensor : tensors) {
    TORCH_CHECK_VALUE(tensor.defined(), "tutti: a tensor is undefined");
    TORCH_CHECK_VALUE(tensor.layout() == at::kStrided,
                      "tutti: tensors must be dense; convert a "
                      "sparse one by to_dense(), or gather its indices and values");
    TORCH_CHECK_VALUE(tensor.device().is_cpu(), "tutti: tensors must be in host memory, not on ",
                      tensor.device(), "; use backend=\"cpu:tutti,cuda:nccl\" for both");
    TORCH_CHECK_TYPE(tensor.scalar_type() == tensors.front().scalar_type(),
                     "tutti: the tensors of one call have different types: ",
                     tensors.front().scalar_type(), " and ", tensor.scalar_type());
  }
}

Operation broadcast_of(Group group, const at::Tensor& tensor, int root) {
  check_tensors({tensor});
  check_root("broadcast", group, root);
  Operation made;
  const at::Tensor memory = group.rank == root ? made.readable(tensor) : made.writable(tensor);
  tuttiCall_t call = carrying(tuttiCollBroadcast, tensor, elements(tensor));
  call.send = call.recv = memory.data_ptr();
  call.root = root;
  made.add(call);
  return made;
}

Operation all_reduce_of(Group group, const at::Tensor& tensor, const ReduceOp& op) {
  check_tensors({tensor});
  require_reducible(op, tensor.scalar_type());
  Operation made;
  if (auto by = reduction_of(op, tensor.scalar_type())) {
    const at::Tensor memory = made.both(tensor);
    tuttiCall_t call = reducing(tuttiCollAllReduce, *by, elements(tensor));
    call.send = call.recv = memory.data_ptr();
    made.add(call, std::move(by->scale));
    return made;
  }
  const at::Tensor parts = parts_for(made, group.size, tensor);
  tuttiCall_t call = carrying(tuttiCollAllGather, tensor, elements(tensor));
  call.send = made.readable(tensor).data_ptr();
  call.recv = parts.data_ptr();
  made.add(call);
  add_fold(made, op, parts, tensor);
  return made;
}

Operation reduce_of(Group group, const at::Tensor& tensor, const ReduceOp& op, int root) {
  check_tensors({tensor});
  check_root("reduce", group, root);
  require_reducible(op, tensor.scalar_type());
  Operation made;
  const bool is_root = group.rank == root;
  if (auto by = reduction_of(op, tensor.scalar_type())) {
    const at::Tensor memory = is_root ? made.both(tensor) : made.readable(tensor);
    tuttiCall_t call = reducing(tuttiCollReduce, *by, elements(tensor));
    call.send = memory.data_ptr();
    call.recv = is_root ? memory.data_ptr() : nullptr;
    call.root = root;
    made.add(call, std::move(by->scale));
    return made;
  }
  tuttiCall_t call = carrying(tuttiCollGather, tensor, elements(tensor));
  call.send = made.readable(tensor).data_ptr();
  call.root = root;
  if (is_root) {
    const at::Tensor parts = parts_for(made, group.size, tensor);
    call.recv = parts.data_ptr();
    add_fold(made, op, parts, tensor);
  }
  made.add(call);
  return made;
}

Operation all_gather_of(Group group, const Tensors& outputs, const at::Tensor& input) {
  check_tensors({input});
  check_list("all_gather", group, outputs, input);
  Operation made;
  const std::vector<size_t> counts = counts_of(outputs);
  tuttiCall_t call = carrying(tuttiCollAllGather, input, elements(input));
  call.send = made.readable(input).data_ptr();
  call.recv = made.writable(outputs).data_ptr();
  if (!are_equal(counts)) {
    call.collective = tuttiCollAllGatherV;
    call.recv_counts = made.keep(counts);
  }
  made.add(call);
  return made;
}

Operation all_gather_of(Group group, const at::Tensor& output, const at::Tensor& input) {
  check_pair("all_gather_into_tensor", output, input, group.size);
  Operation made;
  tuttiCall_t call = carrying(tuttiCollAllGather, input, elements(input));
  call.send = made.readable(input).data_ptr();
  call.recv = made.writable(output).data_ptr();
  made.add(call);
  return made;
}

namespace {

/// `check` looks at what the root gathers to: a list or one tensor.
template <class Outputs, class Check>
Operation gather_to(Group group, const Outputs& outputs, const at::Tensor& input, int root,
                    const Check& check) {
  check_tensors({input});
  check_root("gather", group, root);
  Operation made;
  tuttiCall_t call = carrying(tuttiCollGather, input, elements(input));
  call.send = made.readable(input).data_ptr();
  call.root = root;
  if (group.rank == root) {
    check();
    call.recv = made.writable(outputs).data_ptr();
  }
  made.add(call);
  return made;
}

}  // namespace

Operation gather_of(Group group, const Tensors& outputs, const at::Tensor& input, int root) {
  return gather_to(group, outputs, input, root, [&] {
    check_list("gather", group, outputs, input);
    TORCH_CHECK_VALUE(are_equal(counts_of(outputs)),
                      "gather: the tensors of the list differ in size; use all_gather for that");
  });
}

Operation gather_of(Group group, const at::Tensor& output, const at::Tensor& input, int root) {
  return gather_to(group, output, input, root,
                   [&] { check_pair("gather", output, input, group.size); });
}

Operation scatter_of(Group group, const at::Tensor& output, const Tensors& inputs, int root) {
  check_tensors({output});
  check_root("scatter", group, root);
  Operation made;
  tuttiCall_t call = carrying(tuttiCollScatter, output, elements(output));
  call.recv = made.writable(output).data_ptr();
  call.root = root;
  if (group.rank == root) {
    check_list("scatter", group, inputs, output);
    TORCH_CHECK_VALUE(are_equal(counts_of(inputs)),
                      "scatter: the tensors of the list differ in size; use all_to_all for that");
    call.send = made.readable(inputs).data_ptr();
  }
  made.add(call);
  return made;
}

namespace {

struct Folded {
  const ReduceOp& op;
  const at::Tensor& output;
};

/// Elements that the library cannot reduce go to the rank of their result and are reduced there.
/// `memory` has the parts for all ranks, `counts` their lengths.
void exchange_and_fold(Operation& made, Group group, const at::Tensor& memory,
                       const std::vector<size_t>& counts, const Folded& folded) {
  const auto& [op, output] = folded;
  const at::Tensor parts = parts_for(made, group.size, output);
  tuttiCall_t call = carrying(tuttiCollAllToAllV, output, 0);
  call.send = memory.data_ptr();
  call.recv = parts.data_ptr();
  call.send_counts = made.keep(counts);
  call.recv_counts = made.keep(std::vector<size_t>(group.size, counts[group.rank]));
  made.add(call);
  add_fold(made, op, parts, output);
}

}  // namespace

Operation reduce_scatter_of(Group group, const at::Tensor& output, const Tensors& inputs,
                            const ReduceOp& op) {
  check_tensors({output});
  check_list("reduce_scatter", group, inputs, output);
  require_reducible(op, output.scalar_type());
  Operation made;
  const at::Tensor memory = made.readable(inputs);
  const std::vector<size_t> counts = counts_of(inputs);
  auto by = reduction_of(op, output.scalar_type());
  if (!by) {
    exchange_and_fold(made, group, memory, counts, {op, output});
    return made;
  }
  tuttiCall_t call = reducing(tuttiCollReduceScatter, *by, elements(output));
  call.send = memory.data_ptr();
  call.recv = made.writable(output).data_ptr();
  if (!are_equal(counts)) {
    call.collective = tuttiCollReduceScatterV;
    call.send_counts = made.keep(counts);
  }
  made.add(call, std::move(by->scale));
  return made;
}

Operation reduce_scatter_of(Group group, const at::Tensor& output, const at::Tensor& input,
                            const ReduceOp& op) {
  check_pair("reduce_scatter_tensor", input, output, group.size);
  require_reducible(op, output.scalar_type());
  Operation made;
  const at::Tensor memory = made.readable(input);
  auto by = reduction_of(op, output.scalar_type());
  if (!by) {
    const size_t count = elements(output) * carried(output).per_element;
    exchange_and_fold(made, group, memory, std::vector<size_t>(group.size, count), {op, output});
    return made;
  }
  tuttiCall_t call = reducing(tuttiCollReduceScatter, *by, elements(output));
  call.send = memory.data_ptr();
  call.recv = made.writable(output).data_ptr();
  made.add(call, std::move(by->scale));
  return made;
}

namespace {

std::vector<size_t> split_counts(const char* side, Group group, const at::Tensor& tensor,
                                 const std::vector<int64_t>& splits) {
  const size_t per_element = carried(tensor).per_element;
  const auto size = static_cast<size_t>(group.size);
  if (splits.empty()) {
    TORCH_CHECK_VALUE(tensor.dim() > 0 && tensor.size(0) % group.size == 0,
                      "all_to_all_single: the first dimension of the ", side,
                      " cannot be divided by ", group.size, "; give split sizes");
    return std::vector<size_t>(size, elements(tensor) / size * per_element);
  }
  TORCH_CHECK_VALUE(splits.size() == size, "all_to_all_single: ", splits.size(),
                    " split sizes of the ", side, " for ", size, " ranks");
  int64_t sum = 0;
  for (const int64_t split : splits) {
    TORCH_CHECK_VALUE(split >= 0, "all_to_all_single: a negative split size of the ", side);
    sum += split;
  }
  TORCH_CHECK_VALUE(tensor.dim() > 0 && sum == tensor.size(0),
                    "all_to_all_single: the split sizes "
                    "of the ",
                    side, " add up to ", sum, ", its first dimension is ",
                    tensor.dim() > 0 ? tensor.size(0) : 0);
  const size_t row = sum == 0 ? 0 : elements(tensor) / static_cast<size_t>(sum);
  std::vector<size_t> counts;
  for (const int64_t split : splits) {
    counts.push_back(static_cast<size_t>(split) * row * per_element);
  }
  return counts;
}

Operation exchange(const at::Tensor& receive, const at::Tensor& send, Operation made,
                   std::vector<size_t> receive_counts, std::vector<size_t> send_counts) {
  tuttiCall_t call = carrying(tuttiCollAllToAllV, send, 0);
  call.send = send.data_ptr();
  call.recv = receive.data_ptr();
  call.send_counts = made.keep(std::move(send_counts));
  call.recv_counts = made.keep(std::move(receive_counts));
  made.add(call);
  return made;
}

}  // namespace

Operation all_to_all_of(Group group, const at::Tensor& output, const at::Tensor& input,
                        const std::vector<int64_t>& output_splits,
                        const std::vector<int64_t>& input_splits) {
  check_tensors({output, input});
  const std::vector<size_t> to = split_counts("output", group, output, output_splits);
  const std::vector<size_t> from = split_counts("input", group, input, input_splits);
  Operation made;
  const at::Tensor send = made.readable(input);
  const at::Tensor receive = made.writable(output);
  // Splits on any rank mean that this rank may have equal ones by chance, so only calls without
  // any are the collective of equal counts.
  if (!output_splits.empty() || !input_splits.empty()) {
    return exchange(receive, send, std::move(made), to, from);
  }
  TORCH_CHECK_VALUE(output.numel() == input.numel(), "all_to_all_single: ", output.numel(),
                    " elements of the output and ", input.numel(), " of the input");
  tuttiCall_t call = carrying(tuttiCollAllToAll, input, elements(input) / group.size);
  call.send = send.data_ptr();
  call.recv = receive.data_ptr();
  made.add(call);
  return made;
}

Operation all_to_all_of(Group group, const Tensors& outputs, const Tensors& inputs) {
  check_tensors(inputs);
  check_list("all_to_all", group, outputs, outputs.at(static_cast<size_t>(group.rank)));
  check_list("all_to_all", group, inputs, inputs.at(static_cast<size_t>(group.rank)));
  TORCH_CHECK_TYPE(outputs.front().scalar_type() == inputs.front().scalar_type(),
                   "all_to_all: the lists have different types");
  Operation made;
  const at::Tensor send = made.readable(inputs);
  const at::Tensor receive = made.writable(outputs);
  return exchange(receive, send, std::move(made), counts_of(outputs), counts_of(inputs));
}

Operation barrier_of() {
  Operation made;
  made.add(call_of(tuttiCollBarrier));
  return made;
}

Operation send_of(const at::Tensor& tensor, int peer) {
  Operation made;
  tuttiCall_t call = carrying(tuttiCollSend, tensor, elements(tensor));
  call.send = made.readable(tensor).data_ptr();
  call.root = peer;
  made.add(call);
  return made;
}

Operation recv_of(const at::Tensor& tensor, int peer) {
  Operation made;
  tuttiCall_t call = carrying(tuttiCollRecv, tensor, elements(tensor));
  call.recv = made.writable(tensor).data_ptr();
  call.root = peer;
  made.add(call);
  return made;
}

}  // namespace tutti_torch
