#include "tutti/runtime/narrow.h"

#include <initializer_list>

#include "src/runtime/refuse.h"

namespace tutti::runtime {
namespace {

int64_t product(std::initializer_list<int64_t> factors, std::string_view what) {
  int64_t result = 1;
  for (const int64_t factor : factors) {
    require(factor >= 1, "a factor of ", what, " is ", factor, "; give 1 or more");
    result = checked_product(result, factor, what);
  }
  return result;
}

}  // namespace

int64_t narrow_width(int64_t width, int64_t numerator, int64_t denominator, int64_t align) {
  require(width >= 1 && align >= 1, "the width ", width, " or the alignment ", align,
          " is not positive");
  require(numerator >= 1 && denominator >= numerator, numerator, "/", denominator,
          " of a width cannot be; give a fraction above 0 and at most 1");
  const int64_t whole = checked_product(width, numerator, "width * fraction");
  require(whole % denominator == 0 && whole / denominator % align == 0, numerator, "/", denominator,
          " of the width ", width, " is no multiple of ", align, "; change the fraction");
  return whole / denominator;
}

Bytes dispatch_volume(const MoeVolume& moe) {
  const int64_t all = product({8, moe.sequences, moe.length, moe.layers, moe.hidden, moe.k},
                              "the volume of a dispatch");
  require(moe.ranks >= 1, moe.ranks, " ranks of ep; give 1 or more");
  return Bytes(static_cast<int64_t>(static_cast<__int128>(all) * (moe.ranks - 1) / moe.ranks));
}

BlockVolumes block_volumes(const LowRankShape& shape, int64_t tensor_ranks) {
  require(tensor_ranks >= 1 && shape.hidden % tensor_ranks == 0, "the hidden size ", shape.hidden,
          " is not a multiple of ", tensor_ranks, " tensor-parallel ranks");
  require(shape.rank >= 1 && shape.rank <= shape.hidden, "the bottleneck of ", shape.rank,
          " is wider than the hidden size ", shape.hidden, ", or not positive");
  const int64_t token_bytes = product({2, shape.batch, shape.length}, "a block's volume");
  const auto bytes = [&](int64_t width) {
    return Bytes(checked_product(token_bytes, width, "a block's volume"));
  };
  const auto times = [](int64_t count, int64_t width) {
    return checked_product(count, width, "the widths of a block");
  };
  const int64_t low_rank =
      checked_sum(times(5, shape.hidden), times(2, shape.feed_forward), "the widths of a block");
  return {bytes(times(2, shape.hidden)), bytes(low_rank), bytes(times(7, shape.rank))};
}

void all_reduce_together(tuttiComm_t comm, std::span<const SumPart> parts, bool deterministic,
                         tuttiStream_t stream) {
  require(!parts.empty(), "there is nothing to reduce; give at least one part");
  tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
  options.deterministic = deterministic;
  expect_success(tuttiGroupStart(), nullptr, "tuttiGroupStart");
  for (const SumPart& part : parts) {
    tuttiCall_t call = TUTTI_CALL_INITIALIZER;
    call.collective = tuttiCollAllReduce;
    call.send = part.data;
    call.recv = part.data;
    call.count = part.count;
    call.type = part.type;
    const tuttiResult_t result = tuttiSubmit(&call, comm, stream, &options, nullptr);
    if (result != tuttiSuccess) tuttiGroupDiscard();
    expect_success(result, comm, "an all_reduce of a group");
  }
  expect_success(tuttiGroupEnd(), comm, "the group of all_reduces");
}

}  // namespace tutti::runtime
