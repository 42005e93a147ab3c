#include "tools/verifier/plan_sweep.h"

#include <algorithm>

namespace tutti::plan {

using schedule::Collective;

const char* name_of(Placing placing) {
  static constexpr const char* kNames[] = {"separate", "in place", "mixed"};
  return kNames[static_cast<int>(placing)];
}

namespace {

// Hosts of two ranks each; the first half of the hosts, and those that are left, are a region.
group::GroupPointer group_in_regions(int ranks) {
  const auto many = static_cast<size_t>(ranks);
  group::Level host{"host", {.map = true}, {}};
  group::Level network{"network", {.stream = true}, {}};
  group::Level region{"region", {.stream = true}, std::vector<uint32_t>(many, 0)};
  for (int rank = 0; rank < ranks; ++rank) {
    host.nodes.push_back(static_cast<uint32_t>(rank / 2));
    network.nodes.push_back(rank / 2 < (ranks + 1) / 4 ? 0 : 1);
  }
  const std::vector<MemberId> members = group::group_on_hosts(std::vector<int>(many, 0))->members();
  return group::GroupView::make(0, 0, members, {host, network, region}).value();
}

}  // namespace

const char* name_of(Spread spread) {
  static constexpr const char* kNames[] = {"one domain", "two domains", "all apart", "two regions"};
  return kNames[static_cast<int>(spread)];
}

group::GroupPointer group_of(int ranks, Spread spread) {
  if (spread == Spread::kTwoRegions) return group_in_regions(ranks);
  std::vector<int> hosts(static_cast<size_t>(ranks), 0);
  for (int rank = 0; rank < ranks; ++rank) {
    if (spread == Spread::kTwoDomains) hosts[static_cast<size_t>(rank)] = rank * 2 / ranks;
    if (spread == Spread::kAllApart) hosts[static_cast<size_t>(rank)] = rank;
  }
  return group::group_on_hosts(hosts);
}

std::string print(const Lowering& lowering) {
  const schedule::Parameters& p = lowering.parameters;
  return std::string(schedule::name_of(lowering.algorithm->collective)) + "/" +
         std::string(lowering.algorithm->name) + " ranks " + std::to_string(p.ranks) + " root " +
         std::to_string(p.root) + " lanes " + std::to_string(p.lanes) + ", " +
         name_of(lowering.spread) + ", " + name_of(lowering.mode) + ", " +
         name_of(lowering.placing) + (lowering.wire.empty() ? "" : ", " + lowering.wire);
}

Result<std::vector<Match>> match_all(const Lowering& lowering) {
  const group::GroupPointer group = group_of(lowering.parameters.ranks, lowering.spread);
  Result<codecs::WireOption> wire = codecs::parse_wire(lowering.wire);
  if (!wire.ok()) return wire.status();
  std::vector<Match> matches;
  for (int rank = 0; rank < group->ranks(); ++rank) {
    MatchRequest request;
    request.wire = wire_of(wire.value(), *group);
    request.algorithm = lowering.algorithm;
    request.parameters = lowering.parameters;
    request.rank = rank;
    request.group = group;
    request.mode = lowering.mode;
    request.in_place = lowering.placing == Placing::kInPlace ||
                       (lowering.placing == Placing::kMixed && rank % 2 == 0);
    request.single_assignment = lowering.single_assignment;
    request.level_calls = lowering.level_calls;
    request.hazards_in_place = lowering.placing != Placing::kSeparate;
    Result<Match> match = plan::match(request);
    if (!match.ok()) return match.status();
    matches.push_back(std::move(match).value());
  }
  return matches;
}

PlanSet bind_all(std::span<const Match> matches, const BindRequest& request, const Tuning& tuning) {
  PlanSet set{matches[0].shape, matches[0].group, request.count, {}, {}, {}};
  for (const Match& match : matches) {
    set.in_place.push_back(match.in_place);
    set.plans.push_back(bind(match, request, tuning));
  }
  return set;
}

PlanSet bind_all(std::span<const Match> matches, std::vector<schedule::CountVectors> vectors,
                 BindRequest request, const Tuning& tuning) {
  request.count = vectors[0].longest;
  PlanSet set{matches[0].shape, matches[0].group, request.count, {}, {}, std::move(vectors)};
  for (const Match& match : matches) {
    set.in_place.push_back(match.in_place);
    request.vectors = &set.vectors[static_cast<size_t>(match.schedule.rank)];
    set.plans.push_back(bind(match, request, tuning));
  }
  return set;
}

Tuning small_tuning(bool in_cells) {
  Tuning tuning;
  if (!in_cells) {
    tuning.inline_bytes = 0;
    tuning.pipeline_slice_cost_bytes = 16;
    tuning.pipeline_bytes = 64;
    tuning.long_pipeline_bytes = 192;
    tuning.long_frame_bytes = 128;
  }
  tuning.frame_bytes = in_cells ? 8 * kCellPayloadBytes : 256;
  tuning.pipeline_region_bytes = 128;
  tuning.read_bytes = 128;
  tuning.stream_bytes = 128;
  return tuning;
}

namespace {

// For algorithms that cross levels: two nodes, or three of which two are on one site.
schedule::NodeTreePointer tree_of(int ranks) {
  std::vector<uint32_t> hosts, sites;
  for (int rank = 0; rank < ranks; ++rank) {
    hosts.push_back(static_cast<uint32_t>(rank * 2 / ranks + (rank > 4 ? 1 : 0)));
    sites.push_back(hosts.back() > 1 ? 1 : 0);
  }
  return schedule::NodeTree::make({hosts, sites, std::vector<uint32_t>(hosts.size(), 0)}).value();
}

bool placement_matters(const Lowering& lowering) {
  const Result<std::vector<Match>> matches = match_all(lowering);
  return !matches.ok() || std::any_of(matches.value().begin(), matches.value().end(),
                                      [](const Match& match) { return match.placement_matters; });
}

}  // namespace

std::vector<Lowering> lowerings(const schedule::Algorithm& algorithm,
                                const schedule::Parameters& parameters) {
  std::vector<Lowering> all;
  const int ranks = parameters.ranks;
  const bool rooted = schedule::traits_of(algorithm.collective).rooted();
  const auto add = [&](Spread spread, Mode mode) {
    for (Placing placing : {Placing::kSeparate, Placing::kInPlace, Placing::kMixed}) {
      if (placing != Placing::kSeparate && !algorithm.in_place) continue;
      if (placing == Placing::kMixed && ranks == 1) continue;
      all.push_back({&algorithm, parameters, spread, mode, placing});
      if (algorithm.follows_levels()) all.back().parameters.tree = tree_of(ranks);
      // A rank that reads its peers' buffers needs to know their placement; the library lets
      // placements differ only where no rank can know better, or nothing follows from it.
      const bool may_differ = placing != Placing::kMixed || mode == Mode::kStaged || rooted ||
                              !placement_matters(all.back());
      if (!may_differ) all.pop_back();
    }
  };
  for (Spread spread : {Spread::kOneDomain, Spread::kTwoDomains, Spread::kAllApart}) {
    if (spread == Spread::kTwoDomains && ranks < 3) continue;  // the same as one of the others
    if (spread == Spread::kAllApart && ranks < 2) continue;
    for (Mode mode :
         {Mode::kStaged, Mode::kDirect, Mode::kSingleCopy, Mode::kPullInputs, Mode::kPull}) {
      const bool of_devices = mode == Mode::kPullInputs || mode == Mode::kPull;
      if (of_devices && (spread != Spread::kOneDomain || parameters.lanes > 1)) continue;
      const bool always_staged =
          spread == Spread::kAllApart || (mode == Mode::kSingleCopy && parameters.lanes > 1);
      if (mode == Mode::kStaged || !always_staged) add(spread, mode);
    }
  }
  return all;
}

std::vector<Lowering> lowerings(const schedule::Algorithm& algorithm, int ranks) {
  std::vector<Lowering> all;
  const bool rooted = schedule::traits_of(algorithm.collective).rooted();
  for (uint16_t lanes : {1, 2, 3}) {
    for (int root : {0, ranks - 1}) {
      if (lanes > algorithm.max_lanes) continue;
      // Copies of the pattern, of which two are as good as three; or phases, of which two are both
      // within hosts and between them.
      if (lanes == (algorithm.lane_levels == nullptr ? 3 : 2)) continue;
      if (root > 0 && (!rooted || ranks == 1)) continue;
      const auto some = lowerings(algorithm, {.ranks = ranks, .root = root, .lanes = lanes});
      all.insert(all.end(), some.begin(), some.end());
    }
  }
  return all;
}

std::vector<Lowering> encoded_lowerings(const schedule::Algorithm& algorithm, int ranks) {
  struct Way {
    Spread spread;
    const char* wire;
  };
  constexpr Way kWays[] = {{Spread::kTwoDomains, "network:int8_block:24"},
                           {Spread::kAllApart, "network:bf16"},
                           {Spread::kTwoRegions, "network:int8_block:8,region:e3m0:16"},
                           {Spread::kTwoRegions, "region:int4_block:8"}};
  std::vector<Lowering> all;
  if (ranks < 2) return all;
  for (const Lowering& lowering : lowerings(algorithm, ranks)) {
    if (lowering.spread != Spread::kOneDomain || lowering.mode != Mode::kStaged) continue;
    for (const Way& way : kWays) {
      if (way.spread == Spread::kTwoRegions && ranks < 3) continue;
      all.push_back(lowering);
      all.back().spread = way.spread;
      all.back().wire = way.wire;
    }
  }
  return all;
}

std::vector<uint64_t> small_counts(const Lowering& lowering) {
  const Collective collective = lowering.algorithm->collective;
  if (collective == Collective::kBarrier) return {0};
  const schedule::Shape shape = lowering.algorithm->shape(lowering.parameters);
  const schedule::Layout layout(shape, 1000);
  // Three pieces of 64 bytes in the longest block, and an odd rest; or of blocks of codecs.
  const uint64_t piece = lowering.wire.empty() ? 8 : 48;
  const uint64_t several = 3 * piece * 1000 / std::max<uint64_t>(1, layout.longest()) + 3;
  return {1, 5, 40, several};
}

std::vector<VerifyPlanOptions> small_rings(const PlanSet& set) {
  const uint32_t parts = set.plans[0].lanes[0].tiny ? kTinyParts : 1;
  return {{.rounds = 3 * parts, .regions = 1, .frames_per_region = 1},
          {.rounds = 6 * parts, .regions = 2, .frames_per_region = 2}};
}

Tally verify_lowering(const Lowering& lowering, const Report& refused) {
  Tally tally;
  const auto judge = [&](const std::string& which, const Status& status) {
    if (status.ok()) return;
    ++tally.refused;
    refused(which, status);
  };
  const Result<std::vector<Match>> matches = match_all(lowering);
  if (!matches.ok()) {
    judge(print(lowering), matches.status());
    return tally;
  }
  const auto prove = [&](const BindRequest& request, bool in_cells) {
    const PlanSet set = bind_all(matches.value(), request, small_tuning(in_cells));
    const bool has_cells = set.plans[0].lanes[0].cells > 0;
    if (in_cells && !has_cells) return;
    ++tally.plan_sets;
    for (const Plan& plan : set.plans) tally.micro_operations += plan.ops.size();
    const std::string which = print(lowering) + ", count " + std::to_string(request.count) +
                              (has_cells ? ", cells" : ", slots") + ", slices " +
                              std::to_string(set.plans[0].slices) + ", " +
                              std::to_string(request.far_slices) + " of them between hosts";
    for (const VerifyPlanOptions& options : small_rings(set)) {
      const Status status = verify_plans(set, options);
      judge(which, status);
      if (!status.ok()) break;
    }
  };
  const bool has_far = std::any_of(matches.value()[0].lanes.begin(), matches.value()[0].lanes.end(),
                                   [](const LaneMatch& lane) { return lane.far; });
  for (uint64_t count : small_counts(lowering)) {
    for (bool in_cells : {true, false}) {
      const bool encodes = !lowering.wire.empty();  // doubles are not
      const types::DataType type = encodes ? types::DataType::kFloat32 : types::DataType::kFloat64;
      BindRequest request{count, type, types::ReduceOp::kSum};
      prove(request, in_cells);
      request.far_slices = 1 + count % 2;
      if (has_far && !in_cells) prove(request, in_cells);
    }
  }
  return tally;
}

}  // namespace tutti::plan
