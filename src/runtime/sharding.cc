#include "tutti/runtime/sharding.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"

namespace tutti::runtime {
namespace {

void check_sizes(int64_t size, int ranks) {
  check_ranks(ranks);
  require(size >= 0, "the size ", size, " is negative");
}

int64_t sum_of(std::span<const int64_t> values, std::string_view what) {
  int64_t sum = 0;
  for (const int64_t value : values) {
    require(value >= 0, what, " ", value, " is negative; give 0 or more");
    require(sum <= std::numeric_limits<int64_t>::max() - value, "the sum of all ", what,
            "s is beyond 2^63 - 1");
    sum += value;
  }
  return sum;
}

/// Neighbours of one rank become one shard, so that equal holdings are equal lists.
void add(Sharding& sharding, Shard shard) {
  if (shard.length == 0) return;
  if (!sharding.shards.empty()) {
    Shard& last = sharding.shards.back();
    if (last.rank == shard.rank && last.begin + last.length == shard.begin) {
      last.length += shard.length;
      return;
    }
  }
  sharding.shards.push_back(shard);
}

}  // namespace

int64_t Sharding::local_size(int rank) const {
  int64_t held = 0;
  for (const Shard& shard : shards) held += shard.rank == rank ? shard.length : 0;
  return held;
}

std::vector<int64_t> Sharding::local_offsets() const {
  std::vector<int64_t> offsets, next(at(ranks), 0);
  for (const Shard& shard : shards) {
    offsets.push_back(next[at(shard.rank)]);
    next[at(shard.rank)] += shard.length;
  }
  return offsets;
}

void validate(const Sharding& sharding) {
  check_sizes(sharding.size, sharding.ranks);
  require(sharding.block >= 1, "the block ", sharding.block, " is not positive");
  std::vector<Shard> sorted = sharding.shards;
  for (const Shard& shard : sorted) {
    require(shard.rank >= 0 && shard.rank < sharding.ranks, "a shard belongs to rank ", shard.rank,
            ", there are ", sharding.ranks);
    require(shard.length >= 1 && shard.begin >= 0 && shard.length <= sharding.size - shard.begin,
            "a shard of ", shard.length, " elements at ", shard.begin, " leaves a sequence of ",
            sharding.size, " or is empty");
  }
  std::sort(sorted.begin(), sorted.end(), [](const Shard& a, const Shard& b) {
    return a.rank != b.rank ? a.rank < b.rank : a.begin < b.begin;
  });
  std::vector<std::pair<int64_t, int>> changes;
  for (size_t i = 0; i < sorted.size(); ++i) {
    const Shard& shard = sorted[i];
    require(i == 0 || sorted[i - 1].rank != shard.rank ||
                sorted[i - 1].begin + sorted[i - 1].length <= shard.begin,
            "rank ", shard.rank, " holds element ", shard.begin, " twice; cut its shards apart");
    changes.emplace_back(shard.begin, 1);
    changes.emplace_back(shard.begin + shard.length, -1);
  }
  std::sort(changes.begin(), changes.end());
  int held = 0;
  int64_t position = 0;
  for (const auto& [where, change] : changes) {
    require(where == position || held == sharding.copies, "element ", position, " is held by ",
            held, " ranks; each must be by ", sharding.copies);
    held += change;
    position = where;
  }
  require(position == sharding.size, "elements from ", position, " on are held by nobody, of ",
          sharding.size);
}

Sharding even(int64_t size, int ranks) {
  check_sizes(size, ranks);
  require(size % ranks == 0, size, " elements are not a multiple of ", ranks,
          " ranks; pad them, or use ragged()");
  Sharding sharding{ranks, size, 1, 1, {}};
  for (int r = 0; r < ranks; ++r) add(sharding, {r, size / ranks * r, size / ranks});
  return sharding;
}

Sharding ragged(int64_t size, std::span<const int64_t> units, int64_t block) {
  check_sizes(size, static_cast<int>(units.size()));
  require(block >= 1, "the block ", block, " is not positive; give the elements no cut may split");
  const int64_t all = sum_of(units, "unit");
  require(all > 0, "all units are 0; give at least one rank a unit");
  require(size % all == 0, size, " elements are not a multiple of the ", all,
          " units; change the units or pad");
  const int64_t per_unit = size / all;
  Sharding sharding{static_cast<int>(units.size()), size, block, 1, {}};
  int64_t begin = 0;
  for (size_t r = 0; r < units.size(); ++r) {
    const int64_t share = per_unit * units[r];
    require(share % block == 0, "rank ", r, " gets ", share, " elements, no multiple of the block ",
            block, "; change its units or the block");
    add(sharding, {static_cast<int>(r), begin, share});
    begin += share;
  }
  return sharding;
}

Sharding ragged_in_parts(int64_t size, int parts, std::span<const int64_t> units, int64_t block) {
  require(parts >= 1 && size >= 0 && size % parts == 0, size, " elements are not a multiple of ",
          parts, " parts");
  const int64_t ranks = checked_product(std::ssize(units), parts, "the ranks of all parts");
  check_sizes(size, static_cast<int>(std::min<int64_t>(ranks, std::numeric_limits<int>::max())));
  const Sharding part = ragged(size / parts, units, block);
  Sharding sharding{static_cast<int>(ranks), size, block, 1, {}};
  for (int p = 0; p < parts; ++p) {
    for (const Shard& shard : part.shards) {
      add(sharding, {shard.rank * parts + p, part.size * p + shard.begin, shard.length});
    }
  }
  return sharding;
}

Sharding blocks(std::span<const int64_t> lengths, int64_t block, std::span<const int> owner,
                int ranks) {
  check_sizes(0, ranks);
  require(block >= 1, "the block ", block, " is not positive; give the tokens of a block");
  Sharding sharding{ranks, sum_of(lengths, "length"), block, 1, {}};
  size_t next = 0;
  int64_t begin = 0;
  for (const int64_t length : lengths) {
    for (int64_t done = 0, piece = 0; done < length; done += piece, ++next) {
      piece = std::min(block, length - done);
      require(next < owner.size(), "there are only ", owner.size(), " owners; give one a block");
      require(owner[next] >= 0 && owner[next] < ranks, "block ", next, " is owned by rank ",
              owner[next], ", there are ", ranks);
      add(sharding, {owner[next], begin, piece});
      begin += piece;
    }
  }
  require(next == owner.size(), owner.size(), " owners for ", next, " blocks; give one a block");
  return sharding;
}

Sharding zigzag(int64_t size, int ranks) {
  check_sizes(size, ranks);
  require(size % (2 * int64_t{ranks}) == 0, size, " elements are not a multiple of ",
          2 * int64_t{ranks}, " chunks (two a rank); pad them");
  Sharding sharding{ranks, size, 1, 1, {}};
  const int64_t chunk = size / (2 * int64_t{ranks});
  for (int c = 0; c < 2 * ranks; ++c) {
    add(sharding, {c < ranks ? c : 2 * ranks - 1 - c, chunk * c, chunk});
  }
  return sharding;
}

Sharding striped(int64_t size, int ranks, int64_t stripe) {
  check_sizes(size, ranks);
  require(stripe >= 1, "the stripe ", stripe, " is not positive");
  require(size % stripe == 0, "the stripe ", stripe, " does not divide ", size,
          " elements; pad them or change the stripe");
  check_parts(size / stripe, "stripes");
  Sharding sharding{ranks, size, stripe, 1, {}};
  for (int64_t b = 0; b < size / stripe; ++b) {
    add(sharding, {static_cast<int>(b % ranks), b * stripe, stripe});
  }
  return sharding;
}

Sharding contiguous(std::span<const int64_t> counts) {
  check_sizes(0, static_cast<int>(counts.size()));
  Sharding sharding{static_cast<int>(counts.size()), sum_of(counts, "count"), 1, 1, {}};
  int64_t begin = 0;
  for (size_t r = 0; r < counts.size(); begin += counts[r++]) {
    add(sharding, {static_cast<int>(r), begin, counts[r]});
  }
  return sharding;
}

Sharding replicated(int64_t size, int ranks) {
  check_sizes(size, ranks);
  Sharding sharding{ranks, size, 1, ranks, {}};
  for (int r = 0; r < ranks; ++r) add(sharding, {r, 0, size});
  return sharding;
}

Sharding single_root(int64_t size, int ranks, int root) {
  check_sizes(size, ranks);
  require(root >= 0 && root < ranks, "root ", root, " is not one of ", ranks, " ranks");
  Sharding sharding{ranks, size, 1, 1, {}};
  add(sharding, {root, 0, size});
  return sharding;
}

Sharding from_counts(std::span<const int64_t> counts, int ranks, RoutedSide side) {
  check_sizes(0, ranks);
  require(counts.size() == at(ranks) * at(ranks), counts.size(), " counts for ", ranks,
          " ranks; give one for each source and target");
  Sharding sharding{ranks, sum_of(counts, "count"), 1, 1, {}};
  int64_t begin = 0;
  for (int s = 0; s < ranks; ++s) {
    for (int t = 0; t < ranks; ++t) {
      const int64_t count = counts[at(s) * at(ranks) + at(t)];
      add(sharding, {side == RoutedSide::kSource ? s : t, begin, count});
      begin += count;
    }
  }
  return sharding;
}

}  // namespace tutti::runtime
