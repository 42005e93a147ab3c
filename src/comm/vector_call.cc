#include "src/comm/vector_call.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace tutti::comm {

using schedule::Collective;

void VectorCall::begin(const Request& request, uint64_t deadline_ns) {
  request_ = request;
  deadline_ns_ = deadline_ns;
  stage_ = RoundStage::kBegun;
  in_place_ = is_in_place(request, executor_.state().options().rank);
  longest_ = longest_of(*request.counts);
  sizes_.clear();
}

Result<VectorCall::PlanRun> VectorCall::next() {
  const RoundStage done = std::exchange(stage_, RoundStage::kClosed);
  if (done == RoundStage::kBegun && request_.counts->is_private()) return run_counts();
  if (done == RoundStage::kCounts) {
    if (Status status = read_counts(); !status.ok()) return status;
    if (longest_ == 0) return PlanRun{};
    const Result<bool> forwards = planner_.forwards(request_, longest_, in_place_);
    if (!forwards.ok()) return forwards.status();
    if (forwards.value()) return run_sizes();
  }
  if (done == RoundStage::kSizes) {
    if (Status status = read_sizes(*sizes_round_); !status.ok()) return status;
  }
  return done == RoundStage::kData || done == RoundStage::kClosed ? PlanRun{} : run_data();
}

VectorCall::PlanRun VectorCall::run_of(const Prepared& prepared, const void* send, void* recv,
                                       RoundPurpose purpose) const {
  exec::Call call;
  call.send = send;
  call.recv = recv;
  call.deadline_ns = deadline_ns_;
  call.what = name_of(request_);
  // The rounds are plans of words, so their signatures lack the call's own type.
  const auto mix = [&](uint32_t signature) {
    if (purpose == RoundPurpose::kData) return signature;
    const auto salt = static_cast<uint32_t>(purpose) << 8 | static_cast<uint32_t>(request_.type);
    return ((signature ^ salt) * 0x9e3779b1u) | 1u;
  };
  call.signature = mix(prepared.signature);
  call.far_signature = mix(prepared.far_signature);
  return {&prepared, call, purpose == RoundPurpose::kData};
}

Result<VectorCall::PlanRun> VectorCall::run_counts() {
  const CountView& view = *request_.counts;
  told_.resize(view.ranks);
  heard_.resize(view.ranks);
  for (uint32_t peer = 0; peer < view.ranks; ++peer) {
    told_[peer] = {view.send_counts[peer], view.recv_counts[peer], longest_};
  }
  Request words;
  words.collective = request_.collective;
  words.type = types::DataType::kUint64;
  words.extras = request_.extras;
  words.count = sizeof(Expectation) / sizeof(uint64_t);
  const Result<const Prepared*> prepared = planner_.prepare(words, false, {});
  if (!prepared.ok()) return prepared.status();
  stage_ = RoundStage::kCounts;
  return run_of(*prepared.value(), told_.data(), heard_.data(), RoundPurpose::kCounts);
}

// Both sides of a pair see the same four numbers and say the same.
Status VectorCall::read_counts() {
  const CountView& view = *request_.counts;
  const auto own = static_cast<uint32_t>(executor_.state().options().rank);
  const auto differ = [&](uint32_t source, uint64_t sent, uint32_t target, uint64_t expected) {
    executor_.state().expect(source == own ? target : source);
    executor_.state().fail(Status::invalid_usage(
        std::string(name_of(request_)) + ": rank " + std::to_string(source) + " sends " +
        std::to_string(sent) + " elements to rank " + std::to_string(target) + ", which expects " +
        std::to_string(expected) + " (call " + std::to_string(executor_.state().calls()) + ")"));
    return executor_.state().status();
  };
  for (uint32_t peer = 0; peer < view.ranks; ++peer) {
    const Expectation& theirs = heard_[peer];
    if (theirs.sends != view.recv_counts[peer]) {
      return differ(peer, theirs.sends, own, view.recv_counts[peer]);
    }
    if (theirs.receives != view.send_counts[peer]) {
      return differ(own, view.send_counts[peer], peer, theirs.receives);
    }
    if (theirs.longest > most_in_a_share(request_.type, view.ranks)) {
      return fail(peer, "rank " + std::to_string(peer) + " says that it has a share of " +
                            std::to_string(theirs.longest) +
                            " elements, more than any memory holds");
    }
    longest_ = std::max(longest_, theirs.longest);
  }
  return {};
}

Result<VectorCall::PlanRun> VectorCall::run_sizes() {
  const Result<const Prepared*> prepared = planner_.prepare_sizes(request_, longest_, in_place_);
  if (!prepared.ok()) return prepared.status();
  sizes_round_ = prepared.value();
  delivered_.resize(request_.counts->ranks);
  stage_ = RoundStage::kSizes;
  return run_of(*sizes_round_, request_.counts->send_counts, delivered_.data(),
                RoundPurpose::kSizes);
}

// The schedule's scratch holds the sizes of what will lie there.
Status VectorCall::read_sizes(const Prepared& prepared) {
  const std::byte* scratch = executor_.machine().scratch();
  const size_t blocks = prepared.sizes.size();
  sizes_.resize(blocks);
  for (size_t i = 0; i < blocks; ++i) {
    const uint64_t stride = prepared.plan.scratch_bytes / blocks;
    std::memcpy(&sizes_[i], scratch + i * stride, sizeof sizes_[i]);
    if (sizes_[i] <= longest_) continue;
    // The rank that began it is not known here; it need not be the peer that was waited for last.
    const int own = executor_.state().options().rank;
    return fail(
        static_cast<uint32_t>(own),
        "rank " + std::to_string(own) + " is to forward a share of " + std::to_string(sizes_[i]) +
            " elements, though no rank has named a longer one than " + std::to_string(longest_));
  }
  return {};
}

// A peer has sent numbers that no Tutti sends.
Status VectorCall::fail(uint32_t blamed, const std::string& why) {
  executor_.state().expect(blamed);
  executor_.state().fail(Status::remote_error(std::string(name_of(request_)) + ": " + why +
                                              " (call " +
                                              std::to_string(executor_.state().calls()) + ")"));
  return executor_.state().status();
}

Result<VectorCall::PlanRun> VectorCall::run_data() {
  const Result<const Prepared*> prepared =
      planner_.prepare_vectors(request_, longest_, in_place_, sizes_);
  if (!prepared.ok()) return prepared.status();
  stage_ = RoundStage::kData;
  return run_of(*prepared.value(), request_.send, request_.recv, RoundPurpose::kData);
}

}  // namespace tutti::comm
