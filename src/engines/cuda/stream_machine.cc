#include "src/engines/cuda/stream_machine.h"

#include <algorithm>
#include <string>
#include <utility>

namespace tutti::engines::cuda {

using plan::Answer;
using plan::Base;
using plan::Op;
using plan::PeerBase;
using plan::Position;
using plan::Shift;

StreamMachine::StreamMachine(const drivers::cuda::Cuda* cuda, DeviceAddresses addresses)
    : cuda_(cuda), addresses_(std::move(addresses)) {
  const size_t ranks = addresses_.rings.size();
  registers_.assign(plan::register_of(PeerBase::kSlot, static_cast<int>(ranks)), 0);
  for (size_t rank = 0; rank < ranks; ++rank) {
    registers_[plan::register_of(PeerBase::kSlot, static_cast<int>(rank))] = addresses_.rings[rank];
  }
  awaited_.assign(ranks, 0);
}

void StreamMachine::start(const plan::Plan& plan, const StreamCall& call) {
  plan_ = &plan;
  stream_ = call.stream;
  registers_[plan::register_of(Base::kInput)] = call.send;
  registers_[plan::register_of(Base::kOutput)] = call.recv;
  copies_.clear();
  targets_.clear();
  sources_.clear();
  words_.clear();
  std::fill(awaited_.begin(), awaited_.end(), 0);
  counts_ = {};
  status_ = Status();
}

Answer StreamMachine::refuse(const Position& at, const char* what) {
  keep(Status::internal_error("the plan " + plan_->algorithm + " has " + what + " in lane " +
                              std::to_string(at.lane) + ", which a stream of a device cannot run"));
  return Answer::kFailed;
}

Answer StreamMachine::move(const Position& at, const Op& op) {
  if (op.source_count != 1 || op.mask != plan::kNoMask || op.divide) return refuse(at, "a fold");
  shift_[static_cast<size_t>(Shift::kFrame)] = at.frame.frame;
  const schedule::Extent piece =
      schedule::piece(op.length, at.slice, plan_->slices, plan_->quantum);
  if (piece.length == 0) return Answer::kGoOn;
  shift_[static_cast<size_t>(Shift::kPiece)] = piece.offset * plan_->element_bytes;
  const plan::Operand* targets = plan_->operands.data() + op.operands;
  const CUdeviceptr source = address(targets[op.target_count]);
  for (uint32_t i = 0; i < op.target_count; ++i) {
    const Answer answer = copy(address(targets[i]), source, piece.length * plan_->element_bytes);
    if (answer != Answer::kGoOn) return answer;
  }
  return Answer::kGoOn;
}

bool StreamMachine::conflicts(const AddressRange& target, const AddressRange& source) const {
  const auto meets = [](const std::vector<AddressRange>& ranges, const AddressRange& one) {
    return std::any_of(ranges.begin(), ranges.end(),
                       [&](const AddressRange& other) { return other.meets(one); });
  };
  return meets(targets_, target) || meets(targets_, source) || meets(sources_, target);
}

Answer StreamMachine::copy(CUdeviceptr target, CUdeviceptr source, uint64_t bytes) {
  if (target == source) return Answer::kGoOn;
  const AddressRange to{target, target + bytes}, from{source, source + bytes};
  if (!put_words() || (conflicts(to, from) && !put_copies())) return Answer::kFailed;
  copies_.add(target, source, bytes);
  targets_.push_back(to);
  sources_.push_back(from);
  return Answer::kGoOn;
}

Answer StreamMachine::signal(const Position& /*at*/, uint64_t value) {
  if (!put_copies()) return Answer::kFailed;
  words_.write_64(addresses_.counters[addresses_.rank], value);
  return Answer::kGoOn;
}

Answer StreamMachine::wait(uint32_t member, uint64_t value) {
  uint64_t& awaited = awaited_[member];
  if (value <= awaited) return Answer::kGoOn;  // the stream has waited for it
  if (!put_copies()) return Answer::kFailed;
  words_.wait_at_least_64(addresses_.counters[member], value);
  awaited = value;
  return Answer::kGoOn;
}

Answer StreamMachine::reached(const Position& /*at*/, uint32_t member, uint32_t /*lane*/,
                              uint64_t value) {
  return wait(member, value);
}

Answer StreamMachine::passed(const Position& /*at*/, uint32_t /*lane*/, uint64_t value) {
  if (value == 0) return Answer::kGoOn;  // nothing has ever lain there
  for (uint32_t rank = 0; rank < addresses_.rings.size(); ++rank) {
    if (rank == addresses_.rank) continue;
    if (const Answer answer = wait(rank, value); answer != Answer::kGoOn) return answer;
  }
  return Answer::kGoOn;
}

Status StreamMachine::finish(CUdeviceptr word, uint64_t value) {
  if (!put_copies()) return status_;
  words_.write_64(word, value);
  put_words();
  return status_;
}

bool StreamMachine::put_copies() {
  if (copies_.size() == 0) return true;
  counts_.copies += copies_.size();
  ++counts_.batches;
  if (cuda_ != nullptr) keep(copies_.submit(*cuda_, stream_));
  copies_.clear();
  targets_.clear();
  sources_.clear();
  return status_.ok();
}

bool StreamMachine::put_words() {
  if (words_.size() == 0) return true;
  counts_.operations += words_.size();
  ++counts_.groups;
  if (cuda_ != nullptr) keep(words_.submit(*cuda_, stream_));
  words_.clear();
  return status_.ok();
}

}  // namespace tutti::engines::cuda
