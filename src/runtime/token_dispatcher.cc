#include "tutti/runtime/token_dispatcher.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"

namespace tutti::runtime {

TokenDispatcher::TokenDispatcher(const DispatcherGroups& groups, int experts, int width)
    : groups_(groups), experts_(experts), width_(width), counters_(groups.all, experts) {
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
  require(width >= 1, "a row has ", width, " floats; give 1 or more");
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
  permuted_.resize(at(index_.rows() * width_));
  received_.resize(of_etp_[at(etp_place_)]);
  gathered_.resize(etp_ > 1 ? at(gathered * width_) : 0);
  sorted_.resize(at(gathered * width_));
}

void TokenDispatcher::all_to_all(const float* send, const std::vector<size_t>& send_counts,
                                 float* recv, const std::vector<size_t>& recv_counts) {
  expect_success(tuttiAllToAllV(send, send_counts.data(), nullptr, recv, recv_counts.data(),
                                nullptr, tuttiFloat32, groups_.ep, tuttiBlocking()),
                 groups_.ep, "the exchange of rows in ep");
}

/// The rows in permuted_, which are in the order of the index, come to their experts.
std::span<float> TokenDispatcher::send_permuted() {
  all_to_all(permuted_.data(), to_ep_, received_.data(), from_ep_);
  // A group of one has nothing to gather: what has come is all there is.
  if (etp_ > 1) {
    expect_success(
        tuttiAllGatherV(received_.data(), received_.size(), gathered_.data(), of_etp_.data(),
                        nullptr, tuttiFloat32, groups_.etp, tuttiBlocking()),
        "the gather of rows in etp");
  }
  const std::vector<float>& all = etp_ > 1 ? gathered_ : received_;
  for (const Part& part : parts_) {
    std::copy_n(all.data() + part.gathered * width_, part.rows * width_,
                sorted_.data() + part.sorted * width_);
  }
  return sorted_;
}

/// The rows of the experts come back to permuted_.
void TokenDispatcher::fetch_permuted() {
  std::vector<float>& all = etp_ > 1 ? gathered_ : received_;
  for (const Part& part : parts_) {
    std::copy_n(sorted_.data() + part.sorted * width_, part.rows * width_,
                all.data() + part.gathered * width_);
  }
  if (etp_ > 1) {
    expect_success(tuttiReduceScatterV(gathered_.data(), received_.data(), of_etp_.data(),
                                       tuttiFloat32, tuttiSum, groups_.etp, tuttiBlocking()),
                   "the sum of rows in etp");
  }
  all_to_all(received_.data(), from_ep_, permuted_.data(), to_ep_);
}

std::span<float> TokenDispatcher::dispatch(std::span<const float> x) {
  require(stage_ != Stage::kNew, "prepare() comes before the first dispatch()");
  require(std::ssize(x) == index_.tokens * width_, x.size(), " floats for ", index_.tokens,
          " tokens of ", width_);
  for (int64_t row = 0; row < index_.rows(); ++row) {
    std::copy_n(x.data() + int64_t{index_.token_of_row[at(row)]} * width_, width_,
                permuted_.data() + row * width_);
  }
  stage_ = Stage::kDispatched;
  return send_permuted();
}

void TokenDispatcher::combine(std::span<const float> weights, std::span<float> out) {
  require(stage_ == Stage::kDispatched, "dispatch() comes before each combine()");
  fetch_permuted();
  reduce_rows(index_, permuted_, weights, width_, out);
  stage_ = Stage::kCombined;
}

std::span<float> TokenDispatcher::dispatch_gradients(std::span<const float> out_gradients,
                                                     std::span<const float> weights,
                                                     std::span<float> weight_gradients) {
  require(stage_ == Stage::kCombined, "combine() comes before each dispatch_gradients()");
  require(std::ssize(out_gradients) == index_.tokens * width_ &&
              weights.size() == index_.row_of_slot.size() &&
              weight_gradients.size() == weights.size(),
          out_gradients.size(), " gradients, ", weights.size(), " weights and ",
          weight_gradients.size(), " gradients of weights do not fit ", index_.tokens,
          " tokens of ", width_, " with ", index_.row_of_slot.size(), " slots");
  for (int64_t slot = 0; slot < std::ssize(weights); ++slot) {
    const int64_t row = index_.row_of_slot[at(slot)];
    weight_gradients[at(slot)] = 0;
    if (row < 0) continue;
    const float* gradient = out_gradients.data() + slot / index_.k * width_;
    float* result = permuted_.data() + row * width_;  // of combine(); its gradient takes its place
    for (int w = 0; w < width_; ++w) {
      weight_gradients[at(slot)] += gradient[w] * result[w];
      result[w] = weights[at(slot)] * gradient[w];
    }
  }
  stage_ = Stage::kBackward;
  return send_permuted();
}

void TokenDispatcher::combine_gradients(std::span<float> x_gradients) {
  require(stage_ == Stage::kBackward, "dispatch_gradients() comes before combine_gradients()");
  fetch_permuted();
  const std::vector<float> ones(index_.row_of_slot.size(), 1);
  reduce_rows(index_, permuted_, ones, width_, x_gradients);
  stage_ = Stage::kPrepared;
}

}  // namespace tutti::runtime
