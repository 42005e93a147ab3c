// For tests of machines: the memory of all ranks of a group in one thread, what micro-operations do
// to it, and whether the results are right. It waits for nothing and orders nothing: that is what
// the machines are for. Every call has buffers of its own.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "src/exec/domain_test.h"
#include "src/plan/verify_plan_examples_test.h"
#include "src/plan/walk.h"
#include "src/types/kernels.h"

namespace tutti::plan::machines {

using exec::domain_test::Buffers;
using exec::domain_test::Case;

class World {
 public:
  static constexpr uint32_t kRegions = 2;
  static constexpr uint32_t kCalls = 2;  // in a row, on the same rings

  World(const Lowering& lowering, PlanSet set) : set_(std::move(set)) {
    case_.algorithm = lowering.algorithm;
    case_.parameters = lowering.parameters;
    case_.count = set_.count;
    for (const Plan& plan : set_.plans) {
      for (const LanePlan& lane : plan.lanes) {
        region_bytes_ = std::max(region_bytes_, lane.frame_bytes);
        cells_ = std::max<uint64_t>(cells_, lane.cells);
      }
    }
    ranks_.resize(set_.plans.size());
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) add(rank);
  }

  uint32_t ranks() const { return static_cast<uint32_t>(ranks_.size()); }
  const Plan& plan(uint32_t rank) const { return set_.plans[rank]; }
  const PlanSet& set() const { return set_; }
  Cursors cursors() const {
    Cursors made;
    made.cells = CellCursor(static_cast<uint32_t>(cells_), kRegions);
    for (LaneCursor& lane : made.lanes) lane = {1, RingCursor(region_bytes_, kRegions)};
    return made;
  }

  void move(uint32_t rank, uint32_t call, const Position& at, const Op& op) {
    const Where where{rank, call, &at};
    const Plan& plan = set_.plans[rank];
    const schedule::Extent piece = schedule::piece(op.length, at.slice, plan.slices, plan.quantum);
    if (piece.length == 0) return;
    std::vector<std::byte*> targets;
    std::vector<const std::byte*> sources;
    for (uint32_t i = 0; i < op.target_count; ++i) {
      targets.push_back(address(where, plan.operands[op.operands + i], op.length));
    }
    for (uint32_t i = 0; i < op.source_count; ++i) {
      const Operand& source = plan.operands[op.operands + op.target_count + i];
      sources.push_back(address(where, source, op.length));
    }
    types::fold_kernel(key_of(plan, op))(
        {targets.data(), sources.data(), op.target_count, op.source_count, piece.length});
  }
  void signal(uint32_t rank, uint32_t lane, uint64_t value) { ranks_[rank].counters[lane] = value; }
  bool reached(uint32_t member, uint32_t lane, uint64_t value) const {
    return ranks_[member].counters[lane] >= value;
  }
  /// The ranks near this one, but not itself.
  std::vector<uint32_t> near(uint32_t rank) const {
    std::vector<uint32_t> found;
    for (uint32_t other = 0; other < ranks(); ++other) {
      const bool same = set_.group->near(static_cast<int>(rank), static_cast<int>(other));
      if (other != rank && same) found.push_back(other);
    }
    return found;
  }
  void raise(uint32_t rank, uint64_t cell, uint64_t flag) { ranks_[rank].flags[cell] = flag; }
  bool raised(uint32_t member, uint64_t cell, uint64_t flag) const {
    const auto found = ranks_[member].flags.find(cell);
    return found != ranks_[member].flags.end() && found->second == flag;
  }

  /// A posted message of a rank: in which call and slice, by which lane, the manyeth, whether it
  /// sends.
  struct Ticket {
    uint32_t rank = 0, call = 0;
    uint64_t slice = 0;
    uint32_t lane = 0, ordinal = 0;
    bool sends = false;
    auto operator<=>(const Ticket&) const = default;
  };
  /// Returns the tickets that are done by it.
  std::vector<Ticket> post(uint32_t rank, uint32_t call, const Position& at, const Op& op) {
    const Plan& plan = set_.plans[rank];
    const bool sends = op.code == OpCode::kStreamSend;
    const Where where{rank, call, &at};
    Message message{{rank, call, at.slice, at.lane, op.value, sends}, {}};
    for (uint32_t i = 0; i < uint32_t{op.source_count} + op.target_count; ++i) {
      const uint64_t length = plan.lengths[op.lengths + i];
      const auto piece = schedule::piece(length, at.slice, plan.slices, plan.quantum);
      message.parts.push_back({address(where, plan.operands[op.operands + i], length),
                               piece.length * plan.element_bytes});
    }
    Channel& channel =
        sends ? channels_[{rank, op.peer, at.lane}] : channels_[{op.peer, rank, at.lane}];
    (sends ? channel.sends : channel.receives).push_back(message);
    if (channel.sends.empty() || channel.receives.empty()) return {};
    const Message from = channel.sends.front(), to = channel.receives.front();
    channel.sends.pop_front();
    channel.receives.pop_front();
    transfer(from, to);
    done_[from.ticket] = done_[to.ticket] = true;
    return {from.ticket, to.ticket};
  }
  bool is_done(const Ticket& ticket) const { return done_.contains(ticket); }

  /// The results of all calls, against the serial reference; empty if they are right.
  std::string check() const {
    for (uint32_t rank = 0; rank < ranks(); ++rank) {
      const int r = static_cast<int>(rank);
      const uint64_t out = schedule::output_elements(set_.shape, r, set_.count);
      for (uint64_t i = 0; i < kCalls * out; ++i) {
        const int64_t required = exec::domain_test::expected(case_, r, i % out);
        const int64_t found = ranks_[rank].buffers[i / out].recv[i % out];
        if (found == required) continue;
        return "rank " + std::to_string(rank) + " has " + std::to_string(found) + " at " +
               std::to_string(i % out) + " of its output of call " + std::to_string(i / out) +
               " instead of " + std::to_string(required);
      }
    }
    return {};
  }

 private:
  struct Part {
    std::byte* memory;
    uint64_t bytes;
  };
  struct Message {
    Ticket ticket;
    std::vector<Part> parts;
  };
  struct Channel {
    std::deque<Message> sends, receives;
  };
  struct Where {
    uint32_t rank;
    uint32_t call;
    const Position* at;
  };
  struct Rank {
    std::vector<Buffers> buffers;  // by call
    std::vector<std::byte> scratch, landing, rings, cells;
    std::vector<uint64_t> counters = std::vector<uint64_t>(kMaxLanes, 1);
    std::map<uint64_t, uint64_t> flags;
  };

  uint64_t ring_bytes() const { return region_bytes_ * kRegions; }

  void add(uint32_t rank) {
    Rank& state = ranks_[rank];
    const Plan& plan = set_.plans[rank];
    Case mine = case_;
    mine.in_place = set_.in_place[rank];
    for (uint32_t call = 0; call < kCalls; ++call) {
      state.buffers.push_back(
          exec::domain_test::make_buffers(mine, set_.shape, static_cast<int>(rank)));
    }
    state.scratch.resize(plan.scratch_bytes * plan.slices_in_flight);
    state.landing.resize(plan.landing_bytes);
    state.rings.resize(ring_bytes() * plan.lanes.size());
    state.cells.resize(cells_ * kRegions * kCellStride);
  }

  std::byte* address(const Where& where, const Operand& operand, uint64_t length) {
    const Plan& plan = set_.plans[where.rank];
    const Position& at = *where.at;
    const schedule::Extent piece = schedule::piece(length, at.slice, plan.slices, plan.quantum);
    const uint64_t shifts[] = {
        0, piece.offset * plan.element_bytes, at.lane * ring_bytes() + at.frame.frame,
        at.slice % plan.slices_in_flight * plan.scratch_bytes, at.frame.cell};
    return base(where, operand.base) + operand.offset + shifts[static_cast<size_t>(operand.shift)];
  }

  std::byte* base(const Where& where, uint32_t base) {
    const bool own = base < register_of(Base::kFixed);
    Rank& owner = ranks_[own ? where.rank : rank_of(base)];
    const bool staged =
        !own && (peer_base_of(base) == PeerBase::kSlot || peer_base_of(base) == PeerBase::kCell);
    if (staged) {
      return (peer_base_of(base) == PeerBase::kSlot ? owner.rings : owner.cells).data();
    }
    if (base == register_of(Base::kScratch)) return owner.scratch.data();
    if (base == register_of(Base::kLanding)) return owner.landing.data();
    const bool input =
        base == register_of(Base::kInput) || (!own && peer_base_of(base) == PeerBase::kInput);
    const Buffers& buffers = owner.buffers[where.call];
    return reinterpret_cast<std::byte*>(input ? buffers.send : buffers.recv);
  }

  static void transfer(const Message& from, const Message& to) {
    std::vector<std::byte> bytes;
    for (const Part& part : from.parts) {
      bytes.insert(bytes.end(), part.memory, part.memory + part.bytes);
    }
    size_t at = 0;
    for (const Part& part : to.parts) {
      if (part.bytes > 0) std::memcpy(part.memory, bytes.data() + at, part.bytes);
      at += part.bytes;
    }
  }

  PlanSet set_;
  Case case_;
  uint64_t region_bytes_ = 0;
  uint64_t cells_ = 1;
  std::vector<Rank> ranks_;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, Channel> channels_;
  std::map<Ticket, bool> done_;
};

}  // namespace tutti::plan::machines
