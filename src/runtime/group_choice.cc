#include "tutti/runtime/group_choice.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"

namespace tutti::runtime {
namespace {

constexpr size_t kExhaustive = 8;  // sequences, and ranks

void check(const FitCost& cost, int ranks) {
  require(ranks >= 1 && ranks <= 64 && std::has_single_bit(static_cast<unsigned>(ranks)), ranks,
          " ranks; groups of powers of two need a power of two, at most 64");
  for (const double value : {cost.square, cost.linear, cost.constant}) {
    require(std::isfinite(value) && value >= 0, "a fitted cost is ", value, "; give 0 or more");
  }
  require(cost.layers >= 0 && cost.hidden >= 0, "layers or hidden size are negative");
  checked_product(cost.layers, cost.hidden, "layers * hidden size");
  require(cost.tokens_per_rank >= 1, "room for ", cost.tokens_per_rank,
          " tokens a rank; give 1 or more");
  const int needed = std::countr_zero(static_cast<unsigned>(ranks));
  require(std::ssize(cost.bandwidth) >= needed, "bandwidths of ", cost.bandwidth.size(),
          " group sizes; give one each for 2, 4 ... ", ranks, " ranks");
  for (size_t i = 0; i < cost.bandwidth.size(); ++i) {
    require(std::isfinite(cost.bandwidth[i]) && cost.bandwidth[i] > 0 &&
                (i == 0 || cost.bandwidth[i] <= cost.bandwidth[i - 1]),
            "the bandwidth ", cost.bandwidth[i], " of groups of ", 2 << i,
            " ranks must be positive and not above that of smaller groups; sort the table");
  }
}

/// Tokens that a group of this size has room for.
int64_t room_of(const FitCost& cost, int size) {
  constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
  return cost.tokens_per_rank > kNoLimit / size ? kNoLimit : cost.tokens_per_rank * size;
}

/// Groups by descending size, while sequences are placed on them.
class Placing {
 public:
  Placing(std::span<const int64_t> lengths, const FitCost& cost, std::vector<int> sizes)
      : lengths_(lengths),
        cost_(cost),
        sizes_(std::move(sizes)),
        ms_(sizes_.size(), 0),
        tokens_(sizes_.size(), 0),
        group_of_(lengths.size(), -1) {}

  bool fits(size_t group, int sequence) const {
    return lengths_[at(sequence)] <= room_of(cost_, sizes_[group]) - tokens_[group];
  }
  double with(size_t group, int sequence) const {
    const double before = ms_[group] > 0 ? ms_[group] : cost_.constant;
    return before + cost_.sequence_ms(lengths_[at(sequence)], sizes_[group]);
  }
  void place(size_t group, int sequence) {
    ms_[group] = with(group, sequence);
    tokens_[group] += lengths_[at(sequence)];
    group_of_[at(sequence)] = static_cast<int>(group);
  }
  double slowest() const { return *std::max_element(ms_.begin(), ms_.end()); }

  /// False where a sequence fits nowhere any more, or not in less time than `limit`.
  bool place_greedily(std::span<const int> order, double limit) {
    for (const int sequence : order) {
      size_t best = sizes_.size();
      for (size_t g = 0; g < sizes_.size(); ++g) {
        if (!fits(g, sequence)) continue;
        if (best == sizes_.size() || with(g, sequence) < with(best, sequence)) best = g;
      }
      if (best == sizes_.size() || with(best, sequence) >= limit) return false;
      place(best, sequence);
    }
    return true;
  }

  GroupPlan plan() const {
    GroupPlan plan;
    int first = 0;
    for (size_t g = 0; g < sizes_.size(); ++g) {
      SequenceGroup group{RankSet::range(first, sizes_[g]), {}, ms_[g]};
      for (size_t s = 0; s < group_of_.size(); ++s) {
        if (group_of_[s] == static_cast<int>(g)) group.sequences.push_back(static_cast<int>(s));
      }
      plan.groups.push_back(std::move(group));
      first += sizes_[g];
    }
    plan.ms = slowest();
    return plan;
  }

 private:
  std::span<const int64_t> lengths_;
  const FitCost& cost_;
  std::vector<int> sizes_;
  std::vector<double> ms_;
  std::vector<int64_t> tokens_;
  std::vector<int> group_of_;
};

class GroupSearch {
 public:
  GroupSearch(std::span<const int64_t> lengths, int ranks, const FitCost& cost)
      : lengths_(lengths),
        cost_(cost),
        order_(lengths.size()),
        exhaustive_(lengths.size() <= kExhaustive && at(ranks) <= kExhaustive) {
    std::iota(order_.begin(), order_.end(), 0);
    std::stable_sort(order_.begin(), order_.end(),
                     [&](int a, int b) { return lengths[at(a)] > lengths[at(b)]; });
    cut(ranks, ranks);
  }

  bool found() const { return best_.ms < std::numeric_limits<double>::infinity(); }
  GroupPlan take() { return std::move(best_); }

 private:
  /// Every multiset of powers of two that sums to the ranks, largest first.
  void cut(int rest, int largest) {
    if (rest == 0) return try_sizes();
    for (int size = largest; size >= 1; size /= 2) {
      if (size > rest) continue;
      sizes_.push_back(size);
      cut(rest - size, size);
      sizes_.pop_back();
    }
  }

  void try_sizes() {
    Placing placing(lengths_, cost_, sizes_);
    if (exhaustive_) return descend(placing, 0);
    if (placing.place_greedily(order_, best_.ms)) keep(placing);
  }

  void keep(const Placing& placing) {
    if (placing.slowest() < best_.ms) best_ = placing.plan();
  }

  void descend(const Placing& placing, size_t depth) {
    if (placing.slowest() >= best_.ms) return;
    if (depth == order_.size()) return keep(placing);
    for (size_t g = 0; g < sizes_.size(); ++g) {
      if (!placing.fits(g, order_[depth])) continue;
      Placing next = placing;
      next.place(g, order_[depth]);
      descend(next, depth + 1);
    }
  }

  std::span<const int64_t> lengths_;
  const FitCost& cost_;
  std::vector<int> order_;
  bool exhaustive_;
  std::vector<int> sizes_;
  GroupPlan best_{{}, std::numeric_limits<double>::infinity()};
};

/// The tokens of all, each of which fits alone.
int64_t check_lengths(std::span<const int64_t> lengths, int ranks, const FitCost& cost) {
  require(!lengths.empty(), "there are no sequences; give at least one");
  int64_t all = 0;
  for (size_t s = 0; s < lengths.size(); ++s) {
    require(lengths[s] >= 1, "sequence ", s, " has ", lengths[s], " tokens; give 1 or more");
    all = checked_sum(all, lengths[s], "the tokens of all sequences");
    if (lengths[s] > room_of(cost, ranks)) {
      infeasible("sequence ", s, " has ", lengths[s], " tokens and all ", ranks,
                 " ranks together have room for ", room_of(cost, ranks), "; shorten it");
    }
  }
  return all;
}

/// Consecutive sequences, in as few parts as they need if none has more tokens than this.
std::vector<std::vector<int>> parts_within(std::span<const int64_t> lengths,
                                           std::span<const int> order, int64_t most) {
  std::vector<std::vector<int>> parts;
  int64_t room = 0;
  for (const int sequence : order) {
    const int64_t length = lengths[at(sequence)];
    if (length > room || parts.empty()) parts.emplace_back(), room = most;
    parts.back().push_back(sequence);
    room -= length;
  }
  return parts;
}

/// At most `count` parts, whose largest number of tokens is the least that there can be.
std::vector<std::vector<int>> even_parts(std::span<const int64_t> lengths,
                                         std::span<const int> order, int64_t all, size_t count) {
  int64_t low = lengths[at(order.back())], high = all;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    const bool suffices = parts_within(lengths, order, middle).size() <= count;
    (suffices ? high : low) = suffices ? middle : middle + 1;
  }
  return parts_within(lengths, order, low);
}

/// The plan of some sequences of a batch, with their numbers there; none if they do not fit.
std::optional<GroupPlan> plan_part(std::span<const int64_t> lengths, std::span<const int> part,
                                   int ranks, const FitCost& cost) {
  std::vector<int64_t> own;
  for (const int sequence : part) own.push_back(lengths[at(sequence)]);
  GroupSearch search(own, ranks, cost);
  if (!search.found()) return std::nullopt;
  GroupPlan plan = search.take();
  for (SequenceGroup& group : plan.groups) {
    for (int& sequence : group.sequences) sequence = part[at(sequence)];
    std::sort(group.sequences.begin(), group.sequences.end());
  }
  return plan;
}

}  // namespace

double FitCost::sequence_ms(int64_t length, int degree) const {
  require(length >= 0, "a sequence has ", length, " tokens; give 0 or more");
  require(degree >= 1 && std::has_single_bit(static_cast<unsigned>(degree)) &&
              std::countr_zero(static_cast<unsigned>(degree)) <= std::ssize(bandwidth),
          "there is no bandwidth of groups of ", degree, " ranks; give powers of two up to ",
          bandwidth.size() < 31 ? 1 << bandwidth.size() : 1 << 30);
  const double s = static_cast<double>(length), d = degree;
  const double computing = (square * s * s + linear * s) / d;
  if (degree == 1) return computing;
  const double mib = 16 * static_cast<double>(layers) * static_cast<double>(hidden) * s / (1 << 20);
  return computing + mib / d / bandwidth[at(std::countr_zero(static_cast<unsigned>(degree)) - 1)];
}

GroupPlan group_choice(std::span<const int64_t> lengths, int ranks, const FitCost& cost) {
  check(cost, ranks);
  check_lengths(lengths, ranks, cost);
  GroupSearch search(lengths, ranks, cost);
  if (!search.found()) {
    infeasible("the sequences do not fit at once into any groups of ", ranks,
               " ranks; make several micro-batches of them (split_batch)");
  }
  return search.take();
}

BatchPlan split_batch(std::span<const int64_t> lengths, int ranks, const FitCost& cost, int least) {
  check(cost, ranks);
  require(least >= 1, least, " micro-batches; give 1 or more");
  const int64_t all = check_lengths(lengths, ranks, cost);
  std::vector<int> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return lengths[at(a)] < lengths[at(b)]; });
  const int64_t fewest = std::max<int64_t>(least, (all - 1) / room_of(cost, ranks) + 1);
  for (int64_t count = fewest;; ++count) {
    BatchPlan batch;
    for (const std::vector<int>& part : even_parts(lengths, order, all, at(count))) {
      std::optional<GroupPlan> plan = plan_part(lengths, part, ranks, cost);
      if (!plan) break;
      batch.ms += plan->ms;
      batch.micro_batches.push_back(*std::move(plan));
      // At the latest when no part has more tokens than the longest sequence, all of them fit.
      if (part.back() == order.back()) return batch;
    }
  }
}

LengthBuckets bucket_lengths(std::span<const int64_t> lengths, int buckets) {
  require(!lengths.empty(), "there are no lengths; give at least one");
  require(buckets >= 1, buckets, " buckets; give 1 or more");
  std::vector<int64_t> sorted(lengths.begin(), lengths.end());
  std::sort(sorted.begin(), sorted.end());
  require(sorted.front() >= 0, "the length ", sorted.front(), " is negative");
  const size_t n = sorted.size(), most = std::min(n, at(buckets));
  std::vector<int64_t> sums(n + 1, 0);
  checked_product(sorted.back(), std::ssize(sorted), "the padded length of all sequences");
  for (size_t i = 0; i < n; ++i) sums[i + 1] = sums[i] + sorted[i];
  constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  // errors[b][i]: of the first i lengths in b buckets; from[b][i]: where the last one begins.
  std::vector<std::vector<int64_t>> errors(most + 1, std::vector<int64_t>(n + 1, kNever));
  std::vector<std::vector<size_t>> from(most + 1, std::vector<size_t>(n + 1, 0));
  errors[0][0] = 0;
  for (size_t b = 1; b <= most; ++b) {
    for (size_t i = b; i <= n; ++i) {
      for (size_t j = b - 1; j < i; ++j) {
        if (errors[b - 1][j] == kNever) continue;
        const int64_t error =
            errors[b - 1][j] + sorted[i - 1] * static_cast<int64_t>(i - j) - (sums[i] - sums[j]);
        if (error < errors[b][i]) errors[b][i] = error, from[b][i] = j;
      }
    }
  }
  LengthBuckets result;
  result.error = errors[most][n];
  for (size_t b = most, i = n; b > 0; i = from[b--][i]) result.bounds.push_back(sorted[i - 1]);
  std::reverse(result.bounds.begin(), result.bounds.end());
  return result;
}

}  // namespace tutti::runtime
