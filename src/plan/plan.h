// A plan: one rank's schedule lowered to micro-operations for one count, type and kind of link.
//
// A schedule says what; a plan says how: which bytes, through which memory, woken by which counter.
// Plans hold no pointers to user memory (operands are base + offset), so one plan serves every
// buffer.
//
// How ranks of one host talk ("domain": ranks that map each other's arena; arena_map.h has the
// places):
//   * Each rank has one rising progress counter per lane. A slice of a plan raises it by
//     LanePlan::advance, the same number on every rank, so nobody needs to tell the others where he
//     is.
//   * SLOT: the sender copies into a frame of its staging ring and signals; every slice has a frame
//   of
//     the same size at the same place on every rank.
//   * INLINE: flag and payload in one cell; the flag's exact value says slice and call signature.
//   * PULL/PUSH (direct): the address of the user's buffers travels in a cell at entry.
//   * STREAM: to another host. Where its level encodes, the operand lies in the memory for encoded
//     values, where each value of a slice has a place of its own (rounding.h).
// CREDIT, at the first write to a ring region, waits until every rank has passed what last used it.
//
// Threads: a plan is immutable and may be run by any one thread at a time per communicator.
// Units:   offsets in bytes, lengths in elements.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "src/plan/wire.h"
#include "src/schedule/layout.h"
#include "src/schedule/schedule.h"
#include "src/types/fold_key.h"

namespace tutti::plan {

struct Match;

/// How one message crosses a link. Chosen per message by lowering; algorithms never ask.
enum class Mechanism : uint8_t { kInline, kSlot, kPull, kRead, kPush, kStream };

enum class OpCode : uint8_t {
  kCredit,         // my ring region may be written
  kMove,           // targets <- fold(sources), `length` elements cut by the slice; beside a target
                   // that is encoded, the others get the decoded value
  kSignal,         // my lane counter := base + value
  kWait,           // until peer's lane counter >= base + value
  kRaise,          // raise the flag of my cell `value`
  kWaitCell,       // until the flag of peer's cell `value` is this slice's
  kEnter,          // prologue: publish my buffers' addresses in my cell
  kWaitEnter,      // prologue: until peer has entered; then its buffers are addressable
  kReadPeer,       // single copy: target <- peer's memory
  kAfter,          // until my lane `peer` has passed its op `value` of this slice of the plan: in
                   // its last part, where that lane has other parts than mine
  kStreamReceive,  // post the receive of `value` operands from peer
  kStreamSend,     // send `source_count` operands to peer
  kStreamArrived,  // until the receive posted as number `value` of this slice has arrived
  kStreamSent,     // until the send posted as number `value` of this slice may be overwritten
  kLevel,          // call `value` of Plan::level_calls, with the ranks near me; `mask` other than
                   // kNoMask: folds scale what each rank brings
};

/// Base registers. The executor's table holds, in this order, the fixed ones and then four per
/// rank.
enum class Base : uint32_t {
  kInput = 0,
  kOutput = 1,
  kScratch = 2,
  kLanding = 3,
  kEncoded = 4,
  kFixed = 5
};
enum class PeerBase : uint32_t { kSlot = 0, kCell = 1, kInput = 2, kOutput = 3, kCount = 4 };

constexpr uint32_t register_of(Base base) { return static_cast<uint32_t>(base); }
constexpr uint32_t register_of(PeerBase base, int rank) {
  return static_cast<uint32_t>(Base::kFixed) +
         static_cast<uint32_t>(rank) * static_cast<uint32_t>(PeerBase::kCount) +
         static_cast<uint32_t>(base);
}
/// Of a register behind the fixed ones: whose it is, and which of that rank's.
constexpr uint32_t rank_of(uint32_t base) {
  return (base - register_of(Base::kFixed)) / static_cast<uint32_t>(PeerBase::kCount);
}
constexpr PeerBase peer_base_of(uint32_t base) {
  const uint32_t behind = base - register_of(Base::kFixed);
  return static_cast<PeerBase>(behind % static_cast<uint32_t>(PeerBase::kCount));
}

/// The term that changes with the slice: it is added to base + offset when a micro-operation runs.
enum class Shift : uint32_t {
  kNone = 0,     // cells, landing zones, single-slice user memory
  kPiece = 1,    // user memory: the offset of the slice's piece within the block
  kFrame = 2,    // slots: the frame's place in the ring
  kScratch = 3,  // scratch: the copy for this slice in flight, and where its part begins there
  kCell = 4,     // cells: the place of the slice's cells in the cell ring
  kEncoded = 5,  // encoded values: the same as kScratch, in bytes of the encoding
};

struct Operand {
  uint32_t base = 0;  // register_of(...)
  Shift shift = Shift::kNone;
  uint64_t offset = 0;
  uint8_t encoding = 0;  // 0: as memory has it; else of the plan's codecs, and kEncoded
  bool operator==(const Operand&) const = default;
};

inline constexpr uint32_t kNoMask = ~0u;
inline constexpr uint32_t kNoPeer = ~0u;
inline constexpr uint32_t kMaxTargets = 1024;       // of one move
inline constexpr uint32_t kMaxBlocks = UINT16_MAX;  // of a stream's Op, which counts in 16 bits
inline constexpr uint32_t kMaxLanes = 8;            // each has a ring and a counter in every arena
inline constexpr uint32_t kSlicesInFlight = 4;      // the most of a plan of several lanes

struct Op {
  OpCode code = OpCode::kMove;
  uint8_t lane = 0;  // kStreamSent, and kWait in the epilogue: whose posts or counter
  schedule::Fold fold = schedule::Fold::kList;
  bool divide = false;  // integer average: this move stores the complete value
  uint16_t target_count = 0;
  uint16_t source_count = 0;
  uint32_t peer = 0;        // rank; kAfter: lane; kMove: whose slot is read last, or kNoPeer
  uint32_t value = 0;       // signal number, cell, op or ordinal
  uint32_t operands = 0;    // first of target_count targets, then source_count sources
  uint32_t lengths = 0;     // streams: one element count an operand, in Plan::lengths
  uint32_t mask = kNoMask;  // first word of the `scaled` mask in Plan::masks
  uint32_t index = 0;       // the schedule's step it came from; behind the last one: the lane's end
  uint32_t block = 0;       // which of the step's blocks
  uint64_t length = 0;      // kMove, kReadPeer: elements of the whole block
  types::StoreHint store = types::StoreHint::kCached;  // kMove: how it stores
  // kMove: only staging slots are written, which may also be done past the cache. The engine
  // chooses.
  bool stages = false;
  bool is_encoded = false;  // kMove: some operand is
};

/// A rank has to do with a row of a level call in one of these ways. All ranks near each other have
/// the same rows in the same order, but for those of two ranks, which the others leave out.
enum class LevelRowKind : uint8_t {
  kFold,        // the root gets the fold of a block of every rank
  kFoldForAll,  // every rank does
  kSpread,      // every rank but the root gets a block of the root's
  kPair,        // the peer gets a block of the root's
};

inline constexpr uint32_t kNoOperand = ~0u;

struct LevelRow {
  LevelRowKind kind = LevelRowKind::kFold;
  uint32_t root = 0;             // rank
  uint32_t peer = 0;             // kPair: rank
  uint32_t source = kNoOperand;  // in Plan::operands: what this rank brings
  uint32_t target = kNoOperand;  // and gets. Of no other row
  uint64_t length = 0;           // elements of the whole block, of which the slice has a piece
};

/// Calls of a library that ranks of a host make together (match.h, level_calls.h).
enum class LevelWhole : uint8_t {
  kNone,           // row by row
  kReduceScatter,  // its rows are kFold, one for each rank by place, and their sources lie one
                   // behind the other; and so on, for as many times as there are rows
  kAllGather,      // the same of kSpread, and their targets
};

struct LevelCall {
  uint32_t first = 0, rows = 0;  // of Plan::level_rows
  uint32_t value = 0;            // my lane counter is at base + value: I have come so far
  LevelWhole whole = LevelWhole::kNone;
};

/// The engine that executes the micro-operations of a lane. Engines of devices have numbers of
/// their own.
enum class Engine : uint8_t { kHost = 0, kDevice = 1 };

/// Where the bytes of a base lie.
enum class MemoryKind : uint8_t { kHost, kDevice };

struct LanePlan {
  Engine engine = Engine::kHost;
  uint32_t begin = 0;  // ops [begin, end) run once for every slice
  uint32_t end = 0;
  // Slices of the lane for each slice of the plan, equal on all ranks: parts of the same bytes.
  uint32_t parts = 1;
  uint32_t advance =
      1;  // the lane counter rises by this every slice; the end of the slice signals it
  uint32_t cells = 0;        // cells of the frame, equal on all ranks
  bool tiny = false;         // the frame is a part of its one cell; equal on all ranks
  uint64_t frame_bytes = 0;  // of the staging ring, equal on all ranks
  // Frames lie within so much of a region of the ring, however long it is; equal on all ranks.
  uint64_t region_bytes = ~uint64_t{0};
  uint32_t receives = 0;  // streams: posted in every slice
  uint32_t sends = 0;
  bool publishes = false;  // this rank writes to its ring or cells
};

struct Plan {
  std::vector<Op> ops;
  std::vector<Operand> operands;
  std::vector<uint64_t> lengths;
  std::vector<uint64_t> masks;
  std::vector<LanePlan> lanes;
  std::vector<LevelRow> level_rows;
  std::vector<LevelCall> level_calls;  // in the order of their micro-operations
  std::vector<Op> prologue;  // run once before the first slice: entries, in one cell of their own
  std::vector<Op> epilogue;  // run once after the last slice: readers of my buffers are done
  // Of the plan. A lane has as many, each in as many parts as LanePlan says.
  uint64_t slices = 1;
  // As many lanes as there are, of the same micro-operations, take turns (take_turns() in
  // passes.h): slice s of lane l has piece s * turns + l of every block. 1: each lane does all
  // pieces.
  uint32_t turns = 1;
  // Of lanes that take turns: the last two slices of each are half as long as the others, since
  // the work of the last ones overlaps nothing.
  bool tapers = false;
  bool one_way = false;  // no rank waits in a circle, as where there is a root (lane_turns.h)
  uint64_t quantum = 1;  // elements per 64 bytes
  uint32_t element_bytes = 1;
  uint64_t scratch_bytes = 0;     // for one slice of the plan in flight
  uint64_t landing_bytes = 0;     // of all lanes; of lanes that take turns, of each
  uint64_t encoded_bytes = 0;     // of encoded values, for one slice of the plan in flight
  uint32_t slices_in_flight = 1;  // of the plan
  double scale = 1.0;
  int64_t divisor = 1;
  types::DataType type = types::DataType::kFloat32;
  types::ReduceOp operation = types::ReduceOp::kSum;  // that moves fold by
  // By fixed base, then by what a base of a rank is.
  std::array<MemoryKind, 9> memory{};
  std::vector<codecs::Codec> codecs;  // by encoding, from 1
  // Texts that explain and the flight recorder print.
  std::string algorithm;
  std::string passes;  // names of the passes that changed something
  // The match that the plan was bound from, if that outlives the plan; exchange.h tells from it how
  // far a call has come.
  const Match* match = nullptr;
  schedule::Layout layout;
};

constexpr MemoryKind memory_of(const Plan& plan, uint32_t base) {
  const bool fixed = base < register_of(Base::kFixed);
  return plan
      .memory[fixed ? base : register_of(Base::kFixed) + static_cast<uint32_t>(peer_base_of(base))];
}

constexpr uint64_t slices_of(const Plan& plan, uint32_t lane) {
  return plan.slices * plan.lanes[lane].parts;
}
/// The part of a block of `length` elements that a slice of a lane has.
inline schedule::Extent piece_of(const Plan& plan, uint32_t lane, uint64_t slice, uint64_t length) {
  const uint64_t first = plan.turns > 1 ? lane : 0;
  const uint64_t index = slice * plan.turns + first;
  const uint64_t pieces = slices_of(plan, lane) * plan.turns;
  if (!plan.tapers) return schedule::piece(length, index, pieces, plan.quantum);
  const uint64_t whole = pieces - 2 * plan.turns, halves = whole + pieces;
  const auto halves_before = [&](uint64_t k) { return k < whole ? 2 * k : whole + k; };
  const uint64_t end = halves_before(index + 1);
  const uint64_t low = schedule::piece(length, halves_before(index), halves, plan.quantum).offset;
  const schedule::Extent last = schedule::piece(length, end - 1, halves, plan.quantum);
  return {low, last.offset + last.length - low};
}
/// Scratch memory is there so often: for each slice in flight, or for each lane of several that
/// take turns, whose own slices follow each other.
constexpr uint64_t scratch_copies(const Plan& plan) {
  return plan.turns > 1 ? plan.turns : plan.slices_in_flight;
}
/// The lane whose message a kStreamSent of `lane` awaits: of lanes that take turns, each its own.
constexpr uint32_t sender_of(const Plan& plan, const Op& op, uint32_t lane) {
  return plan.turns > 1 ? lane : op.lane;
}
/// Landing zones lie one behind the other: those of a lane that takes turns begin so far behind the
/// first lane's.
constexpr uint64_t landing_shift(const Plan& plan, uint64_t lane) {
  return plan.turns > 1 ? lane * plan.landing_bytes : 0;
}
constexpr uint64_t all_landing_bytes(const Plan& plan) {
  return plan.turns > 1 ? plan.turns * plan.landing_bytes : plan.landing_bytes;
}
/// Bytes by which a scratch block of `length` elements moves with a slice of a lane.
inline uint64_t scratch_shift(const Plan& plan, uint32_t lane, uint64_t slice, uint64_t length) {
  if (plan.turns > 1) return lane * plan.scratch_bytes;
  const uint64_t parts = plan.lanes[lane].parts, whole = slice / parts;
  const uint64_t copy = whole % plan.slices_in_flight * plan.scratch_bytes;
  if (parts == 1) return copy;
  const uint64_t begin = schedule::piece(length, whole, plan.slices, plan.quantum).offset;
  return copy + (piece_of(plan, lane, slice, length).offset - begin) * plan.element_bytes;
}

/// The bytes of so many elements as an operand has them.
inline uint64_t bytes_of(const Plan& plan, uint8_t encoding, uint64_t elements) {
  return encoding == 0 ? elements * plan.element_bytes
                       : bytes_of(plan.codecs[encoding - 1], elements);
}
/// Bytes by which an encoded value of `length` elements moves with a slice of a lane.
inline uint64_t encoded_shift(const Plan& plan, uint32_t lane, uint64_t slice, uint64_t length,
                              uint8_t encoding) {
  const uint64_t whole = slice / plan.lanes[lane].parts;
  const uint64_t begin = schedule::piece(length, whole, plan.slices, plan.quantum).offset;
  const uint64_t part = piece_of(plan, lane, slice, length).offset - begin;
  return whole % plan.slices_in_flight * plan.encoded_bytes + bytes_of(plan, encoding, part);
}

/// The kernel that a kMove needs, but for one with encoded operands.
types::FoldKey key_of(const Plan& plan, const Op& op);

/// The most that a message in a cell may have.
inline constexpr uint32_t kCellPayloadBytes = 1024;
/// A payload up to this size lies in the flag's own cache line; a longer one begins 128 bytes
/// behind the flag, because the neighbour line of a polled line is prefetched with it.
inline constexpr uint32_t kCellShortBytes = 56;
inline constexpr uint32_t kCellStride = 128 + kCellPayloadBytes;
/// Where messages flow one way, frames of one message of up to kTinyBytes that follow each other
/// share the second line of a cell, where nothing else ever lies: a sender that runs ahead fetches
/// that line back from its readers once for several of them. A part begins with its flag, as a cell
/// does.
inline constexpr uint32_t kTinyBytes = 8;
inline constexpr uint32_t kTinyBegin = 64;
inline constexpr uint32_t kTinyStride = 16;
inline constexpr uint32_t kTinyParts = 4;
inline constexpr uint32_t kTinyEnd = kTinyBegin + kTinyParts * kTinyStride;
// Flags lie where no payload ever does: an old one could have the bits of a flag.
static_assert(sizeof(uint64_t) + kCellShortBytes <= kTinyBegin && kTinyEnd <= 128);
static_assert(sizeof(uint64_t) + kTinyBytes <= kTinyStride);
constexpr uint32_t cell_payload_offset(uint64_t bytes) {
  return bytes <= kCellShortBytes ? 8 : 128;
}

}  // namespace tutti::plan
