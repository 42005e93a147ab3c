#include "tutti/runtime/reshard.h"

#include <algorithm>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"

namespace tutti::runtime {
namespace {

/// A run of elements with the same holders all along.
struct Interval {
  int64_t begin = 0;
  std::vector<int> holders;  // indices of shards, by rank
};

/// The sequence cut wherever a holder changes; a last entry without holders marks its end.
std::vector<Interval> intervals_of(const Sharding& sharding) {
  std::vector<int64_t> cuts{0, sharding.size};
  for (const Shard& shard : sharding.shards) {
    cuts.push_back(shard.begin);
    cuts.push_back(shard.begin + shard.length);
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::vector<Interval> intervals;
  for (const int64_t cut : cuts) intervals.push_back({cut, {}});
  for (size_t s = 0; s < sharding.shards.size(); ++s) {
    const Shard& shard = sharding.shards[s];
    const auto first = std::lower_bound(cuts.begin(), cuts.end(), shard.begin) - cuts.begin();
    for (size_t i = at(first); intervals[i].begin < shard.begin + shard.length; ++i) {
      intervals[i].holders.push_back(static_cast<int>(s));
    }
  }
  for (Interval& interval : intervals) {
    std::sort(interval.holders.begin(), interval.holders.end(), [&](int a, int b) {
      return sharding.shards[at(a)].rank < sharding.shards[at(b)].rank;
    });
  }
  return intervals;
}

/// The shard that `target` takes its elements from.
int source_for(const Interval& interval, const Sharding& from, int target) {
  for (const int holder : interval.holders) {
    if (from.shards[at(holder)].rank == target) return holder;
  }
  return interval.holders[at(target) % interval.holders.size()];
}

void add(std::vector<Parcel>& parcels, const Parcel& parcel) {
  if (!parcels.empty()) {
    Parcel& last = parcels.back();
    if (last.source == parcel.source && last.target == parcel.target &&
        last.source_offset + last.length == parcel.source_offset &&
        last.target_offset + last.length == parcel.target_offset) {
      last.length += parcel.length;
      return;
    }
  }
  parcels.push_back(parcel);
}

}  // namespace

Resharding reshard(const Sharding& from, const Sharding& to) {
  validate(from);
  validate(to);
  require(from.size == to.size, "the sharding has ", from.size, " elements and the new one ",
          to.size, "; both must be of the same sequence");
  Resharding result;
  result.ranks = std::max(from.ranks, to.ranks);
  for (int r = 0; r < result.ranks; ++r) {
    result.source_sizes.push_back(from.local_size(r));
    result.target_sizes.push_back(to.local_size(r));
  }
  const std::vector<Interval> intervals = intervals_of(from);
  const std::vector<int64_t> from_offsets = from.local_offsets(), to_offsets = to.local_offsets();
  std::vector<size_t> order(to.shards.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return to.shards[a].rank < to.shards[b].rank; });
  for (const size_t t : order) {
    const Shard& wanted = to.shards[t];
    auto interval = std::upper_bound(intervals.begin(), intervals.end(), wanted.begin,
                                     [](int64_t v, const Interval& i) { return v < i.begin; }) -
                    1;
    for (int64_t done = 0; done < wanted.length; ++interval) {
      const int64_t position = wanted.begin + done;
      const int64_t length =
          std::min((interval + 1)->begin, wanted.begin + wanted.length) - position;
      const int holder = source_for(*interval, from, wanted.rank);
      const Shard& source = from.shards[at(holder)];
      add(result.parcels,
          {source.rank, wanted.rank, from_offsets[at(holder)] + (position - source.begin),
           to_offsets[t] + done, length});
      done += length;
    }
  }
  return result;
}

void validate(const Resharding& r) {
  require(r.ranks >= 1 && std::ssize(r.source_sizes) == r.ranks &&
              std::ssize(r.target_sizes) == r.ranks,
          "a resharding of ", r.ranks, " ranks has ", r.source_sizes.size(), " source sizes and ",
          r.target_sizes.size(), " target sizes; give one a rank");
  for (int rank = 0; rank < r.ranks; ++rank) {
    require(r.source_sizes[at(rank)] >= 0 && r.target_sizes[at(rank)] >= 0, "rank ", rank,
            " has a buffer of a negative size");
  }
  for (const Parcel& p : r.parcels) {
    require(p.source >= 0 && p.source < r.ranks && p.target >= 0 && p.target < r.ranks,
            "a parcel from rank ", p.source, " to ", p.target, " leaves ", r.ranks, " ranks");
    require(p.length > 0 && p.source_offset >= 0 && p.target_offset >= 0 &&
                p.length <= r.source_sizes[at(p.source)] - p.source_offset &&
                p.length <= r.target_sizes[at(p.target)] - p.target_offset,
            "a parcel of ", p.length, " elements from rank ", p.source, " at ", p.source_offset,
            " to rank ", p.target, " at ", p.target_offset, " leaves their buffers or is empty");
  }
}

Resharding reverse(const Resharding& resharding) {
  Resharding result{resharding.ranks, resharding.target_sizes, resharding.source_sizes, {}};
  for (const Parcel& p : resharding.parcels) {
    result.parcels.push_back({p.target, p.source, p.target_offset, p.source_offset, p.length});
  }
  std::stable_sort(result.parcels.begin(), result.parcels.end(),
                   [](const Parcel& a, const Parcel& b) {
                     if (a.target != b.target) return a.target < b.target;
                     if (a.target_offset != b.target_offset)
                       return a.target_offset < b.target_offset;
                     return a.source < b.source;
                   });
  return result;
}

int64_t moved(const Resharding& resharding) {
  int64_t elements = 0;
  for (const Parcel& p : resharding.parcels) {
    if (p.source == p.target) continue;
    elements = checked_sum(elements, p.length, "the number of elements that move");
  }
  return elements;
}

int max_degree(std::span<const Parcel> parcels, int ranks) {
  std::vector<int> sends(at(ranks), 0), receives(at(ranks), 0);
  int most = 0;
  for (const Parcel& p : parcels) {
    require(p.source >= 0 && p.source < ranks && p.target >= 0 && p.target < ranks,
            "a parcel from ", p.source, " to ", p.target, " leaves ", ranks, " ranks");
    if (p.source == p.target) continue;
    most = std::max({most, ++sends[at(p.source)], ++receives[at(p.target)]});
  }
  return most;
}

Rounds congestion_free(std::span<const Parcel> parcels, int ranks) {
  const int colors = max_degree(parcels, ranks);
  // Which parcel a rank sends (receives) in a round; -1: none.
  std::vector<int> sent(at(ranks) * at(colors), -1), received(at(ranks) * at(colors), -1);
  const auto slot = [&](int rank, int color) { return at(rank) * at(colors) + at(color); };
  const auto free_color = [&](const std::vector<int>& used, int rank) {
    int color = 0;
    while (used[slot(rank, color)] >= 0) ++color;
    return color;
  };
  for (size_t i = 0; i < parcels.size(); ++i) {
    const Parcel& parcel = parcels[i];
    if (parcel.source == parcel.target) continue;
    const int a = free_color(sent, parcel.source);
    const int b = free_color(received, parcel.target);
    // The path from the target that alternates between rounds a and b does not reach the source,
    // which sends nothing in round a. Exchanging the two along it frees round a at the target.
    std::vector<int> path;
    for (int at_target = parcel.target, color = a;;) {
      const int edge = received[slot(at_target, color)];
      if (edge < 0) break;
      path.push_back(edge);
      const int other = sent[slot(parcels[at(edge)].source, a + b - color)];
      if (other < 0) break;
      path.push_back(other);
      at_target = parcels[at(other)].target;
    }
    for (size_t step = 0; a != b && step < path.size(); ++step) {
      const Parcel& edge = parcels[at(path[step])];
      const int old = step % 2 == 0 ? a : b;
      if (sent[slot(edge.source, old)] == path[step]) sent[slot(edge.source, old)] = -1;
      if (received[slot(edge.target, old)] == path[step]) received[slot(edge.target, old)] = -1;
    }
    for (size_t step = 0; a != b && step < path.size(); ++step) {
      const Parcel& edge = parcels[at(path[step])];
      const int now = step % 2 == 0 ? b : a;
      sent[slot(edge.source, now)] = path[step];
      received[slot(edge.target, now)] = path[step];
    }
    sent[slot(parcel.source, a)] = static_cast<int>(i);
    received[slot(parcel.target, a)] = static_cast<int>(i);
  }
  Rounds rounds(at(colors));
  for (int rank = 0; rank < ranks; ++rank) {
    for (int color = 0; color < colors; ++color) {
      const int parcel = sent[slot(rank, color)];
      if (parcel >= 0) rounds[at(color)].push_back(parcel);
    }
  }
  return rounds;
}

}  // namespace tutti::runtime
