#include "perf/collectives/workload.h"

#include <algorithm>

namespace tutti::perf {
namespace {

constexpr size_t kLargestElementBytes = 8;
constexpr size_t kCacheLineBytes = 64;

}  // namespace

PreparedCase::PreparedCase(const PerfOptions& options, const Subgroup& group, const Case& one,
                           bool in_place_form)
    : traffic(options.traffic.of_elements(data_type(one.type).bytes)),
      elements(traffic.settled(one.bytes / data_type(one.type).bytes, group.ranks)),
      shape(shape_of(options.collective, elements, {group.rank, group.ranks, one.root}, traffic)),
      type(data_type(one.type)),
      in_place(in_place_form) {
  if (in_place) offsets = in_place_offsets(options.collective, shape, group.rank);
  operation = {options.collective,
               shape.count,
               one.type,
               one.op,
               one.root,
               group.rank,
               group.ranks,
               shape.send_blocks.data(),
               shape.recv_blocks.data()};
}

size_t PreparedCase::size_bytes() const { return shape.largest_count * type.bytes; }

Workload::Workload(const Communicator& communicator, const PerfOptions& options)
    : unaligned_elements_(options.unaligned_elements),
      buffers_(communicator, options.largest_bytes(), unaligned_elements_ * kLargestElementBytes,
               options.registered) {}

Pattern Workload::pattern(const PreparedCase& one) const {
  return {one.type, one.operation.op, one.operation.ranks, seed_};
}

void Workload::prepare(const PreparedCase& one) {
  // Either area can hold either buffer, so that one of them can hold an in-place call.
  buffers_.use_size(one.size_bytes(), unaligned_elements_ * one.type.bytes);
  for (size_t pair = 0; pair < buffers_.pairs(); ++pair) refill(one, pair);
}

void Workload::refill(const PreparedCase& one, size_t iteration) {
  ++seed_;
  const Pattern pattern = this->pattern(one);
  const Operation& operation = one.operation;
  const size_t elements = std::max(one.shape.send_count, one.shape.recv_count);
  pattern.poison(buffers_.on_host(buffers_.recv(iteration)), elements);
  if (!one.in_place) pattern.poison(buffers_.on_host(buffers_.send(iteration)), elements);
  if (reads_input(operation.collective, one.place())) {
    std::byte* const input = buffers_.on_host(send(one, iteration));
    pattern.fill_input(operation.rank, input, one.shape.send_count);
  }
  buffers_.put(buffers_.recv(iteration), elements * one.type.bytes);
  if (!one.in_place) buffers_.put(buffers_.send(iteration), elements * one.type.bytes);
}

void Workload::renew(const PreparedCase& one, size_t iteration) {
  if (!reads_input(one.operation.collective, one.place())) return;
  std::byte* const input = buffers_.on_host(send(one, iteration));
  const size_t bytes = one.shape.send_count * one.type.bytes;
  // The lowest bit of a little-endian element: of a float the least that can be changed.
  for (size_t at = 0; at < bytes; at += kCacheLineBytes) input[at] ^= std::byte{1};
  buffers_.put(send(one, iteration), bytes);
}

BufferMistakes Workload::check(const PreparedCase& one, size_t iteration) const {
  const Pattern pattern = this->pattern(one);
  const Operation& operation = one.operation;
  BufferMistakes mistakes;
  const auto output = expected_blocks(operation.collective, one.elements, one.place(), one.traffic);
  buffers_.get(recv(one, iteration), one.shape.recv_count * one.type.bytes);
  mistakes.output = pattern.check(output, buffers_.on_host(recv(one, iteration)));
  if (!one.in_place && reads_input(operation.collective, one.place())) {
    const Block input[] = {{operation.rank, 0, one.shape.send_count}};
    buffers_.get(send(one, iteration), one.shape.send_count * one.type.bytes);
    mistakes.input = pattern.check(input, buffers_.on_host(send(one, iteration)));
  }
  return mistakes;
}

void Workload::spoil(const PreparedCase& one, size_t iteration, size_t element) {
  if (element >= one.shape.recv_count) return;
  const std::byte* const spoilt = recv(one, iteration) + element * one.type.bytes;
  buffers_.get(spoilt, 1);
  *buffers_.on_host(spoilt) ^= std::byte{1};
  buffers_.put(spoilt, 1);
}

}  // namespace tutti::perf
