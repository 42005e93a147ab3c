// A collective as a value: who sends which blocks to whom, in which order.
//
// A Schedule is the program of one rank. It knows no bytes, sockets, CUDA or clock; it is the same
// for every count and element type. The same value is printed, verified, priced and lowered to a
// plan. Two kinds of step are enough, because messages are operands:
//
//   SEND blocks -> {peers}                   the blocks' values at this point of the lane
//   MOVE blocks <- s0 op s1 op ... op sk     one pass, one rounding at the store
//
// Every source of a MOVE is a local block list, or the next message of the channel (peer, me,
// lane). So MOVE is copy, receive, reduce, receive-reduce and the one-shot reduction of n sources.
//
// Channel: (source rank, target rank, lane); first in, first out, with its own credits.
// Lane:    an ordered step list of one rank. A step may also come `after` earlier steps of other
//          lanes of its rank; that is the only order between lanes.
//
// Ordering: `steps` is in an order in which one thread can run all lanes of the rank without
//           looking ahead: every `after` names a smaller index.
// Threads:  values; share them read-only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tutti::schedule {

enum class Collective : uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kReduce,
  kGather,
  kScatter,
  kAllToAll,
  kBarrier,
};
inline constexpr int kCollectives = 9;

enum class Space : uint8_t { kInput = 0, kOutput = 1, kScratch = 2 };

enum class Holder : uint8_t { kNobody, kRoot, kEverybody };

/// The input or the output of a collective: who has one, and whether it holds a part of `count`
/// elements for every rank, or `count` elements.
struct BufferShape {
  Holder holder = Holder::kNobody;
  bool parts = false;

  constexpr bool held_by(int rank, int root) const {
    return holder == Holder::kEverybody || (holder == Holder::kRoot && rank == root);
  }
};

/// All that tells one collective from another. The meaning follows from it: an element of the
/// output is the fold of all ranks' contributions, or the contribution of the part's rank (of the
/// root, where only the root has input).
struct Traits {
  const char* name;  // on the command line, in text schedules and in messages: "all_reduce"
  bool reduces;      // combines contributions with an operation
  BufferShape input;
  BufferShape output;

  /// Only one rank has input, or output: the call names it.
  constexpr bool rooted() const {
    return input.holder == Holder::kRoot || output.holder == Holder::kRoot;
  }
  /// Rank r's buffer has the size of one part of the other buffer. In place it is part r.
  constexpr bool nests(Space space) const {
    const BufferShape& own = space == Space::kInput ? input : output;
    const BufferShape& other = space == Space::kInput ? output : input;
    return !own.parts && other.parts;
  }
};

/// In the order of Collective.
inline constexpr Traits kTraits[kCollectives] = {
    {"all_reduce", true, {Holder::kEverybody, false}, {Holder::kEverybody, false}},
    {"reduce_scatter", true, {Holder::kEverybody, true}, {Holder::kEverybody, false}},
    {"all_gather", false, {Holder::kEverybody, false}, {Holder::kEverybody, true}},
    {"broadcast", false, {Holder::kRoot, false}, {Holder::kEverybody, false}},
    {"reduce", true, {Holder::kEverybody, false}, {Holder::kRoot, false}},
    {"gather", false, {Holder::kEverybody, false}, {Holder::kRoot, true}},
    {"scatter", false, {Holder::kRoot, true}, {Holder::kEverybody, false}},
    {"all_to_all", false, {Holder::kEverybody, true}, {Holder::kEverybody, true}},
    {"barrier", false, {Holder::kNobody, false}, {Holder::kNobody, false}},
};

constexpr const Traits& traits_of(Collective collective) {
  return kTraits[static_cast<int>(collective)];
}
constexpr const char* name_of(Collective collective) { return traits_of(collective).name; }
constexpr bool reduces(Collective collective) { return traits_of(collective).reduces; }

/// One block: entry `index` of a space. Its size is the layout's business (layout.h).
struct Block {
  uint32_t word = 0;

  static constexpr Block of(Space space, uint32_t index) {
    return Block{static_cast<uint32_t>(space) << 30 | index};
  }
  constexpr Space space() const { return static_cast<Space>(word >> 30); }
  constexpr uint32_t index() const { return word & 0x3fffffffu; }
  constexpr bool operator==(const Block&) const = default;
};

constexpr Block input(uint32_t index) { return Block::of(Space::kInput, index); }
constexpr Block output(uint32_t index) { return Block::of(Space::kOutput, index); }

enum class StepKind : uint8_t { kSend = 0, kMove = 1 };

/// The order in which the sources of a MOVE are combined (types::FoldOrder, without the
/// arithmetic).
enum class Fold : uint8_t { kList = 0, kTree = 1 };

/// One step. Offsets point into Schedule::words, so that a schedule is two flat arrays.
struct Step {
  StepKind kind = StepKind::kSend;
  Fold fold = Fold::kList;
  uint16_t lane = 0;
  uint32_t block_count = 0;  // may be 0: a message that only says "I am here"
  uint32_t blocks = 0;       // block_count words: what is sent, or the target of the move
  uint32_t operand_count = 0;
  uint32_t operands = 0;  // SEND: one peer a word. MOVE: one source a word, see Source
  uint32_t after_count = 0;
  uint32_t afters = 0;  // one step index a word
};

/// A source of a MOVE in one word: the top bit set and a peer, or the offset of a list of as many
/// blocks as the target has.
struct Source {
  uint32_t word = 0;

  static constexpr uint32_t kMessageBit = 0x80000000u;
  static constexpr Source message(int peer) {
    return Source{kMessageBit | static_cast<uint32_t>(peer)};
  }
  static constexpr Source local(uint32_t blocks) { return Source{blocks}; }
  constexpr bool is_message() const { return (word & kMessageBit) != 0; }
  constexpr int peer() const { return static_cast<int>(word & ~kMessageBit); }
  constexpr uint32_t blocks() const { return word; }
};

/// The program of one rank.
struct Schedule {
  int rank = 0;
  uint16_t lanes = 1;
  std::vector<Step> steps;
  std::vector<uint32_t> words;
  std::vector<Block> scratch;  // scratch block i has the size of this input or output block

  std::span<const Block> blocks_of(const Step& step) const {
    return blocks_at(step.blocks, step.block_count);
  }
  std::span<const Block> blocks_of(const Step& step, Source source) const {
    return blocks_at(source.blocks(), step.block_count);
  }
  std::span<const uint32_t> peers_of(const Step& step) const {  // SEND only
    return {words.data() + step.operands, step.operand_count};
  }
  std::span<const Source> sources_of(const Step& step) const {  // MOVE only
    return {reinterpret_cast<const Source*>(words.data() + step.operands), step.operand_count};
  }
  std::span<const uint32_t> afters_of(const Step& step) const {
    return {words.data() + step.afters, step.after_count};
  }

 private:
  std::span<const Block> blocks_at(uint32_t offset, uint32_t count) const {
    return {reinterpret_cast<const Block*>(words.data() + offset), count};
  }
};

static_assert(sizeof(Block) == 4 && sizeof(Source) == 4 && sizeof(Step) == 28);

}  // namespace tutti::schedule
