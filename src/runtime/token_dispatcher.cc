#include "tutti/runtime/token_dispatcher.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <tuple>

#include "src/runtime/data_types.h"
#include "src/runtime/halves.h"
#include "src/runtime/index.h"
#include "src/runtime/refuse.h"

namespace tutti::runtime {

namespace {

std::span<float> floats(std::span<std::byte> bytes) {
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}

}  // namespace

class TokenDispatcher::Values {
 public:
  explicit Values(tuttiDataType_t type) {
    require(type == tuttiFloat32 || Halves::has(type),
            "rows of experts are added as float32, bfloat16 or float16, not as type ",
            static_cast<int>(type));
    if (Halves::has(type)) halves_.emplace(type);
  }
  void load(const std::byte* row, std::span<float> values) const {
    if (halves_) return halves_->read(row, values);
    std::memcpy(values.data(), row, values.size_bytes());
  }
  void store(std::span<const float> values, std::byte* row) const {
    if (halves_) return halves_->write(values, row);
    std::memcpy(row, values.data(), values.size_bytes());
  }

 private:
  std::optional<Halves> halves_;
};

TokenDispatcher::~TokenDispatcher() = default;

TokenDispatcher::TokenDispatcher(const DispatcherGroups& groups, int experts, int width,
                                 tuttiDataType_t type)
    : groups_(groups),
      experts_(experts),
      width_(width),
      type_(type),
      values_(std::make_unique<Values>(type)),
      counters_(groups.all, experts) {
  int all = 0, rank = 0;
  for (const auto& [comm, count, place] :
       {std::tuple(groups.all, &all, &rank), std::tuple(groups.ep, &ep_, &ep_place_),
        std::tuple(groups.etp, &etp_, &etp_place_)}) {
    expect_success(tuttiCommCount(comm, count), comm, "tuttiCommCount");
    expect_success(tuttiCommUserRank(comm, place), comm, "tuttiCommUserRank");
  }
  require(all == ep_ * etp_, "the groups have ", all, " ranks, ep ", ep_, " and etp ", etp_,
          "; they must multiply");
  require(rank == ep_place_ * etp_ + etp_place_, "rank ", rank, " is at place ", ep_place_,
          " of ep and ", etp_place_, " of etp; put etp before ep in the mesh");
  require(experts % ep_ == 0, experts, " experts are not a multiple of the ", ep_, " ranks of ep");
  require(width >= 1, "a row has ", width, " elements; give 1 or more");
  row_ = width * bytes_of(type);
}

const DispatchIndex& TokenDispatcher::prepare(std::span<const int32_t> topk, int k,
                                              int64_t capacity) {
  index_ = build_index(topk, k, experts_, capacity);
  std::vector<int64_t> own;
  for (int e = 0; e < experts_; ++e) own.push_back(index_.count_of(e));
  const int64_t promised = capacity == kDropless ? std::ssize(topk) : -1;
  const Counts counts = counters_.wait(counters_.post(0, own, promised));
  plan_exchange(counts);
  plan_sorting(counts);
  stage_ = Stage::kPrepared;
  return index_;
}

void TokenDispatcher::plan_exchange(const Counts& counts) {
  const int each = experts_ / ep_;
  const auto rows = [&](int etp, int source, int target) {  // within ep
    const auto own = counts.of(source * etp_ + etp).subspan(at(target) * at(each), at(each));
    return std::accumulate(own.begin(), own.end(), int64_t{0});
  };
  to_ep_.clear();
  from_ep_.clear();
  of_etp_.assign(at(etp_), 0);
  for (int peer = 0; peer < ep_; ++peer) {
    to_ep_.push_back(at(rows(etp_place_, ep_place_, peer) * width_));
    from_ep_.push_back(at(rows(etp_place_, peer, ep_place_) * width_));
    for (int t = 0; t < etp_; ++t) of_etp_[at(t)] += at(rows(t, peer, ep_place_) * width_);
  }
}

/// Gathered rows lie by etp, then source, then expert; experts want them by expert first.
void TokenDispatcher::plan_sorting(const Counts& counts) {
  const int each = experts_ / ep_;
  std::vector<int64_t> of_expert(at(each), 0);
  parts_.clear();
  int64_t gathered = 0;
  for (int t = 0; t < etp_; ++t) {
    for (int s = 0; s < ep_; ++s) {
      for (int e = 0; e < each; ++e) {
        const int64_t rows = counts.of(s * etp_ + t)[at(ep_place_ * each + e)];
        parts_.push_back({gathered, of_expert[at(e)], rows});
        gathered += rows;
        of_expert[at(e)] += rows;
      }
    }
  }
  offsets_.assign(1, 0);
  for (const int64_t rows : of_expert) offsets_.push_back(offsets_.back() + rows);
  for (size_t i = 0; i < parts_.size(); ++i) parts_[i].sorted += offsets_[i % at(each)];
  permuted_.resize(at(index_.rows() * row_));
  received_.resize(of_etp_[at(etp_place_)] * at(bytes_of(type_)));
  gathered_.resize(etp_ > 1 ? at(gathered * row_) : 0);
  sorted_.resize(at(gathered * row_));
}

void TokenDispatcher::all_to_all(const void* send, const std::vector<size_t>& send_counts,
                                 void* recv, const std::vector<size_t>& recv_counts) {
  expect_success(tuttiAllToAllV(send, send_counts.data(), nullptr, recv, recv_counts.data(),
                                nullptr, type_, groups_.ep, tuttiBlocking()),
                 groups_.ep, "the exchange of rows in ep");
}

/// The rows in permuted_, which are in the order of the index, come to their experts.
std::span<std::byte> TokenDispatcher::send_permuted() {
  all_to_all(permuted_.data(), to_ep_, received_.data(), from_ep_);
  // A group of one has nothing to gather: what has come is all there is.
  if (etp_ > 1) {
    expect_success(tuttiAllGatherV(received_.data(), of_etp_[at(etp_place_)], gathered_.data(),
                                   of_etp_.data(), nullptr, type_, groups_.etp, tuttiBlocking()),
                   "the gather of rows in etp");
  }
  const std::vector<std::byte>& all = etp_ > 1 ? gathered_ : received_;
  for (const Part& part : parts_) {
    std::copy_n(all.data() + part.gathered * row_, part.rows * row_,
                sorted_.data() + part.sorted * row_);
  }
  return sorted_;
}

/// The rows of the experts come back to permuted_.
void TokenDispatcher::fetch_permuted() {
  std::vector<std::byte>& all = etp_ > 1 ? gathered_ : received_;
  for (const Part& part : parts_) {
    std::copy_n(sorted_.data() + part.sorted * row_, part.rows * row_,
                all.data() + part.gathered * row_);
  }
  if (etp_ > 1) {
    expect_success(tuttiReduceScatterV(gathered_.data(), received_.data(), of_etp_.data(), type_,
                                       tuttiSum, groups_.etp, tuttiBlocking()),
                   "the sum of rows in etp");
  }
  all_to_all(received_.data(), from_ep_, permuted_.data(), to_ep_);
}

void TokenDispatcher::expect_floats() const {
  require(type_ == tuttiFloat32, "rows are of 16 bits; pass their bytes");
}

void TokenDispatcher::expect_rows(std::span<const std::byte> rows) const {
  require(std::ssize(rows) == index_.tokens * row_, rows.size(), " bytes for ", index_.tokens,
          " tokens of ", width_, " elements, of ", row_, " bytes each");
}

std::span<std::byte> TokenDispatcher::dispatch(std::span<const std::byte> x) {
  require(stage_ != Stage::kNew, "prepare() comes before the first dispatch()");
  expect_rows(x);
  for (int64_t row = 0; row < index_.rows(); ++row) {
    std::copy_n(x.data() + int64_t{index_.token_of_row[at(row)]} * row_, row_, permuted(row));
  }
  stage_ = Stage::kDispatched;
  return send_permuted();
}

/// out[t] = the sum of the rows of t's slots times their weights, in the order of slots.
void TokenDispatcher::reduce(std::span<const float> weights, std::span<std::byte> out) const {
  expect_rows(out);
  require(weights.size() == index_.row_of_slot.size(), weights.size(), " weights for ",
          index_.row_of_slot.size(), " slots");
  std::vector<float> sum(at(width_)), row(at(width_));
  for (int64_t t = 0; t < index_.tokens; ++t) {
    std::fill(sum.begin(), sum.end(), 0.0f);
    for (int64_t slot = t * index_.k; slot < (t + 1) * index_.k; ++slot) {
      if (index_.row_of_slot[at(slot)] < 0) continue;
      values_->load(permuted(index_.row_of_slot[at(slot)]), row);
      for (size_t w = 0; w < row.size(); ++w) sum[w] += weights[at(slot)] * row[w];
    }
    values_->store(sum, out.data() + t * row_);
  }
}

void TokenDispatcher::combine(std::span<const float> weights, std::span<std::byte> out) {
  require(stage_ == Stage::kDispatched, "dispatch() comes before each combine()");
  fetch_permuted();
  reduce(weights, out);
  stage_ = Stage::kCombined;
}

std::span<std::byte> TokenDispatcher::dispatch_gradients(std::span<const std::byte> out_gradients,
                                                         std::span<const float> weights,
                                                         std::span<float> weight_gradients) {
  require(stage_ == Stage::kCombined, "combine() comes before each dispatch_gradients()");
  expect_rows(out_gradients);
  require(weights.size() == index_.row_of_slot.size() && weight_gradients.size() == weights.size(),
          weights.size(), " weights and ", weight_gradients.size(),
          " gradients of weights do not fit ", index_.row_of_slot.size(), " slots");
  std::vector<float> gradient(at(width_)), result(at(width_));
  for (int64_t slot = 0; slot < std::ssize(weights); ++slot) {
    const int64_t row = index_.row_of_slot[at(slot)];
    weight_gradients[at(slot)] = 0;
    if (row < 0) continue;
    values_->load(out_gradients.data() + slot / index_.k * row_, gradient);
    values_->load(permuted(row), result);  // of combine(); its gradient takes its place
    for (size_t w = 0; w < result.size(); ++w) {
      weight_gradients[at(slot)] += gradient[w] * result[w];
      result[w] = weights[at(slot)] * gradient[w];
    }
    values_->store(result, permuted(row));
  }
  stage_ = Stage::kBackward;
  return send_permuted();
}

void TokenDispatcher::combine_gradients(std::span<std::byte> x_gradients) {
  require(stage_ == Stage::kBackward, "dispatch_gradients() comes before combine_gradients()");
  fetch_permuted();
  reduce(std::vector<float>(index_.row_of_slot.size(), 1), x_gradients);
  stage_ = Stage::kPrepared;
}

std::span<float> TokenDispatcher::dispatch(std::span<const float> x) {
  expect_floats();
  return floats(dispatch(std::as_bytes(x)));
}

void TokenDispatcher::combine(std::span<const float> weights, std::span<float> out) {
  expect_floats();
  combine(weights, std::as_writable_bytes(out));
}

std::span<float> TokenDispatcher::dispatch_gradients(std::span<const float> out_gradients,
                                                     std::span<const float> weights,
                                                     std::span<float> weight_gradients) {
  expect_floats();
  return floats(dispatch_gradients(std::as_bytes(out_gradients), weights, weight_gradients));
}

void TokenDispatcher::combine_gradients(std::span<float> x_gradients) {
  expect_floats();
  combine_gradients(std::as_writable_bytes(x_gradients));
}

}  // namespace tutti::runtime
