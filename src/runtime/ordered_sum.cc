#include "tutti/runtime/ordered_sum.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "src/runtime/data_types.h"
#include "src/runtime/index.h"
#include "src/runtime/refuse.h"
#include "src/runtime/tree_place.h"

namespace tutti::runtime {
struct OrderedSum::TreeNode {
  TreePlace place;
  std::vector<std::byte> values;  // accumulators
};

OrderedSum::OrderedSum(int64_t elements, int64_t micro_batches, tuttiDataType_t type)
    : elements_(elements), micro_batches_(micro_batches), type_(type), leaves_(sum_of(type)) {
  require(elements >= 1, elements, " elements; give 1 or more");
  require(micro_batches >= 1 && micro_batches <= kMostParts, micro_batches,
          " micro-batches; give 1 to 2^24");
  checked_product(elements, kMostRanks, "the elements of a sum, for all ranks");
  inner_ = sum_of(type == tuttiFloat64 ? tuttiFloat64 : tuttiFloat32);
}

OrderedSum::~OrderedSum() = default;

void OrderedSum::clear() { nodes_.clear(); }

size_t OrderedSum::wide(int64_t elements) const { return at(elements * inner_->element().value); }

void OrderedSum::add(int64_t number, const void* gradient) {
  require(number >= 0 && number < micro_batches_, "micro-batch ", number, " of ", micro_batches_);
  require(gradient != nullptr, "the gradient of micro-batch ", number, " is null");
  const int64_t least = nodes_.empty() ? 0 : nodes_.back()->place.end(micro_batches_);
  require(number >= least, "micro-batch ", number, " comes behind ", least - 1,
          "; add a rank's micro-batches in ascending order, each once");
  auto node = std::make_unique<TreeNode>();
  node->place = {0, number};
  node->values.resize(wide(elements_));
  leaves_->clear(node->values.data(), elements_);
  leaves_->fold(node->values.data(), gradient, elements_);
  nodes_.push_back(std::move(node));
  join_siblings();
}

void OrderedSum::join_siblings() {
  for (;;) {
    TreeNode& last = *nodes_.back();
    if (last.place.rises(micro_batches_)) continue;
    if (nodes_.size() < 2) return;
    TreeNode& left = *nodes_[nodes_.size() - 2];
    if (!left.place.joins(last.place)) return;
    inner_->fold(left.values.data(), last.values.data(), elements_);
    left.place = {left.place.level + 1, left.place.index / 2};
    nodes_.pop_back();
  }
}

/// The places of all ranks' nodes, rank by rank.
std::vector<int64_t> OrderedSum::share_places(tuttiComm_t comm, int ranks,
                                              std::vector<int64_t>& counts) {
  const int64_t own = std::ssize(nodes_);
  counts.assign(at(ranks), 0);
  expect_success(tuttiAllGather(&own, counts.data(), 1, tuttiInt64, comm, tuttiBlocking()), comm,
                 "the counts of an ordered sum");
  std::vector<int64_t> mine;
  for (const auto& node : nodes_) mine.push_back(node->place.number());
  const std::vector<size_t> sizes(counts.begin(), counts.end());
  size_t all = 0;
  for (const size_t size : sizes) all += size;
  std::vector<int64_t> places(all);
  expect_success(tuttiAllGatherV(mine.data(), mine.size(), places.data(), sizes.data(), nullptr,
                                 tuttiInt64, comm, tuttiBlocking()),
                 comm, "the places of an ordered sum");
  return places;
}

/// All ranks' nodes, of which each rank gets its elements.
void OrderedSum::send_pieces(tuttiComm_t comm, int rank, int ranks, std::span<const int64_t> counts,
                             std::vector<std::byte>& arrived) {
  std::vector<std::byte> packed(wide(elements_) * nodes_.size());
  std::vector<size_t> send_counts, recv_counts;
  size_t place = 0, arriving = 0;
  for (int to = 0; to < ranks; ++to) {
    const int64_t begin = boundary(to, ranks), length = boundary(to + 1, ranks) - begin;
    for (const auto& node : nodes_) {
      std::memcpy(packed.data() + place, node->values.data() + wide(begin), wide(length));
      place += wide(length);
    }
    send_counts.push_back(at(length) * nodes_.size());
    if (to != rank) counters_.sent += Bytes(static_cast<int64_t>(wide(length) * nodes_.size()));
    const int64_t own = boundary(rank + 1, ranks) - boundary(rank, ranks);
    recv_counts.push_back(at(own * counts[at(to)]));
    arriving += recv_counts.back();
  }
  counters_.nodes += std::ssize(nodes_);
  nodes_.clear();
  arrived.resize(wide(static_cast<int64_t>(arriving)));
  const tuttiDataType_t type = type_ == tuttiFloat64 ? tuttiFloat64 : tuttiFloat32;
  expect_success(tuttiAllToAllV(packed.data(), send_counts.data(), nullptr, arrived.data(),
                                recv_counts.data(), nullptr, type, comm, tuttiBlocking()),
                 comm, "the nodes of an ordered sum");
}

/// Does the rest of the tree on this rank's elements; says which piece holds the sum.
size_t OrderedSum::fold(std::span<const int64_t> places, std::byte* pieces, size_t bytes) {
  std::vector<size_t> order(places.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return TreePlace::of(places[a]).begin() < TreePlace::of(places[b]).begin();
  });
  std::vector<std::pair<TreePlace, size_t>> stack;
  int64_t next = 0;
  for (const size_t piece : order) {
    stack.emplace_back(TreePlace::of(places[piece]), piece);
    const int64_t begin = stack.back().first.begin();
    if (begin != next) {
      throw Error(ErrorKind::kRanksDiffer,
                  words("micro-batch ", std::min(begin, next),
                        begin < next ? " was added by two ranks" : " was added by nobody"),
                  tuttiInvalidUsage);
    }
    next = stack.back().first.end(micro_batches_);
    for (;;) {
      if (stack.back().first.rises(micro_batches_)) continue;
      if (stack.size() < 2) break;
      auto& [left, left_piece] = stack[stack.size() - 2];
      if (!left.joins(stack.back().first)) break;
      inner_->fold(pieces + left_piece * bytes, pieces + stack.back().second * bytes,
                   static_cast<int64_t>(bytes) / inner_->element().value);
      left = {left.level + 1, left.index / 2};
      stack.pop_back();
    }
  }
  if (next == micro_batches_) return stack.front().second;
  throw Error(ErrorKind::kRanksDiffer, words("micro-batch ", next, " was added by nobody"),
              tuttiInvalidUsage);
}

void OrderedSum::finish(tuttiComm_t comm, void* sum) {
  require(sum != nullptr, "the sum is null");
  int rank = 0, ranks = 0;
  expect_success(tuttiCommUserRank(comm, &rank), comm, "tuttiCommUserRank");
  expect_success(tuttiCommCount(comm, &ranks), comm, "tuttiCommCount");
  std::vector<int64_t> counts;
  const std::vector<int64_t> places = share_places(comm, ranks, counts);
  std::vector<std::byte> arrived;
  send_pieces(comm, rank, ranks, counts, arrived);
  const int64_t begin = boundary(rank, ranks), own = boundary(rank + 1, ranks) - begin;
  const size_t piece = fold(places, arrived.data(), wide(own));
  auto* place = static_cast<std::byte*>(sum) + at(begin * bytes_of(type_));
  const std::byte* whole = arrived.data() + piece * wide(own);
  if (leaves_->accumulator() == leaves_->element()) {
    std::copy_n(whole, wide(own), place);
  } else {
    leaves_->round(place, whole, own);
  }
  std::vector<size_t> sizes;
  for (int r = 0; r < ranks; ++r) {
    sizes.push_back(at(boundary(r + 1, ranks) - boundary(r, ranks)));
  }
  expect_success(
      tuttiAllGatherV(place, at(own), sum, sizes.data(), nullptr, type_, comm, tuttiBlocking()),
      comm, "the gather of an ordered sum");
}

}  // namespace tutti::runtime
