#include "tutti/runtime/coded_gather.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "src/runtime/index.h"
#include "src/runtime/outer/ballot.h"
#include "src/runtime/refuse.h"

namespace tutti::runtime {

class CodedGather::Impl {
 public:
  Impl(tuttiComm_t comm, const std::string& codec, int64_t count, Normalise normalise)
      : comm_(comm), count_(count), normalise_(normalise) {
    require(count >= 1, count, " values; give 1 or more");
    GatherMember own{};
    own.count = count;
    const tuttiResult_t parsed = tuttiCodecParse(codec.c_str(), &own.codec);
    require(parsed == tuttiSuccess, std::string_view(tuttiGetLastError(nullptr)));
    int ranks = 0;
    expect_success(tuttiCommCount(comm, &ranks), comm, "tuttiCommCount");
    expect_success(tuttiCommUserRank(comm, &rank_), comm, "tuttiCommUserRank");
    members_.resize(at(ranks));
    expect_success(
        tuttiAllGather(&own, members_.data(), sizeof own, tuttiUint8, comm, tuttiBlocking()), comm,
        "the exchange of codecs");
    size_t whole = 0;
    for (int r = 0; r < ranks; ++r) whole += add_member(r);
    is_sum_ = is_sum_ && normalise == Normalise::kWorld;
    all_.resize(is_sum_ ? bytes_[at(rank_)] : whole);
    if (is_sum_) sums_.resize(at(count));
  }

  ~Impl() { wait(); }

  void begin(const GatherVote& vote, std::span<const float> values,
             const tuttiCodecFeedback_t* feedback) {
    require(!is_pending_, "an exchange is under way; finish it before the next one begins");
    require(std::ssize(values) == count_, values.size(), " values where there are ", count_);
    before_.clear();
    if (feedback != nullptr) keep(*feedback);
    const bool can_be_sent = encode(values, feedback);
    GatherVote own = vote;
    own.commit = vote.commit && can_be_sent;
    is_pending_ = true;
    ballot_.begin(comm_, stream_, own);
    request_ = submit_behind(is_sum_ ? sum_call() : gather_call(), comm_, stream_);
  }

  GatherOutcome finish(std::span<float> mean) {
    require(is_pending_, "no exchange is under way; begin one");
    require(std::ssize(mean) == count_, mean.size(), " values where there are ", count_);
    const auto [voted, moved] = wait();
    const GatherOutcome outcome = settle(voted, moved);
    if (!outcome.commit) return outcome;
    if (is_sum_) {
      const auto world = static_cast<float>(members_.size());
      for (size_t i = 0; i < mean.size(); ++i) mean[i] = sums_[i] / world;
    } else {
      add_all(mean);
    }
    return outcome;
  }

  void drop() {
    if (!is_pending_) return;
    wait();
    give_back();
  }

  bool is_pending() const { return is_pending_; }

  int64_t bytes_of_exchange() const {
    const auto others = static_cast<int64_t>(members_.size()) - 1;
    if (is_sum_) return 2 * others * count_ * 4 / (others + 1);
    return others * static_cast<int64_t>(bytes_[at(rank_)]);
  }

 private:
  struct GatherMember {
    tuttiCodec_t codec;
    int64_t count;
  };

  size_t add_member(int r) {
    const GatherMember& member = members_[at(r)];
    if (member.count != count_) {
      throw Error(ErrorKind::kRanksDiffer,
                  words("rank ", r, " has ", member.count, " values and rank ", rank_, " has ",
                        count_, "; give all ranks the same model"),
                  tuttiInvalidUsage);
    }
    size_t bytes = 0;
    expect_success(tuttiCodecBytes(&member.codec, at(count_), &bytes), nullptr, "tuttiCodecBytes");
    bytes_.push_back(bytes);
    is_sum_ = is_sum_ && std::strcmp(member.codec.name, "none") == 0;
    return bytes;
  }

  std::byte* bytes_from(int rank) {
    size_t before = 0;
    for (int r = 0; r < rank && !is_sum_; ++r) before += bytes_[at(r)];
    return all_.data() + before;
  }

  /// This rank's bytes, at their place among all; false if its codec cannot carry a value.
  bool encode(std::span<const float> values, const tuttiCodecFeedback_t* feedback) {
    std::byte* const own = bytes_from(rank_);
    const tuttiCodec_t& codec = members_[at(rank_)].codec;
    const auto is_finite = [](float x) { return x - x == 0; };
    if (!std::all_of(values.begin(), values.end(), is_finite)) {
      std::memset(own, 0, bytes_[at(rank_)]);
      return false;
    }
    const tuttiResult_t result =
        feedback != nullptr
            ? tuttiCodecEncodeFeedback(&codec, values.data(), at(count_), feedback, own)
            : tuttiCodecEncode(&codec, values.data(), at(count_), own, TUTTI_CODEC_REFUSE);
    if (result == tuttiSuccess) return true;
    // Only values may be refused so; everything else is the caller's mistake.
    const std::string_view why = tuttiGetLastError(nullptr);
    require(why.find("cannot carry") != std::string_view::npos, why);
    std::memset(own, 0, bytes_[at(rank_)]);
    return false;
  }

  tuttiCall_t sum_call() {
    tuttiCall_t call = TUTTI_CALL_INITIALIZER;
    call.collective = tuttiCollAllReduce;
    call.send = all_.data();
    call.recv = sums_.data();
    call.count = sums_.size();
    call.type = tuttiFloat32;
    return call;
  }

  tuttiCall_t gather_call() {
    tuttiCall_t call = TUTTI_CALL_INITIALIZER;
    call.collective = tuttiCollAllGatherV;
    call.send = bytes_from(rank_);
    call.recv = all_.data();
    call.count = bytes_[at(rank_)];
    call.recv_counts = bytes_.data();
    call.type = tuttiUint8;
    return call;
  }

  std::pair<tuttiResult_t, tuttiResult_t> wait() {
    const tuttiResult_t voted = ballot_.wait(), moved = wait_for(request_);
    is_pending_ = false;
    return {voted, moved};
  }

  GatherOutcome settle(tuttiResult_t voted, tuttiResult_t moved) {
    GatherOutcome outcome{false, ""};
    try {
      expect_success(voted, comm_, "the exchange of votes");
      expect_success(moved, comm_, "the exchange of encoded values");
      outcome = ballot_.outcome();
    } catch (const Error&) {
      give_back();
      throw;
    }
    if (!outcome.commit) give_back();
    return outcome;
  }

  void keep(const tuttiCodecFeedback_t& feedback) {
    require(feedback.error != nullptr && feedback.count == at(count_), "errors of ", feedback.count,
            " values where there are ", count_);
    error_ = feedback.error;
    before_.assign(error_, error_ + count_);
  }
  void give_back() { std::copy(before_.begin(), before_.end(), error_); }

  void add_all(std::span<float> mean) {
    std::fill(mean.begin(), mean.end(), 0.0f);
    std::vector<float> sent(normalise_ == Normalise::kContributors ? mean.size() : 0, 0.0f);
    std::vector<float> decoded(sent.size());
    for (int r = 0; r < std::ssize(members_); ++r) {
      const tuttiCodec_t& codec = members_[at(r)].codec;
      tuttiResult_t result = tuttiSuccess;
      if (normalise_ == Normalise::kWorld) {
        result = tuttiCodecDecodeAdd(&codec, bytes_from(r), mean.size(), mean.data());
      } else {
        result = tuttiCodecDecode(&codec, bytes_from(r), mean.size(), decoded.data());
        for (size_t i = 0; i < decoded.size(); ++i) {
          mean[i] += decoded[i];
          sent[i] += decoded[i] != 0;
        }
      }
      expect_success(result, nullptr, words("decoding what rank ", r, " sent"));
    }
    const auto world = static_cast<float>(members_.size());
    for (size_t i = 0; i < mean.size(); ++i) {
      mean[i] /= sent.empty() ? world : std::max(sent[i], 1.0f);
    }
  }

  tuttiComm_t comm_;
  int64_t count_;
  Normalise normalise_;
  int rank_ = 0;
  bool is_sum_ = true;  // by all_reduce: no rank encodes
  std::vector<GatherMember> members_;
  std::vector<size_t> bytes_;   // of each rank
  std::vector<std::byte> all_;  // of all ranks, one behind the other; of a sum, this rank's
  std::vector<float> sums_;
  OuterStream stream_;
  VoteRound ballot_;
  tuttiRequest_t request_ = nullptr;
  bool is_pending_ = false;
  float* error_ = nullptr;     // the caller's state of error feedback, if it has one
  std::vector<float> before_;  // what was in it
};

CodedGather::CodedGather(tuttiComm_t comm, const std::string& codec, int64_t count,
                         Normalise normalise)
    : impl_(std::make_unique<Impl>(comm, codec, count, normalise)) {}
CodedGather::~CodedGather() = default;
void CodedGather::begin(const GatherVote& vote, std::span<const float> values,
                        const tuttiCodecFeedback_t* feedback) {
  impl_->begin(vote, values, feedback);
}
bool CodedGather::is_pending() const { return impl_->is_pending(); }
GatherOutcome CodedGather::finish(std::span<float> mean) { return impl_->finish(mean); }
void CodedGather::drop() { impl_->drop(); }
int64_t CodedGather::bytes_of_exchange() const { return impl_->bytes_of_exchange(); }

}  // namespace tutti::runtime
