// The machine of plan::Walk that moves bytes in host memory: the thread that walks does the work.
//
// Owns: scratch and landing memory, reused and grown; no allocation once a plan has run. Threads:
// one at a time. Errors: it fails the call (CallState), and answers kFailed.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "src/exec/call_state.h"
#include "src/exec/encoded_fold.h"
#include "src/exec/host_program.h"
#include "src/exec/populate.h"
#include "src/exec/registrations.h"
#include "src/exec/staging_stores.h"
#include "src/plan/walk.h"

namespace tutti::exec {

class HostMachine {
 public:
  // Between two turns of a lane its caller looks at what is rare.
  static constexpr uint64_t kSlicesATurn = 16;
  /// A call that gives way stops before the slice that follows so many bytes, and within a slice of
  /// memory that peers reach directly.
  static constexpr uint64_t kBytesATurn = 256 << 10;

  /// Both outlive it.
  HostMachine(CallState& state, const Registrations& registrations);

  /// The call's buffers, and room for what the plan has beside them. An error fails the call.
  void set_buffers(const Call& call) {
    registers_[plan::register_of(plan::Base::kInput)] =
        static_cast<std::byte*>(const_cast<void*>(call.send));
    registers_[plan::register_of(plan::Base::kOutput)] = static_cast<std::byte*>(call.recv);
  }
  void reserve(const plan::Plan& plan);
  /// Before a walk of the program, which outlives it.
  void start(const HostProgram& program);

  /// advance() follows.
  void begin_turn() { bytes_left_ = state_.gives_way() ? kBytesATurn : ~uint64_t{0}; }

  plan::Answer enter(const plan::Position& at);
  plan::Answer entered(const plan::Position& at, uint32_t member);
  plan::Answer move(const plan::Position& at, const plan::Op& op);
  plan::Answer read(const plan::Position& at, const plan::Op& op);
  plan::Answer signal(const plan::Position& at, uint64_t value) {
    state_.mine().counter(at.lane).progress.store(value, std::memory_order_release);
    return plan::Answer::kGoOn;
  }
  plan::Answer reached(const plan::Position& at, uint32_t member, uint32_t lane, uint64_t value);
  plan::Answer own_reached(const plan::Position& at, uint32_t lane, uint64_t value);
  plan::Answer passed(const plan::Position& at, uint32_t lane, uint64_t value);
  plan::Answer raise(const plan::Position& /*at*/, uint64_t cell, uint64_t flag) {
    reinterpret_cast<Flag*>(state_.mine().cells() + cell)
        ->store(state_.cell_flag(flag), std::memory_order_release);
    return plan::Answer::kGoOn;
  }
  plan::Answer raised(const plan::Position& /*at*/, uint32_t member, uint64_t cell, uint64_t flag) {
    const std::byte* awaited = state_.peers()[member].arena.cells() + cell;
    state_.expect(member);
    const uint64_t value = reinterpret_cast<const Flag*>(awaited)->load(std::memory_order_acquire);
    return went_on(value == state_.cell_flag(flag));
  }
  plan::Answer post(const plan::Position& at, const plan::Op& op);
  plan::Answer arrived(const plan::Position& at, const plan::Op& op);
  plan::Answer sent(const plan::Position& at, const plan::Op& op);
  // One thread has all lanes: every order between them is its own.
  void fork() {}
  void opened(const plan::Position& at);
  void closed(const plan::Position& /*at*/) {}
  void stepped(const plan::Position& /*at*/) {}
  void behind(const plan::Position& /*at*/, uint32_t /*lane*/, uint64_t /*slice*/,
              uint32_t /*ops*/) {}
  void join() {}

  /// Whether the transport has the message with this ordinal of the lane's slice.
  bool has_sent(uint32_t lane, uint32_t peer, uint32_t ordinal) const;
  bool has_received(uint32_t lane, uint32_t peer, uint32_t ordinal) const;

  /// The bytes of this rank's own staging memory that a slice is about to use (populate.h).
  void reach_frame(uint32_t lane, uint64_t frame, uint64_t bytes) {
    const uint64_t ring_bytes = state_.options().layout.ring_bytes;
    std::byte* ring = state_.mine().rings() + lane * ring_bytes;
    lanes_[lane].populated.reach(ring, ring_bytes, frame, frame + bytes);
  }
  void reach_cells(uint64_t cell) {
    constexpr uint64_t kRegionBytes = uint64_t{kCellsPerRegion} * plan::kCellStride;
    const uint64_t begin = cell / kRegionBytes * kRegionBytes;
    populated_cells_.reach(state_.mine().cells(), kCellRegions * kRegionBytes, begin,
                           begin + kRegionBytes);
  }

  /// For what uses staging memory beside the plans.
  StagingWriter& staging_writer() { return write_staging_; }
  StagingReader& staging_reader() { return read_staging_; }

  /// Of a plan's short form, which finds its bytes by itself (fast_path.h).
  std::byte* base(uint32_t number) const { return registers_[number]; }
  /// The scratch memory of the last run (of one slice); valid until the next.
  const std::byte* scratch() const { return scratch_.get(); }
  /// The peer has signalled in `lane`: what it said of its stores counts for what is read next.
  void mark(uint32_t lane, uint32_t peer, uint64_t word) {
    lanes_[lane].mark = StagingMark(word);
    lanes_[lane].marked_by = peer;
  }
  /// A move in the slice of the lane that began with its counter at `progress`, into slots or from
  /// those of `owner` (plan::Op::peer).
  struct StagedMove {
    uint64_t bytes = 0;
    uint64_t progress = 0;
    uint32_t lane = 0;
    uint32_t owner = 0;
  };
  /// By the kernels. False after a failure.
  bool move_by(const HostProgram::Kernels& kernels, const types::FoldCall& call,
               const StagedMove& staged);

 private:
  struct LaneProgress {
    PopulatedRing populated;
    std::array<uint64_t, 5> shift{};  // by plan::Shift
    StagingMark mark{0};              // of the peer that was waited for last
    uint32_t marked_by = 0;           // that peer
    uint64_t piece_length = 0, piece_of = ~uint64_t{0};
    uint64_t piece_bytes = 0;
    uint64_t moved = 0;  // elements of the move in hand, in turns before
    std::vector<transport::Stream::Ticket> received, sent;
    std::vector<uint32_t> sent_to;
  };

  static plan::Answer went_on(bool went_on) {
    return went_on ? plan::Answer::kGoOn : plan::Answer::kNotYet;
  }
  plan::Answer move_encoded(const plan::Position& at, const plan::Op& op);
  transport::Buffer piece_at(const plan::Position& at, const plan::Operand& operand,
                             uint64_t length);
  plan::Answer move_in_pieces(types::FoldKernel kernel, types::FoldCall call, std::byte** targets,
                              const std::byte** sources, uint64_t& moved);
  void spend(uint64_t bytes) { bytes_left_ -= std::min(bytes, bytes_left_); }
  void set_piece(const plan::Position& at, uint64_t length);
  std::byte* address(const LaneProgress& lane, const plan::Operand& operand) const {
    return registers_[operand.base] + operand.offset +
           lane.shift[static_cast<uint32_t>(operand.shift)];
  }
  uint64_t word_of_entry(uint64_t address) const;

  CallState& state_;
  const Registrations& registrations_;
  const HostProgram* program_ = nullptr;
  const plan::Plan* plan_ = nullptr;   // the program's
  std::vector<std::byte*> registers_;  // plan::register_of
  std::vector<LaneProgress> lanes_;
  std::vector<uint64_t> passed_;  // [lane]: every rank of the domain is known to have come so far
  PopulatedRing populated_cells_;
  StagingWriter write_staging_;
  StagingReader read_staging_;
  std::vector<transport::Buffer> buffers_;
  std::vector<transport::ConstBuffer> const_buffers_;
  std::unique_ptr<std::byte[]> scratch_, landing_, encoded_;
  EncodedFold fold_;
  uint64_t bytes_left_ = ~uint64_t{0};  // of this turn
  uint64_t scratch_capacity_ = 0, landing_capacity_ = 0, encoded_capacity_ = 0;
};

}  // namespace tutti::exec
