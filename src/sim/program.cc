#include "src/sim/program.h"

#include <algorithm>
#include <bit>
#include <map>

#include "src/base/prng.h"

namespace tutti::sim {

using plan::Op;
using plan::OpCode;

uint64_t mix(uint64_t hash, uint64_t word) {
  uint64_t state = std::rotl(hash, 23) ^ word;
  return splitmix64(state);
}

Result<plan::Plan> Lowering::plan(int rank) {
  if (host_ == nullptr || group_->host_of(rank) != number_) {
    plan::MatchRequest wanted;
    wanted.algorithm = job_.algorithm;
    wanted.parameters = job_.parameters;
    wanted.rank = rank;
    wanted.group = group_;
    wanted.mode = job_.mode;
    wanted.in_place = wanted.hazards_in_place = job_.in_place;
    wanted.wire = job_.wire;
    Result<std::unique_ptr<plan::HostMatch>> host = plan::HostMatch::make(wanted);
    if (!host.ok()) return host.status();
    host_ = std::move(host).value();
    number_ = group_->host_of(rank);
  }
  Result<plan::Match> match = host_->of(rank);
  if (!match.ok()) return match.status();
  plan::Plan plan = plan::bind(match.value(), job_.request, job_.tuning);
  plan.algorithm = job_.algorithm->name;
  if (Status status = plan::check_fit(plan, job_.tuning); !status.ok()) return status;
  return plan;
}

bool fits(const Job& job, const group::GroupPointer& group) {
  return Lowering(job, group).plan(group->first_of_largest_host()).ok();
}

namespace {

class ProgramReader {
 public:
  ProgramReader(const plan::Plan& plan, int rank, const Network& network)
      : plan_(plan), rank_(rank), network_(network) {}

  RankProgram read() {
    add(plan_.slices);
    add(plan_.turns);
    add(plan_.slices_in_flight);
    add(plan_.element_bytes);
    for (const plan::LanePlan& lane : plan_.lanes) {
      for (const uint64_t word :
           {uint64_t{lane.begin}, uint64_t{lane.end}, uint64_t{lane.parts}, uint64_t{lane.advance},
            uint64_t{lane.cells}, uint64_t{lane.tiny}, lane.frame_bytes, lane.region_bytes,
            uint64_t{lane.receives}, uint64_t{lane.sends}})
        add(word);
    }
    for (const auto* ops : {&plan_.prologue, &plan_.ops, &plan_.epilogue}) {
      for (const Op& op : *ops) add(op);
      add(ops->size());
    }
    return std::move(program_);
  }

 private:
  void add(uint64_t word) { program_.skeleton = mix(program_.skeleton, word); }

  // How far away a peer is; the rank itself is nearer than all.
  uint64_t distance(uint32_t peer) const {
    const auto other = static_cast<int>(peer);
    if (other == rank_) return 0;
    return 1 + network_.group()->common_level(rank_, other);
  }

  void refer(uint32_t peer, uint8_t lane, ReferenceKind kind) {
    add(distance(peer));
    program_.references.push_back({index_, peer, lane, kind});
  }

  void add(const Op& op) {
    add(static_cast<uint64_t>(op.code) | uint64_t{op.lane} << 8 | uint64_t{op.target_count} << 16 |
        uint64_t{op.source_count} << 32);
    add(op.value);
    add(op.length);
    switch (op.code) {
      case OpCode::kMove:
        add_operands(op);
        break;
      case OpCode::kAfter:
        add(op.peer);  // a lane
        break;
      case OpCode::kStreamSend:
      case OpCode::kStreamReceive:
        for (uint32_t i = 0; i < uint32_t{op.source_count} + op.target_count; ++i) {
          add(plan_.lengths[op.lengths + i]);
          add(plan_.operands[op.operands + i].encoding);
        }
        refer(op.peer, lane_of(op),
              op.code == OpCode::kStreamSend ? ReferenceKind::kSend : ReferenceKind::kReceive);
        break;
      case OpCode::kWait:
      case OpCode::kWaitCell:
      case OpCode::kWaitEnter:
      case OpCode::kReadPeer:
        refer(op.peer, op.lane, ReferenceKind::kOther);
        break;
      default:
        break;
    }
    ++index_;
  }

  // A stream's operation is of the lane in which it stands.
  uint8_t lane_of(const Op& op) const {
    const auto at = static_cast<uint32_t>(&op - plan_.ops.data());
    uint8_t lane = 0;
    while (at >= plan_.lanes[lane].end) ++lane;
    return lane;
  }

  void add_operands(const Op& op) {
    for (uint32_t i = 0; i < uint32_t{op.source_count} + op.target_count; ++i) {
      const uint32_t base = plan_.operands[op.operands + i].base;
      const bool is_own = base < plan::register_of(plan::Base::kFixed);
      add(is_own ? 0 : distance(plan::rank_of(base)));
      add(plan_.operands[op.operands + i].encoding);
    }
  }

  const plan::Plan& plan_;
  const int rank_;
  const Network& network_;
  RankProgram program_;
  uint32_t index_ = 0;
};

}  // namespace

RankProgram program_of(const plan::Plan& plan, int rank, const Network& network) {
  return ProgramReader(plan, rank, network).read();
}

Mates::Mates(int rank, const RankProgram& program)
    : rank_(rank), ordinals_(program.references.size(), 0) {
  std::map<std::tuple<uint32_t, uint8_t, bool>, uint32_t> counts;
  for (size_t i = 0; i < program.references.size(); ++i) {
    const Reference& one = program.references[i];
    if (one.kind == ReferenceKind::kOther) continue;
    const bool sends = one.kind == ReferenceKind::kSend;
    ordinals_[i] = counts[{one.peer, one.lane, sends}]++;
    sorted_.push_back({one.peer, one.lane, sends, ordinals_[i], one.op});
  }
  std::sort(sorted_.begin(), sorted_.end(),
            [](const MateMessage& a, const MateMessage& b) { return a.key() < b.key(); });
}

uint32_t Mates::mate_in(const Mates& other, const RankProgram& mine, uint32_t index) const {
  const Reference& one = mine.references[index];
  const bool sends = one.kind == ReferenceKind::kSend;
  const std::tuple wanted(static_cast<uint32_t>(rank_), one.lane, !sends, ordinals_[index]);
  const auto found = std::lower_bound(
      other.sorted_.begin(), other.sorted_.end(), wanted,
      [](const MateMessage& message, const auto& key) { return message.key() < key; });
  return found == other.sorted_.end() || found->key() != wanted ? kNoMate : found->op;
}

}  // namespace tutti::sim
