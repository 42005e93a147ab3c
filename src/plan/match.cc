#include "src/plan/match.h"

#include <algorithm>
#include <string>
#include <utility>

#include "src/plan/level_calls.h"
#include "src/plan/mechanism.h"
#include "src/plan/traffic.h"
#include "src/schedule/single_assignment.h"

namespace tutti::plan {

using schedule::Schedule;
using schedule::Source;
using schedule::Step;
using schedule::StepKind;

const char* name_of(Mode mode) {
  static constexpr const char* kNames[] = {"staged", "direct", "single copy", "pulled inputs",
                                           "pulled"};
  return kNames[static_cast<int>(mode)];
}

namespace {

// Copies a block list of another rank into the match, which outlives that rank's schedule.
uint32_t keep(Match& result, std::span<const schedule::Block> blocks) {
  const auto offset = static_cast<uint32_t>(result.block_words.size());
  for (schedule::Block block : blocks) result.block_words.push_back(block.word);
  return offset;
}

NearMessage describe(Match& result, const Traffic& traffic, const Sent& sent) {
  NearMessage message;
  message.mechanism = sent.mechanism;
  message.source = sent.source;
  message.slot = sent.slot;
  message.cell = sent.cell;
  message.value = sent.value;
  if (sent.mechanism == Mechanism::kPull || sent.mechanism == Mechanism::kRead) {
    message.blocks = keep(result, traffic.blocks_of(sent));
  }
  return message;
}

void distil_send(Match& result, const Traffic& traffic, uint32_t index) {
  const Schedule& mine = result.schedule;
  const Step& step = mine.steps[index];
  MatchedStep& matched = result.steps[index];
  matched.far = static_cast<uint32_t>(result.far_peers.size());
  for (uint32_t peer : mine.peers_of(step)) {
    const int rank = static_cast<int>(peer);
    if (!result.group->near(mine.rank, rank)) result.far_peers.push_back(rank);
  }
  matched.far_count = static_cast<uint32_t>(result.far_peers.size()) - matched.far;
  const Sent* sent = traffic.sent_by(mine.rank, index);
  if (sent == nullptr || !result.levels.empty()) return;
  matched.near = true;
  matched.signal = sent->signal;
  matched.message = describe(result, traffic, *sent);
  matched.pushes = static_cast<uint32_t>(result.push_targets.size());
  traffic.each_delivery(*sent, [&](const Delivery& delivery) {
    if (sent->mechanism == Mechanism::kPush) {
      const uint32_t blocks = keep(result, traffic.target_of(delivery));
      result.push_targets.push_back({delivery.rank, blocks});
    } else if (sent->mechanism == Mechanism::kPull || sent->mechanism == Mechanism::kRead) {
      result.readers.push_back({delivery.rank, step.lane, traffic.done_value(delivery)});
    }
  });
  matched.push_count = static_cast<uint32_t>(result.push_targets.size()) - matched.pushes;
}

void keep_own_steps(Match& result, const Traffic& traffic) {
  const Schedule& mine = result.schedule;
  result.steps.resize(mine.steps.size());
  size_t arrival = 0;
  const std::vector<uint32_t>& arrived = traffic.arrivals(mine.rank);
  for (uint32_t i = 0; i < mine.steps.size(); ++i) {
    const Step& step = mine.steps[i];
    if (step.kind == StepKind::kSend) {
      distil_send(result, traffic, i);
      continue;
    }
    result.steps[i].arrivals = static_cast<uint32_t>(result.arrivals.size());
    for (Source source : mine.sources_of(step)) {
      if (!source.is_message() || !result.group->near(mine.rank, source.peer())) continue;
      const NearMessage message = describe(result, traffic, traffic.sent(arrived[arrival++]));
      result.arrivals.push_back(message);
    }
  }
  result.flows_one_way = traffic.flows_one_way();
  result.lanes = traffic.lanes();
  result.message_blocks = traffic.message_blocks();
}

// Whether ranks of different hosts share a node of the level.
bool crosses_hosts(const group::GroupView& group, const schedule::NodeTree& tree, size_t level) {
  for (uint32_t node = 0; node < tree.nodes(level); ++node) {
    const auto ranks = tree.ranks_of(level, node);
    for (const int rank : ranks) {
      if (!group.near(rank, ranks[0])) return true;
    }
  }
  return false;
}

// A level joins ranks of one host, or hosts: a host is a node of the group. Where every rank has a
// host of its own, no message of any lane is near.
void find_far_lanes(Match& result, const MatchRequest& request) {
  if (request.group->hosts() == static_cast<uint32_t>(request.group->ranks())) {
    for (LaneMatch& lane : result.lanes) lane.far = true;
    return;
  }
  const schedule::NodeTreePointer& tree = request.parameters.tree;
  if (request.algorithm->lane_levels == nullptr || tree == nullptr) return;
  const std::vector<size_t> levels = request.algorithm->lane_levels(request.parameters);
  for (size_t lane = 0; lane < levels.size() && lane < result.lanes.size(); ++lane) {
    result.lanes[lane].far = crosses_hosts(*request.group, *tree, levels[lane]);
  }
}

// Ranks of one host exchange block by block; a message by stream is one micro-operation.
bool is_streamed(const Match& match, const Step& step) {
  const auto is_far = [&](int peer) { return !match.group->near(match.schedule.rank, peer); };
  if (step.kind == StepKind::kSend) {
    const auto peers = match.schedule.peers_of(step);
    return std::any_of(peers.begin(), peers.end(),
                       [&](uint32_t peer) { return is_far(static_cast<int>(peer)); });
  }
  const auto sources = match.schedule.sources_of(step);
  return std::any_of(sources.begin(), sources.end(),
                     [&](Source source) { return source.is_message() && is_far(source.peer()); });
}

// Executors keep the operands of one step in arrays of fixed size.
Status check_limits(const Match& match) {
  if (match.shape.lanes > kMaxLanes) {
    return Status::unsupported("a schedule with " + std::to_string(match.shape.lanes) +
                               " lanes; a plan has at most " + std::to_string(kMaxLanes));
  }
  for (const Step& step : match.schedule.steps) {
    if (step.block_count > kMaxBlocks && is_streamed(match, step)) {
      return Status::unsupported("a message of " + std::to_string(step.block_count) +
                                 " blocks; between hosts it has at most " +
                                 std::to_string(kMaxBlocks));
    }
    // A SEND is one copy however many receive it, or a post for each; what is pushed is limited by
    // the choice of mechanisms.
    if (step.kind == StepKind::kSend || step.operand_count <= types::kMaxSources) continue;
    return Status::unsupported("a step with " + std::to_string(step.operand_count) +
                               " sources; a plan's has at most " +
                               std::to_string(types::kMaxSources));
  }
  return {};
}

// Whether mechanisms that are right for buffers in place differ from those for separate ones.
// Leaves the traffic with those of `hazards_in_place`.
bool choose_and_compare(Traffic& traffic, Mode mode, bool hazards_in_place) {
  choose_mechanisms(traffic, mode, hazards_in_place);
  if (mode == Mode::kStaged) return false;
  const std::vector<Sent> chosen(traffic.messages().begin(), traffic.messages().end());
  for (Sent& sent : traffic.messages()) {
    sent.mechanism = Mechanism::kSlot;
    sent.ready_at_entry = false;
  }
  choose_mechanisms(traffic, mode, !hazards_in_place);
  const bool equal = std::equal(
      chosen.begin(), chosen.end(), traffic.messages().begin(), [](const Sent& a, const Sent& b) {
        return a.mechanism == b.mechanism && a.ready_at_entry == b.ready_at_entry;
      });
  std::copy(chosen.begin(), chosen.end(), traffic.messages().begin());
  return !equal;
}

Schedule schedule_of(const MatchRequest& request, int rank) {
  Schedule schedule = request.algorithm->schedule(request.parameters, rank);
  return request.single_assignment ? schedule::single_assignment(schedule) : schedule;
}

// The lanes of a rank share the zones in which single copies land.
Mode mode_of(const MatchRequest& request, const schedule::Shape& shape) {
  const bool may = request.mode != Mode::kSingleCopy || shape.lanes == 1;
  return may && !request.wire.encodes() ? request.mode : Mode::kStaged;
}

// The lane counter tells that a rank has come to each of its level calls.
void keep_levels(Match& result, const RankLevels& mine) {
  for (size_t i = 0; i < mine.replaced.size(); ++i) result.steps[i].by_level = mine.replaced[i];
  for (LaneMatch& lane : result.lanes) {
    lane = {.advance = 1 + static_cast<uint32_t>(mine.levels.size())};
  }
  result.message_blocks = 0;
}

Status find_rounding(Match& result, const MatchRequest& request, int own) {
  if (!request.wire.encodes()) return {};
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < result.shape.ranks; ++rank) {
    schedules.push_back(schedule_of(request, rank));
  }
  Result<Rounding> rounding =
      round_values(result.shape, schedules, *request.group, request.wire, own);
  if (!rounding.ok()) return rounding.status();
  result.wire = request.wire;
  result.rounding = std::move(rounding).value();
  return {};
}

}  // namespace

HostMatch::HostMatch(const MatchRequest& request)
    : request_(request),
      shape_(request.algorithm->shape(request.parameters)),
      mode_(mode_of(request, shape_)),
      traffic_(std::make_unique<Traffic>(shape_, *request_.group, request_.rank)) {}

HostMatch::~HostMatch() = default;

Result<std::unique_ptr<HostMatch>> HostMatch::make(const MatchRequest& request) {
  std::unique_ptr<HostMatch> made(new HostMatch(request));
  if (Status status = made->match_traffic(); !status.ok()) return status;
  return made;
}

Status HostMatch::match_traffic() {
  for (const int rank : request_.group->near_ranks(request_.rank)) {
    traffic_->add(schedule_of(request_, rank));
  }
  if (Status status = traffic_->match(); !status.ok()) {
    return Status::internal_error(std::string(schedule::name_of(shape_.collective)) + "/" +
                                  std::string(request_.algorithm->name) + " for " +
                                  std::to_string(shape_.ranks) +
                                  " ranks: " + std::string(status.message()));
  }
  if (request_.level_calls) {
    Result<std::vector<RankLevels>> found =
        find_level_calls(shape_, *request_.group, traffic_->schedules());
    if (!found.ok()) return found.status();
    levels_ = std::move(found).value();
  }
  placement_matters_ = choose_and_compare(*traffic_, mode_, request_.hazards_in_place);
  traffic_->number();
  return {};
}

Result<Match> HostMatch::of(int rank) const {
  Match result;
  result.group = request_.group;
  result.shape = shape_;
  result.mode = mode_;
  result.in_place = request_.in_place && schedule::has_both(shape_, rank);
  result.placement_matters = placement_matters_;
  const schedule::Cost cost = request_.algorithm->cost(request_.parameters);
  result.published = cost.published;
  result.scratch = cost.scratch;
  const size_t near = request_.group->near_ranks(rank).size();
  result.far = near < static_cast<size_t>(shape_.ranks);
  result.schedule = traffic_->schedule_of(rank);
  if (Status status = check_limits(result); !status.ok()) return status;
  if (!levels_.empty()) result.levels = levels_[request_.group->near_place(rank)].levels;
  keep_own_steps(result, *traffic_);
  if (!levels_.empty()) keep_levels(result, levels_[request_.group->near_place(rank)]);
  find_far_lanes(result, request_);
  if (Status status = find_rounding(result, request_, rank); !status.ok()) return status;
  return result;
}

Result<Match> match(const MatchRequest& request) {
  Result<std::unique_ptr<HostMatch>> host = HostMatch::make(request);
  if (!host.ok()) return host.status();
  return host.value()->of(request.rank);
}

}  // namespace tutti::plan
