// Level calls: all ranks of a host bring what they have, and each takes what it gets of the others.
//
// A rank is in the call until all have come: the library may make it wait that long. It learns of
// those alone of whom it takes something. Its blocks may be read at any time until then, and
// written, so no row may write what another one reads.
#include <algorithm>

#include "src/plan/verify_plan_machine.h"

namespace tutti::plan::verifier {
namespace {

bool takes_of_all(LevelRowKind kind) {
  return kind == LevelRowKind::kFold || kind == LevelRowKind::kFoldForAll;
}

const LevelCall& call_of(const Plan& plan, const Op& op) { return plan.level_calls[op.value]; }

}  // namespace

bool Machine::level(const Context& at) {
  Rank& state = ranks_[at.rank];
  const auto near = group_->near_ranks(static_cast<int>(at.rank));
  const auto key = std::pair(static_cast<uint32_t>(near[0]), state.level_calls);
  LevelMeeting& meeting = meetings_[key];
  if (meeting.comers.empty()) {
    meeting.comers.resize(ranks_.size());
    meeting.at = *at.at;
    meeting.call = state.call;
    meeting.number = at.op->value;
  }
  LevelComer& mine = meeting.comers[at.rank];
  if (!mine.has_come && !come(at, meeting, mine)) return true;
  const bool all = std::ranges::all_of(
      near, [&](int rank) { return meeting.comers[static_cast<size_t>(rank)].has_come; });
  if (!all) return false;
  if (!take_rows(at, meeting)) return true;
  ++state.level_calls;
  if (++meeting.gone == near.size()) meetings_.erase(key);
  return true;
}

// False: refused.
bool Machine::come(const Context& at, LevelMeeting& meeting, LevelComer& mine) {
  const Plan& plan = plan_of(at.rank);
  const LevelCall& call = call_of(plan, *at.op);
  const bool same = meeting.call == ranks_[at.rank].call && meeting.number == at.op->value &&
                    meeting.at.lane == at.at->lane && meeting.at.slice == at.at->slice;
  if (!same) refuse_at(at, "makes another level call than a rank of its host");
  if (same && counters_[at.thread].value != at.at->progress + call.value) {
    refuse_at(at, "makes a level call without having said so");
  }
  if (!ok() || !check_level_places(at)) return false;
  begin(at.thread, event_of(at));
  mine.sources.resize(call.rows);
  for (uint32_t i = 0; i < call.rows; ++i) {
    const LevelRow& row = plan.level_rows[call.first + i];
    if (row.source == kNoOperand) continue;
    const auto source = place(at, plan.operands[row.source], row.length);
    if (!source || !read(*source, at.thread, mine.sources[i])) return false;
  }
  mine.has_come = true;
  mine.thread = at.thread;
  mine.clock = threads_[at.thread].clock;
  return true;
}

// A fold may end where its rank's own part of it lay.
bool Machine::check_level_places(const Context& at) {
  const Plan& plan = plan_of(at.rank);
  const LevelCall& call = call_of(plan, *at.op);
  std::vector<std::pair<uint32_t, Place>> sources, targets;
  for (uint32_t i = 0; i < call.rows; ++i) {
    const LevelRow& row = plan.level_rows[call.first + i];
    for (const bool reads : {true, false}) {
      const uint32_t operand = reads ? row.source : row.target;
      if (operand == kNoOperand) continue;
      const auto found = place(at, plan.operands[operand], row.length);
      if (!found || (!reads && !may_write(at, plan.operands[operand]))) return false;
      (reads ? sources : targets).emplace_back(i, *found);
    }
  }
  for (const auto& [row, target] : targets) {
    const auto meets = [&, row = row, target = target](const auto& other) {
      const auto& [number, place] = other;
      const bool is_own = number == row && place.range == target.range;
      return !is_own && place.memory == target.memory && place.range.begin < target.range.end &&
             target.range.begin < place.range.end;
    };
    const bool twice = std::ranges::count_if(targets, [&](const auto& other) {
                         return meets(other) || other.first == row;
                       }) > 1;
    if (!twice && std::ranges::none_of(sources, meets)) continue;
    refuse_at(at, "writes in a level call what another row of it reads or writes");
    return false;
  }
  return true;
}

bool Machine::take_rows(const Context& at, const LevelMeeting& meeting) {
  const LevelCall& call = call_of(plan_of(at.rank), *at.op);
  for (uint32_t i = 0; i < call.rows; ++i) {
    if (!take_row(at, meeting, i)) return false;
  }
  return true;
}

bool Machine::take_row(const Context& at, const LevelMeeting& meeting, uint32_t number) {
  const Plan& plan = plan_of(at.rank);
  const LevelRow& row = plan.level_rows[call_of(plan, *at.op).first + number];
  if (row.target == kNoOperand) return true;
  const auto target = place(at, plan.operands[row.target], row.length);
  if (!target) return false;
  Op fold_all;
  const auto take = [&](uint32_t from) {
    if (!bring(at, meeting, from, number)) return false;
    ++fold_all.source_count;
    return true;
  };
  sources_.clear();
  if (takes_of_all(row.kind)) {
    for (const int from : group_->near_ranks(static_cast<int>(at.rank))) {
      if (!take(static_cast<uint32_t>(from))) return false;
    }
  } else if (!take(row.root)) {
    return false;
  }
  if (target->range.size() == 0) return true;
  fold(plan, fold_all);
  return write(*target, at.thread, folded_);
}

// The block that `from` brings for this row becomes a source.
bool Machine::bring(const Context& at, const LevelMeeting& meeting, uint32_t from,
                    uint32_t number) {
  const Plan& plan = plan_of(at.rank);
  const LevelCall& call = call_of(plan, *at.op);
  const LevelRow& row = plan.level_rows[call.first + number];
  uint32_t before = 0;
  for (uint32_t i = 0; i < number; ++i) {
    const LevelRow& other = plan.level_rows[call.first + i];
    if (other.kind == row.kind && other.root == row.root && other.peer == row.peer) ++before;
  }
  // A rank that is past the call may be in the next one, whose plan may be another.
  const Plan& theirs = set_of(meeting.call).plans[from];
  const LevelCall& other = theirs.level_calls[meeting.number];
  std::optional<uint32_t> found;
  uint32_t left = before;
  for (uint32_t i = 0; i < other.rows && !found; ++i) {
    const LevelRow& one = theirs.level_rows[other.first + i];
    const bool alike = one.kind == row.kind && one.root == row.root && one.peer == row.peer;
    if (alike && left-- == 0) found = i;
  }
  const bool brings = found && theirs.level_rows[other.first + *found].source != kNoOperand &&
                      theirs.level_rows[other.first + *found].length == row.length;
  if (!brings) {
    refuse_at(at, "takes in a level call what rank " + std::to_string(from) + " does not bring");
    return false;
  }
  const LevelComer& comer = meeting.comers[from];
  sources_.push_back(comer.sources[*found]);
  const bool scales = takes_of_all(row.kind) && at.op->mask != kNoMask && plan.scale != 1.0;
  for (Part& part : sources_.back()) {
    part.value = values_.by_exact_way(scales ? values_.scale(part.value) : part.value);
  }
  threads_[at.thread].clock.join(comer.clock);
  return true;
}

}  // namespace tutti::plan::verifier
