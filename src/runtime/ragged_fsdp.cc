#include "tutti/runtime/ragged_fsdp.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "src/runtime/data_types.h"
#include "src/runtime/epoch.h"
#include "src/runtime/fingerprint.h"
#include "src/runtime/index.h"
#include "src/runtime/refuse.h"
#include "tutti/runtime/exchange.h"

namespace tutti::runtime {
namespace {

/// Places the tensors one behind the other for one size of shares, each as early as possible: an
/// earlier end of one tensor never hurts the next, so this decides whether the size will do.
///
/// Where it will not, next() is a size below which no other will: until then every decision of this
/// placement stays as it was, or only makes a tensor begin later. For that every position is kept
/// as a line `slope * share + constant`.
class BucketPlacement {
 public:
  BucketPlacement(std::span<const BucketTensor> tensors, int ranks, int64_t share)
      : ranks_(ranks), share_(share) {
    ShardLine position{0, 0};
    for (const BucketTensor& tensor : tensors) {
      const std::optional<ShardLine> begin = first_place(tensor, position);
      if (!begin || !holds(ranks, *begin, tensor.elements)) {
        offsets_.clear();
        return;
      }
      offsets_.push_back(value(*begin));
      position = {begin->slope, begin->constant + tensor.elements};
    }
  }

  bool fits() const { return !offsets_.empty(); }
  std::vector<int64_t> take() { return std::move(offsets_); }
  int64_t next() const { return next_; }

 private:
  struct ShardLine {
    int64_t slope = 0, constant = 0;
  };
  int64_t value(const ShardLine& line) const { return line.slope * share_ + line.constant; }
  void changes_at(int64_t share) {
    if (share > share_) next_ = std::min(next_, share);
  }
  static int64_t ceiled(int64_t a, int64_t b) { return a / b + (a % b > 0); }

  /// Whether so many elements from the line on end at the boundary or before. Longer shares move a
  /// boundary further than what lies before it.
  bool holds(int64_t boundary, const ShardLine& from, int64_t elements) {
    if (value(from) + elements <= boundary * share_) return true;
    if (boundary > from.slope) {
      changes_at(ceiled(from.constant + elements, boundary - from.slope));
    }
    return false;
  }

  /// The boundary behind a position, as a number of shares.
  int64_t boundary_of(const ShardLine& position) {
    const int64_t share = value(position) / share_, over = share - position.slope;
    // The position falls into an earlier share where share * size exceeds it.
    if (over > 0) changes_at(position.constant / over + 1);
    if (over < -1) changes_at(ceiled(-position.constant, -over - 1));
    return share + 1;
  }

  /// The first place from `position` on where the tensor may begin.
  std::optional<ShardLine> first_place(const BucketTensor& tensor, ShardLine position) {
    const bool aligned = share_ % tensor.block == 0;
    // Nothing of what follows depends on which share it is, but for the distance to its end; from
    // the third share on the answers repeat.
    for (int tries = 0; tries < 3; ++tries) {
      const int64_t boundary = boundary_of(position);
      if (holds(boundary, position, tensor.elements)) return position;
      const int64_t distance = boundary * share_ - value(position);
      const int64_t blocks = distance / tensor.block;
      if (blocks == 0) holds(boundary, position, tensor.block);
      if (blocks > 0) {
        // So many blocks end at the boundary until one more fits before it.
        const int64_t slope = boundary - position.slope;
        if (tensor.block > 1 && slope > 0) {
          changes_at(ceiled((blocks + 1) * tensor.block + position.constant, slope));
        }
        const ShardLine begin =
            tensor.block == 1 ? position : ShardLine{boundary, -blocks * tensor.block};
        if (holds(boundary + 1, begin, tensor.elements) || aligned) return begin;
        changes_at((share_ / tensor.block + 1) * tensor.block);
      }
      position = {boundary, 0};
    }
    return std::nullopt;
  }

  int ranks_;
  int64_t share_;
  int64_t next_ = std::numeric_limits<int64_t>::max();
  std::vector<int64_t> offsets_;
};

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
  check_ranks(ranks);
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
  checked_product(checked_sum(all, align, "the bucket with its padding"), 2 * (int64_t{ranks} + 4),
                  "the size of the whole buffer");
  // With one share for everything the bucket fits: the search ends.
  const int64_t enough = all + (align - all % align) % align;
  for (int64_t share = (all + ranks - 1) / ranks;;) {
    share += (align - share % align) % align;
    BucketPlacement placement(tensors, ranks, share);
    if (placement.fits()) {
      return {ranks, share, placement.take(), {tensors.begin(), tensors.end()}};
    }
    share = std::min(placement.next(), enough);
  }
}

std::vector<int> choose_roots(std::span<const int64_t> costs, int ranks) {
  check_ranks(ranks);
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

BucketBuffer::BucketBuffer(tuttiComm_t comm, BucketPlan plan, tuttiDataType_t type,
                           tuttiStream_t stream, void* memory)
    : comm_(comm),
      plan_(std::move(plan)),
      type_(type),
      stream_(stream),
      owns_(memory == nullptr),
      memory_(memory) {
  int ranks = 0;
  expect_success(tuttiCommCount(comm, &ranks), "tuttiCommCount");
  expect_success(tuttiCommUserRank(comm, &rank_), "tuttiCommUserRank");
  epoch_ = epoch_of(comm);
  require(ranks == plan_.ranks, "the plan is for ", plan_.ranks, " ranks and the communicator has ",
          ranks);
  const int64_t bytes =
      checked_product(checked_product(plan_.share, ranks, "the elements of a bucket"),
                      bytes_of(type), "the bytes of a bucket");
  Fingerprint print;
  for (const int64_t word : {plan_.share, int64_t{type}}) print.add(word);
  for (const int64_t offset : plan_.offsets) print.add(offset);
  agree(comm, print.value(), "the plan of the bucket");
  if (!owns_) return;
  expect_success(tuttiMemAllocFor(&memory_, at(bytes), stream), "tuttiMemAllocFor");
  const tuttiResult_t result = tuttiCommRegister(comm, memory_, at(bytes), &registration_);
  if (result != tuttiSuccess) tuttiMemFree(memory_);
  expect_success(result, "tuttiCommRegister");
}

BucketBuffer::~BucketBuffer() {
  if (!owns_) return;
  tuttiCommDeregister(comm_, registration_);
  tuttiMemFree(memory_);
}

std::byte* BucketBuffer::at_element(int64_t element) const {
  return static_cast<std::byte*>(memory_) + element * bytes_of(type_);
}

void* BucketBuffer::tensor(int index) const {
  require(index >= 0 && index < std::ssize(plan_.tensors), "there is no tensor ", index, " of ",
          plan_.tensors.size());
  return at_element(plan_.offsets[at(index)]);
}

void* BucketBuffer::share() const { return at_element(plan_.share * rank_); }

void BucketBuffer::all_gather(tuttiStream_t stream) {
  const Payload p = gather_payload();
  expect_success(tuttiAllGather(p.send, p.recv, p.count, p.type, comm_, stream), comm_,
                 "the gather of a bucket");
}

void BucketBuffer::reduce_scatter(bool deterministic, tuttiStream_t stream) {
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
  expect_success(tuttiSubmit(&call, comm_, stream, &options, nullptr), comm_,
                 "the reduce_scatter of a bucket");
}

Payload BucketBuffer::gather_payload() const {
  expect_epoch(comm_, epoch_, "the bucket");
  return {share(), memory_, static_cast<size_t>(plan_.share), type_, tuttiSum};
}

Payload BucketBuffer::scatter_payload() const {
  expect_epoch(comm_, epoch_, "the bucket");
  return {memory_, share(), static_cast<size_t>(plan_.share), type_, tuttiSum};
}

}  // namespace tutti::runtime
