#include "tools/verifier/plan_mutants.h"

#include <algorithm>
#include <span>
#include <utility>

#include "src/plan/text.h"
#include "src/plan/verify_plan_machine.h"

namespace tutti::plan {

const char* name_of(Fault fault) {
  static constexpr const char* kNames[kFaults] = {"no end",
                                                  "no signal",
                                                  "no credit",
                                                  "no wait",
                                                  "no later waits",
                                                  "no raise",
                                                  "no wait for cell",
                                                  "no enter",
                                                  "no wait for entry",
                                                  "no wait for readers",
                                                  "no waits for a peer",
                                                  "no after",
                                                  "no post",
                                                  "no arrived",
                                                  "no sent",
                                                  "no move",
                                                  "smaller signal",
                                                  "larger signal",
                                                  "smaller wait",
                                                  "larger wait",
                                                  "earlier after",
                                                  "other cell",
                                                  "shifted operand",
                                                  "shorter",
                                                  "swapped",
                                                  "keeps exact",
                                                  "encodes again",
                                                  "reads encoded"};
  return kNames[static_cast<int>(fault)];
}

namespace {

class Mutator {
 public:
  Mutator(PlanSet& set, const std::function<void(const Mutant&)>& judge)
      : set_(set), judge_(judge) {}

  void run() {
    for (rank_ = 0; rank_ < set_.plans.size(); ++rank_) {
      original_ = set_.plans[rank_];
      for (uint32_t i = 0; i < original_.prologue.size(); ++i) {
        const bool enter = original_.prologue[i].code == OpCode::kEnter;
        mutate(enter ? Fault::kNoEnter : Fault::kNoWaitEnter, i, original_.prologue[i],
               [&](Plan& plan) { plan.prologue.erase(plan.prologue.begin() + i); });
      }
      for (uint32_t i = 0; i < original_.epilogue.size(); ++i) {
        mutate(Fault::kNoReaderWait, i, original_.epilogue[i],
               [&](Plan& plan) { plan.epilogue.erase(plan.epilogue.begin() + i); });
      }
      for (uint32_t peer = 0; peer < set_.plans.size(); ++peer) drop_waits_for(peer);
      for (uint32_t lane = 0; lane < original_.lanes.size(); ++lane) {
        for (uint32_t i = original_.lanes[lane].begin; i < original_.lanes[lane].end; ++i) {
          mutate_op(lane, i);
        }
      }
    }
  }

 private:
  template <class Change>
  void mutate(Fault fault, uint32_t index, const Op& op, Change change) {
    Plan& plan = set_.plans[rank_];
    change(plan);
    judge_({fault, rank_, index,
            std::string(name_of(fault)) + ": rank " + std::to_string(rank_) + " op " +
                std::to_string(index) + " (" + print(op) + ")"});
    plan = original_;
  }

  void mutate_op(uint32_t lane, uint32_t index) {
    const Op& op = original_.ops[index];
    mutate(fault_of_dropping(lane, op), index, op, [&](Plan& plan) { drop(plan, lane, index); });
    if (index + 1 < original_.lanes[lane].end) {
      mutate(Fault::kSwapped, index, op,
             [&](Plan& plan) { std::swap(plan.ops[index], plan.ops[index + 1]); });
    }
    mutate_value(lane, index);
    mutate_operands(index);
    if (op.code == OpCode::kMove && op.is_encoded) mutate_encodings(lane, index);
  }

  // Behind the micro-operation, with the same schedule step.
  static void insert(Plan& plan, uint32_t lane, uint32_t index, Op op,
                     std::span<const Operand> operands) {
    op.operands = static_cast<uint32_t>(plan.operands.size());
    op.target_count = op.source_count = 1;
    op.mask = kNoMask;
    op.is_encoded = true;
    plan.operands.insert(plan.operands.end(), operands.begin(), operands.end());
    const uint32_t passed = index - plan.lanes[lane].begin;
    plan.ops.insert(plan.ops.begin() + index + 1, op);
    ++plan.lanes[lane].end;
    for (uint32_t i = lane + 1; i < plan.lanes.size(); ++i) {
      ++plan.lanes[i].begin;
      ++plan.lanes[i].end;
    }
    for (Op& other : plan.ops) {
      if (other.code == OpCode::kAfter && other.peer == lane && other.value > passed) ++other.value;
    }
  }

  void mutate_encodings(uint32_t lane, uint32_t index) {
    const Op& op = original_.ops[index];
    const Operand* operands = original_.operands.data() + op.operands;
    const bool encodes = operands[0].encoding != 0;
    if (encodes && op.target_count == 2) {
      mutate(Fault::kKeepsExact, index, op, [&](Plan& plan) {
        const Operand encoding[] = {operands[0], operands[1]};
        Op& fold = plan.ops[index];
        ++fold.operands;
        --fold.target_count;
        fold.is_encoded = std::any_of(operands + 1, operands + 2 + op.source_count,
                                      [](const Operand& one) { return one.encoding != 0; });
        insert(plan, lane, index, op, encoding);
      });
    }
    if (encodes && op.target_count == 1 && op.source_count == 1) read_exact(index);
    if (!encodes && op.source_count == 1) {
      mutate(Fault::kEncodesAgain, index, op, [&](Plan& plan) {
        const Operand again[] = {operands[1], operands[0]};
        insert(plan, lane, index, op, again);
      });
    }
    for (uint32_t i = op.target_count; i < uint32_t{op.target_count} + op.source_count; ++i) {
      if (operands[i].encoding == 0) continue;
      mutate(Fault::kReadsEncoded, index, op, [&](Plan& plan) {
        plan.operands[op.operands + i].encoding = 0;
        plan.operands[op.operands + i].shift = Shift::kNone;
        plan.operands[op.operands + i].base = register_of(Base::kScratch);
      });
    }
  }

  // The input from which this encodes is read itself where its decoded value should be.
  void read_exact(uint32_t index) {
    const Op& encode = original_.ops[index];
    const Operand place = original_.operands[encode.operands];
    const Operand input = original_.operands[encode.operands + 1];
    for (uint32_t i = index + 1; i < original_.ops.size(); ++i) {
      const Op& op = original_.ops[i];
      const uint32_t end = op.operands + op.target_count + op.source_count;
      if (op.code != OpCode::kMove || !op.is_encoded) continue;
      for (uint32_t k = op.operands + op.target_count; k < end; ++k) {
        if (original_.operands[k] != place) continue;
        mutate(Fault::kKeepsExact, i, op, [&](Plan& plan) {
          plan.operands[k] = input;
          plan.ops[i].is_encoded =
              std::any_of(plan.operands.begin() + op.operands, plan.operands.begin() + end,
                          [](const Operand& one) { return one.encoding != 0; });
        });
      }
    }
  }

  Fault fault_of_dropping(uint32_t lane, const Op& op) const {
    switch (op.code) {
      case OpCode::kSignal:
        return op.value == original_.lanes[lane].advance ? Fault::kNoEnd : Fault::kNoSignal;
      case OpCode::kCredit:
        return Fault::kNoCredit;
      case OpCode::kWait:
        return Fault::kNoWait;
      case OpCode::kRaise:
        return Fault::kNoRaise;
      case OpCode::kWaitCell:
        return Fault::kNoWaitCell;
      case OpCode::kAfter:
        return Fault::kNoAfter;
      case OpCode::kStreamReceive:
      case OpCode::kStreamSend:
        return Fault::kNoPost;
      case OpCode::kStreamArrived:
        return Fault::kNoArrived;
      case OpCode::kStreamSent:
        return Fault::kNoSent;
      default:
        return Fault::kNoMove;
    }
  }

  // The other lanes' counts of this lane's micro-operations stay right.
  static void drop(Plan& plan, uint32_t lane, uint32_t index) {
    const uint32_t passed = index - plan.lanes[lane].begin;
    plan.ops.erase(plan.ops.begin() + index);
    --plan.lanes[lane].end;
    for (uint32_t i = lane + 1; i < plan.lanes.size(); ++i) {
      --plan.lanes[i].begin;
      --plan.lanes[i].end;
    }
    for (Op& op : plan.ops) {
      if (op.code == OpCode::kAfter && op.peer == lane && op.value > passed) --op.value;
    }
  }

  void mutate_value(uint32_t lane, uint32_t index) {
    const Op& op = original_.ops[index];
    const auto change = [&](Fault fault, int by) {
      mutate(fault, index, op,
             [&](Plan& plan) { plan.ops[index].value += static_cast<uint32_t>(by); });
    };
    switch (op.code) {
      case OpCode::kSignal:
        change(Fault::kSmallerSignal, -1);
        change(Fault::kLargerSignal, 1);
        break;
      case OpCode::kWait:
        change(Fault::kSmallerWait, -1);
        change(Fault::kLargerWait, 1);
        drop_later_waits(lane, index);
        break;
      case OpCode::kAfter:
        change(Fault::kEarlierAfter, -1);
        break;
      case OpCode::kRaise:
      case OpCode::kWaitCell:
        change(Fault::kOtherCell, 1);
        break;
      default:
        break;
    }
  }

  void drop_waits_for(uint32_t peer) {
    const auto waits = [&](const Op& op) { return op.code == OpCode::kWait && op.peer == peer; };
    const bool some = std::any_of(original_.ops.begin(), original_.ops.end(), waits) ||
                      std::any_of(original_.epilogue.begin(), original_.epilogue.end(), waits);
    if (!some) return;
    mutate(Fault::kNoWaitsFor, peer, {.code = OpCode::kWait, .peer = peer}, [&](Plan& plan) {
      for (uint32_t lane = 0; lane < plan.lanes.size(); ++lane) {
        for (uint32_t i = plan.lanes[lane].begin; i < plan.lanes[lane].end;) {
          if (waits(plan.ops[i]))
            drop(plan, lane, i);
          else
            ++i;
        }
      }
      std::erase_if(plan.epilogue, waits);
    });
  }

  void drop_later_waits(uint32_t lane, uint32_t index) {
    const Op op = original_.ops[index];
    const auto follows = [&](const Op& other) {
      return other.code == OpCode::kWait && other.peer == op.peer;
    };
    const auto end = original_.ops.begin() + original_.lanes[lane].end;
    if (std::none_of(original_.ops.begin() + index + 1, end, follows)) return;
    mutate(Fault::kNoLaterWaits, index, op, [&](Plan& plan) {
      for (uint32_t i = index + 1; i < plan.lanes[lane].end;) {
        if (follows(plan.ops[i]))
          drop(plan, lane, i);
        else
          ++i;
      }
    });
  }

  void mutate_operands(uint32_t index) {
    const Op& op = original_.ops[index];
    const bool stream = op.code == OpCode::kStreamReceive || op.code == OpCode::kStreamSend;
    for (uint32_t i = 0; i < uint32_t{op.target_count} + op.source_count; ++i) {
      mutate(Fault::kShiftedOperand, index, op, [&](Plan& plan) {
        Operand& operand = plan.operands[op.operands + i];
        operand.offset += unit_of(operand);
      });
      if (!stream || original_.lengths[op.lengths + i] == 0) continue;
      mutate(Fault::kShorter, index, op, [&](Plan& plan) { --plan.lengths[op.lengths + i]; });
    }
    if (op.length == 0) return;
    mutate(Fault::kShorter, index, op, [&](Plan& plan) { --plan.ops[index].length; });
  }

  uint64_t unit_of(const Operand& operand) const {
    if (operand.shift == Shift::kCell) return kCellStride;
    const bool line = operand.shift == Shift::kFrame || operand.shift == Shift::kScratch ||
                      operand.base == register_of(Base::kLanding);
    return line ? 64 : original_.element_bytes;
  }

  PlanSet& set_;
  const std::function<void(const Mutant&)>& judge_;
  Plan original_;
  uint32_t rank_ = 0;
};

}  // namespace

void each_mutant(PlanSet& set, const std::function<void(const Mutant&)>& judge) {
  Mutator(set, judge).run();
}

}  // namespace tutti::plan
