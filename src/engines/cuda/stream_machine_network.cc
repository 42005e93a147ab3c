// The part of StreamMachine that deals with messages between hosts: what the streams do is to copy
// into the bounce buffer and to wait for what has landed there (exec/bounce_buffer.h).
#include "src/engines/cuda/stream_machine.h"

namespace tutti::engines::cuda {

using plan::Answer;
using plan::Op;
using plan::Position;

namespace {

CUdeviceptr word_address(const exec::DevicePage::Word& word) {
  return reinterpret_cast<CUdeviceptr>(&word.value);
}

}  // namespace

bool StreamMachine::wait_for_host(uint32_t lane, const exec::DevicePage::Word& word,
                                  uint64_t value) {
  if (longest_ > kOvertakenBytes && !put_lists()) return false;
  if (!keep_signals_first(lane)) return false;
  words_.wait_at_least_64(word_address(word), value);
  return true;
}

// In a scaled sum a rank's own contribution is multiplied on its way.
bool StreamMachine::put_piece(const Position& at, uint32_t block, CUdeviceptr target,
                              uint64_t bytes) {
  const uint32_t operand = plan_->ops[at.op].operands + block;
  const CUdeviceptr source = address(plan_->operands[operand]);
  if (own_.empty() || !own_[operand]) return copy(target, source, bytes, true) == Answer::kGoOn;
  FoldParameters fold;
  fold.count = bytes / plan_->element_bytes;
  fold.source_count = fold.target_count = 1;
  fold.sources[0] = source;
  fold.targets[0] = target;
  fold.scaled[0] = 1;
  set_factor(fold);
  counts_.folded_bytes += bytes;
  return put_fold(fold, true);
}

// The zone of the slice before must be out, which is asked before the first copy of a slice.
bool StreamMachine::put_in_bounce(const Position& at, const Op& op) {
  const exec::BounceWords::BounceLaneWords& words = bounce_.words->lanes[at.lane];
  MessageCounts& lane = messages_[at.lane];
  if (lane.freed < at.slice) {
    lane.freed = at.slice;
    if (!wait_for_host(at.lane, words.sent, at.slice)) return false;
  }
  ++lane.staged;
  if (!bounce_.layout->repeats(at.op)) {
    CUdeviceptr target =
        reinterpret_cast<CUdeviceptr>(bounce_.memory) + bounce_.layout->sent(at.lane, at.op);
    for (uint32_t i = 0; i < op.source_count; ++i) {
      uint64_t bytes = 0;
      if (!set_piece(at, plan_->lengths[op.lengths + i], bytes)) continue;
      if (!put_piece(at, i, target, bytes)) return false;
      target += bytes;
    }
  }
  if (!put_copies()) return false;
  words_.write_64(word_address(words.staged), lane.staged);
  has_told_[at.lane] = true;
  return true;
}

// The host posts receives.
Answer StreamMachine::post(const Position& at, const Op& op) {
  if (bounce_.layout == nullptr) return refuse(at, "a message");
  if (op.code == plan::OpCode::kStreamReceive) return Answer::kGoOn;
  if (turns_.gives_up_signal(at.lane)) return Answer::kNotYet;
  if (!go_to(at.lane) || !put_in_bounce(at, op)) return Answer::kFailed;
  return Answer::kGoOn;
}

Answer StreamMachine::arrived(const Position& at, const Op& /*op*/) {
  if (bounce_.layout == nullptr) return refuse(at, "a message");
  if (gives_up_wait(at)) return Answer::kNotYet;
  turns_.wait(at.lane);
  if (!go_to(at.lane)) return Answer::kFailed;
  const exec::BounceWords::BounceLaneWords& words = bounce_.words->lanes[at.lane];
  const bool waits = wait_for_host(at.lane, words.arrived, ++messages_[at.lane].arrived);
  return waits ? Answer::kGoOn : Answer::kFailed;
}

// A message that is sent lies in the bounce buffer, so its source may be written.
Answer StreamMachine::sent(const Position& at, const Op& /*op*/) {
  return bounce_.layout == nullptr ? refuse(at, "a message") : Answer::kGoOn;
}

// Behind the last signal of the slice, and so behind all that reads its landing zones.
void StreamMachine::closed(const Position& at) {
  turns_.close(at.lane);
  if (bounce_.layout == nullptr || plan_->lanes[at.lane].receives == 0) return;
  if (!go_to(at.lane) || !put_copies()) return;
  words_.write_64(word_address(bounce_.words->lanes[at.lane].drained), at.slice + 1);
}

}  // namespace tutti::engines::cuda
