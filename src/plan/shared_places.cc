#include "src/plan/shared_places.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace tutti::plan {
namespace {

/// A vector load's alignment.
constexpr uint64_t kAlignment = 64;

bool is_slot_of(const Operand& operand, uint32_t rank) {
  return operand.base == register_of(PeerBase::kSlot, static_cast<int>(rank)) &&
         operand.shift == Shift::kFrame;
}

bool is_users(const Operand& operand) {
  return operand.base == register_of(Base::kInput) || operand.base == register_of(Base::kOutput);
}

/// Reads what one rank does in a slice, and writes what it does instead.
class FoldExchange {
 public:
  FoldExchange(Plan& plan, uint32_t rank, uint32_t ranks)
      : plan_(plan), rank_(rank), ranks_(ranks), results_(ranks) {}

  bool find() {
    if (ranks_ < 2 || plan_.lanes.size() != 1 || !plan_.prologue.empty()) return false;
    const LanePlan& lane = plan_.lanes[0];
    const bool is_near = lane.receives == 0 && lane.sends == 0 && lane.cells == 0;
    if (!is_near || !plan_.epilogue.empty() || plan_.scratch_bytes > 0) return false;
    stride_ = lane.frame_bytes / ranks_;
    if (stride_ * ranks_ != lane.frame_bytes || stride_ % kAlignment != 0) return false;
    for (uint32_t i = lane.begin; i < lane.end; ++i) {
      if (!read(plan_.ops[i])) return false;
    }
    return signals_.size() == 3 && is_complete();
  }

  void rewrite() {
    for (const Op& op : credits_) ops_.push_back(op);
    for (uint32_t block = 0; block < ranks_; ++block) {
      const Op& like = block == rank_ ? staged_.begin()->second.op : staged_.at(begin(block)).op;
      const Operand from =
          block == rank_ ? own_source() : source_of(staged_.at(begin(block)).op, 0);
      copy(like, place(rank_, block), from, length_of(block));
    }
    ops_.push_back(signals_[0]);
    ops_.insert(ops_.end(), waits_.begin(), waits_.end());
    fold_all();
    ops_.push_back(signals_[1]);
    copy(results_of_others_.front(), target_of(fold_), place(rank_, rank_), length_of(rank_));
    for (const Op& op : reads_) {
      if (op.code != OpCode::kMove) {
        ops_.push_back(op);
        continue;
      }
      const uint32_t block = rank_of(source_of(op, 0).base);
      copy(op, target_of(op), place(rank_, block), op.length);
    }
    ops_.push_back(signals_[2]);
    plan_.ops = std::move(ops_);
    plan_.lanes[0].begin = 0;
    plan_.lanes[0].end = static_cast<uint32_t>(plan_.ops.size());
  }

 private:
  struct Staged {
    Op op;
    bool taken = false;
  };

  const Operand& target_of(const Op& op) const { return plan_.operands[op.operands]; }
  const Operand& source_of(const Op& op, uint32_t source) const {
    return plan_.operands[op.operands + op.target_count + source];
  }
  static bool is_plain(const Op& op) {
    return op.mask == kNoMask && !op.divide && !op.is_encoded && op.target_count == 1;
  }

  // The parts of a slice end with signals.
  bool read(const Op& op) {
    if (op.code == OpCode::kSignal) {
      signals_.push_back(op);
      return signals_.size() <= 3 && (signals_.size() < 2 || has_published_);
    }
    if (op.code == OpCode::kCredit && signals_.empty()) {
      credits_.push_back(op);
      return true;
    }
    if (op.code == OpCode::kWait && signals_.size() == 1) {
      waits_.push_back(op);
      return !has_folded_;
    }
    if (op.code == OpCode::kWait && signals_.size() == 2) {
      reads_.push_back(op);
      return true;
    }
    if (op.code != OpCode::kMove || !is_plain(op)) return false;
    if (signals_.empty()) return read_staged(op);
    return signals_.size() == 1 ? read_fold(op) : read_result(op);
  }

  bool read_staged(const Op& op) {
    const bool is_copy = op.source_count == 1 && is_slot_of(target_of(op), rank_);
    if (!is_copy || !is_users(source_of(op, 0))) return false;
    return staged_.try_emplace(source_of(op, 0).offset, Staged{op}).second;
  }

  bool read_fold(const Op& op) {
    if (!has_folded_) {
      fold_ = op;
      has_folded_ =
          op.source_count == ranks_ && op.fold == schedule::Fold::kList && is_users(target_of(op));
      return has_folded_;
    }
    const bool is_copy = op.source_count == 1 && is_slot_of(target_of(op), rank_);
    const bool is_first = !std::exchange(has_published_, true);
    return is_first && is_copy && source_of(op, 0) == target_of(fold_) && op.length == fold_.length;
  }

  bool read_result(const Op& op) {
    if (signals_.size() != 2 || op.source_count != 1 || !is_users(target_of(op))) return false;
    const Operand& from = source_of(op, 0);
    if (from.base < register_of(Base::kFixed)) return false;
    const uint32_t owner = rank_of(from.base);
    if (owner == rank_ || owner >= ranks_ || !is_slot_of(from, owner)) return false;
    reads_.push_back(op);
    results_of_others_.push_back(op);
    return !std::exchange(results_[owner], op).has_value();
  }

  // Of each other rank one block is staged, and its result is read; of the own block all others'
  // are folded with the rank's own.
  bool is_complete() {
    if (!has_published_ || waits_.size() + 1 != ranks_) return false;
    for (uint32_t other = 0; other < ranks_; ++other) {
      if (other == rank_) continue;
      if (!results_[other]) return false;
      const auto found = staged_.find(begin(other));
      if (found == staged_.end() || std::exchange(found->second.taken, true)) return false;
      if (found->second.op.length != results_[other]->length) return false;
    }
    if (staged_.size() + 1 != ranks_ || staged_.contains(target_of(fold_).offset)) return false;
    std::vector<bool> folded(ranks_);
    for (uint32_t i = 0; i < ranks_; ++i) {
      const Operand& from = source_of(fold_, i);
      const bool own = is_users(from);
      if (own && from.offset != target_of(fold_).offset) return false;
      const uint32_t whose = own ? rank_ : rank_of(from.base);
      if (whose >= ranks_ || (!own && !is_slot_of(from, whose)) || folded[whose]) return false;
      folded[whose] = true;
    }
    return true;
  }

  // Where a block begins in the user's memory.
  uint64_t begin(uint32_t block) const {
    return block == rank_ ? target_of(fold_).offset : target_of(*results_[block]).offset;
  }
  uint64_t length_of(uint32_t block) const {
    return block == rank_ ? fold_.length : results_[block]->length;
  }
  Operand own_source() const {
    for (uint32_t i = 0; i < ranks_; ++i) {
      if (is_users(source_of(fold_, i))) return source_of(fold_, i);
    }
    return target_of(fold_);
  }
  Operand place(uint32_t rank, uint32_t block) const {
    return {register_of(PeerBase::kSlot, static_cast<int>(rank)), Shift::kFrame, block * stride_};
  }

  void copy(const Op& like, const Operand& target, const Operand& source, uint64_t length) {
    Op op = like;
    op.length = length;
    op.operands = static_cast<uint32_t>(plan_.operands.size());
    const Operand both[] = {target, source};
    plan_.operands.insert(plan_.operands.end(), both, both + 2);
    ops_.push_back(op);
  }

  void fold_all() {
    Op op = fold_;
    op.target_count = static_cast<uint16_t>(ranks_);
    op.operands = static_cast<uint32_t>(plan_.operands.size());
    for (uint32_t i = 0; i < 2 * ranks_; ++i) plan_.operands.push_back(place(i % ranks_, rank_));
    ops_.push_back(op);
  }

  Plan& plan_;
  const uint32_t rank_, ranks_;
  uint64_t stride_ = 0;
  std::vector<Op> credits_, signals_, waits_, reads_, results_of_others_, ops_;
  std::map<uint64_t, Staged> staged_;  // by where the block begins in the user's memory
  Op fold_;
  bool has_folded_ = false, has_published_ = false;
  std::vector<std::optional<Op>> results_;  // by rank
};

}  // namespace

std::optional<uint64_t> shared_place_of(const Plan& plan, const Op& op, uint32_t ranks) {
  if (op.code != OpCode::kMove || ranks < 2) return std::nullopt;
  if (op.source_count != ranks || op.target_count != ranks) return std::nullopt;
  const std::span operands(plan.operands.data() + op.operands, 2 * size_t{ranks});
  for (uint32_t i = 0; i < operands.size(); ++i) {
    const bool alike = is_slot_of(operands[i], i % ranks) && operands[i].encoding == 0;
    if (!alike || operands[i].offset != operands[0].offset) return std::nullopt;
  }
  return operands[0].offset;
}

bool share_places(Plan& plan, uint32_t rank, uint32_t ranks) {
  FoldExchange exchange(plan, rank, ranks);
  if (!exchange.find()) return false;
  exchange.rewrite();
  return true;
}

}  // namespace tutti::plan
