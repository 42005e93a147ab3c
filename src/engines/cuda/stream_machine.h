// The machine of plan::Walk that puts a plan into a CUDA stream: copies for copy engines, kernels
// that fold, and operations on words by which the streams of ranks wait for each other. A kernel
// begins when all that it reads is there, so none waits.
//
// It goes on at every question, since all that follows in a stream is ordered behind what was
// asked; but lanes take turns (plan::LaneTurns), and a lane whose turn it is not is asked again.
// Each lane of a plan has its part of the ring, and a counter. The second one is put into a stream
// of its own, if there is one (SideStream), else behind the first one's turns. Whatever queues of
// the hardware streams share, one could run everything as it was put: verify_plans() proves it.
//
// A stream writes its own rank's memory only: its ring, its output, its counters. It reads the
// rings of the peers, or their buffers where a plan names them, and so do its kernels.
//
// In a scaled sum the rank's own contributions are multiplied wherever they are read, so the copies
// of them are kernels, too.
//
// Copies of one batch run in any order, so a copy that touches what another one of the batch writes
// begins a new batch; and a batch ends before every signal, and every kernel. Waits overtake the
// copies that no signal stands between, so that these are one batch, whichever peers they read: for
// others it makes no difference when a rank waits, only when it signals. Copies of more than
// kOvertakenBytes are not overtaken: they are worth their own call, and what comes from a peer that
// is early need not wait for one that is late.
//
// Threads: one at a time. Contexts: the stream's is current. Errors: status() after kFailed; some
// of the plan may be in the stream then.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "src/drivers/cuda/stream.h"
#include "src/engines/cuda/fold_kernels.h"
#include "src/engines/cuda/level_library.h"
#include "src/engines/cuda/side_stream.h"
#include "src/exec/stream_rank.h"
#include "src/plan/lane_turns.h"
#include "src/plan/walk.h"

namespace tutti::engines::cuda {

using drivers::cuda::CUdeviceptr;
using drivers::cuda::CUstream;

/// A bit for each source of a move.
using SourceMask = std::array<uint64_t, kMostFoldSources / 64>;
/// By operand: which sources of moves, and blocks that are sent, are what the rank itself brings,
/// as it was before the call.
std::vector<bool> own_operands_of(const plan::Plan& plan);
/// The same of the sources of each move, by op.
std::vector<SourceMask> contributions_of(const plan::Plan& plan);

/// Where this rank's stream finds the ranks of its group.
struct DeviceAddresses {
  uint32_t rank = 0;
  std::vector<CUdeviceptr> rings;                                       // by rank
  std::array<std::vector<CUdeviceptr>, exec::kDeviceLanes> counters{};  // by lane and rank
  std::vector<bool> elsewhere{};  // by rank: its ring is not on this rank's device; empty: all are
  CUdeviceptr all_rings = 0;      // the rings behind one multicast address; 0: they are not
  uint64_t lane_bytes = 0;        // of a ring: the next lane's part begins there
  CUdeviceptr scratch = 0;        // of this rank
  uint64_t scratch_bytes = 0;
};

/// A call's buffers and its stream.
struct StreamCall {
  CUdeviceptr send = 0;
  CUdeviceptr recv = 0;
  CUstream stream = nullptr;
  const types::Scalar* factor = nullptr;  // of a scaled sum
  // By rank, where plans read what peers have not staged; empty: none does.
  std::span<const CUdeviceptr> inputs{}, outputs{};
  SideStream* side = nullptr;      // null: `stream` has all lanes, and takes lists of copies
  bool engines_alone = false;      // exec::StreamedCall's
  bool captured = false;           // `stream` is
  Ctas ctas{0, 0};                 // that the call asks for; 0: as all calls
  exec::BounceBuffer bounce{};     // of a plan with messages between hosts
  LevelLibrary* levels = nullptr;  // of a plan with level calls
  uint64_t deadline_ns = kNoDeadline;
};

class StreamMachine {
 public:
  static constexpr uint64_t kSlicesATurn = plan::LaneTurns::kSlices;
  static constexpr uint64_t kOvertakenBytes = 32 << 20;

  /// `cuda` null: nothing is put anywhere, only counted. `kernels` null: it refuses to fold, unless
  /// it only counts, which then does not count thread blocks. Both outlive it.
  StreamMachine(const drivers::cuda::Cuda* cuda, const FoldKernels* kernels,
                DeviceAddresses addresses);

  /// Before a walk of the plan, which outlives it.
  void start(const plan::Plan& plan, const StreamCall& call);
  /// Between both: a copy that all of the plan is behind.
  Status copy_first(CUdeviceptr target, CUdeviceptr source, uint64_t bytes);
  /// Behind the walk: `word` becomes `value` when the stream is past all of it.
  Status finish(CUdeviceptr word, uint64_t value);
  const Status& status() const { return status_; }
  /// Since start().
  const exec::DeviceCounts& counts() const { return counts_; }
  /// By lane * ranks + rank: the highest value of its counter that the streams wait for since
  /// start(); 0: none.
  const std::vector<uint64_t>& awaited() const { return awaited_; }

  plan::Answer move(const plan::Position& at, const plan::Op& op);
  plan::Answer signal(const plan::Position& at, uint64_t value);
  plan::Answer reached(const plan::Position& at, uint32_t member, uint32_t lane, uint64_t value);
  plan::Answer passed(const plan::Position& at, uint32_t lane, uint64_t value);
  void opened(const plan::Position& /*at*/) {}
  void fork();
  void closed(const plan::Position& at);
  void stepped(const plan::Position& /*at*/) {}
  // Lanes that take turns do not wait for each other.
  void behind(const plan::Position& /*at*/, uint32_t /*lane*/, uint64_t /*slice*/,
              uint32_t /*ops*/) {}
  void join();
  // Messages between hosts, by the call's bounce buffer (stream_machine_network.cc).
  plan::Answer post(const plan::Position& at, const plan::Op& op);
  plan::Answer arrived(const plan::Position& at, const plan::Op& op);
  plan::Answer sent(const plan::Position& at, const plan::Op& op);
  plan::Answer level(const plan::Position& at, const plan::Op& op);  // stream_machine_level.cc
  // Plans for devices have none of these: nothing travels in cells or by address.
  plan::Answer enter(const plan::Position& at) { return refuse(at, "an entry"); }
  plan::Answer entered(const plan::Position& at, uint32_t) { return refuse(at, "an entry"); }
  plan::Answer read(const plan::Position& at, const plan::Op&) { return refuse(at, "a read"); }
  plan::Answer own_reached(const plan::Position& at, uint32_t, uint64_t) {
    return refuse(at, "a lane of the host");
  }
  plan::Answer raise(const plan::Position& at, uint64_t, uint64_t) { return refuse(at, "a cell"); }
  plan::Answer raised(const plan::Position& at, uint32_t, uint64_t, uint64_t) {
    return refuse(at, "a cell");
  }

 private:
  struct AddressRange {
    CUdeviceptr begin = 0, end = 0;
    bool meets(const AddressRange& other) const { return begin < other.end && other.begin < end; }
  };

  void set_peers(plan::PeerBase base, std::span<const CUdeviceptr> buffers);
  plan::Answer refuse(const plan::Position& at, const char* what);
  CUdeviceptr address(const plan::Operand& operand) const {
    return registers_[operand.base] + operand.offset + shift_[static_cast<uint32_t>(operand.shift)];
  }
  bool is_elsewhere(uint32_t base) const;
  plan::Answer copy(CUdeviceptr target, CUdeviceptr source, uint64_t bytes, bool crosses);
  plan::Answer fold(const plan::Position& at, const plan::Op& op, uint64_t count);
  bool fold_shared(uint64_t place, uint64_t bytes);
  void set_factors(const plan::Position& at, const plan::Op& op, FoldParameters& fold) const;
  void set_factor(FoldParameters& fold) const;
  plan::Answer wait(const plan::Position& at, uint32_t member, uint32_t lane, uint64_t value);
  bool wait_for_host(uint32_t lane, const exec::DevicePage::Word& word, uint64_t value);
  bool put_in_bounce(const plan::Position& at, const plan::Op& op);
  bool put_piece(const plan::Position& at, uint32_t block, CUdeviceptr target, uint64_t bytes);
  bool set_piece(const plan::Position& at, uint64_t length, uint64_t& bytes);
  bool add_part(const plan::Position& at, const plan::LevelRow& row);
  bool brings_own(const plan::LevelCall& call) const;
  CUstream stream_of(uint32_t lane) const {
    return lane > 0 && side_ != nullptr ? side_->get() : first_;
  }
  bool gives_up_wait(const plan::Position& at) {
    return at.phase == plan::Phase::kSlices && turns_.gives_up_wait(at.lane);
  }
  bool go_to(uint32_t lane);
  bool keep_signals_first(uint32_t lane);
  bool mark_signals(uint32_t lane);
  // Waits are put first; no signal is added while there are copies.
  bool put_lists() { return put_words() && put_copies(); }
  bool conflicts(const AddressRange& target, const AddressRange& source) const;
  bool put_copies();
  bool goes_behind(CUstream behind, CUstream before);
  bool has_second() const { return side_ != nullptr && plan_->lanes.size() > 1; }
  bool mark(uint32_t lane, CUstream stream) {
    return side_ == nullptr || keep(side_->mark(lane, stream));
  }
  bool follow(CUstream stream, uint32_t lane) {
    return side_ == nullptr || keep(side_->follow(stream, lane));
  }
  bool put_words();
  bool put_fold(const FoldParameters& fold, bool crosses);
  bool keep(Status status) {  // the first error
    if (status_.ok()) status_ = std::move(status);
    return status_.ok();
  }

  const drivers::cuda::Cuda* const cuda_;
  const FoldKernels* const kernels_;
  const DeviceAddresses addresses_;
  const plan::Plan* plan_ = nullptr;
  // The caller's; that of the first lane; that of the lists.
  CUstream main_ = nullptr, first_ = nullptr, stream_ = nullptr;
  uint32_t lane_ = 0;  // of the lists
  SideStream* side_ = nullptr;
  plan::LaneTurns turns_;
  exec::BounceBuffer bounce_;
  LevelLibrary* levels_ = nullptr;
  uint64_t deadline_ns_ = kNoDeadline;
  std::vector<LevelPart> parts_;  // of a level call
  bool has_leveled_ = false;      // since start()
  struct MessageCounts {
    uint64_t staged = 0, arrived = 0, freed = 0;  // as the words of the bounce buffer count
  };
  std::array<MessageCounts, exec::kDeviceLanes> messages_{};
  // By lane: its last signals are not marked; they are, and the other lane is not behind the mark.
  std::array<bool, exec::kDeviceLanes> has_told_{}, is_marked_{};
  const types::Scalar* factor_ = nullptr;
  std::vector<SourceMask> contributions_;  // by op, of a scaled sum
  std::vector<bool> own_;                  // own_operands_of() such a plan with messages
  std::vector<CUdeviceptr> registers_;     // plan::register_of
  std::array<uint64_t, 5> shift_{};        // by plan::Shift
  drivers::cuda::CopyBatch copies_;
  std::vector<AddressRange> targets_, sources_;  // of copies_
  uint64_t longest_ = 0;                         // of copies_, in bytes
  bool engines_alone_ = false, captured_ = false;
  Ctas ctas_{0, 0};
  drivers::cuda::MemoryOps words_;
  std::vector<uint64_t> awaited_;
  exec::DeviceCounts counts_;
  Status status_;
};

}  // namespace tutti::engines::cuda
