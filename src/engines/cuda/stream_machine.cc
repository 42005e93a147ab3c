#include "src/engines/cuda/stream_machine.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "src/plan/shared_places.h"

namespace tutti::engines::cuda {

using plan::Answer;
using plan::Base;
using plan::Op;
using plan::PeerBase;
using plan::Position;
using plan::Shift;

namespace {

/// Some bytes of the input or output.
struct Written {
  uint32_t base = 0;
  uint64_t begin = 0, end = 0;
};

bool is_users(const plan::Operand& operand) {
  return operand.base == plan::register_of(Base::kInput) ||
         operand.base == plan::register_of(Base::kOutput);
}

bool is_own(const plan::Operand& source, uint64_t bytes, const std::vector<Written>& written) {
  const uint64_t begin = source.offset, end = begin + bytes;
  return is_users(source) && std::none_of(written.begin(), written.end(), [&](const Written& one) {
           return one.base == source.base && one.begin < end && begin < one.end;
         });
}

/// The same of a level call: its rows are read before any is written.
void mark_level(const plan::Plan& plan, const Op& op, std::vector<bool>& own,
                std::vector<Written>& written) {
  const plan::LevelCall& call = plan.level_calls[op.value];
  const std::span rows(plan.level_rows.data() + call.first, call.rows);
  for (const plan::LevelRow& row : rows) {
    if (row.source == plan::kNoOperand) continue;
    own[row.source] = is_own(plan.operands[row.source], row.length * plan.element_bytes, written);
  }
  for (const plan::LevelRow& row : rows) {
    if (row.target == plan::kNoOperand || !is_users(plan.operands[row.target])) continue;
    const plan::Operand& target = plan.operands[row.target];
    const uint64_t bytes = row.length * plan.element_bytes;
    written.push_back({target.base, target.offset, target.offset + bytes});
  }
}

std::span<const plan::Operand> sources_of(const plan::Plan& plan, const Op& op) {
  return {plan.operands.data() + op.operands + op.target_count, op.source_count};
}

}  // namespace

// In place the output's blocks are the input's until the plan has written to them; where the output
// is a part of the input, it is the input that is written.
std::vector<bool> own_operands_of(const plan::Plan& plan) {
  std::vector<bool> own(plan.operands.size(), false);
  std::vector<Written> written;
  for (const Op& op : plan.ops) {
    if (op.code == plan::OpCode::kLevel) mark_level(plan, op, own, written);
    const bool sends = op.code == plan::OpCode::kStreamSend;
    if (op.code != plan::OpCode::kMove && !sends) continue;
    const uint64_t bytes = op.length * plan.element_bytes;
    const std::span<const plan::Operand> sources = sources_of(plan, op);
    for (size_t s = 0; s < sources.size(); ++s) {
      const uint64_t sent = sends ? plan.lengths[op.lengths + s] * plan.element_bytes : bytes;
      own[op.operands + op.target_count + s] = is_own(sources[s], sent, written);
    }
    for (uint32_t t = 0; t < op.target_count; ++t) {
      const plan::Operand& target = plan.operands[op.operands + t];
      if (is_users(target)) {
        written.push_back({target.base, target.offset, target.offset + bytes});
      }
    }
  }
  return own;
}

std::vector<SourceMask> contributions_of(const plan::Plan& plan) {
  const std::vector<bool> own = own_operands_of(plan);
  std::vector<SourceMask> masks(plan.ops.size());
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    const Op& op = plan.ops[i];
    if (op.code != plan::OpCode::kMove || op.source_count > kMostFoldSources) continue;
    for (size_t s = 0; s < op.source_count; ++s) {
      if (own[op.operands + op.target_count + s]) masks[i][s / 64] |= uint64_t{1} << (s % 64);
    }
  }
  return masks;
}

StreamMachine::StreamMachine(const drivers::cuda::Cuda* cuda, const FoldKernels* kernels,
                             DeviceAddresses addresses)
    : cuda_(cuda), kernels_(kernels), addresses_(std::move(addresses)) {
  const size_t ranks = addresses_.rings.size();
  registers_.assign(plan::register_of(PeerBase::kSlot, static_cast<int>(ranks)), 0);
  for (size_t rank = 0; rank < ranks; ++rank) {
    registers_[plan::register_of(PeerBase::kSlot, static_cast<int>(rank))] = addresses_.rings[rank];
  }
  registers_[plan::register_of(Base::kScratch)] = addresses_.scratch;
  awaited_.assign(exec::kDeviceLanes * ranks, 0);
}

void StreamMachine::start(const plan::Plan& plan, const StreamCall& call) {
  plan_ = &plan;
  side_ = call.side;
  main_ = call.stream;
  first_ = stream_ = side_ != nullptr ? side_->first_for(main_) : main_;
  lane_ = 0;
  turns_.start(plan);
  has_told_.fill(false);
  is_marked_.fill(false);
  engines_alone_ = call.engines_alone;
  captured_ = call.captured;
  ctas_ = call.ctas;
  bounce_ = call.bounce;
  levels_ = call.levels;
  has_leveled_ = false;
  deadline_ns_ = call.deadline_ns;
  messages_.fill({});
  factor_ = call.factor;
  contributions_.clear();
  if (factor_ != nullptr) contributions_ = contributions_of(plan);
  own_.clear();
  if (factor_ != nullptr && bounce_.layout != nullptr) own_ = own_operands_of(plan);
  registers_[plan::register_of(Base::kInput)] = call.send;
  registers_[plan::register_of(Base::kOutput)] = call.recv;
  set_peers(PeerBase::kInput, call.inputs);
  set_peers(PeerBase::kOutput, call.outputs);
  copies_.clear();
  targets_.clear();
  sources_.clear();
  longest_ = 0;
  words_.clear();
  std::fill(awaited_.begin(), awaited_.end(), 0);
  counts_ = {.streams = static_cast<uint32_t>(plan.lanes.size())};
  status_ = Status();
  goes_behind(first_, main_);
}

void StreamMachine::set_peers(PeerBase base, std::span<const CUdeviceptr> buffers) {
  for (size_t rank = 0; rank < addresses_.rings.size(); ++rank) {
    registers_[plan::register_of(base, static_cast<int>(rank))] =
        rank < buffers.size() ? buffers[rank] : 0;
  }
}

Status StreamMachine::copy_first(CUdeviceptr target, CUdeviceptr source, uint64_t bytes) {
  if (bytes > 0) (void)copy(target, source, bytes, false);
  return status_;
}

Answer StreamMachine::refuse(const Position& at, const char* what) {
  keep(Status::internal_error("the plan " + plan_->algorithm + " has " + what + " in lane " +
                              std::to_string(at.lane) + ", which a stream of a device cannot run"));
  return Answer::kFailed;
}

Answer StreamMachine::move(const Position& at, const Op& op) {
  if (plan_->scratch_bytes * plan::scratch_copies(*plan_) > addresses_.scratch_bytes) {
    return refuse(at, "more scratch memory than there is");
  }
  if (turns_.gives_up_work(at.lane)) return Answer::kNotYet;
  if (op.source_count > 1) turns_.fold(at.lane);
  if (!go_to(at.lane)) return Answer::kFailed;
  uint64_t bytes = 0;
  if (!set_piece(at, op.length, bytes)) return Answer::kGoOn;
  const bool scales = factor_ != nullptr && contributions_[at.op] != SourceMask{};
  const bool is_copy = op.source_count == 1 && op.mask == plan::kNoMask && !op.divide && !scales;
  if (!is_copy) return fold(at, op, bytes / plan_->element_bytes);
  const plan::Operand* targets = plan_->operands.data() + op.operands;
  const plan::Operand& from = targets[op.target_count];
  for (uint32_t i = 0; i < op.target_count; ++i) {
    const bool crosses = is_elsewhere(from.base) || is_elsewhere(targets[i].base);
    const Answer answer = copy(address(targets[i]), address(from), bytes, crosses);
    if (answer != Answer::kGoOn) return answer;
  }
  return Answer::kGoOn;
}

// Where the slice's part of a block of `length` elements lies. False: it has none.
bool StreamMachine::set_piece(const Position& at, uint64_t length, uint64_t& bytes) {
  const schedule::Extent piece = plan::piece_of(*plan_, at.lane, at.slice, length);
  bytes = piece.length * plan_->element_bytes;
  if (bytes == 0) return false;
  shift_[static_cast<size_t>(Shift::kFrame)] = at.lane * addresses_.lane_bytes + at.frame.frame;
  shift_[static_cast<size_t>(Shift::kScratch)] =
      plan::scratch_shift(*plan_, at.lane, at.slice, length);
  shift_[static_cast<size_t>(Shift::kPiece)] = piece.offset * plan_->element_bytes;
  if (bounce_.layout != nullptr) {
    registers_[plan::register_of(Base::kLanding)] =
        reinterpret_cast<CUdeviceptr>(bounce_.memory) + bounce_.layout->landing(at.lane);
  }
  return true;
}

// Targets that have no room among those of a kernel are copied from the first.
Answer StreamMachine::fold(const Position& at, const Op& op, uint64_t count) {
  if (op.source_count > kMostFoldSources) return refuse(at, "a fold of too many values");
  if (cuda_ != nullptr && kernels_ == nullptr) return refuse(at, "a fold");
  if (addresses_.all_rings != 0) {
    const auto ranks = static_cast<uint32_t>(addresses_.rings.size());
    const std::optional<uint64_t> place = plan::shared_place_of(*plan_, op, ranks);
    if (place && FoldKernels::folds_shared(plan_->type, plan_->operation)) {
      const uint64_t bytes = count * plan_->element_bytes;
      return fold_shared(*place, bytes) ? Answer::kGoOn : Answer::kFailed;
    }
  }
  FoldParameters fold;
  fold.count = count;
  fold.source_count = op.source_count;
  fold.target_count = std::min<uint32_t>(op.target_count, kMostFoldTargets);
  fold.in_tree = op.fold == schedule::Fold::kTree;
  const plan::Operand* operand = plan_->operands.data() + op.operands;
  for (uint32_t i = 0; i < fold.target_count; ++i) fold.targets[i] = address(operand[i]);
  const std::span<const plan::Operand> sources = sources_of(*plan_, op);
  for (uint32_t i = 0; i < op.source_count; ++i) fold.sources[i] = address(sources[i]);
  set_factors(at, op, fold);
  const uint64_t bytes = count * plan_->element_bytes;
  bool fetches = false;
  for (const plan::Operand& source : sources) {
    counts_.folded_bytes += bytes;
    if (!is_elsewhere(source.base)) continue;
    counts_.fetched_bytes += bytes;
    fetches = true;
  }
  if (!put_fold(fold, fetches)) return Answer::kFailed;
  for (uint32_t i = fold.target_count; i < op.target_count; ++i) {
    const bool crosses = is_elsewhere(operand[i].base) || is_elsewhere(operand[0].base);
    const Answer answer = copy(address(operand[i]), fold.targets[0], bytes, crosses);
    if (answer != Answer::kGoOn) return answer;
  }
  return Answer::kGoOn;
}

// Nobody's bytes lie between the place's last element and the next whole word.
bool StreamMachine::fold_shared(uint64_t place, uint64_t bytes) {
  if (!put_lists()) return false;
  ++counts_.kernels;
  ++counts_.multicasts;
  counts_.shared_bytes += bytes;
  if (kernels_ == nullptr) return status_.ok();
  const MulticastParameters given{
      addresses_.all_rings + place + shift_[static_cast<size_t>(Shift::kFrame)],
      (bytes + kFoldWordsBytes - 1) / kFoldWordsBytes};
  const uint64_t count = bytes / plan_->element_bytes;
  const uint32_t blocks = kernels_->blocks_of(plan_->type, count, true, ctas_);
  counts_.most_ctas = std::max(counts_.most_ctas, blocks);
  if (cuda_ != nullptr) {
    keep(kernels_->launch_shared(plan_->type, plan_->operation, given, blocks, stream_));
  }
  return status_.ok();
}

void StreamMachine::set_factors(const Position& at, const Op& op, FoldParameters& fold) const {
  if (op.divide) fold.divisor = plan_->divisor;
  if (op.mask != plan::kNoMask) {
    const size_t words = (size_t{op.source_count} + 63) / 64;
    std::copy_n(plan_->masks.begin() + op.mask, words, fold.scaled);
    fold.factor = std::bit_cast<uint64_t>(plan_->scale);
  } else if (factor_ != nullptr) {
    std::copy(contributions_[at.op].begin(), contributions_[at.op].end(), fold.scaled);
    set_factor(fold);
  }
}

void StreamMachine::set_factor(FoldParameters& fold) const {
  fold.factor_is = factor_->memory == nullptr ? FactorIs::kElement : FactorIs::kInMemory;
  fold.factor = reinterpret_cast<CUdeviceptr>(factor_->memory);
  if (factor_->memory == nullptr) std::memcpy(&fold.factor, factor_->value.data(), 8);
}

bool StreamMachine::conflicts(const AddressRange& target, const AddressRange& source) const {
  const auto meets = [](const std::vector<AddressRange>& ranges, const AddressRange& one) {
    return std::any_of(ranges.begin(), ranges.end(),
                       [&](const AddressRange& other) { return other.meets(one); });
  };
  return meets(targets_, target) || meets(targets_, source) || meets(sources_, target);
}

bool StreamMachine::is_elsewhere(uint32_t base) const {
  if (base == plan::register_of(Base::kLanding)) return true;
  if (base < plan::register_of(Base::kFixed) || addresses_.elsewhere.empty()) return false;
  return addresses_.elsewhere[plan::rank_of(base)];
}

Answer StreamMachine::copy(CUdeviceptr target, CUdeviceptr source, uint64_t bytes, bool crosses) {
  if (target == source) return Answer::kGoOn;
  const AddressRange to{target, target + bytes}, from{source, source + bytes};
  if (conflicts(to, from) && !put_lists()) return Answer::kFailed;
  copies_.add(target, source, bytes, crosses);
  longest_ = std::max(longest_, bytes);
  counts_.copied_bytes += bytes;
  if (crosses) counts_.crossing_bytes += bytes;
  targets_.push_back(to);
  sources_.push_back(from);
  return Answer::kGoOn;
}

Answer StreamMachine::signal(const Position& at, uint64_t value) {
  if (turns_.gives_up_signal(at.lane)) return Answer::kNotYet;
  if (!go_to(at.lane) || !put_copies()) return Answer::kFailed;
  words_.write_64(addresses_.counters[at.lane][addresses_.rank], value);
  has_told_[at.lane] = true;
  return Answer::kGoOn;
}

Answer StreamMachine::wait(const Position& at, uint32_t member, uint32_t lane, uint64_t value) {
  uint64_t& awaited = awaited_[lane * addresses_.rings.size() + member];
  if (value <= awaited) return Answer::kGoOn;  // the stream has waited for it
  if (!go_to(at.lane)) return Answer::kFailed;
  if (longest_ > kOvertakenBytes && !put_lists()) return Answer::kFailed;
  if (!keep_signals_first(at.lane)) return Answer::kFailed;
  words_.wait_at_least_64(addresses_.counters[lane][member], value);
  awaited = value;
  return Answer::kGoOn;
}

Answer StreamMachine::reached(const Position& at, uint32_t member, uint32_t lane, uint64_t value) {
  if (gives_up_wait(at)) return Answer::kNotYet;
  turns_.wait(at.lane);
  return wait(at, member, lane, value);
}

Answer StreamMachine::passed(const Position& at, uint32_t lane, uint64_t value) {
  if (gives_up_wait(at)) return Answer::kNotYet;
  turns_.wait(at.lane);
  if (value == 0) return Answer::kGoOn;  // nothing has ever lain there
  for (uint32_t rank = 0; rank < addresses_.rings.size(); ++rank) {
    if (rank == addresses_.rank) continue;
    if (const Answer answer = wait(at, rank, lane, value); answer != Answer::kGoOn) return answer;
  }
  return Answer::kGoOn;
}

// The lists are those of one lane.
bool StreamMachine::go_to(uint32_t lane) {
  if (lane == lane_) return true;
  if (!put_lists()) return false;
  lane_ = lane;
  stream_ = stream_of(lane);
  return true;
}

// Behind the other lane's signals, not behind what it waits for since.
bool StreamMachine::keep_signals_first(uint32_t lane) {
  if (!captured_ || plan_->lanes.size() < 2) return true;
  for (uint32_t one = 0; one < plan_->lanes.size(); ++one) {
    if (!mark_signals(one)) return false;
    if (one == lane || !is_marked_[one]) continue;
    is_marked_[one] = false;
    if (!put_words() || !follow(stream_, one)) return false;
  }
  return true;
}

// Signals are never behind copies in the lists, so the words alone need be put.
bool StreamMachine::mark_signals(uint32_t lane) {
  if (!has_told_[lane]) return true;
  has_told_[lane] = false;
  is_marked_[lane] = true;
  return put_words() && mark(lane, stream_of(lane));
}

void StreamMachine::fork() {
  if (!has_second() || !put_lists()) return;
  if (keep(side_->mark(0, first_))) keep(side_->follow(side_->get(), 0));
}

void StreamMachine::join() {
  if (!has_second() || !go_to(0) || !put_lists()) return;
  if (keep(side_->mark(1, side_->get()))) keep(side_->follow(first_, 1));
}

// The caller's stream and that of the first lane.
bool StreamMachine::goes_behind(CUstream behind, CUstream before) {
  if (behind == before) return true;
  return keep(side_->mark(0, before)) && keep(side_->follow(behind, 0));
}

Status StreamMachine::finish(CUdeviceptr word, uint64_t value) {
  if (!status_.ok() || !put_copies()) return status_;
  words_.write_64(word, value);
  if (put_words()) goes_behind(main_, first_);
  return status_;
}

// Behind the waits of the lists, if there are copies.
bool StreamMachine::put_copies() {
  if (copies_.size() == 0) return true;
  if (!put_words()) return false;
  counts_.copies += copies_.size();
  counts_.crossing += copies_.crossing();
  ++counts_.batches;
  if (cuda_ != nullptr) {
    const bool beside = copies_.size() > 1 && side_ != nullptr && captured_;
    keep(beside ? side_->put_beside(stream_, copies_)
                : copies_.submit(*cuda_, stream_, engines_alone_));
  }
  copies_.clear();
  targets_.clear();
  sources_.clear();
  longest_ = 0;
  return status_.ok();
}

bool StreamMachine::put_words() {
  if (words_.size() == 0) return true;
  counts_.operations += words_.size();
  counts_.waits += words_.waits();
  ++counts_.groups;
  if (cuda_ != nullptr) keep(words_.submit(*cuda_, stream_));
  words_.clear();
  return status_.ok();
}

bool StreamMachine::put_fold(const FoldParameters& fold, bool crosses) {
  if (!put_lists()) return false;
  ++counts_.kernels;
  if (kernels_ == nullptr) return status_.ok();
  const uint32_t blocks = kernels_->blocks_of(plan_->type, fold.count, crosses, ctas_);
  counts_.most_ctas = std::max(counts_.most_ctas, blocks);
  if (cuda_ != nullptr) {
    keep(kernels_->launch(plan_->type, plan_->operation, fold, blocks, stream_));
  }
  return status_.ok();
}

}  // namespace tutti::engines::cuda
