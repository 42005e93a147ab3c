#include "tests/faults/planted.h"

#include <algorithm>
#include <utility>

namespace tutti::faults {

using plan::Op;
using plan::OpCode;
using plan::Operand;
using plan::PeerBase;
using plan::Plan;

namespace {

Operand* sources_of(Plan& plan, const Op& op) {
  return plan.operands.data() + op.operands + op.target_count;
}

bool has_afters(const Plan& plan) {
  return std::any_of(plan.ops.begin(), plan.ops.end(),
                     [](const Op& op) { return op.code == OpCode::kAfter; });
}

// Positions of ops are named by kAfter only; without one an op can go.
template <class Predicate>
bool erase_ops(Plan& plan, Predicate predicate) {
  if (has_afters(plan)) return false;
  bool erased = false;
  for (size_t i = plan.ops.size(); i-- > 0;) {
    if (!predicate(plan.ops[i])) continue;
    plan.ops.erase(plan.ops.begin() + static_cast<ptrdiff_t>(i));
    erased = true;
    for (plan::LanePlan& lane : plan.lanes) {
      if (lane.begin > i) --lane.begin;
      if (lane.end > i) --lane.end;
    }
  }
  return erased;
}

bool is_cell_of_rank(uint32_t base) {
  const auto first = plan::register_of(PeerBase::kSlot, 0);
  const auto kinds = static_cast<uint32_t>(PeerBase::kCount);
  return base >= first && (base - first) % kinds == static_cast<uint32_t>(PeerBase::kCell);
}

}  // namespace

bool shift_offset_by_one_element(Plan& plan) {
  for (Op& op : plan.ops) {
    if (op.code != OpCode::kMove || op.length < 2) continue;
    sources_of(plan, op)->offset += plan.element_bytes;
    return true;
  }
  return false;
}

bool leave_scratch_stale(Plan& plan) {
  return erase_ops(plan, [&](const Op& op) {
    return op.code == OpCode::kMove && op.target_count == 1 &&
           plan.operands[op.operands].base == plan::register_of(plan::Base::kScratch);
  });
}

bool forget_credit(Plan& plan) {
  return erase_ops(plan, [](const Op& op) { return op.code == OpCode::kCredit; });
}

bool forget_readers(Plan& plan) {
  const bool had = !plan.epilogue.empty();
  plan.epilogue.clear();
  return had;
}

bool forget_end(Plan& plan) {
  const uint32_t end = plan.lanes[0].advance;
  return erase_ops(plan,
                   [end](const Op& op) { return op.code == OpCode::kSignal && op.value == end; });
}

bool wait_for_one_less(Plan& plan) {
  bool changed = false;
  for (Op& op : plan.ops) {
    if (op.code != OpCode::kWait || op.value == 0) continue;
    --op.value;
    changed = true;
  }
  return changed;
}

bool read_neighbour_cell(Plan& plan) {
  bool changed = false;
  for (const Op& op : plan.ops) {
    if (op.code != OpCode::kMove) continue;
    for (uint16_t i = 0; i < op.source_count; ++i) {
      Operand& source = sources_of(plan, op)[i];
      if (!is_cell_of_rank(source.base)) continue;
      source.offset += plan::kCellStride;
      changed = true;
    }
  }
  return changed;
}

bool cut_length_by_one(Plan& plan) {
  for (Op& op : plan.ops) {
    if (op.code != OpCode::kMove || op.length < 2) continue;
    --op.length;
    return true;
  }
  return false;
}

bool swap_blocks(Plan& plan) {
  Operand* earlier = nullptr;
  for (const Op& op : plan.ops) {
    if (op.code != OpCode::kMove) continue;
    Operand* source = sources_of(plan, op);
    if (earlier != nullptr && earlier->base == source->base && earlier->shift == source->shift &&
        earlier->offset != source->offset) {
      std::swap(earlier->offset, source->offset);
      return true;
    }
    earlier = source;
  }
  return false;
}

bool advance_one_more(Plan& plan) {
  ++plan.lanes[0].advance;
  return true;
}

bool forget_arrival(Plan& plan) {
  return erase_ops(plan, [](const Op& op) { return op.code == OpCode::kStreamArrived; });
}

bool forget_sent(Plan& plan) {
  return erase_ops(plan, [](const Op& op) { return op.code == OpCode::kStreamSent; });
}

bool send_one_less(Plan& plan) {
  for (const Op& op : plan.ops) {
    if (op.code != OpCode::kStreamSend || plan.lengths[op.lengths] < 2) continue;
    --plan.lengths[op.lengths];
    return true;
  }
  return false;
}

bool forget_send(Plan& plan) {
  return erase_ops(plan, [](const Op& op) { return op.code == OpCode::kStreamSend; });
}

bool sign_differently(Plan& plan) {
  plan.algorithm += "'";
  return true;
}

}  // namespace tutti::faults
