#include "src/select/select.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace tutti::select {
namespace {

struct ForcedName {
  std::string_view name;
  uint16_t lanes = 0;  // 0: not given
};

ForcedName parse_forced(std::string_view text) {
  ForcedName forced{text.substr(0, text.find(':')), 0};
  if (forced.name.size() < text.size()) {
    const std::string_view lanes = text.substr(forced.name.size() + 1);
    std::from_chars(lanes.data(), lanes.data() + lanes.size(), forced.lanes);
  }
  return forced;
}

/// "ring:2 is forced by the options of the call or communicator".
std::string force_of(const Query& query) {
  std::string text = std::string(query.forced) + " is forced";
  if (!query.forced_by.empty()) text += " by " + std::string(query.forced_by);
  return text;
}

// The time that a plan of one rank takes where ranks are composed over levels grows with the square
// of the number of ranks where all of them must be looked at to know what the busiest one stages:
// those of an uneven tree, and where there is a root. Of an even tree a few stand for all.
constexpr int kMostRanksOfUnevenLevels = 512;

/// All nodes of a level have as many children.
bool is_even(const schedule::NodeTree& tree) {
  for (size_t level = 0; level < tree.levels(); ++level) {
    for (uint32_t node = 1; node < tree.nodes(level); ++node) {
      if (tree.children_of(level, node).size() != tree.children_of(level, 0).size()) return false;
    }
  }
  return true;
}

/// An algorithm that is composed of flat ones over the levels of a group is one of them where there
/// is one level.
std::string reject_levels(const schedule::Algorithm& algorithm, const Query& query) {
  if (algorithm.loads == nullptr) return {};
  const auto& tree = query.parameters.tree;
  const bool has_levels = tree != nullptr && tree->levels() > 1;
  if (!has_levels) return query.forced.empty() ? "the group has one level" : "";
  const bool rooted = schedule::traits_of(algorithm.collective).rooted();
  if (query.parameters.ranks <= kMostRanksOfUnevenLevels || !query.forced.empty()) return {};
  if (is_even(*tree) && !rooted) return {};
  return "planning it for more than " + std::to_string(kMostRanksOfUnevenLevels) +
         " ranks on such a tree takes long";
}

/// A reason that is known before its cost is.
std::string reject(const schedule::Algorithm& algorithm, const Query& query,
                   const schedule::Parameters& parameters) {
  const ForcedName forced = parse_forced(query.forced);
  if (!forced.name.empty() && forced.name != algorithm.name) return force_of(query);
  if (std::string why = reject_levels(algorithm, query); !why.empty()) return why;
  if (forced.lanes > algorithm.max_lanes) {
    return "it has at most " + std::to_string(algorithm.max_lanes) + " lanes";
  }
  if (query.in_place && !algorithm.in_place) return "it does not run in place";
  if (query.vectors && algorithm.needs_equal_counts) return "it needs equal counts";
  // Two have one order.
  if (query.deterministic && !algorithm.canonical(parameters) && parameters.ranks > 2) {
    return "it does not reduce in the canonical order";
  }
  return {};
}

std::string reject(const schedule::Cost& cost, const Limits& limits) {
  if (cost.widest <= limits.sources) return {};
  return "it folds " + std::to_string(cost.widest) + " values in one step; a plan's has at most " +
         std::to_string(limits.sources) + " sources";
}

double value(schedule::Fraction fraction) {
  return static_cast<double>(fraction.num) / static_cast<double>(fraction.den);
}

// Every block takes whole cache lines of a frame; where it is cut, up to one more for the rest.
bool overflows(const Usage& usage, uint16_t lanes, double count_bytes, const Limits& limits) {
  constexpr double kLine = 64;
  const double published = value(usage.cost.published) / lanes;
  const double blocks = published * usage.blocks;
  const bool is_cut = published * count_bytes > static_cast<double>(limits.slice_bytes);
  const double bytes = is_cut ? static_cast<double>(limits.slice_bytes) : published * count_bytes;
  return bytes + blocks * kLine * (is_cut ? 2 : 1) > static_cast<double>(limits.frame_bytes);
}

/// Why none of them may run. That the others are not the one that is forced says nothing new.
std::string reasons(const std::vector<Candidate>& candidates, const Query& query) {
  const std::string_view forced = parse_forced(query.forced).name;
  std::string names, text;
  for (const Candidate& candidate : candidates) {
    const std::string name(candidate.algorithm->name);
    if (name == forced) return force_of(query) + ", but " + candidate.rejected;
    names += (names.empty() ? "" : ", ") + name;
    text += (text.empty() ? "" : "; ") + name + ": " + candidate.rejected;
  }
  return forced.empty() ? text : force_of(query) + "; there are " + names;
}

// Prices the candidate; where lanes are phases and nobody has said how many, with as many as cost
// the least, and the fewest of those.
void take_cheapest_lanes(Candidate& candidate, const Query& query, double bytes) {
  const schedule::Algorithm& algorithm = *candidate.algorithm;
  bool encodes = false;
  const auto price = [&](const schedule::Parameters& parameters) {
    const Usage& usage = query.prices->usage_of(algorithm, parameters);
    const Price exact = query.prices->price_of(usage, bytes);
    encodes = false;
    if (query.wires.empty()) return exact;
    const Price encoded = query.prices->price_of(usage, bytes, query.wires);
    encodes = query.must_encode || encoded.ns < exact.ns;
    return encodes ? encoded : exact;
  };
  Price best = price(candidate.parameters);
  candidate.encodes = encodes;
  schedule::Parameters tried = candidate.parameters;
  tried.lanes = algorithm.max_lanes;
  const bool chooses = algorithm.lane_levels != nullptr && parse_forced(query.forced).lanes == 0;
  const size_t most = chooses ? algorithm.lane_levels(tried).size() : 1;
  for (tried.lanes = 2; tried.lanes <= most; ++tried.lanes) {
    const Price other = price(tried);
    if (other.ns >= best.ns) continue;
    best = other;
    candidate.encodes = encodes;
    candidate.parameters.lanes = tried.lanes;
  }
  candidate.predicted_ns = best.ns;
  candidate.far_slices = best.far_slices;
}

void share_if_cheaper(Candidate& candidate, const Query& query, double bytes) {
  if (query.sharing == nullptr || !query.sharing->can(*candidate.algorithm)) return;
  const Usage& usage = query.prices->usage_of(*candidate.algorithm, candidate.parameters);
  candidate.other_ns =
      query.sharing->prices->price(shared_use(usage, candidate.parameters.ranks), bytes);
  candidate.shares = query.sharing->must || candidate.other_ns < candidate.predicted_ns;
  if (candidate.shares) std::swap(candidate.other_ns, candidate.predicted_ns);
}

}  // namespace

std::vector<Candidate> rank_candidates(std::span<const schedule::Algorithm> algorithms,
                                       const Query& query) {
  std::vector<Candidate> candidates;
  const uint16_t lanes = std::max<uint16_t>(1, parse_forced(query.forced).lanes);
  const double bytes = static_cast<double>(query.count) * query.element_bytes;
  for (const schedule::Algorithm& algorithm : algorithms) {
    if (algorithm.collective != query.collective) continue;
    Candidate candidate{&algorithm, query.parameters, 0, {}, false};
    candidate.parameters.lanes = std::min(lanes, algorithm.max_lanes);
    candidate.rejected = reject(algorithm, query, candidate.parameters);
    if (!candidate.rejected.empty()) {
      candidates.push_back(std::move(candidate));
      continue;
    }
    take_cheapest_lanes(candidate, query, bytes);
    share_if_cheaper(candidate, query, bytes);
    const Usage& usage = query.prices->usage_of(algorithm, candidate.parameters);
    candidate.rejected = reject(usage.cost, query.limits);
    const bool shares = algorithm.lane_levels == nullptr;  // of the data are what lanes have
    const auto cut = static_cast<uint16_t>(shares ? candidate.parameters.lanes : 1);
    candidate.overflows = overflows(usage, cut, bytes, query.limits);
    if (query.vectors && algorithm.forwards) {  // a size round goes first
      candidate.predicted_ns += query.prices->price(usage, sizeof(uint64_t));
    }
    candidates.push_back(std::move(candidate));
  }
  const bool must_share = query.sharing != nullptr && query.sharing->must;
  std::stable_sort(candidates.begin(), candidates.end(), [&](const auto& a, const auto& b) {
    if (a.rejected.empty() != b.rejected.empty()) return a.rejected.empty();
    if (a.overflows != b.overflows) return b.overflows;
    if (must_share && a.shares != b.shares) return a.shares;
    return a.predicted_ns < b.predicted_ns;
  });
  return candidates;
}

Result<Candidate> choose(std::span<const schedule::Algorithm> algorithms, const Query& query) {
  std::vector<Candidate> candidates = rank_candidates(algorithms, query);
  if (!candidates.empty() && candidates.front().rejected.empty()) {
    const auto may_run = [&](const Candidate& one) {
      return one.rejected.empty() && (!one.overflows || query.fits(one));
    };
    const auto asks = candidates.front().overflows && query.fits;
    const auto fitting =
        asks ? std::find_if(candidates.begin(), candidates.end(), may_run) : candidates.begin();
    return fitting == candidates.end() ? candidates.front() : *fitting;
  }
  return Status::invalid_argument("no algorithm can run this " +
                                  std::string(schedule::name_of(query.collective)) + ": " +
                                  reasons(candidates, query));
}

}  // namespace tutti::select
