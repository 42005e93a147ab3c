#include "src/engines/cuda/fused_machine.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "src/engines/cuda/stream_machine.h"

namespace tutti::engines::cuda {

using plan::Answer;
using plan::Base;
using plan::Op;
using plan::PeerBase;
using plan::Position;

namespace {

/// Where something stands in a sorted list, or behind all of it.
uint64_t place_in(const std::vector<uint32_t>& sorted, uint32_t value) {
  const auto at = std::lower_bound(sorted.begin(), sorted.end(), value);
  return static_cast<uint64_t>(at - sorted.begin());
}

}  // namespace

Answer FusedMachine::refuse(std::string why) {
  if (status_.ok()) status_ = Status::unsupported(plan_->algorithm + " is no one kernel: " + why);
  return Answer::kFailed;
}

Status FusedMachine::check_shape(const plan::Plan& plan) const {
  const auto no = [&](const char* why) {
    return Status::unsupported(plan.algorithm + " is no one kernel: " + why);
  };
  if (addresses_.memories.size() > kMostFusedRanks) return no("there are too many ranks");
  if (plan.lanes.size() != 1 || plan.slices != 1) return no("it has several lanes or slices");
  if (plan.match == nullptr || !plan.prologue.empty()) return no("it is not staged");
  if (plan.scratch_bytes > addresses_.scratch_bytes) return no("it needs more scratch memory");
  return {};
}

Status FusedMachine::make(const plan::Plan& plan, const FusedCall& call) {
  plan_ = &plan;
  status_ = check_shape(plan);
  if (!status_.ok()) return status_;
  find_channels();
  status_ = check_room();
  if (!status_.ok()) return status_;
  begin(call);
  plan::Walk<FusedMachine> walk(plan.lanes[0].engine);
  // Any: no byte lies in the ring.
  plan::Cursors cursors;
  constexpr uint64_t kLeast = 64;
  cursors.lanes[0] = {1, plan::RingCursor(std::max(plan.lanes[0].frame_bytes, kLeast), 2)};
  cursors.cells = plan::CellCursor(kLeast);
  walk.start(plan, cursors);
  plan::Progress progress = plan::Progress::kMoved;
  while (progress == plan::Progress::kMoved) progress = walk.advance(*this);
  if (status_.ok() && progress != plan::Progress::kDone) (void)refuse("its walk stands still");
  return status_;
}

void FusedMachine::begin(const FusedCall& call) {
  program_ = {};
  program_.rank = addresses_.rank;
  program_.ranks = static_cast<uint32_t>(addresses_.memories.size());
  program_.timeout_ns = call.timeout_ns;
  program_.place = call.place;
  program_.signature = call.signature;
  program_.memory = addresses_.memories[addresses_.rank];
  program_.parity_bytes = addresses_.layout.parity_bytes();
  program_.words = addresses_.words;
  program_.divisor = plan_->divisor;
  program_.factor = std::bit_cast<uint64_t>(plan_->scale);
  for (uint32_t peer = 0; peer < program_.ranks; ++peer) {
    program_.credits[peer] =
        addresses_.memories[peer] + FusedLayout::kCredits + addresses_.rank * sizeof(uint64_t);
  }
  factor_ = call.factor;
  contributions_.clear();
  if (factor_ != nullptr) {
    for (const SourceMask& mask : contributions_of(*plan_)) contributions_.push_back(mask[0]);
    program_.factor_is = factor_->memory == nullptr ? FactorIs::kElement : FactorIs::kInMemory;
    program_.factor = reinterpret_cast<uint64_t>(factor_->memory);
    if (factor_->memory == nullptr) std::memcpy(&program_.factor, factor_->value.data(), 8);
  }
  operands_ = 0;
  pushed_bytes_ = folded_bytes_ = 0;
  accesses_.clear();
  input_ = call.send;
  output_ = call.recv;
}

void FusedMachine::find_channels() {
  // A machine that is used again keeps its memory.
  for (std::vector<FusedChannel>* const channels : {&sends_, &receives_}) {
    channels->resize(addresses_.memories.size());
    for (FusedChannel& one : *channels) {
      one.blocks.clear();
      one.tokens.clear();
    }
  }
  plan::each_exchange(*plan_->match, [&](const plan::Exchange& one) {
    if (one.near == nullptr) return;
    FusedChannel& channel = (one.sends ? sends_ : receives_)[one.peer];
    for (uint32_t i = 0; i < one.blocks.size(); ++i) channel.blocks.push_back(one.near->slot + i);
    if (one.blocks.empty()) channel.tokens.push_back(one.near->cell);
  });
  places_ = 0;
  for (std::vector<FusedChannel>* const channels : {&sends_, &receives_}) {
    for (FusedChannel& one : *channels) {
      std::sort(one.blocks.begin(), one.blocks.end());
      places_ = std::max(places_, static_cast<uint32_t>(one.blocks.size() + one.tokens.size()));
    }
  }
  const uint32_t blocks = plan_->match->lanes[0].blocks;
  stride_ = blocks == 0 ? 0 : plan_->lanes[0].frame_bytes / blocks;
  place_bytes_ = std::max<uint64_t>(1, (stride_ + kLinePayload - 1) / kLinePayload) * kLineBytes;
}

Status FusedMachine::check_room() const {
  if (places_ * place_bytes_ <= addresses_.layout.mailbox_bytes) return {};
  return Status::unsupported(plan_->algorithm + " is no one kernel: a mailbox has " +
                             std::to_string(addresses_.layout.mailbox_bytes) + " bytes");
}

bool FusedMachine::is_own_memory(uint32_t base) {
  return base == plan::register_of(Base::kInput) || base == plan::register_of(Base::kOutput) ||
         base == plan::register_of(Base::kScratch);
}

// Of the only slice, so nothing is shifted.
uint64_t FusedMachine::address_of(const plan::Operand& operand) const {
  if (operand.base == plan::register_of(Base::kInput)) return input_ + operand.offset;
  if (operand.base == plan::register_of(Base::kOutput)) return output_ + operand.offset;
  return addresses_.scratch + operand.offset;
}

bool FusedMachine::add_operand(uint64_t address, uint8_t line_of) {
  if (operands_ == kMostFusedOperands) {
    (void)refuse("it has too many operands");
    return false;
  }
  program_.address[operands_] = address;
  program_.line_of[operands_++] = line_of;
  return true;
}

bool FusedMachine::add_line(uint64_t memory, uint32_t sender, uint32_t peer, uint64_t place) {
  return add_operand(memory + addresses_.layout.mailbox(sender) + place * place_bytes_,
                     static_cast<uint8_t>(peer + 1));
}

// Two steps, or the operands of one, that touch the same memory touch the same range of it.
bool FusedMachine::touch(uint64_t address, uint64_t bytes, bool writes) {
  const MemoryAccess access{address, address + bytes, writes};
  for (const MemoryAccess& other : accesses_) {
    const bool meets = access.begin < other.end && other.begin < access.end;
    const bool is_same = access.begin == other.begin && access.end == other.end;
    if (!meets || is_same || !(writes || other.writes)) continue;
    (void)refuse("its steps touch parts of each other's blocks");
    return false;
  }
  accesses_.push_back(access);
  return true;
}

bool FusedMachine::add_target(const plan::Operand& operand, uint64_t bytes, FusedStep& step) {
  if (is_own_memory(operand.base)) {
    ++step.targets;
    const uint64_t address = address_of(operand);
    return touch(address, bytes, true) && add_operand(address, 0);
  }
  if (operand.base != plan::register_of(PeerBase::kSlot, static_cast<int>(addresses_.rank))) {
    (void)refuse("it writes to a peer's memory");
    return false;
  }
  const auto block = static_cast<uint32_t>(operand.offset / stride_);
  for (uint32_t peer = 0; peer < sends_.size(); ++peer) {
    const std::vector<uint32_t>& blocks = sends_[peer].blocks;
    const uint64_t place = place_in(blocks, block);
    if (place == blocks.size() || blocks[place] != block) continue;
    ++step.targets;
    program_.pushed_to |= 1u << peer;
    pushed_bytes_ += bytes;
    if (!add_line(addresses_.memories[peer], addresses_.rank, peer, place)) return false;
  }
  return true;
}

bool FusedMachine::add_source(const plan::Operand& operand, uint64_t bytes, FusedStep& step) {
  ++step.sources;
  if (is_own_memory(operand.base)) {
    const uint64_t address = address_of(operand);
    return touch(address, bytes, false) && add_operand(address, 0);
  }
  const uint32_t peer = plan::rank_of(operand.base);
  if (operand.base != plan::register_of(PeerBase::kSlot, static_cast<int>(peer)) ||
      peer == addresses_.rank) {
    (void)refuse("it reads what is in no line");
    return false;
  }
  const std::vector<uint32_t>& blocks = receives_[peer].blocks;
  const auto block = static_cast<uint32_t>(operand.offset / stride_);
  const uint64_t place = place_in(blocks, block);
  if (place == blocks.size() || blocks[place] != block) {
    (void)refuse("it reads what nobody sends");
    return false;
  }
  return add_line(program_.memory, peer, peer, place);
}

void FusedMachine::set_factors(const Position& at, const Op& op, FusedStep& step) const {
  step.divides = op.divide ? 1 : 0;
  uint64_t scaled = 0;
  if (op.mask != plan::kNoMask) scaled = plan_->masks[op.mask];
  if (factor_ != nullptr) scaled = contributions_[at.op];
  step.scaled = static_cast<uint16_t>(scaled);
}

Answer FusedMachine::move(const Position& at, const Op& op) {
  const schedule::Extent piece = plan::piece_of(*plan_, at.lane, at.slice, op.length);
  if (piece.length == 0) return Answer::kGoOn;
  constexpr uint64_t kMost = std::numeric_limits<uint32_t>::max() / 2;
  if (piece.length > kMost) return refuse("its blocks are too long");
  if (op.source_count > kMostFusedRanks) return refuse("a fold has too many values");
  const uint64_t bytes = piece.length * plan_->element_bytes;
  FusedStep step{.count = static_cast<uint32_t>(piece.length),
                 .first = static_cast<uint16_t>(operands_)};
  step.in_tree = op.fold == schedule::Fold::kTree && op.source_count > 2 ? 1 : 0;
  const plan::Operand* operand = plan_->operands.data() + op.operands;
  for (uint32_t i = 0; i < op.target_count; ++i) {
    if (!add_target(operand[i], bytes, step)) return Answer::kFailed;
  }
  for (uint32_t i = 0; i < op.source_count; ++i) {
    if (!add_source(operand[op.target_count + i], bytes, step)) return Answer::kFailed;
  }
  if (op.source_count > 1) folded_bytes_ += op.source_count * bytes;
  set_factors(at, op, step);
  return add_step(step) ? Answer::kGoOn : Answer::kFailed;
}

bool FusedMachine::add_step(FusedStep step) {
  if (program_.steps == kMostFusedSteps) {
    (void)refuse("it has too many steps");
    return false;
  }
  program_.step[program_.steps++] = step;
  return true;
}

// A message without blocks is a flag of a cell in the plan, and a line here.
Answer FusedMachine::raise(const Position& at, uint64_t /*cell*/, uint64_t /*flag*/) {
  const uint32_t cell = plan_->ops[at.op].value;
  bool found = false;
  for (uint32_t peer = 0; peer < sends_.size(); ++peer) {
    const FusedChannel& channel = sends_[peer];
    for (size_t i = 0; i < channel.tokens.size(); ++i) {
      if (channel.tokens[i] != cell) continue;
      const FusedStep step{.first = static_cast<uint16_t>(operands_), .targets = 1};
      program_.pushed_to |= 1u << peer;
      const uint64_t place = channel.blocks.size() + i;
      found = add_line(addresses_.memories[peer], addresses_.rank, peer, place) && add_step(step);
      if (!found) return Answer::kFailed;
    }
  }
  return found ? Answer::kGoOn : refuse("it has a cell");
}

Answer FusedMachine::raised(const Position& at, uint32_t member, uint64_t /*cell*/,
                            uint64_t /*flag*/) {
  const FusedChannel& channel = receives_[member];
  for (size_t i = 0; i < channel.tokens.size(); ++i) {
    if (channel.tokens[i] != plan_->ops[at.op].value) continue;
    const FusedStep step{.first = static_cast<uint16_t>(operands_), .sources = 1};
    const uint64_t place = channel.blocks.size() + i;
    const bool added = add_line(program_.memory, member, member, place) && add_step(step);
    return added ? Answer::kGoOn : Answer::kFailed;
  }
  return refuse("it has a cell");
}

exec::DeviceCounts FusedMachine::counts() const {
  exec::DeviceCounts counts;
  counts.kernels = 1;
  counts.most_ctas = kFusedBlocks;
  counts.folded_bytes = folded_bytes_;
  counts.pushed_bytes = pushed_bytes_;
  return counts;
}

}  // namespace tutti::engines::cuda
