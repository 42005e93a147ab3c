#include "tutti/runtime/routed.h"

#include <algorithm>
#include <numeric>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"

namespace tutti::runtime {
namespace {

void check_nodes(int ranks, int ranks_per_node) {
  require(ranks_per_node >= 1 && ranks % ranks_per_node == 0, ranks,
          " ranks are not whole nodes of ", ranks_per_node, " ranks");
}

/// A relay for the piece: the i-th rank of the node from this rank on.
int proxy(int rank, int i, int ranks_per_node) {
  const int node = rank / ranks_per_node;
  return node * ranks_per_node + (rank % ranks_per_node + i) % ranks_per_node;
}

/// Hands tokens from ranks with too many to ranks with too few.
class Remapping {
 public:
  Remapping(std::span<const int64_t> have, std::span<const int64_t> want)
      : have_(have), want_(want), given_(have.size(), 0), taken_(have.size(), 0) {
    for (size_t r = 0; r < have.size(); ++r) {
      const int64_t kept = std::min(have[r], want[r]);
      add(static_cast<int>(r), static_cast<int>(r), kept);
    }
  }

  /// Among ranks first .. last-1, in order.
  void match(int first, int last) {
    int to = first;
    for (int from = first; from < last; ++from) {
      while (given_[at(from)] < have_[at(from)] && to < last) {
        const int64_t missing = want_[at(to)] - taken_[at(to)];
        if (missing == 0) {
          ++to;
          continue;
        }
        add(from, to, std::min(missing, have_[at(from)] - given_[at(from)]));
      }
    }
  }

  Resharding take() {
    Resharding result;
    result.ranks = static_cast<int>(have_.size());
    result.source_sizes.assign(have_.begin(), have_.end());
    result.target_sizes.assign(want_.begin(), want_.end());
    result.parcels = std::move(parcels_);
    std::stable_sort(
        result.parcels.begin(), result.parcels.end(), [](const Parcel& a, const Parcel& b) {
          return a.target != b.target ? a.target < b.target : a.target_offset < b.target_offset;
        });
    return result;
  }

 private:
  void add(int from, int to, int64_t tokens) {
    if (tokens == 0) return;
    parcels_.push_back({from, to, given_[at(from)], taken_[at(to)], tokens});
    given_[at(from)] += tokens;
    taken_[at(to)] += tokens;
  }

  std::span<const int64_t> have_, want_;
  std::vector<int64_t> given_, taken_;
  std::vector<Parcel> parcels_;
};

}  // namespace

RoutedResharding routed(const Resharding& resharding, const NodeShape& nodes, int proxies) {
  check_nodes(resharding.ranks, nodes.ranks_per_node);
  require(proxies >= 1 && proxies <= nodes.nics_per_node && proxies <= nodes.ranks_per_node,
          proxies, " proxies for ", nodes.nics_per_node, " cards and ", nodes.ranks_per_node,
          " ranks of a node; give at least 1 and at most as many as either");
  const int per_node = nodes.ranks_per_node;
  RoutedResharding result;
  for (Resharding* step : {&result.direct, &result.dispatch, &result.cross, &result.combine}) {
    step->ranks = resharding.ranks;
  }
  std::vector<int64_t> out(at(resharding.ranks), 0), in(at(resharding.ranks), 0);
  for (const Parcel& parcel : resharding.parcels) {
    if (parcel.source / per_node == parcel.target / per_node) {
      result.direct.parcels.push_back(parcel);
      continue;
    }
    for (int i = 0; i < proxies; ++i) {
      const int64_t begin = parcel.length * i / proxies;
      const int64_t length = parcel.length * (i + 1) / proxies - begin;
      if (length == 0) continue;
      const int a = proxy(parcel.source, i, per_node), b = proxy(parcel.target, i, per_node);
      result.dispatch.parcels.push_back(
          {parcel.source, a, parcel.source_offset + begin, out[at(a)], length});
      result.cross.parcels.push_back({a, b, out[at(a)], in[at(b)], length});
      result.combine.parcels.push_back(
          {b, parcel.target, in[at(b)], parcel.target_offset + begin, length});
      out[at(a)] += length;
      in[at(b)] += length;
    }
  }
  result.direct.source_sizes = result.dispatch.source_sizes = resharding.source_sizes;
  result.direct.target_sizes = result.combine.target_sizes = resharding.target_sizes;
  result.dispatch.target_sizes = result.cross.source_sizes = out;
  result.cross.target_sizes = result.combine.source_sizes = in;
  return result;
}

Nanoseconds routed_time(Bytes message, int proxies, const LinkClass& nic, const LinkClass& intra) {
  require(proxies >= 1, proxies, " proxies; give 1 or more");
  const Nanoseconds across = message_time(nic, message / proxies);
  if (proxies == 1) return across;
  return across + message_time(intra, Bytes(message.value * (proxies - 1) / proxies)) * 2;
}

Resharding remap(std::span<const int64_t> have, std::span<const int64_t> want, int ranks_per_node) {
  require(have.size() == want.size() && !have.empty(), have.size(), " present and ", want.size(),
          " wanted numbers of tokens; give one of each a rank");
  check_nodes(static_cast<int>(have.size()), ranks_per_node);
  int64_t present = 0, wanted = 0;
  for (size_t r = 0; r < have.size(); ++r) {
    require(have[r] >= 0 && want[r] >= 0, "rank ", r, " has ", have[r], " tokens and wants ",
            want[r], "; give 0 or more");
    present += have[r];
    wanted += want[r];
  }
  require(present == wanted, "the ranks have ", present, " tokens and want ", wanted,
          "; a remap neither makes nor drops tokens");
  Remapping remapping(have, want);
  const int ranks = static_cast<int>(have.size());
  for (int first = 0; first < ranks; first += ranks_per_node) {
    remapping.match(first, first + ranks_per_node);
  }
  remapping.match(0, ranks);
  return remapping.take();
}

}  // namespace tutti::runtime
