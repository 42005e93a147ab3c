#include "perf/collectives/workload.h"

#include <algorithm>

namespace tutti::perf {

PreparedCase::PreparedCase(const PerfOptions& options, const RankContext& context, const Case& one,
                           bool in_place_form)
    : type(data_type(one.type)), in_place(in_place_form) {
  shape = shape_of(options.collective, one.bytes / type.bytes, context.ranks);
  operation = {options.collective, shape.count,  one.type,     one.op,
               one.root,           context.rank, context.ranks};
}

size_t PreparedCase::size_bytes() const {
  return std::max(shape.send_count, shape.recv_count) * type.bytes;
}

Workload::Workload(const Communicator& communicator, const PerfOptions& options)
    : buffers_(communicator, options.largest_bytes(), options.largest_bytes(), options.registered) {
}

Pattern Workload::pattern(const PreparedCase& one) const {
  return {one.type, one.operation.op, one.operation.ranks, seed_};
}

const std::byte* Workload::send(const PreparedCase& one, size_t iteration) const {
  if (!one.in_place) return buffers_.send(iteration);
  const Operation& operation = one.operation;
  const auto offsets = in_place_offsets(operation.collective, one.shape, operation.rank);
  return buffers_.recv(iteration) + offsets.send * one.type.bytes;
}

std::byte* Workload::recv(const PreparedCase& one, size_t iteration) const {
  if (!one.in_place) return buffers_.recv(iteration);
  const Operation& operation = one.operation;
  const auto offsets = in_place_offsets(operation.collective, one.shape, operation.rank);
  return buffers_.recv(iteration) + offsets.recv * one.type.bytes;
}

void Workload::prepare(const PreparedCase& one) {
  // Either area can hold either buffer, so that one of them can hold an in-place call.
  buffers_.use_sizes(one.size_bytes(), one.size_bytes());
  for (size_t pair = 0; pair < buffers_.pairs(); ++pair) refill(one, pair);
}

void Workload::refill(const PreparedCase& one, size_t iteration) {
  ++seed_;
  const Pattern pattern = this->pattern(one);
  const Operation& operation = one.operation;
  const size_t elements = std::max(one.shape.send_count, one.shape.recv_count);
  pattern.poison(buffers_.recv(iteration), elements);
  if (!one.in_place) pattern.poison(buffers_.send(iteration), elements);
  const bool reads =
      operation.collective != Collective::kBroadcast || operation.rank == operation.root;
  if (!reads) return;
  auto* input = const_cast<std::byte*>(send(one, iteration));
  pattern.fill_input(operation.rank, input, one.shape.send_count);
}

size_t Workload::count_wrong(const PreparedCase& one, size_t iteration) const {
  const Pattern pattern = this->pattern(one);
  const Operation& operation = one.operation;
  const Place place{operation.rank, operation.ranks, operation.root};
  const auto output = expected_blocks(operation.collective, one.shape, place);
  size_t wrong = pattern.count_wrong(output, recv(one, iteration));
  const bool keeps_input = !one.in_place && operation.collective != Collective::kBroadcast;
  if (keeps_input) {
    const Block input[] = {{operation.rank, 0, one.shape.send_count}};
    wrong += pattern.count_wrong(input, send(one, iteration));
  }
  return wrong;
}

}  // namespace tutti::perf
