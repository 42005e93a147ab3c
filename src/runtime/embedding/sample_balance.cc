#include "tutti/runtime/sample_balance.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"

namespace tutti::runtime {
namespace {

void check_lengths(std::span<const int64_t> lengths) {
  check_parts(std::ssize(lengths), "samples");
  int64_t all = 0;
  for (size_t s = 0; s < lengths.size(); ++s) {
    require(lengths[s] >= 0, "sample ", s, " has length ", lengths[s], "; give 0 or more");
    all = checked_sum(all, lengths[s], "the length of all samples");
  }
}

void check_exponent(double exponent) {
  require(std::isfinite(exponent) && exponent >= 0 && exponent <= 3, "the exponent is ", exponent,
          "; give 0 to 3");
}

std::vector<double> works_of(std::span<const int64_t> lengths, double exponent) {
  std::vector<double> works;
  for (const int64_t length : lengths) {
    works.push_back(std::pow(static_cast<double>(length), exponent));
  }
  return works;
}

/// Begins of runs of which none has more work than this, with a sample for every rank; empty where
/// they are not enough.
std::vector<size_t> runs_within(std::span<const double> works, double most, size_t ranks) {
  std::vector<size_t> begins;
  double work = 0;
  for (size_t s = 0; s < works.size(); ++s) {
    const size_t left = works.size() - s;
    const bool must = !begins.empty() && ranks - begins.size() == left;  // one for each rank
    if (begins.empty() || must || work + works[s] > most) {
      if (begins.size() == ranks || works[s] > most) return {};
      begins.push_back(s);
      work = 0;
    }
    work += works[s];
  }
  return begins;
}

std::vector<size_t> least_runs(std::span<const double> works, int ranks) {
  double low = *std::max_element(works.begin(), works.end());
  double high = std::accumulate(works.begin(), works.end(), 0.0);
  std::vector<size_t> best = runs_within(works, high, at(ranks));
  for (int round = 0; round < 64; ++round) {
    const double middle = low + (high - low) / 2;
    std::vector<size_t> runs = runs_within(works, middle, at(ranks));
    (runs.empty() ? low : high) = middle;
    if (!runs.empty()) best = std::move(runs);
  }
  return best;
}

/// This rank's samples with a mark before them that says whether it has refused them.
std::vector<int64_t> words_of(std::span<const int64_t> ids, std::span<const int64_t> lengths) {
  std::vector<int64_t> words;
  for (size_t s = 0; s < ids.size(); ++s) {
    words.push_back(ids[s]);
    words.push_back(lengths[s]);
  }
  return words;
}

constexpr int64_t kRefusedSamples = -1;
constexpr size_t kSampleWords = 2;

void expect_distinct(const SampleList& list) {
  std::map<int64_t, size_t> places;
  for (size_t s = 0; s < list.ids.size(); ++s) {
    const auto [found, is_new] = places.emplace(list.ids[s], s);
    if (is_new) continue;
    const size_t other = found->second;
    require(false, "sample ", list.ids[s], " is on rank ", list.rank_of[other], " with length ",
            list.lengths[other], " and on rank ", list.rank_of[s], " with length ", list.lengths[s],
            "; give every sample to one rank");
  }
}

}  // namespace

SampleList gather_samples(tuttiComm_t comm, std::span<const int64_t> ids,
                          std::span<const int64_t> lengths) {
  int ranks = 0, rank = 0;
  expect_success(tuttiCommCount(comm, &ranks), comm, "tuttiCommCount");
  expect_success(tuttiCommUserRank(comm, &rank), comm, "tuttiCommUserRank");
  std::exception_ptr refusal;
  try {
    require(ids.size() == lengths.size(), ids.size(), " ids and ", lengths.size(),
            " lengths; give as many");
    check_lengths(lengths);
  } catch (const Error&) {
    refusal = std::current_exception();  // the others must hear of it before this rank leaves
  }
  const int64_t own = refusal ? kRefusedSamples : std::ssize(ids);
  std::vector<int64_t> numbers(at(ranks));
  expect_success(tuttiAllGather(&own, numbers.data(), 1, tuttiInt64, comm, tuttiBlocking()), comm,
                 "the gather of the numbers of samples");
  if (refusal) std::rethrow_exception(refusal);
  std::vector<size_t> counts;
  SampleList list;
  for (int r = 0; r < ranks; ++r) {
    require(numbers[at(r)] != kRefusedSamples, "the samples of rank ", r,
            " were refused, and its error says why");
    counts.push_back(kSampleWords * at(numbers[at(r)]));
    list.rank_of.insert(list.rank_of.end(), at(numbers[at(r)]), r);
  }
  const std::vector<int64_t> words = words_of(ids, lengths);
  std::vector<int64_t> all(kSampleWords * list.rank_of.size());
  expect_success(tuttiAllGatherV(words.data(), words.size(), all.data(), counts.data(), nullptr,
                                 tuttiInt64, comm, tuttiBlocking()),
                 comm, "the gather of samples");
  for (size_t s = 0; s < list.rank_of.size(); ++s) {
    list.ids.push_back(all[kSampleWords * s]);
    list.lengths.push_back(all[kSampleWords * s + 1]);
  }
  expect_distinct(list);
  return list;
}

SampleDeal deal_as_told(std::span<const int64_t> lengths, std::span<const int> rank_of, int ranks,
                        bool may_be_empty) {
  check_ranks(ranks);
  check_lengths(lengths);
  require(lengths.size() == rank_of.size(), rank_of.size(), " ranks for ", lengths.size(),
          " samples; give every sample one");
  SampleDeal deal{ranks, {rank_of.begin(), rank_of.end()}, {}, {}, 1};
  deal.loads.resize(at(ranks));
  deal.counts.resize(at(ranks));
  for (size_t s = 0; s < lengths.size(); ++s) {
    require(rank_of[s] >= 0 && rank_of[s] < ranks, "sample ", s, " goes to rank ", rank_of[s],
            " of ", ranks);
    deal.loads[at(rank_of[s])] += lengths[s];
    ++deal.counts[at(rank_of[s])];
  }
  for (int r = 0; r < ranks; ++r) {
    require(may_be_empty || deal.counts[at(r)] > 0, "rank ", r,
            " gets no sample, so its loss has no mean; deal otherwise, or weight the losses");
  }
  const int64_t all = std::accumulate(deal.loads.begin(), deal.loads.end(), int64_t{0});
  const int64_t most = *std::max_element(deal.loads.begin(), deal.loads.end());
  if (all > 0) {
    deal.max_over_mean = static_cast<double>(most) * ranks / static_cast<double>(all);
  }
  return deal;
}

SampleDeal deal_equally(std::span<const int64_t> lengths, int ranks) {
  check_ranks(ranks);
  require(!lengths.empty() && std::ssize(lengths) % ranks == 0, lengths.size(),
          " samples cannot be dealt equally to ", ranks, " ranks; give a multiple of them");
  check_lengths(lengths);
  const Sharding zigzag = zigzag_by_weight(std::ssize(lengths), 1, lengths, ranks);
  std::vector<int> rank_of(lengths.size());
  for (const Shard& shard : zigzag.shards) {
    for (int64_t s = shard.begin; s < shard.begin + shard.length; ++s) rank_of[at(s)] = shard.rank;
  }
  return deal_as_told(lengths, rank_of, ranks);
}

SampleDeal deal_by_work(std::span<const int64_t> lengths, double exponent, int ranks) {
  check_ranks(ranks);
  check_exponent(exponent);
  check_lengths(lengths);
  require(std::ssize(lengths) >= ranks, lengths.size(), " samples for ", ranks,
          " ranks: one would get none, and its loss no mean; give a sample for each");
  const std::vector<size_t> begins = least_runs(works_of(lengths, exponent), ranks);
  std::vector<int> rank_of(lengths.size());
  for (size_t r = 0; r < begins.size(); ++r) {
    for (size_t s = begins[r]; s < lengths.size(); ++s) rank_of[s] = static_cast<int>(r);
  }
  return deal_as_told(lengths, rank_of, ranks);
}

std::vector<double> loss_weights(const SampleDeal& deal) {
  const int64_t all = std::accumulate(deal.counts.begin(), deal.counts.end(), int64_t{0});
  require(all > 0, "no rank has a sample, so there are no losses to weight");
  std::vector<double> weights;
  for (const int64_t count : deal.counts) {
    weights.push_back(static_cast<double>(count) * deal.ranks / static_cast<double>(all));
  }
  return weights;
}

double fitted_exponent(std::span<const int64_t> lengths, const SampleDeal& deal,
                       std::span<const double> times) {
  check_lengths(lengths);
  require(lengths.size() == deal.rank_of.size() && std::ssize(times) == deal.ranks, lengths.size(),
          " lengths and ", times.size(), " times for ", deal.rank_of.size(), " samples on ",
          deal.ranks, " ranks");
  double squares = 0;
  for (const double time : times) {
    require(std::isfinite(time) && time > 0, "a rank took ", time, "; give times above 0");
    squares += time * time;
  }
  constexpr int kSteps = 300;
  double best = 0, least = -1;
  for (int step = 0; step <= kSteps; ++step) {
    const double exponent = 3.0 * step / kSteps;
    const std::vector<double> works = works_of(lengths, exponent);
    std::vector<double> sums(at(deal.ranks));
    for (size_t s = 0; s < works.size(); ++s) sums[at(deal.rank_of[s])] += works[s];
    // The rest of the times beside the best multiple of the works.
    double both = 0, own = 0;
    for (size_t r = 0; r < sums.size(); ++r) {
      both += sums[r] * times[r];
      own += sums[r] * sums[r];
    }
    const double rest = own > 0 ? squares - both * (both / own) : squares;
    if (least < 0 || rest < least) {
      least = std::max(rest, 0.0);
      best = exponent;
    }
  }
  return best;
}

Resharding shuffle(const SampleList& samples, const SampleDeal& deal) {
  require(samples.lengths.size() == samples.rank_of.size() &&
              samples.lengths.size() == deal.rank_of.size(),
          "there are ", samples.lengths.size(), " samples, and ", deal.rank_of.size(),
          " are dealt");
  check_lengths(samples.lengths);
  Sharding from, to;
  from.ranks = to.ranks = deal.ranks;
  int64_t begin = 0;
  for (size_t s = 0; s < samples.lengths.size(); ++s) {
    const int64_t length = samples.lengths[s];
    if (length > 0) {
      from.shards.push_back({samples.rank_of[s], begin, length});
      to.shards.push_back({deal.rank_of[s], begin, length});
    }
    begin += length;
  }
  from.size = to.size = begin;
  return reshard(from, to);
}

}  // namespace tutti::runtime
