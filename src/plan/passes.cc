#include "src/plan/passes.h"

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

namespace tutti::plan {
namespace {

bool is_copy(const Op& op) { return op.code == OpCode::kMove && op.source_count == 1; }

bool is_user_memory(const Operand& operand) {
  if (operand.base < register_of(Base::kFixed)) {
    return operand.base == register_of(Base::kInput) || operand.base == register_of(Base::kOutput);
  }
  const PeerBase base = peer_base_of(operand.base);
  return base == PeerBase::kInput || base == PeerBase::kOutput;
}

bool is_slot(const Operand& operand) {
  return operand.base >= register_of(Base::kFixed) && peer_base_of(operand.base) == PeerBase::kSlot;
}

// Whose slot the move reads, besides this rank's own.
uint32_t slot_read_last(const Plan& plan, const Op& op, uint32_t rank) {
  uint32_t owner = kNoPeer;
  for (uint32_t i = 0; i < op.source_count; ++i) {
    const Operand& source = plan.operands[op.operands + op.target_count + i];
    const bool staged = is_slot(source) && source.shift == Shift::kFrame;
    if (staged && rank_of(source.base) != rank) owner = rank_of(source.base);
  }
  return owner;
}

// Appends the targets of `copy` to those of `move`; operands of merged moves are written anew.
void merge(Plan& plan, Op& move, const Op& copy) {
  const auto begin = static_cast<uint32_t>(plan.operands.size());
  const auto append = [&](uint32_t first, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) plan.operands.push_back(Operand(plan.operands[first + i]));
  };
  plan.operands.reserve(plan.operands.size() + move.target_count + copy.target_count +
                        move.source_count);
  append(move.operands, move.target_count);
  append(copy.operands, copy.target_count);
  append(move.operands + move.target_count, move.source_count);
  move.operands = begin;
  move.target_count = static_cast<uint16_t>(move.target_count + copy.target_count);
}

// Stores that bypass the cache pay where the plan does not read again what it stored. A fold reads
// its target where the call is in place.
class StoresPastCache {
 public:
  StoresPastCache(const Plan& plan, UserStores::Of of) : of_(of) {
    if (of != UserStores::Of::kFinalCopies) return;
    for (const Op& op : plan.ops) {
      if (op.code != OpCode::kMove) continue;
      for (const Operand& source : operands_of(plan, op).subspan(op.target_count)) {
        if (source.base >= read_.size()) read_.resize(source.base + 1, false);
        read_[source.base] = true;
      }
    }
  }

  bool operator()(const Plan& plan, const Op& op) const {
    if (of_ == UserStores::Of::kNone) return false;
    if (of_ == UserStores::Of::kFinalCopies && !is_copy(op)) return false;
    const auto is_meant = [&](const Operand& target) {
      const bool is_read = target.base < read_.size() && read_[target.base];
      return is_user_memory(target) && (of_ == UserStores::Of::kAll || !is_read);
    };
    return std::ranges::all_of(operands_of(plan, op).first(op.target_count), is_meant);
  }

 private:
  static std::span<const Operand> operands_of(const Plan& plan, const Op& op) {
    return {plan.operands.data() + op.operands, size_t{op.target_count} + op.source_count};
  }

  const UserStores::Of of_;
  std::vector<bool> read_;  // by base
};

}  // namespace

bool forward_stores(Plan& plan) {
  if (plan.lanes.size() != 1) return false;  // kAfter counts ops: only a single lane may lose some
  std::vector<Op> kept;
  kept.reserve(plan.ops.size());
  for (const Op& op : plan.ops) {
    const bool follows = !kept.empty() && kept.back().code == OpCode::kMove && is_copy(op) &&
                         kept.back().length == op.length && kept.back().target_count == 1 &&
                         op.target_count < kMaxTargets;
    if (follows) {
      Op& move = kept.back();
      const Operand& stored = plan.operands[move.operands];
      if (stored == plan.operands[op.operands + op.target_count] && move.mask == kNoMask) {
        merge(plan, move, op);
        continue;
      }
    }
    kept.push_back(op);
  }
  const bool changed = kept.size() != plan.ops.size();
  plan.ops = std::move(kept);
  plan.lanes[0].end = static_cast<uint32_t>(plan.ops.size());
  return changed;
}

namespace {

// All folds of a level call are alike in that (level_calls.h).
bool folds_inputs(const MatchedLevel& level) {
  return std::ranges::any_of(level.rows, [](const MatchedRow& row) {
    const bool folds = row.kind == LevelRowKind::kFold || row.kind == LevelRowKind::kFoldForAll;
    return !row.is_local && folds && row.source->space() == schedule::Space::kInput;
  });
}

}  // namespace

bool scale_contributions(Plan& plan, const Match& match, const BindRequest& request) {
  if (request.op != types::ReduceOp::kAvg || !match.terms_are_counted) return false;
  const auto ranks = static_cast<uint32_t>(match.group->ranks());
  const bool floats = types::is_float(request.type);
  for (Op& op : plan.ops) {
    if (op.code == OpCode::kLevel && floats && folds_inputs(match.levels[op.value])) op.mask = 0;
    if (op.code != OpCode::kMove || op.source_count < 2) continue;
    if (!floats) {
      op.divide = match.target_terms[match.target_terms_begin[op.index] + op.block] == ranks;
      continue;
    }
    op.mask = static_cast<uint32_t>(plan.masks.size());
    plan.masks.resize(plan.masks.size() + (op.source_count + 63u) / 64u, 0);
    const uint32_t begin = match.source_terms_begin[op.index] + op.block * op.source_count;
    for (uint32_t i = 0; i < op.source_count; ++i) {
      if (match.source_terms[begin + i] != 1) continue;
      plan.masks[op.mask + i / 64] |= uint64_t{1} << (i % 64);
    }
  }
  if (floats) plan.scale = 1.0 / ranks;
  if (!floats) plan.divisor = ranks;
  return true;
}

bool choose_stores(Plan& plan, int rank, UserStores stores) {
  const StoresPastCache stores_past_cache(plan, stores.of);
  bool any = false;
  for (Op& op : plan.ops) {
    if (op.code != OpCode::kMove) continue;
    const std::span targets(plan.operands.data() + op.operands, op.target_count);
    const bool meant = stores_past_cache(plan, op);
    any = any || meant;
    op.store = meant ? stores.hint : types::StoreHint::kCached;
    op.peer = slot_read_last(plan, op, static_cast<uint32_t>(rank));
    op.stages = std::ranges::all_of(targets, is_slot);
  }
  return any;
}

types::FoldKey key_of(const Plan& plan, const Op& op) {
  return {
      .type = plan.type,
      .op = plan.operation,
      .order = op.fold == schedule::Fold::kTree ? types::FoldOrder::kTree : types::FoldOrder::kList,
      .store = op.store,
      .source_count = op.source_count,
      .target_count = op.target_count,
      .scaled = op.mask != kNoMask || op.divide};
}

constexpr uint64_t kLeastTapered = 3;  // slices of a lane: of fewer each costs much of the whole

// Without a window between the lanes: nothing of one lane concerns another, so each is bounded by
// the credit of its own ring.
bool take_turns(Plan& plan, uint32_t lanes, bool lands) {
  if (lanes < 2 || plan.lanes.size() != 1 || plan.slices == 1) return false;
  const LanePlan lane = plan.lanes[0];
  if (lane.parts > 1 || lane.cells > 0) return false;
  if (!lands && (lane.receives > 0 || lane.sends > 0)) return false;
  if (!plan.prologue.empty()) return false;
  plan.turns = lanes;
  plan.lanes.assign(lanes, lane);
  plan.slices = (plan.slices + lanes - 1) / lanes;
  plan.tapers = plan.slices >= kLeastTapered;
  if (plan.tapers) ++plan.slices;
  plan.slices_in_flight =
      static_cast<uint32_t>(std::min<uint64_t>(plan.slices, std::numeric_limits<uint32_t>::max()));
  const std::vector<Op> waits = plan.epilogue;
  for (uint32_t i = 1; i < lanes; ++i) {
    for (Op op : waits) {
      op.lane = static_cast<uint8_t>(i);
      plan.epilogue.push_back(op);
    }
  }
  return true;
}

}  // namespace tutti::plan
