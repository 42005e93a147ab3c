#include "tutti/runtime/counters.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "src/runtime/epoch.h"
#include "src/runtime/index.h"
#include "src/runtime/refuse.h"

namespace tutti::runtime {

class CounterSync::Impl {
 public:
  Impl(tuttiComm_t comm, int counters) : comm_(comm), counters_(counters) {
    require(counters >= 1, counters, " counters; give 1 or more");
    expect_success(tuttiCommCount(comm, &ranks_), comm, "tuttiCommCount");
    expect_success(tuttiCommUserRank(comm, &rank_), comm, "tuttiCommUserRank");
    epoch_ = epoch_of(comm);
    expect_success(tuttiStreamCreate(&stream_), nullptr, "tuttiStreamCreate");
  }

  ~Impl() {
    for (auto& [number, posted] : open_) tuttiRequestWait(posted.request);
    tuttiStreamDestroy(stream_);
  }

  CounterTicket post(int layer, std::span<const int64_t> counts, int64_t expected_sum) {
    require(std::ssize(counts) == counters_, counts.size(), " counts where there are ", counters_,
            " counters");
    int64_t sum = 0;
    for (const int64_t count : counts) {
      require(count >= 0, "a count is ", count, "; counts are 0 or more");
      sum = checked_sum(sum, count, "the sum of all counts");
    }
    require(expected_sum < 0 || sum == expected_sum, "the counts of layer ", layer, " sum to ", sum,
            " and tokens * k is ", expected_sum, "; count every selection once");
    expect_epoch(comm_, epoch_, "the exchange of counts");
    PostedCounts& posted = open_[next_];
    posted.layer = layer;
    // The layer goes along, so that ranks which posted different ones find out.
    posted.own = {layer};
    posted.own.insert(posted.own.end(), counts.begin(), counts.end());
    posted.all.resize(posted.own.size() * at(ranks_));
    tuttiCall_t call = TUTTI_CALL_INITIALIZER;
    call.collective = tuttiCollAllGather;
    call.send = posted.own.data();
    call.recv = posted.all.data();
    call.count = posted.own.size();
    call.type = tuttiInt64;
    const tuttiResult_t result = tuttiSubmit(&call, comm_, stream_, nullptr, &posted.request);
    if (result != tuttiSuccess) open_.erase(next_);
    expect_success(result, comm_, "the exchange of counts");
    ++exchanges_;
    return {next_++};
  }

  Counts wait(CounterTicket ticket) {
    const auto found = open_.find(ticket.number);
    require(found != open_.end(), "ticket ", ticket.number,
            ticket.number < 0 || ticket.number >= next_ ? " was never given"
                                                        : " was waited for, or its step has ended",
            "; wait once for each post, before end_step()");
    PostedCounts posted = std::move(found->second);
    open_.erase(found);
    expect_success(tuttiRequestWait(posted.request), comm_, "the exchange of counts");
    Counts counts;
    counts.ranks = ranks_;
    counts.sums.assign(at(counters_), 0);
    for (int r = 0; r < ranks_; ++r) {
      const int64_t* theirs = posted.all.data() + at(r) * posted.own.size();
      if (theirs[0] != posted.layer) {
        throw Error(ErrorKind::kRanksDiffer,
                    words("rank ", rank_, " posted counts of layer ", posted.layer, " and rank ", r,
                          " of layer ", theirs[0], "; post layers in one order on all ranks"),
                    tuttiInvalidUsage);
      }
      for (int c = 0; c < counters_; ++c) {
        counts.values.push_back(theirs[1 + c]);
        counts.sums[at(c)] =
            checked_sum(counts.sums[at(c)], theirs[1 + c], "the sum of a count over all ranks");
      }
    }
    std::vector<int64_t>& total = accumulated_[posted.layer];
    total.resize(at(counters_), 0);
    for (int c = 0; c < counters_; ++c) total[at(c)] += counts.sums[at(c)];
    return counts;
  }

  std::span<const int64_t> accumulated(int layer) const {
    const auto found = accumulated_.find(layer);
    require(found != accumulated_.end(), "layer ", layer,
            " has no counts in this step; wait for one of its tickets first");
    return found->second;
  }

  void end_step() {
    // Posted counts are being sent: their exchange must end before their memory is freed.
    tuttiResult_t result = tuttiSuccess;
    for (auto& [number, posted] : open_) {
      const tuttiResult_t own = tuttiRequestWait(posted.request);
      if (result == tuttiSuccess) result = own;
    }
    open_.clear();
    accumulated_.clear();
    expect_success(result, comm_, "the exchange of counts");
  }

  int64_t exchanges() const { return exchanges_; }

 private:
  struct PostedCounts {
    int layer = 0;
    std::vector<int64_t> own, all;
    tuttiRequest_t request = nullptr;
  };

  tuttiComm_t comm_;
  int counters_;
  int ranks_ = 0;
  int rank_ = 0;
  uint32_t epoch_ = 0;
  tuttiStream_t stream_{};
  std::map<int64_t, PostedCounts> open_;
  std::map<int, std::vector<int64_t>> accumulated_;
  int64_t next_ = 0;
  int64_t exchanges_ = 0;
};

CounterSync::CounterSync(tuttiComm_t comm, int counters)
    : impl_(std::make_unique<Impl>(comm, counters)) {}
CounterSync::~CounterSync() = default;
CounterTicket CounterSync::post(int layer, std::span<const int64_t> counts, int64_t expected_sum) {
  return impl_->post(layer, counts, expected_sum);
}
Counts CounterSync::wait(CounterTicket ticket) { return impl_->wait(ticket); }
std::span<const int64_t> CounterSync::accumulated(int layer) const {
  return impl_->accumulated(layer);
}
void CounterSync::end_step() { impl_->end_step(); }
int64_t CounterSync::exchanges() const { return impl_->exchanges(); }

double load_balance_loss(std::span<const int64_t> counts,
                         std::span<const double> mean_probability) {
  require(!counts.empty() && counts.size() == mean_probability.size(), counts.size(),
          " counts and ", mean_probability.size(), " probabilities; give one of each an expert");
  double all = 0;
  for (const int64_t count : counts) {
    require(count >= 0, "a count is ", count, "; counts are 0 or more");
    all += static_cast<double>(count);
  }
  for (const double probability : mean_probability) {
    require(std::isfinite(probability) && probability >= 0, "a mean probability is ", probability,
            "; give finite numbers of 0 or more");
  }
  require(all > 0, "no token was routed on any rank; the loss is 0/0, skip it");
  double sum = 0;
  for (size_t e = 0; e < counts.size(); ++e) {
    sum += static_cast<double>(counts[e]) / all * mean_probability[e];
  }
  return sum * static_cast<double>(counts.size());
}

double load_balance_loss(std::span<const int64_t> counts, std::span<const int64_t> own_counts,
                         std::span<const double> mean_probability, double local) {
  require(std::isfinite(local) && local >= 0, "the part of the local loss is ", local,
          "; give 0 or more, such as 0.01");
  const double global = load_balance_loss(counts, mean_probability);
  if (local == 0) return global;
  return global + local * load_balance_loss(own_counts, mean_probability);
}

}  // namespace tutti::runtime
