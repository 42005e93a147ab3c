// The part of Emitter that writes level calls (level_calls.h).
#include <algorithm>

#include "src/plan/emit.h"

namespace tutti::plan {

using schedule::Block;

void Emitter::emit_levels(uint32_t before) {
  step_ = before;
  for (const MatchedLevel& level : match_.levels) {
    if (level.before == before) emit_level(level);
  }
}

LevelRow Emitter::level_row(const MatchedRow& row) {
  const schedule::Step in_first_lane{};
  LevelRow made{.kind = row.kind,
                .root = static_cast<uint32_t>(row.root),
                .peer = static_cast<uint32_t>(row.peer)};
  const auto add = [&](Block block) {
    made.length = length_of(block);
    const auto index = static_cast<uint32_t>(plan_.operands.size());
    plan_.operands.push_back(readable(in_first_lane, block));
    return index;
  };
  if (row.source) made.source = add(*row.source);
  if (row.target) made.target = add(*row.target);
  return made;
}

// The ranks of the host see that this one has come, and so does who looks for a late one.
void Emitter::emit_level(const MatchedLevel& level) {
  const schedule::Step in_first_lane{};
  LevelCall call{.first = static_cast<uint32_t>(plan_.level_rows.size()),
                 .value = static_cast<uint32_t>(plan_.level_calls.size()) + 1,
                 .whole = level.whole};
  std::vector<Block> written;
  for (const MatchedRow& row : level.rows) {
    if (row.target) written.push_back(*row.target);
  }
  protect(in_first_lane, written);
  emit(0, {.code = OpCode::kSignal, .value = call.value});
  const auto operands = static_cast<uint32_t>(plan_.operands.size());
  for (const MatchedRow& row : level.rows) {
    if (!row.is_local) plan_.level_rows.push_back(level_row(row));
  }
  call.rows = static_cast<uint32_t>(plan_.level_rows.size()) - call.first;
  if (!lie_in_order(call)) call.whole = LevelWhole::kNone;
  emit(0, {.code = OpCode::kLevel, .value = static_cast<uint32_t>(plan_.level_calls.size())});
  lanes_[0].back().operands = operands;
  plan_.level_calls.push_back(call);
  for (const MatchedRow& row : level.rows) {
    if (!row.is_local) continue;
    const Operand copied[] = {local(*row.target), readable(in_first_lane, *row.source)};
    if (copied[0] == copied[1]) continue;  // in place
    emit_copy(in_first_lane, copied, length_of(*row.target));
  }
}

// Equal on all ranks of the host, since a layout is. Pieces of several slices lie apart.
bool Emitter::lie_in_order(const LevelCall& call) const {
  if (call.whole == LevelWhole::kNone || geometry_.slices * geometry_.parts > 1) return false;
  const size_t ranks = match_.group->near_ranks(match_.schedule.rank).size();
  const auto operand_of = [&](const LevelRow& row) -> const Operand& {
    const bool folds = call.whole == LevelWhole::kReduceScatter;
    const bool brings = folds || row.target == kNoOperand;
    return plan_.operands[brings ? row.source : row.target];
  };
  for (uint32_t i = 0; i < call.rows; ++i) {
    const LevelRow& row = plan_.level_rows[call.first + i];
    const LevelRow& first = plan_.level_rows[call.first + i - i % ranks];
    const Operand& one = operand_of(row);
    const Operand& begin = operand_of(first);
    const uint64_t before = i % ranks * row.length * geometry_.element_bytes;
    const bool is_users =
        one.base == register_of(Base::kInput) || one.base == register_of(Base::kOutput);
    const bool is_behind = one.base == begin.base && one.offset == begin.offset + before;
    if (!is_users || !is_behind || row.length != first.length) return false;
  }
  return true;
}

}  // namespace tutti::plan
