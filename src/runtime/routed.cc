#include "tutti/runtime/routed.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"

namespace tutti::runtime {
namespace {

int64_t part_of(int64_t whole, int64_t parts, int64_t of) {
  return static_cast<int64_t>(static_cast<__int128>(whole) * parts / of);
}

void check_nodes(int ranks, int ranks_per_node) {
  require(ranks_per_node >= 1 && ranks % ranks_per_node == 0, ranks,
          " ranks are not whole nodes of ", ranks_per_node, " ranks");
}

/// Which rank of a node relays each piece of a message: one on each card in turn.
class CardMap {
 public:
  explicit CardMap(const NodeShape& nodes) : per_node_(nodes.ranks_per_node) {
    require(nodes.nics_per_node >= 1, nodes.nics_per_node, " cards of a node; give 1 or more");
    require(nodes.card_of.empty() || std::ssize(nodes.card_of) == per_node_, "the cards of ",
            nodes.card_of.size(), " places of a node are known and there are ", per_node_,
            "; name the card of each, or of none");
    std::map<int, std::vector<int>> places;  // of each card that has some
    for (int place = 0; place < per_node_; ++place) {
      const int card = nodes.card_of.empty()
                           ? static_cast<int>(int64_t{place} * nodes.nics_per_node / per_node_)
                           : nodes.card_of[at(place)];
      require(card >= 0 && card < nodes.nics_per_node, "place ", place, " of a node has card ",
              card, ", there are ", nodes.nics_per_node);
      own_.emplace_back(card, std::ssize(places[card]));
      places[card].push_back(place);
    }
    for (auto& [card, ranks] : places) {
      for (auto& [known, turn] : own_) {
        if (known == card) known = static_cast<int>(places_.size());
      }
      places_.push_back(std::move(ranks));
    }
  }

  /// Cards that some rank uses.
  int cards() const { return static_cast<int>(places_.size()); }

  /// Ranks that share a card take different relays on the next one, where it has as many.
  int proxy(int rank, int piece) const {
    const auto [card, turn] = own_[at(rank % per_node_)];
    if (piece == 0) return rank;
    const std::vector<int>& ranks = places_[at((card + piece) % cards())];
    return rank / per_node_ * per_node_ + ranks[at(turn) % ranks.size()];
  }

 private:
  int per_node_;
  std::vector<std::vector<int>> places_;        // of each card
  std::vector<std::pair<int, ptrdiff_t>> own_;  // of each place: its card, and its turn there
};

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
  validate(resharding);
  const CardMap map(nodes);
  require(proxies >= 1 && proxies <= map.cards(), proxies, " proxies for ", map.cards(),
          " cards that ranks of a node use (", nodes.nics_per_node, " cards, ",
          nodes.ranks_per_node, " ranks); give at least 1 and at most as many");
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
      const int64_t begin = part_of(parcel.length, i, proxies);
      const int64_t length = part_of(parcel.length, i + 1, proxies) - begin;
      if (length == 0) continue;
      const int a = map.proxy(parcel.source, i), b = map.proxy(parcel.target, i);
      result.dispatch.parcels.push_back(
          {parcel.source, a, parcel.source_offset + begin, out[at(a)], length});
      result.cross.parcels.push_back({a, b, out[at(a)], in[at(b)], length});
      result.combine.parcels.push_back(
          {b, parcel.target, in[at(b)], parcel.target_offset + begin, length});
      out[at(a)] = checked_sum(out[at(a)], length, "what a rank relays");
      in[at(b)] = checked_sum(in[at(b)], length, "what a rank relays");
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
  const Bytes relayed(part_of(message.value, proxies - 1, proxies));
  const std::string_view what = "the time of a routed message";
  return Nanoseconds(checked_sum(
      across.value, checked_product(message_time(intra, relayed).value, 2, what), what));
}

Resharding remap(std::span<const int64_t> have, std::span<const int64_t> want, int ranks_per_node) {
  require(have.size() == want.size() && !have.empty(), have.size(), " present and ", want.size(),
          " wanted numbers of tokens; give one of each a rank");
  check_nodes(static_cast<int>(have.size()), ranks_per_node);
  int64_t present = 0, wanted = 0;
  for (size_t r = 0; r < have.size(); ++r) {
    require(have[r] >= 0 && want[r] >= 0, "rank ", r, " has ", have[r], " tokens and wants ",
            want[r], "; give 0 or more");
    present = checked_sum(present, have[r], "the number of tokens");
    wanted = checked_sum(wanted, want[r], "the number of wanted tokens");
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
