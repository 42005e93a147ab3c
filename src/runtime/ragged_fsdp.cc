#include "tutti/runtime/ragged_fsdp.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"

namespace tutti::runtime {
namespace {

/// The first place from `position` on where the tensor may begin, for shares of this size.
/// An earlier end of one tensor never hurts the next, so taking it for each decides feasibility.
std::optional<int64_t> first_place(const BucketTensor& tensor, int64_t share, int64_t position) {
  const bool aligned = share % tensor.block == 0;
  // Nothing of what follows depends on which share it is, but for the distance to its end; from the
  // third share on the answers repeat.
  for (int tries = 0; tries < 3; ++tries) {
    const int64_t boundary = (position / share + 1) * share;
    if (position + tensor.elements <= boundary) return position;
    const int64_t begin = boundary - (boundary - position) / tensor.block * tensor.block;
    if (begin < boundary && (aligned || begin + tensor.elements <= boundary + share)) return begin;
    position = boundary;
  }
  return std::nullopt;
}

std::optional<std::vector<int64_t>> offsets_for(std::span<const BucketTensor> tensors, int ranks,
                                                int64_t share) {
  std::vector<int64_t> offsets;
  int64_t position = 0;
  for (const BucketTensor& tensor : tensors) {
    const std::optional<int64_t> place = first_place(tensor, share, position);
    if (!place || *place + tensor.elements > share * ranks) return std::nullopt;
    offsets.push_back(*place);
    position = *place + tensor.elements;
  }
  return offsets;
}

/// The next share to try from this one on: a multiple of the alignment and, as long as tensors hold
/// a whole share, of their blocks.
int64_t next_share(std::span<const BucketTensor> tensors, int64_t share, int64_t align) {
  for (;;) {
    int64_t stride = align, until = std::numeric_limits<int64_t>::max();
    for (const BucketTensor& tensor : tensors) {
      if (tensor.elements <= 2 * share) continue;
      const int64_t factor = tensor.block / std::gcd(stride, tensor.block);
      if (__builtin_mul_overflow(stride, factor, &stride)) stride = until;
      until = std::min(until, (tensor.elements + 1) / 2);  // from there on it need not hold one
    }
    const int64_t rest = share % stride;
    if (rest == 0) return share;
    if (stride - rest <= until - share) return share + stride - rest;
    share = until;
  }
}

}  // namespace

int64_t ragged_block(std::span<const int64_t> shape, std::span<const int> ragged_dims,
                     int64_t rows) {
  require(rows >= 1, "the block of ", rows, " rows is not positive");
  require(!ragged_dims.empty() && ragged_dims.size() <= shape.size(), ragged_dims.size(),
          " ragged dimensions of ", shape.size(),
          "; name at least one, and no more than there are");
  for (size_t i = 0; i < ragged_dims.size(); ++i) {
    require(ragged_dims[i] == static_cast<int>(i), "dimension ", ragged_dims[i],
            " is not the next of a prefix; ragged dimensions are 0, 1 ... without a gap");
  }
  int64_t block = rows;
  for (size_t i = ragged_dims.size(); i < shape.size(); ++i) {
    require(shape[i] >= 1, "dimension ", i, " has ", shape[i], " entries");
    block = checked_product(block, shape[i], "the block");
  }
  return block;
}

BucketPlan plan_bucket(std::span<const BucketTensor> tensors, int ranks, int64_t align) {
  require(ranks >= 1, ranks, " ranks; give 1 or more");
  require(align >= 1, "the alignment ", align, " is not positive");
  require(!tensors.empty(), "the bucket has no tensors; give at least one");
  int64_t all = 0;
  for (size_t t = 0; t < tensors.size(); ++t) {
    const BucketTensor& tensor = tensors[t];
    require(tensor.elements >= 1, "tensor ", t, " has ", tensor.elements, " elements");
    require(tensor.block >= 1, "tensor ", t, " has block ", tensor.block, "; give 1 or more");
    require(tensor.elements % tensor.block == 0, "tensor ", t, " has ", tensor.elements,
            " elements, no multiple of its block ", tensor.block, "; pad it or change the block");
    require(tensor.elements <= std::numeric_limits<int64_t>::max() / 8 - all,
            "the bucket's elements are beyond 2^60; make several buckets");
    all += tensor.elements;
  }
  checked_product(all + align, 2 * int64_t{ranks}, "the size of the whole buffer");
  // With one share for everything the bucket fits: the search ends.
  for (int64_t share = (all + ranks - 1) / ranks;; ++share) {
    share = next_share(tensors, share, align);
    if (auto offsets = offsets_for(tensors, ranks, share)) {
      return {ranks, share, std::move(*offsets), {tensors.begin(), tensors.end()}};
    }
  }
}

std::vector<int> choose_roots(std::span<const int64_t> costs, int ranks) {
  require(ranks >= 1, ranks, " ranks; give 1 or more");
  WorkProblem problem;
  problem.bins.resize(at(ranks));
  for (const int64_t cost : costs) {
    problem.items.emplace_back();
    problem.items.back().unit_cost = cost;
  }
  std::vector<int> roots;
  for (const WorkSlice& slice : lpt(problem).slices) roots.push_back(slice.bin);
  return roots;
}

Sharding tensor_sharding(const BucketPlan& plan, int tensor) {
  require(tensor >= 0 && tensor < std::ssize(plan.tensors), "there is no tensor ", tensor, " of ",
          plan.tensors.size());
  const BucketTensor& what = plan.tensors[at(tensor)];
  std::vector<int64_t> counts;
  for (int r = 0; r < plan.ranks; ++r) {
    const int64_t begin = std::max(plan.offsets[at(tensor)], plan.share * r);
    const int64_t end = std::min(plan.offsets[at(tensor)] + what.elements, plan.share * (r + 1));
    counts.push_back(std::max<int64_t>(0, end - begin));
  }
  Sharding sharding = contiguous(counts);
  sharding.block = what.block;
  return sharding;
}

BucketBuffer::BucketBuffer(tuttiComm_t comm, BucketPlan plan, tuttiDataType_t type)
    : comm_(comm), plan_(std::move(plan)), type_(type) {
  require(type == tuttiFloat32 || type == tuttiFloat64, "type ", static_cast<int>(type),
          " is no gradient's; use tuttiFloat32 or tuttiFloat64");
  int ranks = 0;
  expect_success(tuttiCommCount(comm, &ranks), comm, "tuttiCommCount");
  expect_success(tuttiCommUserRank(comm, &rank_), comm, "tuttiCommUserRank");
  require(ranks == plan_.ranks, "the plan is for ", plan_.ranks, " ranks and the communicator has ",
          ranks);
  const size_t bytes = static_cast<size_t>(at_element(plan_.share * ranks) - at_element(0));
  expect_success(tuttiMemAlloc(&memory_, bytes), nullptr, "tuttiMemAlloc");
  const tuttiResult_t result = tuttiCommRegister(comm, memory_, bytes, &registration_);
  if (result != tuttiSuccess) tuttiMemFree(memory_);
  expect_success(result, comm, "tuttiCommRegister");
}

BucketBuffer::~BucketBuffer() {
  tuttiCommDeregister(comm_, registration_);
  tuttiMemFree(memory_);
}

std::byte* BucketBuffer::at_element(int64_t element) const {
  return static_cast<std::byte*>(memory_) + element * (type_ == tuttiFloat32 ? 4 : 8);
}

void* BucketBuffer::tensor(int index) const {
  require(index >= 0 && index < std::ssize(plan_.tensors), "there is no tensor ", index, " of ",
          plan_.tensors.size());
  return at_element(plan_.offsets[at(index)]);
}

void* BucketBuffer::share() const { return at_element(plan_.share * rank_); }

void BucketBuffer::all_gather() {
  const Payload p = gather_payload();
  expect_success(tuttiAllGather(p.send, p.recv, p.count, p.type, comm_, tuttiBlocking()), comm_,
                 "the gather of a bucket");
}

void BucketBuffer::reduce_scatter(bool deterministic) {
  const Payload p = scatter_payload();
  tuttiCall_t call = TUTTI_CALL_INITIALIZER;
  call.collective = tuttiCollReduceScatter;
  call.send = p.send;
  call.recv = p.recv;
  call.count = p.count;
  call.type = p.type;
  call.op = p.op;
  tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
  options.deterministic = deterministic;
  expect_success(tuttiSubmit(&call, comm_, tuttiBlocking(), &options, nullptr), comm_,
                 "the reduce_scatter of a bucket");
}

Payload BucketBuffer::gather_payload() const {
  return {share(), memory_, static_cast<size_t>(plan_.share), type_, tuttiSum};
}

Payload BucketBuffer::scatter_payload() const {
  return {memory_, share(), static_cast<size_t>(plan_.share), type_, tuttiSum};
}

}  // namespace tutti::runtime
