// The part of StreamMachine that puts level calls into the lane's stream: what the ranks of a host
// do by a library (level_library.h).
#include <algorithm>
#include <span>

#include "src/engines/cuda/stream_machine.h"

namespace tutti::engines::cuda {

using plan::Answer;
using plan::Op;
using plan::Position;

// All ranks of the host have so many of the slice's bytes in a row, or none.
bool StreamMachine::add_part(const Position& at, const plan::LevelRow& row) {
  uint64_t bytes = 0;
  if (!set_piece(at, row.length, bytes)) return true;
  LevelPart part{.kind = row.kind,
                 .root = static_cast<int>(row.root),
                 .peer = static_cast<int>(row.peer),
                 .count = bytes / plan_->element_bytes};
  if (row.source != plan::kNoOperand) part.source = address(plan_->operands[row.source]);
  if (row.target != plan::kNoOperand) part.target = address(plan_->operands[row.target]);
  parts_.push_back(part);
  return part.source != 0 || part.target != 0;
}

// Of a scaled sum: whether ranks bring what is theirs alone; all folds of a call are alike.
bool StreamMachine::brings_own(const plan::LevelCall& call) const {
  if (own_.empty()) return false;
  const auto folds = [](const plan::LevelRow& row) {
    return row.kind == plan::LevelRowKind::kFold || row.kind == plan::LevelRowKind::kFoldForAll;
  };
  const std::span rows(plan_->level_rows.data() + call.first, call.rows);
  const auto first = std::find_if(rows.begin(), rows.end(), folds);
  return first != rows.end() && own_[first->source];
}

// The library waits for the others, and makes its calls one after the other, in whatever streams
// they are; who looks for a late rank looks at what they signal before.
Answer StreamMachine::level(const Position& at, const Op& op) {
  const plan::LevelCall& call = plan_->level_calls[op.value];
  if (cuda_ != nullptr && levels_ == nullptr) return refuse(at, "a level call");
  if (turns_.gives_up_level(at.lane)) return Answer::kNotYet;
  turns_.level(*plan_, at.lane, at.slice, op.value);
  if (!go_to(at.lane)) return Answer::kFailed;
  parts_.clear();
  for (uint32_t i = 0; i < call.rows; ++i) {
    const plan::LevelRow& row = plan_->level_rows[call.first + i];
    if (!add_part(at, row)) return refuse(at, "a row of a level call without a block");
  }
  if (!keep_signals_first(at.lane) || !put_lists()) return Answer::kFailed;
  const size_t ranks = addresses_.rings.size();
  for (size_t rank = 0; rank < ranks; ++rank) {
    if (rank != addresses_.rank) awaited_[at.lane * ranks + rank] = at.progress + call.value;
  }
  if (parts_.empty()) return Answer::kGoOn;
  if (has_leveled_ && has_second() && !follow(stream_, SideStream::kLevelMark)) {
    return Answer::kFailed;
  }
  ++counts_.level_calls;
  if (cuda_ == nullptr) return Answer::kGoOn;
  const LevelWork work{.whole = call.whole,
                       .type = plan_->type,
                       .op = plan_->operation,
                       .parts = parts_,
                       .factor = brings_own(call) ? factor_ : nullptr,
                       .scale = op.mask == plan::kNoMask ? 1 : plan_->scale,
                       .deadline_ns = deadline_ns_};
  if (!keep(levels_->put_level(work, stream_))) return Answer::kFailed;
  has_leveled_ = true;
  const bool marked = !has_second() || mark(SideStream::kLevelMark, stream_);
  return marked ? Answer::kGoOn : Answer::kFailed;
}

}  // namespace tutti::engines::cuda
