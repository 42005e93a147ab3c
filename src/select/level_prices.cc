#include "src/select/level_prices.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "src/select/busiest.h"
#include "src/select/sampled_use.h"
#include "src/select/tree_of.h"

namespace tutti::select {
namespace {

int largest_host(const group::GroupView& group) {
  std::vector<int> ranks(group.hosts(), 0);
  for (int rank = 0; rank < group.ranks(); ++rank) ++ranks[group.host_of(rank)];
  return *std::max_element(ranks.begin(), ranks.end());
}

// Slower where one of both is known.
void narrow(std::vector<double>& uplinks, const group::Level& level) {
  for (size_t rank = 0; rank < level.uplinks.size(); ++rank) {
    if (level.uplinks[rank] > 0) uplinks[rank] = std::max(uplinks[rank], 1 / level.uplinks[rank]);
  }
}

// Of nodes, whose ranks all have the same; none where none is known.
std::vector<double> by_node(const std::vector<double>& uplinks, const group::Level* level) {
  std::vector<double> nodes;
  if (std::all_of(uplinks.begin(), uplinks.end(), [](double one) { return one == 0; })) {
    return nodes;
  }
  if (level == nullptr) return uplinks;
  for (size_t rank = 0; rank < uplinks.size(); ++rank) {
    if (level->nodes[rank] == nodes.size()) nodes.push_back(uplinks[rank]);
  }
  return nodes;
}

constexpr double kUnaskedBytes = 64 << 10;  // between two hosts, in each lane
constexpr uint64_t kSlicesInFlight = 4;     // of a plan of several lanes
// The messages of a longer slice have left the caches when they are folded. Over a socket of one
// host 64 MiB took 20 ms more in one or two slices than in those of 512 KiB.
constexpr double kColdNsPerByte = 0.3;
constexpr double kWorthwhile = 0.9;  // of a price
constexpr double kUnhidden = 0.05;   // of hand-overs: sometimes both streams wait

// The part of a slice's messages between two hosts that goes when the receiver has said that there
// is room: for so much of a latency each slice waits beside those of its messages.
double asked(const LevelUse& use, double slice_bytes, const WirePrice& wire) {
  if (use.cost.depth == 0) return 0;
  const double messages = std::max(1.0, static_cast<double>(use.cost.messages));
  const double usual = use.message_bytes > 0 ? use.message_bytes : use.cost.bytes / messages;
  const double bytes = usual * slice_bytes * wire.share;
  return bytes <= kUnaskedBytes ? 0 : 1 - kUnaskedBytes / bytes;
}

// The latencies of a slice behind others: those between the rank's first and last step, and those
// of asking for room, which where nothing else is waited for are a round trip.
double waits_ns(const LevelUse& use, const LinkModel& link, double slice_bytes,
                const WirePrice& wire) {
  const double room = asked(use, slice_bytes, wire);
  return (room + std::max<double>(use.cost.span, room)) * link.latency_ns;
}

// In a chain of ranks that pass on what they have received the first slice is at one after the
// other: more bytes follow each other than the busiest rank has.
double fill_ns(const LevelUse& use, const PricedLevel& level, double slice_bytes,
               const WirePrice& wire) {
  const double more = std::max(0.0, use.cost.path - use.cost.bytes) * slice_bytes;
  if (level.maps) return more * 2 * level.link.moved_ns_per_byte;  // copied in and out
  double rate = level.link.wire_ns_per_byte;
  for (const double uplink : level.uplinks) rate = std::max(rate, uplink);
  return more * wire.share * rate;
}

// Blocks of one count of elements: all of a buffer's, or those of one share.
uint32_t blocks_of_count(const schedule::Shape& shape) {
  const schedule::Traits& traits = schedule::traits_of(shape.collective);
  const auto ranks = static_cast<uint32_t>(shape.ranks);
  return std::max(shape.input.blocks / (traits.input.parts ? ranks : 1),
                  shape.output.blocks / (traits.output.parts ? ranks : 1));
}

}  // namespace

// As NodeTree::make() does it, a level that unites nothing is left out; what leaves a node of it
// takes the link of that level, too.
LevelPrices::LevelPrices(group::GroupPointer group, int cores, const Model& model, Effort effort)
    : group_(std::move(group)), tree_(tree_of(*group_)), effort_(effort), cores_(cores) {
  const Crowd crowd{largest_host(*group_), cores};
  const auto ranks = static_cast<size_t>(group_->ranks());
  std::vector<double> uplinks(ranks, 0);
  const group::Level* inside = nullptr;  // null: ranks
  size_t nodes = ranks;
  for (size_t i = first_level_of(*group_); i < group_->levels(); ++i) {
    const group::Level& level = group_->level(i);
    const bool is_only = i + 1 == group_->levels() && levels_.empty();
    if (group_->nodes(i) < nodes || is_only) {
      levels_.push_back(
          {link_of(model, level, crowd), level.name, by_node(uplinks, inside), level.reach.map});
      uplinks.assign(ranks, 0);
      inside = &level;
      nodes = group_->nodes(i);
    }
    narrow(uplinks, level);
  }
}

const Usage& LevelPrices::usage_of(const schedule::Algorithm& algorithm,
                                   const schedule::Parameters& parameters) {
  const Key key = key_of(algorithm, parameters);
  const auto known = known_.find(key);
  if (known != known_.end()) return known->second;
  Usage usage;
  if (algorithm.lane_levels != nullptr && parameters.lanes > 1) {
    schedule::Parameters whole = parameters;  // lanes change nothing else
    whole.lanes = 1;
    usage = usage_of(algorithm, whole);
    usage.lane_levels = algorithm.lane_levels(parameters);
  } else {
    usage = use_of(algorithm, parameters);
    usage.flows_one_way = schedule::traits_of(algorithm.collective).rooted();
  }
  return known_.emplace(key, std::move(usage)).first->second;
}

// The first and the last rank's schedules tell how long all are. A sample cannot tell how often a
// tree of ranks crosses each level: two ranks that are neighbours may be many edges apart.
// Schedules that are composed over levels are never counted whole, since each takes long to make.
bool LevelPrices::is_counted(const schedule::Algorithm& algorithm,
                             const schedule::Parameters& parameters) const {
  if (parameters.ranks <= effort_.ranks) return true;
  if (algorithm.loads != nullptr || static_cast<uint64_t>(parameters.ranks) > effort_.words) {
    return false;
  }
  uint64_t most = 0;
  for (const int rank : {0, parameters.ranks - 1}) {
    const schedule::Schedule schedule = algorithm.schedule(parameters, rank);
    most = std::max(most, schedule.steps.size() + schedule.words.size());
  }
  return most * static_cast<uint64_t>(parameters.ranks) <= effort_.words;
}

Usage LevelPrices::use_of(const schedule::Algorithm& algorithm,
                          const schedule::Parameters& parameters) const {
  Usage usage;
  const schedule::Shape shape = algorithm.shape(parameters);
  usage.blocks = blocks_of_count(shape);
  const schedule::Traits& traits = schedule::traits_of(algorithm.collective);
  // Those that are folded do, and those that are exchanged in place.
  usage.lands =
      schedule::reduces(algorithm.collective) || (traits.input.parts && traits.output.parts);
  const bool is_flat = levels_.size() == 1 && levels_[0].uplinks.empty();
  const bool is_composed = algorithm.loads != nullptr && tree_ != nullptr;
  if (!is_flat && !is_counted(algorithm, parameters)) {
    SampledUse sample(algorithm, parameters, shape, *tree_);
    // Of what is composed over levels the costs of all ranks would have to be counted, too.
    usage.cost = is_composed ? sample.cost() : algorithm.cost(parameters);
    usage.levels = sample.levels(usage.cost, levels_);
    return usage;
  }
  usage.cost = algorithm.cost(parameters);
  if (!is_flat) usage.levels = count(algorithm, parameters);
  if (usage.levels.empty()) usage.levels = {{level_cost(usage.cost), 0}};
  return usage;
}

// The only one there is, where the algorithm's schedules say nothing of levels.
const PricedLevel& LevelPrices::level_of(const Usage& usage, size_t index) const {
  return usage.levels.size() == 1 ? levels_.back() : levels_[index];
}

WirePrice LevelPrices::wire_of(const Usage& usage, size_t index,
                               std::span<const WirePrice> wires) const {
  if (wires.empty()) return {};
  return usage.levels.size() == 1 ? wires.back() : wires[index];
}

// So that what a rank publishes in one of them fits a frame.
double LevelPrices::staged_slices(const Usage& usage, double count_bytes) const {
  const double published =
      static_cast<double>(usage.cost.published.num) / static_cast<double>(usage.cost.published.den);
  return std::max(1.0, std::ceil(published * count_bytes / slicing_.frame_bytes));
}

uint64_t LevelPrices::slices_of(const Usage& usage, double count_bytes) const {
  const double block_bytes = count_bytes / std::max<uint32_t>(1, usage.blocks);
  const double most =
      std::max(staged_slices(usage, count_bytes), block_bytes / slicing_.stream_bytes);
  // A piece is not shorter than a cache line.
  return static_cast<uint64_t>(std::ceil(std::min(most, std::max(1.0, block_bytes / 64))));
}

Price LevelPrices::price_of(const Usage& usage, double count_bytes,
                            std::span<const WirePrice> wires) const {
  if (slicing_.overlaps) return {price_overlapping(usage, count_bytes, wires)};
  const uint64_t slices = slices_of(usage, count_bytes);
  if (!usage.lane_levels.empty() && slices > 1 && slicing_.memory_bytes > 0) {
    Price best{.ns = std::numeric_limits<double>::infinity()};
    for (uint64_t far = 1; far <= slices; far *= 2) {
      const double ns = price_in_lanes(usage, count_bytes, far, wires);
      if (ns < best.ns) best = {ns, far};
    }
    if (best.far_slices > 0) return best;
  }
  const double ns = price_in_slices(usage, count_bytes, slices, wires);
  if (slices == 1 || slicing_.memory_bytes <= 0) return {ns};
  const Price longer = price_long(usage, count_bytes, slices, wires);
  return longer.ns < kWorthwhile * ns ? longer : Price{ns};
}

// Every slice has the hand-overs of a call of one slice.
double LevelPrices::price_overlapping(const Usage& usage, double count_bytes,
                                      std::span<const WirePrice> wires) const {
  const double once = price_in_slices(usage, count_bytes, 1, wires);
  double slices = staged_slices(usage, count_bytes);
  if (slices > slicing_.most_short_slices) {
    slices *= slicing_.frame_bytes / slicing_.spanning_frame_bytes;
    slices = std::max(slicing_.most_short_slices, std::ceil(slices));
  }
  if (slices < 2) return once;
  const LinkModel& link = levels_.back().link;
  const schedule::LevelCost& cost = usage.levels.back().cost;
  const double links = cost.bytes * (link.wire_ns_per_byte + link.moved_ns_per_byte) * count_bytes;
  const double hand_overs = cost.depth * link.latency_ns + cost.messages * link.message_ns;
  const double serial = once + (slices - 1) * hand_overs;
  return std::max(links, serial / 2) + serial / slices + kUnhidden * slices * hand_overs;
}

// One lane. Of slices that cost not much more than the best the shortest are taken.
Price LevelPrices::price_long(const Usage& usage, double count_bytes, uint64_t slices,
                              std::span<const WirePrice> wires) const {
  const bool is_staged = std::ranges::any_of(levels_, &PricedLevel::maps);
  Price best{.ns = std::numeric_limits<double>::infinity()};
  if (is_staged && !slicing_.lands) return best;
  const double kept = kept_bytes(usage) * count_bytes;
  const double cold_ns = slicing_.lands ? 0 : kept * kColdNsPerByte;
  double least = best.ns;
  std::vector<Price> prices;
  const bool has_frames = is_staged || slicing_.lands;
  const double fewest = has_frames ? staged_slices(usage, count_bytes) : 1;
  for (auto far = static_cast<uint64_t>(fewest); far < slices; far *= 2) {
    if (kept > slicing_.memory_bytes * static_cast<double>(far)) continue;
    prices.push_back({price_in_slices(usage, count_bytes, far, wires) + cold_ns, far});
    least = std::min(least, prices.back().ns);
  }
  for (const Price& price : prices) {
    if (kWorthwhile * price.ns <= least) best = price;
  }
  return best;
}

// Beside the buffers, of one slice of a plan of one lane, in counts.
double LevelPrices::kept_bytes(const Usage& usage) const {
  double far = 0;
  for (size_t i = 0; i < usage.levels.size(); ++i) {
    if (!level_of(usage, i).maps) far += usage.levels[i].cost.bytes;
  }
  if (slicing_.lands) return 2 * far * slicing_.turns;  // as much goes as comes
  const double scratch =
      static_cast<double>(usage.cost.scratch.num) / static_cast<double>(usage.cost.scratch.den);
  return 2 * scratch + (usage.lands ? far : 0);  // a message for scratch memory lands elsewhere
}

// One slice after the other.
double LevelPrices::price_in_slices(const Usage& usage, double count_bytes, uint64_t slices,
                                    std::span<const WirePrice> wires) const {
  const double slice_bytes = count_bytes / static_cast<double>(slices);
  double sum = 0;
  for (size_t i = 0; i < usage.levels.size(); ++i) {
    const PricedLevel& level = level_of(usage, i);
    const LevelUse& use = usage.levels[i];
    const WirePrice wire = wire_of(usage, i, wires);
    sum += predict_ns(use, level.link, count_bytes, wire);
    // On one host calls in a row overlap.
    if (usage.levels.size() > 1 || !level.maps) sum += fill_ns(use, level, slice_bytes, wire);
    if (level.maps) {
      // Calls in a row overlap where nobody answers.
      const bool overlaps = usage.flows_one_way && level.link.one_way_ns > 0;
      if (overlaps) sum += level.link.one_way_ns - use.cost.depth * level.link.latency_ns;
      continue;
    }
    sum += asked(use, slice_bytes, wire) * level.link.latency_ns;
    sum += use.cost.bytes * slice_bytes * level.link.crossing_ns_per_byte;
    const auto more = static_cast<double>(slices - 1);
    const double messages_ns = static_cast<double>(use.cost.messages) * level.link.message_ns;
    sum += more * (waits_ns(use, level.link, slice_bytes, wire) / slicing_.turns + messages_ns);
  }
  return sum;
}

// The first slice goes through all lanes; each of the others is as much later as the slowest of
// them: a lane between hosts, what they move, or the rank, which does all lanes within its host.
double LevelPrices::price_in_lanes(const Usage& usage, double count_bytes, uint64_t slices,
                                   std::span<const WirePrice> wires) const {
  const double slice_bytes = count_bytes / static_cast<double>(slices);
  std::vector<double> lanes(usage.levels.size(), 0);  // by innermost level
  for (const size_t level : usage.lane_levels) {
    if (level < lanes.size()) ++lanes[level];
  }
  double first = 0, near = 0, slowest = 0, lane = 0, memory = 0;
  for (size_t i = usage.levels.size(); i-- > 0;) {
    const LevelUse& use = usage.levels[i];
    const PricedLevel& level = level_of(usage, i);
    const WirePrice wire = wire_of(usage, i, wires);
    const double once = predict_ns(use, level.link, slice_bytes, wire);
    first += once + (level.maps ? 0 : asked(use, slice_bytes, wire) * level.link.latency_ns);
    if (level.maps) {
      near += once - use.cost.depth * level.link.latency_ns;
      continue;
    }
    const double busy = once - use.cost.depth * level.link.latency_ns;
    slowest = std::max(slowest, busy);
    // With the levels further out that have no lane of their own. A slice is asked for when the
    // one before it has come, so that the link is idle meanwhile.
    lane += busy + waits_ns(use, level.link, slice_bytes, wire);
    memory += use.cost.bytes * slice_bytes;
    if (lanes[i] == 0) continue;
    slowest = std::max(slowest, lane / lanes[i]);
    lane = 0;
  }
  const double in_flight = static_cast<double>(std::min<uint64_t>(slices, kSlicesInFlight));
  memory += in_flight * slice_bytes * static_cast<double>(usage.cost.scratch.num) /
            static_cast<double>(usage.cost.scratch.den);
  if (lane > 0 || memory > slicing_.memory_bytes) return std::numeric_limits<double>::infinity();
  return first + static_cast<double>(slices - 1) * std::max(slowest, near);
}

std::vector<LevelUse> LevelPrices::count(const schedule::Algorithm& algorithm,
                                         const schedule::Parameters& parameters) const {
  const schedule::LevelMap map{tree_->levels(),
                               [this](int a, int b) { return tree_->common_level(a, b); },
                               [this](int rank) { return group_->host_of(rank); }};
  const schedule::Shape shape = algorithm.shape(parameters);
  const auto counted =
      schedule::count_traffic(shape, schedule::schedules_of(algorithm, parameters), map);
  std::vector<LevelUse> uses;
  if (!counted.ok()) return uses;
  std::vector<RankUse> ranks;
  for (const auto& traffic : counted.value().traffic) {
    ranks.push_back({&traffic, std::vector<double>(levels_.size(), 0)});
  }
  for (size_t i = 0; i < levels_.size(); ++i) {
    LevelUse& use = uses.emplace_back(LevelUse{counted.value().costs[i], 0});
    // No lane is more slices ahead of the others.
    const auto window = static_cast<uint32_t>(use.cost.depth / kSlicesInFlight);
    if (shape.lanes > 1) use.cost.span = std::max(use.cost.span, window);
    const std::vector<double> links = links_below(i, counted.value().traffic);
    for (size_t rank = 0; rank < ranks.size() && !links.empty(); ++rank) {
      if (schedule::messages_of((*ranks[rank].traffic)[i]) == 0) continue;
      ranks[rank].links_ns_per_byte[i] = links[node_below(i, static_cast<int>(rank))];
    }
  }
  take_busiest(ranks, levels_, uses);
  return uses;
}

const CopyLoad& LevelPrices::load_of(const schedule::Algorithm& algorithm,
                                     const schedule::Parameters& parameters) {
  const auto [found, is_new] = loads_.try_emplace(key_of(algorithm, parameters));
  if (!is_new) return found->second;
  const schedule::BlockWidths widths(algorithm.shape(parameters));
  const schedule::LevelMap map{1, [](int, int) { return size_t{0}; }, [](int) { return 0u; }};
  std::vector<CopiedBytes> ranks;
  for (int rank = 0; rank < parameters.ranks; ++rank) {
    const auto traffic =
        schedule::traffic_of(algorithm.schedule(parameters, rank), rank, widths, map);
    ranks.push_back({traffic[0].published, traffic[0].bytes_received});
  }
  return found->second = select::load_of(ranks, cores_);
}

std::optional<CopyChoice> LevelPrices::copies_of(const schedule::Algorithm& algorithm,
                                                 const schedule::Parameters& parameters,
                                                 double count_bytes) {
  const LinkModel& link = levels_[0].link;
  if (link.rates.empty() || levels_.size() > 1 || count_bytes <= 0) return std::nullopt;
  const double moved = level_cost(usage_of(algorithm, parameters).cost).moved * count_bytes;
  const CopyRate rate = rate_at(link.rates, moved);
  if (rate.single_ns_per_byte <= 0) return std::nullopt;
  const CopyLoad& load = load_of(algorithm, parameters);
  const double step_ns = link.latency_ns;
  return CopyChoice{step_ns + rate.staged_ns_per_byte * load.staged * count_bytes,
                    2 * step_ns + rate.single_ns_per_byte * load.single * count_bytes};
}

size_t LevelPrices::node_below(size_t level, int rank) const {
  return level == 0 ? static_cast<size_t>(rank) : tree_->node_of(level - 1, rank);
}

// How long the links of the nodes below a level take for all that leaves or enters them.
std::vector<double> LevelPrices::links_below(
    size_t level, const std::vector<std::vector<schedule::RankTraffic>>& traffic) const {
  const std::vector<double>& uplinks = levels_[level].uplinks;
  std::vector<double> out(uplinks.size(), 0), in(uplinks.size(), 0), links;
  for (size_t rank = 0; rank < traffic.size() && !uplinks.empty(); ++rank) {
    const size_t node = node_below(level, static_cast<int>(rank));
    for (size_t above = level; above < levels_.size(); ++above) {
      out[node] += traffic[rank][above].bytes_sent;
      in[node] += traffic[rank][above].bytes_received;
    }
  }
  for (size_t node = 0; node < uplinks.size(); ++node) {
    links.push_back(std::max(out[node], in[node]) * uplinks[node]);
  }
  return links;
}

}  // namespace tutti::select
