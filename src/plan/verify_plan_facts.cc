#include "src/plan/verify_plan_facts.h"

#include <algorithm>
#include <string>

#include "src/plan/walk.h"

namespace tutti::plan::verifier {
namespace {

using std::to_string;

constexpr uint64_t kMostBytes = uint64_t{1} << 30;  // of any one memory of a symbolic run

class Facts {
 public:
  Facts(const PlanSet& set, uint32_t rank)
      : set_(set),
        plan_(set.plans[rank]),
        rank_(rank),
        registers_(register_of(PeerBase::kSlot, set.group->ranks())) {}

  Status check() {
    if (plan_.lanes.empty()) return wrong("has no lane");
    if (plan_.slices == 0 || plan_.quantum == 0 || plan_.element_bytes == 0 ||
        plan_.slices_in_flight == 0) {
      return wrong("has a size of zero");
    }
    if (plan_.turns != 1 && plan_.turns != plan_.lanes.size()) {
      return wrong("has lanes that take turns, and others");
    }
    if (plan_.tapers && (plan_.turns == 1 || plan_.slices < 2)) {
      return wrong("has short slices without lanes that take turns");
    }
    const uint64_t scratch = plan_.scratch_bytes * scratch_copies(plan_);
    if (std::max(scratch, all_landing_bytes(plan_)) > kMostBytes)
      return wrong("is too large to verify");
    for (uint32_t i = 0; i < plan_.lanes.size(); ++i) {
      if (Status status = check_lane(i); !status.ok()) return status;
    }
    const auto differs = [this](const LanePlan& lane) {
      return lane.engine != plan_.lanes[0].engine;
    };
    const bool split = std::any_of(plan_.lanes.begin(), plan_.lanes.end(), differs);
    if (split && !(plan_.prologue.empty() && plan_.epilogue.empty())) {
      return wrong("enters buffers, and has lanes of several engines");
    }
    for (const Op& op : plan_.prologue) {
      const bool awaits = op.code == OpCode::kWaitEnter && near(op.peer) && op.peer != rank_;
      if (op.code != OpCode::kEnter && !awaits) {
        return wrong("has a prologue with something else than entries");
      }
    }
    for (const Op& op : plan_.epilogue) {
      const bool expected = op.code == OpCode::kWait && near(op.peer);
      if (!expected || op.lane >= plan_.lanes.size()) {
        return wrong("has an epilogue with something else than waits");
      }
    }
    return check_equal(set_.plans[0], true);
  }

  /// Against rank `other` of the same domain, or of another one.
  Status check_equal(const Plan& other, bool far) const {
    const auto differs = [&](const std::string& what, uint64_t a, uint64_t b) {
      return wrong("has " + what + " " + to_string(a) + " where another rank has " + to_string(b));
    };
    if (plan_.slices != other.slices) return differs("slices", plan_.slices, other.slices);
    if (plan_.turns != other.turns) return differs("turns", plan_.turns, other.turns);
    if (plan_.tapers != other.tapers) return differs("short slices", plan_.tapers, other.tapers);
    if (plan_.element_bytes != other.element_bytes || plan_.quantum != other.quantum) {
      return wrong("has other elements than another rank");
    }
    if (plan_.codecs != other.codecs) return wrong("has other codecs than another rank");
    if (plan_.lanes.size() != other.lanes.size()) {
      return differs("lanes", plan_.lanes.size(), other.lanes.size());
    }
    for (size_t i = 0; i < plan_.lanes.size(); ++i) {
      const uint32_t parts = plan_.lanes[i].parts;
      if (parts != other.lanes[i].parts) return differs("parts", parts, other.lanes[i].parts);
    }
    if (far) return {};
    if (plan_.prologue.empty() != other.prologue.empty()) return wrong("alone takes an entry cell");
    for (size_t i = 0; i < plan_.lanes.size(); ++i) {
      const LanePlan& a = plan_.lanes[i];
      const LanePlan& b = other.lanes[i];
      if (a.advance != b.advance) return differs("advance", a.advance, b.advance);
      if (a.engine != b.engine) return wrong("has a lane of another engine than another rank");
      if (a.cells != b.cells) return differs("cells", a.cells, b.cells);
      if (a.tiny != b.tiny) return differs("tiny", a.tiny, b.tiny);
      if (a.frame_bytes != b.frame_bytes) {
        return differs("frame bytes", a.frame_bytes, b.frame_bytes);
      }
      if (a.region_bytes != b.region_bytes) {
        return differs("region bytes", a.region_bytes, b.region_bytes);
      }
    }
    return {};
  }

 private:
  Status wrong(const std::string& what) const {
    return Status::internal_error(std::string(schedule::name_of(set_.shape.collective)) +
                                  ": the plan of rank " + to_string(rank_) + " " + what);
  }
  Status wrong(uint32_t op, const std::string& what) const {
    return wrong("op " + to_string(op) + ": " + what);
  }
  bool near(uint32_t peer) const {
    return peer < set_.plans.size() &&
           set_.group->near(static_cast<int>(peer), static_cast<int>(rank_));
  }

  Status check_lane(uint32_t index) {
    const LanePlan& lane = plan_.lanes[index];
    if (lane.begin > lane.end || lane.end > plan_.ops.size()) {
      return wrong("has a lane without ops");
    }
    if (lane.advance == 0) return wrong("has a lane that does not advance");
    if (lane.parts == 0) return wrong("has a lane without parts of a slice");
    if (lane.frame_bytes > kMostBytes) return wrong("is too large to verify");
    if (lane.cells > 0 && plan_.lanes.size() > 1) return wrong("has cells and several lanes");
    if (lane.tiny && lane.cells != 1) return wrong("is tiny and has not one cell");
    for (uint32_t i = lane.begin; i < lane.end; ++i) {
      if (Status status = check_op(i, lane); !status.ok()) return status;
    }
    return {};
  }

  Status check_op(uint32_t index, const LanePlan& lane) const {
    const Op& op = plan_.ops[index];
    const uint64_t operands = uint64_t{op.source_count} + op.target_count;
    if (op.operands + operands > plan_.operands.size()) return wrong(index, "operands it lacks");
    for (uint64_t i = 0; i < operands; ++i) {
      const Operand& operand = plan_.operands[op.operands + i];
      const bool fixed = operand.base < register_of(Base::kFixed);
      if (operand.base >= registers_ || (!fixed && !near(rank_of(operand.base)))) {
        return wrong(index, "an operand in the memory of a rank that is not mapped");
      }
      const bool unreachable = memory_of(plan_, operand.base) != MemoryKind::kHost;
      if (lane.engine == Engine::kHost && unreachable) {
        return wrong(index, "an operand that its engine cannot reach");
      }
    }
    if (Status status = check_encodings(index); !status.ok()) return status;
    switch (op.code) {
      case OpCode::kMove:
      case OpCode::kReadPeer:
        return check_move(index);
      case OpCode::kWait:
      case OpCode::kWaitCell:
        if (!near(op.peer) || op.peer == rank_) return wrong(index, "waits for a rank not mapped");
        if (op.code == OpCode::kWaitCell && op.value >= lane.cells) break;
        return {};
      case OpCode::kRaise:
        if (op.value >= lane.cells) break;
        return {};
      case OpCode::kAfter: {
        if (op.peer >= plan_.lanes.size()) return wrong(index, "names a lane that is not there");
        const LanePlan& other = plan_.lanes[op.peer];
        if (op.value > other.end - other.begin && op.value != kAllOps) {
          return wrong(index, "names an op not there");
        }
        return check_same_engine(index, lane, other);
      }
      case OpCode::kStreamReceive:
      case OpCode::kStreamSend:
      case OpCode::kStreamArrived:
      case OpCode::kStreamSent:
        return check_stream(index, lane);
      case OpCode::kLevel:
        return check_level(index);
      default:
        return {};
    }
    return wrong(index, "names a cell outside of the frame");
  }

  // Engines take encoded targets to come first, and ask `is_encoded` before they look at operands.
  Status check_encodings(uint32_t index) const {
    const Op& op = plan_.ops[index];
    bool is_encoded = false;
    for (uint32_t i = 0; i < uint32_t{op.target_count} + op.source_count; ++i) {
      const Operand& operand = plan_.operands[op.operands + i];
      const bool lies_encoded =
          operand.base == register_of(Base::kEncoded) && operand.shift == Shift::kEncoded;
      if (operand.encoding > plan_.codecs.size() || lies_encoded != (operand.encoding != 0)) {
        return wrong(index, "an operand with an encoding that is none, or that lies elsewhere");
      }
      const bool behind = i > 0 && i < op.target_count && operand.encoding != 0 &&
                          plan_.operands[op.operands + i - 1].encoding == 0;
      if (behind) return wrong(index, "an encoded target behind others");
      is_encoded = is_encoded || operand.encoding != 0;
    }
    if (is_encoded != op.is_encoded) return wrong(index, "does not say whether it is encoded");
    if (!is_encoded || op.code != OpCode::kMove) return {};
    const bool folds = codec_of(plan_.type).has_value() && !op.divide &&
                       (op.source_count == 1 || plan_.operation == types::ReduceOp::kSum);
    return folds ? Status() : wrong(index, "encodes what is not a sum of floats");
  }

  Status check_move(uint32_t index) const {
    const Op& op = plan_.ops[index];
    if (op.target_count == 0 || op.target_count > kMaxTargets || op.source_count == 0 ||
        op.source_count > types::kMaxSources) {
      return wrong(index, "too few or too many operands");
    }
    if (op.mask != kNoMask && op.mask + (op.source_count + 63u) / 64u > plan_.masks.size()) {
      return wrong(index, "a mask it lacks");
    }
    if (op.code == OpCode::kMove) return {};
    const uint32_t source = plan_.operands[op.operands + op.target_count].base;
    const int peer = static_cast<int>(op.peer);
    const bool named = source == register_of(PeerBase::kInput, peer) ||
                       source == register_of(PeerBase::kOutput, peer);
    const bool plain = op.source_count == 1 && op.target_count == 1;
    return named && plain ? Status() : wrong(index, "does not read what it names");
  }

  Status check_level(uint32_t index) const {
    const Op& op = plan_.ops[index];
    if (op.value >= plan_.level_calls.size()) return wrong(index, "a level call it lacks");
    const LevelCall& call = plan_.level_calls[op.value];
    if (uint64_t{call.first} + call.rows > plan_.level_rows.size()) {
      return wrong(index, "rows it lacks");
    }
    for (uint32_t i = 0; i < call.rows; ++i) {
      const LevelRow& row = plan_.level_rows[call.first + i];
      const bool pairs = row.kind == LevelRowKind::kPair;
      if (!near(row.root) || (pairs && (!near(row.peer) || row.peer == row.root))) {
        return wrong(index, "a row of a rank that is not near");
      }
      for (const uint32_t operand : {row.source, row.target}) {
        if (operand != kNoOperand && operand >= plan_.operands.size()) {
          return wrong(index, "operands it lacks");
        }
      }
    }
    return {};
  }

  // Lanes of two engines meet by signals and waits; where one stands the other does not know.
  Status check_same_engine(uint32_t index, const LanePlan& lane, const LanePlan& other) const {
    return lane.engine == other.engine ? Status()
                                       : wrong(index, "waits for a step of another engine's lane");
  }

  Status check_stream(uint32_t index, const LanePlan& mine) const {
    const Op& op = plan_.ops[index];
    const bool sends = op.code == OpCode::kStreamSend || op.code == OpCode::kStreamSent;
    const bool waits = op.code == OpCode::kStreamArrived || op.code == OpCode::kStreamSent;
    if (op.code == OpCode::kStreamSent && op.lane >= plan_.lanes.size()) {
      return wrong(index, "names a lane that is not there");
    }
    const LanePlan& lane = op.code == OpCode::kStreamSent ? plan_.lanes[op.lane] : mine;
    if (Status status = check_same_engine(index, mine, lane); !status.ok()) return status;
    if (lane.parts != mine.parts) return wrong(index, "awaits a message of a lane of other parts");
    if (op.value >= (sends ? lane.sends : lane.receives)) {
      return wrong(index, "names a message outside of the slice");
    }
    if (waits) return {};
    if (op.peer >= set_.plans.size() || near(op.peer)) {
      return wrong(index, "names a rank without a stream");
    }
    const uint64_t operands = uint64_t{op.source_count} + op.target_count;
    if (op.lengths + operands > plan_.lengths.size()) return wrong(index, "lengths it lacks");
    return {};
  }

  const PlanSet& set_;
  const Plan& plan_;
  uint32_t rank_;
  uint32_t registers_;
};

/// Of a v-collective: that the ranks' count vectors are those of one call. A plan is right for the
/// vectors it was bound to, so a receiver that expects less than it is sent runs without a fault
/// and has lost elements: only here both sides of a pair are seen.
class Counts {
 public:
  explicit Counts(const PlanSet& set) : set_(set), traits_(traits_of(set.shape.collective)) {}

  Status check() const {
    const size_t ranks = set_.plans.size();
    if (set_.vectors.size() != ranks) return wrong("count vectors of some ranks only");
    if (!traits_.input.parts && !traits_.output.parts) return wrong("count vectors without parts");
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      if (Status status = check_rank(rank); !status.ok()) return status;
    }
    for (uint32_t source = 0; source < ranks; ++source) {
      for (uint32_t target = 0; target < ranks; ++target) {
        if (Status status = check_pair(source, target); !status.ok()) return status;
      }
    }
    return {};
  }

 private:
  Status wrong(const std::string& what) const {
    return Status::internal_error(std::string(schedule::name_of(set_.shape.collective)) + ": " +
                                  what);
  }

  Status check_rank(uint32_t rank) const {
    const schedule::CountVectors& own = set_.vectors[rank];
    const std::string who = "rank " + to_string(rank);
    const size_t ranks = set_.vectors.size();
    const size_t inputs = traits_.input.parts ? ranks : 1;
    const size_t outputs = traits_.output.parts ? ranks : 1;
    if (own.input.size() != inputs || own.input_offsets.size() != inputs ||
        own.output.size() != outputs || own.output_offsets.size() != outputs) {
      return wrong(who + " has count vectors of another length than the group");
    }
    if (own.longest != set_.vectors[0].longest) {
      return wrong(who + " believes in a longest share of " + to_string(own.longest) +
                   ", rank 0 in one of " + to_string(set_.vectors[0].longest));
    }
    const uint64_t longest = std::max(std::ranges::max(own.input), std::ranges::max(own.output));
    if (longest > own.longest) {
      return wrong(who + " has a share of " + to_string(longest) +
                   ", which is longer than the longest, " + to_string(own.longest));
    }
    return {};
  }

  Status check_pair(uint32_t source, uint32_t target) const {
    const uint32_t of_input = traits_.input.parts ? target : 0;
    const uint32_t of_output = traits_.output.parts ? source : 0;
    const uint64_t sent = share_of(set_, source, false, of_input).length;
    const uint64_t expected = share_of(set_, target, true, of_output).length;
    if (sent == expected) return {};
    return wrong("rank " + to_string(source) + " has " + to_string(sent) + " elements for rank " +
                 to_string(target) + ", which expects " + to_string(expected));
  }

  const PlanSet& set_;
  const schedule::Traits& traits_;
};

// A ring and a counter belong to one engine, in all calls.
Status check_engines(const PlanSet& first, const PlanSet& set) {
  const auto& a = first.plans[0].lanes;
  const auto& b = set.plans[0].lanes;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i].engine == b[i].engine) continue;
    return Status::internal_error("calls in which lane " + to_string(i) + " changes its engine");
  }
  return {};
}

Status check_set(const PlanSet& set, const group::GroupPointer& group) {
  if (group == nullptr || set.group == nullptr) {
    return Status::internal_error("a call without a group");
  }
  const auto ranks = static_cast<size_t>(group->ranks());
  const bool complete = set.plans.size() == ranks && set.in_place.size() == ranks &&
                        *set.group == *group && set.shape.ranks == group->ranks() && ranks > 0;
  if (!complete) return Status::internal_error("a call without a plan for every rank of the group");
  if (!set.vectors.empty()) {
    if (Status status = Counts(set).check(); !status.ok()) return status;
  }
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    Facts facts(set, rank);
    if (Status status = facts.check(); !status.ok()) return status;
    for (uint32_t other = 0; other < rank; ++other) {
      if (!group->near(static_cast<int>(rank), static_cast<int>(other))) continue;
      if (Status status = facts.check_equal(set.plans[other], false); !status.ok()) return status;
      break;
    }
  }
  return {};
}

}  // namespace

Status check_facts(std::span<const PlanSet* const> calls) {
  for (const PlanSet* set : calls) {
    if (Status status = check_set(*set, calls.front()->group); !status.ok()) return status;
    if (Status status = check_engines(*calls.front(), *set); !status.ok()) return status;
  }
  return {};
}

}  // namespace tutti::plan::verifier
