// The machine of plan::Walk that makes one program of a plan (fused_program.h), which one kernel
// runs: what goes into the rank's ring is pushed to its readers as lines, what is read of a peer's
// ring is awaited as lines, and so are messages without blocks. The rest of the walk's waits and
// signals are in the lines. It goes on at every question.
//
// Where a message's lines lie follows from the match alone: the blocks that one rank reads of
// another one have places in the order in which they lie in the sender's frame, and behind them are
// the messages without blocks. So sender and reader find the same place.
//
// Threads of the kernel know nothing of each other. So two steps may touch the same memory of the
// rank only where they touch the same range of it, of which each thread has the same lines.
//
// Threads: one at a time. Errors: status(): kUnsupported, with the reason, for a plan that is not
// one program; whether it is follows from algorithm, rank and placement, but for the room in
// mailboxes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/base/status.h"
#include "src/engines/cuda/fused_program.h"
#include "src/exec/stream_rank.h"
#include "src/plan/exchange.h"
#include "src/plan/walk.h"

namespace tutti::engines::cuda {

/// Where a rank's kernel finds what it talks by, as its device reaches it.
struct FusedAddresses {
  uint32_t rank = 0;
  std::vector<uint64_t> memories;  // by rank: FusedMemory
  FusedLayout layout;
  uint64_t words = 0;    // this rank's streams::FusedWords
  uint64_t scratch = 0;  // this rank's
  uint64_t scratch_bytes = 0;
};

struct FusedCall {
  uint64_t send = 0, recv = 0;
  const types::Scalar* factor = nullptr;  // of a scaled sum
  uint64_t timeout_ns = 0;
  uint64_t place = 0;
  uint32_t signature = 0;
  uint32_t most_blocks = 0;  // of the launch; 0: as all calls
};

class FusedMachine {
 public:
  static constexpr uint64_t kSlicesATurn = 1;

  explicit FusedMachine(FusedAddresses addresses) : addresses_(std::move(addresses)) {}

  /// Makes the program of a plan, which has its match. `call` is as long as this call. From the
  /// second time on it allocates nothing for plans like those before.
  Status make(const plan::Plan& plan, const FusedCall& call);
  /// Of the last one that was made.
  const FusedProgram& program() const { return program_; }
  /// That is, of one kernel in a stream.
  exec::DeviceCounts counts() const;
  /// How many places the rank's channels have, at most, and the bytes of each.
  uint32_t places() const { return places_; }
  uint64_t place_bytes() const { return place_bytes_; }

  plan::Answer move(const plan::Position& at, const plan::Op& op);
  plan::Answer raise(const plan::Position& at, uint64_t cell, uint64_t flag);
  plan::Answer raised(const plan::Position& at, uint32_t member, uint64_t cell, uint64_t flag);
  // Lines say themselves whether they have come, and have a credit of their own.
  plan::Answer signal(const plan::Position& /*at*/, uint64_t /*value*/) {
    return plan::Answer::kGoOn;
  }
  plan::Answer reached(const plan::Position& /*at*/, uint32_t /*member*/, uint32_t /*lane*/,
                       uint64_t /*value*/) {
    return plan::Answer::kGoOn;
  }
  plan::Answer passed(const plan::Position& /*at*/, uint32_t /*lane*/, uint64_t /*value*/) {
    return plan::Answer::kGoOn;
  }
  void opened(const plan::Position& /*at*/) {}
  void closed(const plan::Position& /*at*/) {}
  void stepped(const plan::Position& /*at*/) {}
  void behind(const plan::Position& /*at*/, uint32_t /*lane*/, uint64_t /*slice*/,
              uint32_t /*ops*/) {}
  void fork() {}
  void join() {}
  plan::Answer enter(const plan::Position&) { return refuse("it has an entry"); }
  plan::Answer entered(const plan::Position&, uint32_t) { return refuse("it has an entry"); }
  plan::Answer read(const plan::Position&, const plan::Op&) { return refuse("it has a read"); }
  plan::Answer own_reached(const plan::Position&, uint32_t, uint64_t) {
    return refuse("it has a lane of the host");
  }
  plan::Answer post(const plan::Position&, const plan::Op&) { return refuse("it has a message"); }
  plan::Answer arrived(const plan::Position&, const plan::Op&) {
    return refuse("it has a message");
  }
  plan::Answer sent(const plan::Position&, const plan::Op&) { return refuse("it has a message"); }

 private:
  /// A block, or a message without blocks, at its place among those of its two ranks.
  struct FusedChannel {
    std::vector<uint32_t> blocks;  // of the sender's frame; sorted
    std::vector<uint32_t> tokens;  // cells of the sender, in order
  };
  struct MemoryAccess {
    uint64_t begin = 0, end = 0;
    bool writes = false;
  };

  plan::Answer refuse(std::string why);
  Status check_shape(const plan::Plan& plan) const;
  void find_channels();
  Status check_room() const;
  void begin(const FusedCall& call);
  bool add_step(FusedStep step);
  bool add_line(uint64_t memory, uint32_t sender, uint32_t peer, uint64_t place);
  bool add_target(const plan::Operand& operand, uint64_t bytes, FusedStep& step);
  bool add_source(const plan::Operand& operand, uint64_t bytes, FusedStep& step);
  bool add_operand(uint64_t address, uint8_t line_of);
  bool touch(uint64_t address, uint64_t bytes, bool writes);
  void set_factors(const plan::Position& at, const plan::Op& op, FusedStep& step) const;
  static bool is_own_memory(uint32_t base);
  uint64_t address_of(const plan::Operand& operand) const;

  const FusedAddresses addresses_;
  const plan::Plan* plan_ = nullptr;
  uint64_t input_ = 0, output_ = 0;
  const types::Scalar* factor_ = nullptr;
  std::vector<uint64_t> contributions_;         // by op: a bit for each source, of a scaled sum
  std::vector<FusedChannel> sends_, receives_;  // by peer
  uint64_t stride_ = 0;                         // of the blocks of a frame
  uint64_t place_bytes_ = 0;                    // of the lines of one
  uint32_t places_ = 0;
  uint32_t operands_ = 0;
  uint64_t pushed_bytes_ = 0, folded_bytes_ = 0;
  std::vector<MemoryAccess> accesses_;
  FusedProgram program_;
  Status status_;
};

}  // namespace tutti::engines::cuda
