#include "src/exec/host_machine.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "src/schedule/layout.h"

namespace tutti::exec {

using plan::Answer;
using plan::Op;
using plan::Operand;
using plan::PeerBase;
using plan::Position;
using plan::Shift;

namespace {

std::vector<const StagingReads*> readers_among(const CallState& state) {
  std::vector<const StagingReads*> readers;
  for (const uint32_t rank : state.domain()) readers.push_back(&state.peers()[rank].arena.reads());
  return readers;
}

}  // namespace

HostMachine::HostMachine(CallState& state, const Registrations& registrations)
    : state_(state),
      registrations_(registrations),
      lanes_(kLanes),
      passed_(kLanes, 0),
      write_staging_(state.options().staging_stores, readers_among(state)),
      read_staging_(state.mine().reads()) {
  const std::vector<Peer>& peers = state.peers();
  registers_.assign(plan::register_of(PeerBase::kSlot, static_cast<int>(peers.size())), nullptr);
  for (size_t rank = 0; rank < peers.size(); ++rank) {
    if (!peers[rank].arena.valid()) continue;
    const int r = static_cast<int>(rank);
    registers_[plan::register_of(PeerBase::kSlot, r)] = peers[rank].arena.rings();
    registers_[plan::register_of(PeerBase::kCell, r)] = peers[rank].arena.cells();
  }
}

void HostMachine::reserve(const plan::Plan& plan) {
  const auto grow = [&](std::unique_ptr<std::byte[]>& memory, uint64_t& capacity, uint64_t bytes) {
    if (bytes <= capacity) return;
    capacity = 0;
    memory.reset();
    memory = std::make_unique_for_overwrite<std::byte[]>(bytes);
    capacity = bytes;
  };
  grow(scratch_, scratch_capacity_, plan.scratch_bytes * plan::scratch_copies(plan));
  grow(landing_, landing_capacity_, plan::all_landing_bytes(plan));
  grow(encoded_, encoded_capacity_, plan.encoded_bytes * plan.slices_in_flight);
  registers_[plan::register_of(plan::Base::kEncoded)] = encoded_.get();
  registers_[plan::register_of(plan::Base::kScratch)] = scratch_.get();
  registers_[plan::register_of(plan::Base::kLanding)] = landing_.get();
}

void HostMachine::start(const HostProgram& program) {
  program_ = &program;
  plan_ = program.plan;
  for (uint32_t i = 0; i < plan_->lanes.size(); ++i) {
    LaneProgress& lane = lanes_[i];
    lane.piece_of = ~uint64_t{0};
    lane.moved = 0;
    lane.received.resize(plan_->lanes[i].receives);
    lane.sent.resize(plan_->lanes[i].sends);
    lane.sent_to.resize(plan_->lanes[i].sends);
  }
}

void HostMachine::opened(const Position& at) {
  LaneProgress& lane = lanes_[at.lane];
  const plan::LanePlan& plan = plan_->lanes[at.lane];
  if (plan.frame_bytes > 0) reach_frame(at.lane, at.frame.frame, plan.frame_bytes);
  if (plan.cells > 0) reach_cells(at.frame.cell);
  lane.shift[static_cast<size_t>(Shift::kFrame)] =
      at.lane * state_.options().layout.ring_bytes + at.frame.frame;
  lane.shift[static_cast<size_t>(Shift::kCell)] = at.frame.cell;
  lane.piece_of = ~uint64_t{0};
}

// The part of a block of `length` elements that belongs to the slice.
void HostMachine::set_piece(const Position& at, uint64_t length) {
  LaneProgress& lane = lanes_[at.lane];
  if (lane.piece_of == length) return;
  lane.piece_of = length;
  const schedule::Extent piece = plan::piece_of(*plan_, at.lane, at.slice, length);
  lane.piece_length = piece.length;
  lane.piece_bytes = piece.length * plan_->element_bytes;
  lane.shift[static_cast<size_t>(Shift::kPiece)] = piece.offset * plan_->element_bytes;
  lane.shift[static_cast<size_t>(Shift::kScratch)] =
      plan::scratch_shift(*plan_, at.lane, at.slice, length);
}

// Where the slice's piece of an operand of a block with `length` elements lies.
transport::Buffer HostMachine::piece_at(const Position& at, const Operand& operand,
                                        uint64_t length) {
  LaneProgress& lane = lanes_[at.lane];
  set_piece(at, length);
  if (operand.encoding == 0) return {address(lane, operand), lane.piece_bytes};
  const uint64_t shift = plan::encoded_shift(*plan_, at.lane, at.slice, length, operand.encoding);
  return {registers_[operand.base] + operand.offset + shift,
          plan::bytes_of(*plan_, operand.encoding, lane.piece_length)};
}

Answer HostMachine::move_encoded(const Position& at, const Op& op) {
  fold_.begin(program_->forms, program_->kernels[at.op].as_told);
  const std::span operands(plan_->operands.data() + op.operands,
                           size_t{op.target_count} + op.source_count);
  for (size_t i = 0; i < operands.size(); ++i) {
    std::byte* memory = piece_at(at, operands[i], op.length).data;
    if (i < op.target_count) {
      fold_.add_target(memory, operands[i].encoding);
    } else {
      fold_.add_source(memory, operands[i].encoding);
    }
  }
  if (op.mask != plan::kNoMask) fold_.scale(plan_->masks.data() + op.mask, plan_->scale);
  const LaneProgress& lane = lanes_[at.lane];
  spend(lane.piece_bytes);
  if (Status status = fold_.run(lane.piece_length); !status.ok()) {
    state_.fail(std::move(status));
    return Answer::kFailed;
  }
  return state_.has_moved(lane.piece_bytes) ? Answer::kGoOn : Answer::kFailed;
}

Answer HostMachine::move(const Position& at, const Op& op) {
  LaneProgress& lane = lanes_[at.lane];
  set_piece(at, op.length);
  if (lane.piece_length == 0) return Answer::kGoOn;
  if (bytes_left_ == 0) return Answer::kNotYet;
  if (op.is_encoded) return move_encoded(at, op);
  std::byte* targets[plan::kMaxTargets];
  const std::byte* sources[types::kMaxSources];
  const Operand* operand = plan_->operands.data() + op.operands;
  for (uint32_t i = 0; i < op.target_count; ++i) targets[i] = address(lane, *operand++);
  for (uint32_t i = 0; i < op.source_count; ++i) sources[i] = address(lane, *operand++);
  types::FoldCall call{targets, sources, op.target_count, op.source_count, lane.piece_length};
  if (op.mask != plan::kNoMask) {
    call.scaled = plan_->masks.data() + op.mask;
    call.scale = plan_->scale;
  }
  if (op.divide) call.divisor = plan_->divisor;
  const HostProgram::Kernels& kernels = program_->kernels[at.op];
  if (kernels.streaming == nullptr && state_.is_exposed()) {
    return move_in_pieces(kernels.as_told, call, targets, sources, lane.moved);
  }
  spend(lane.piece_bytes);
  const bool moved = move_by(kernels, call, {lane.piece_bytes, at.progress, at.lane, op.peer});
  return moved ? Answer::kGoOn : Answer::kFailed;
}

// Writes to slots may be timed, and reads of what a writer has timed are timed, too.
bool HostMachine::move_by(const HostProgram::Kernels& kernels, const types::FoldCall& call,
                          const StagedMove& staged) {
  const LaneProgress& lane = lanes_[staged.lane];
  if (kernels.streaming == nullptr) {
    const StagingMark mark = lane.marked_by == staged.owner ? lane.mark : StagingMark(0);
    read_staging_(staged.bytes, mark, staged.progress, 1, [&] { kernels.as_told(call); });
  } else {
    const bool is_copy = call.source_count == 1 && call.target_count == 1 &&
                         call.scaled == nullptr && call.divisor == 1;
    const StagingWriter::Order order{state_.mine().counter(staged.lane).staged, staged.progress};
    write_staging_(staged.bytes, is_copy, order, [&](bool streaming) {
      (streaming ? kernels.streaming : kernels.as_told)(call);
    });
  }
  return state_.has_moved(staged.bytes);
}

// Blocks of user memory have any length, and a peer that leaves the call waits for the piece in
// hand. Nobody needs what is left when this rank is shut out: the call fails.
Answer HostMachine::move_in_pieces(types::FoldKernel kernel, types::FoldCall call,
                                   std::byte** targets, const std::byte** sources,
                                   uint64_t& moved) {
  constexpr uint64_t kPieceBytes = 16 << 20;  // of all operands together
  constexpr uint64_t kLeastPiece = 4096;      // elements
  const uint64_t operands = uint64_t{call.target_count} + call.source_count;
  const uint64_t most =
      std::max<uint64_t>(kPieceBytes / operands / plan_->element_bytes, kLeastPiece);
  const auto skip = [&](uint64_t elements) {
    const uint64_t bytes = elements * plan_->element_bytes;
    for (uint32_t i = 0; i < call.target_count; ++i) targets[i] += bytes;
    for (uint32_t i = 0; i < call.source_count; ++i) sources[i] += bytes;
  };
  skip(moved);
  const uint64_t count = call.count;
  while (moved < count) {
    if (bytes_left_ == 0 || state_.is_shut_out()) return Answer::kNotYet;
    const uint64_t turn = std::max(bytes_left_ / plan_->element_bytes, kLeastPiece);
    call.count = std::min({count - moved, most, turn});
    kernel(call);
    skip(call.count);
    moved += call.count;
    const uint64_t bytes = call.count * plan_->element_bytes;
    spend(bytes);
    if (!state_.has_moved(bytes)) return Answer::kFailed;
  }
  moved = 0;
  return Answer::kGoOn;
}

Answer HostMachine::read(const Position& at, const Op& op) {
  LaneProgress& lane = lanes_[at.lane];
  set_piece(at, op.length);
  if (lane.piece_length == 0) return Answer::kGoOn;
  if (state_.is_shut_out()) return Answer::kNotYet;
  const Operand* operand = plan_->operands.data() + op.operands;
  const transport::Buffer target{address(lane, operand[0]), lane.piece_bytes};
  const auto source = reinterpret_cast<uint64_t>(address(lane, operand[1]));
  Status status = state_.peers()[op.peer].mapped->read(target, source);
  if (status.ok()) return Answer::kGoOn;
  // The peer whose memory it is, not the one waited for last, and no call that differs: a process
  // that has ended, or memory.
  state_.fail(std::move(status), {static_cast<int>(op.peer), -1});
  return Answer::kFailed;  // no signal of this plan follows: others would forward what is not there
}

Answer HostMachine::passed(const Position& /*at*/, uint32_t lane, uint64_t value) {
  if (passed_[lane] >= value) return Answer::kGoOn;
  uint64_t least = ~uint64_t{0};
  for (const uint32_t rank : state_.domain()) {
    const Counter& counter = state_.peers()[rank].arena.counter(lane);
    const uint64_t at = counter.progress.load(std::memory_order_acquire);
    if (at < value) {
      state_.expect(rank);
      return Answer::kNotYet;
    }
    least = std::min(least, at);
  }
  passed_[lane] = least;
  // A rank that has come so far by other calls than mine has not read what lay there.
  for (const uint32_t rank : state_.domain()) {
    if (!state_.agrees_with(rank)) return Answer::kFailed;
  }
  return Answer::kGoOn;
}

Answer HostMachine::reached(const Position& /*at*/, uint32_t member, uint32_t lane,
                            uint64_t value) {
  const Counter& counter = state_.peers()[member].arena.counter(lane);
  state_.expect(member);
  if (counter.progress.load(std::memory_order_acquire) < value) return Answer::kNotYet;
  mark(lane, member, counter.staged.load(std::memory_order_relaxed));
  return state_.agrees_with(member) ? Answer::kGoOn : Answer::kFailed;
}

Answer HostMachine::own_reached(const Position& /*at*/, uint32_t lane, uint64_t value) {
  const Counter& counter = state_.mine().counter(lane);
  return went_on(counter.progress.load(std::memory_order_acquire) >= value);
}

// How a buffer is named to the peers: by its address, or by the registration that holds it.
uint64_t HostMachine::word_of_entry(uint64_t address) const {
  if (!state_.call().registered) return address;
  const Registration* own = registrations_.holding(reinterpret_cast<const void*>(address), 1);
  if (own == nullptr) return Registration::kNone;  // a rank without input (or output) passes none
  return uint64_t{own->number} << Registration::kOffsetBits |
         (address - reinterpret_cast<uint64_t>(own->mine));
}

Answer HostMachine::enter(const Position& at) {
  reach_cells(at.frame.cell);
  auto* cell = state_.mine().cells() + at.frame.cell;
  const Call& call = state_.call();
  const uint64_t words[2] = {word_of_entry(reinterpret_cast<uint64_t>(call.send)),
                             word_of_entry(reinterpret_cast<uint64_t>(call.recv))};
  std::copy_n(words, 2, reinterpret_cast<uint64_t*>(cell + sizeof(Flag)));
  return raise(at, at.frame.cell, at.progress);
}

Answer HostMachine::entered(const Position& at, uint32_t member) {
  if (raised(at, member, at.frame.cell, at.progress) != Answer::kGoOn) return Answer::kNotYet;
  const std::byte* cell = state_.peers()[member].arena.cells() + at.frame.cell;
  const auto* words = reinterpret_cast<const uint64_t*>(cell + sizeof(Flag));
  const PeerBase bases[2] = {PeerBase::kInput, PeerBase::kOutput};
  for (int i = 0; i < 2; ++i) {
    auto* memory = reinterpret_cast<std::byte*>(words[i]);
    if (state_.call().registered) {
      const auto number = static_cast<uint32_t>(words[i] >> Registration::kOffsetBits);
      const uint64_t offset = words[i] % Registration::kMaxBytes;
      const bool none = number == Registration::kNone;
      const Registration* own = none ? nullptr : registrations_.numbered(number);
      if (!none && (own == nullptr || offset >= own->bytes)) {
        state_.fail(Status::remote_error(
            "rank " + std::to_string(member) + " entered " + state_.call().what +
            " with registered memory that rank " + std::to_string(state_.options().rank) +
            " does not know (any more): deregister it on all ranks before or after the call"));
        return Answer::kFailed;
      }
      memory = own == nullptr ? nullptr : own->peers[member] + offset;
    }
    registers_[plan::register_of(bases[i], static_cast<int>(member))] = memory;
  }
  return Answer::kGoOn;
}

Answer HostMachine::post(const Position& at, const Op& op) {
  LaneProgress& lane = lanes_[at.lane];
  const ExecutorOptions& options = state_.options();
  const transport::ChannelId channel{options.communicator, options.epoch, at.lane};
  const bool sends = op.code == plan::OpCode::kStreamSend;
  const uint32_t count = sends ? op.source_count : op.target_count;
  buffers_.clear();
  const_buffers_.clear();
  for (uint32_t i = 0; i < count; ++i) {
    const transport::Buffer piece =
        piece_at(at, plan_->operands[op.operands + i], plan_->lengths[op.lengths + i]);
    if (sends) {
      const_buffers_.push_back({piece.data, piece.bytes});
    } else {
      buffers_.push_back(piece);
    }
  }
  transport::Stream& stream = *state_.peers()[op.peer].stream;
  state_.announce_to(op.peer);
  const uint32_t signature = state_.call().far_signature;
  if (sends) {
    lane.sent[op.value] = stream.send(channel, signature, const_buffers_);
    lane.sent_to[op.value] = op.peer;
  } else {
    lane.received[op.value] = stream.receive(channel, signature, buffers_);
  }
  return Answer::kGoOn;
}

bool HostMachine::has_sent(uint32_t lane, uint32_t peer, uint32_t ordinal) const {
  return state_.peers()[peer].stream->sent(lanes_[lane].sent[ordinal]);
}

bool HostMachine::has_received(uint32_t lane, uint32_t peer, uint32_t ordinal) const {
  return state_.peers()[peer].stream->received(lanes_[lane].received[ordinal]);
}

Answer HostMachine::arrived(const Position& at, const Op& op) {
  state_.expect(op.peer);
  return went_on(has_received(at.lane, op.peer, op.value));
}

Answer HostMachine::sent(const Position& at, const Op& op) {
  const uint32_t lane = plan::sender_of(*plan_, op, at.lane);
  const uint32_t peer = lanes_[lane].sent_to[op.value];
  state_.expect(peer);
  return went_on(has_sent(lane, peer, op.value));
}

}  // namespace tutti::exec
