// One thread of the kernel that runs a short call by itself (fused_program.h): it pushes lines to
// the peers, awaits theirs, folds, and stores. It compiles for devices (fold.cu) and for hosts,
// where the software device runs it, and tests do beside all other threads of all ranks in every
// order.
//
// Threads share the lines of a step, each step alike, and know nothing of each other: what a thread
// reads of its own rank's memory it has written itself, or the call before has. FusedMachine makes
// no other programs. All that is waited for are lines and credits. A wait looks now and then at
// what the host says, and at the time: a thread that is told to stop, or is late, returns, and the
// output is undefined. It never traps, which would end the user's context.
//
// `Memory` has the loads and stores (on a host each may be a point where the thread is held up):
//
//     FusedLine load_line(address), void store_line(address, line)     // each half by itself is
//     whole uint64_t load_word(address), void store_word(address, word) // acquire, release
//     uint64_t now_ns()
//     void missed()                                               // a look that found nothing
//
// The bits of results are those of fold.h. Errors: none.
#pragma once

#include <bit>
#include <cstdint>

#include "src/engines/cuda/fused_program.h"

namespace tutti::engines::cuda {

/// As it travels: in each half four bytes of the message and, above them, the number of the call.
struct FusedLine {
  uint64_t half[2] = {};
};

/// The rules as they are. Tests break one at a time.
struct SoundFusedRules {
  static constexpr bool credit =
      true;  // a mailbox is written when its reader is past what lay there
  static constexpr bool rises = true;              // every call has a number of its own
  static constexpr bool clears = true;             // mailboxes, before numbers come again
  static constexpr bool looks_at_both = true;      // halves of a line
  static constexpr bool speaks_for_others = true;  // blocks, which this grid has not
  static constexpr bool names_its_call = true;     // by the number that the call has now
  static constexpr bool tells_of_blocks = true;    // whom each waits for, and not one of them
};

/// Where a thread is in the grid.
struct GridPlace {
  uint32_t block = 0, blocks = 1;
  uint32_t thread = 0, threads = 1;  // of the block
};

template <types::DataType kType, types::ReduceOp kOp, class Memory, class Rules = SoundFusedRules>
class FusedThread {
  using E = FoldElement<kType>;
  using Wide = typename E::Wide;
  static constexpr uint32_t kLanes = kLinePayload / E::kBytes;
  static constexpr uint32_t kAtOnce = 8;       // sources that are polled together
  static constexpr uint32_t kPollsALook = 64;  // at the host's words and the time
  static constexpr uint32_t kNobody = ~0u;
  static constexpr uint32_t kTreeHeight = std::bit_width(kMostFusedRanks);

 public:
  TUTTI_BOTH FusedThread(const FusedProgram& program, GridPlace at, Memory& memory)
      : program_(program),
        at_(at),
        memory_(memory),
        factors_(program.factor_is, program.factor, program.divisor) {}

  /// All of the call that is this thread's.
  TUTTI_BOTH void run() {
    const auto last = static_cast<uint32_t>(memory_.load_word(sequence(at_.block)));
    number_ = Rules::rises ? number_after(last) : 2 + last % 2;
    if (at_.block == 0 && at_.thread + 1 == at_.threads) tell_call(last);
    if (at_.block == 0) give_credit(last);
    if (await_credits()) run_steps();
  }

  /// Of one thread of each block, when all threads of the block have run. Where the grid has fewer
  /// blocks than others may have, its blocks speak for those that are not there.
  TUTTI_BOTH void finish() {
    memory_.store_word(waiting(), 0);
    TUTTI_ONCE
    for (uint32_t block = at_.block; block < kFusedBlocks; block += at_.blocks) {
      if (block != at_.block && !Rules::speaks_for_others) return;
      memory_.store_word(sequence(block), number_);
      if (program_.place == 0) continue;
      memory_.store_word(program_.words + kFusedFinished + block * sizeof(uint64_t),
                         program_.place);
    }
  }

 private:
  TUTTI_BOTH uint64_t sequence(uint32_t block) const {
    return program_.memory + FusedLayout::kSequences + block * sizeof(uint64_t);
  }
  // A word of the block, since other blocks may wait for longer than this one.
  TUTTI_BOTH uint64_t waiting() const {
    const uint32_t block = Rules::tells_of_blocks ? at_.block : 0;
    return program_.words + kFusedWaiting + block * sizeof(uint64_t);
  }
  // By a thread that gives no credit: a release behind this store waits until the host has it.
  TUTTI_BOTH void tell_call(uint32_t last) {
    const uint32_t number = Rules::names_its_call ? number_ : last;
    memory_.store_word(program_.words + kFusedBegun + number % kFusedRecent * sizeof(uint64_t),
                       uint64_t{number} << 32 | program_.signature);
  }
  TUTTI_BOTH uint64_t parity_shift(uint32_t number) const {
    return number % 2 * program_.parity_bytes;
  }

  // The call before is over on this rank, since this one has begun: its mailboxes may be written.
  TUTTI_BOTH void give_credit(uint32_t last) {
    const bool clears = Rules::clears && is_last_of_parity(last);
    if (clears && at_.thread != 0) return;
    if (clears) clear_mailboxes(last);
    const uint32_t step = clears ? 1 : at_.threads;
    for (uint32_t peer = at_.thread; peer < program_.ranks; peer += step) {
      if (peer != program_.rank) memory_.store_word(program_.credits[peer], last);
    }
  }

  TUTTI_BOTH void clear_mailboxes(uint32_t number) {
    const uint64_t begin = program_.memory + FusedLayout::kMailboxes + parity_shift(number);
    for (uint64_t at = 0; at < program_.parity_bytes; at += kLineBytes) {
      memory_.store_line(begin + at, FusedLine{});
    }
  }

  // Of all peers to which the program pushes, whose words are looked at together.
  TUTTI_BOTH bool await_credits() {
    if constexpr (!Rules::credit) return true;
    const uint32_t needed = number_before(number_before(number_));
    uint32_t missing = program_.pushed_to;
    while (missing != 0) {
      uint32_t late = kNobody;
      TUTTI_ONCE
      for (uint32_t peer = 0; peer < program_.ranks; ++peer) {
        if ((missing >> peer & 1) == 0) continue;
        const uint64_t word =
            memory_.load_word(program_.memory + FusedLayout::kCredits + peer * sizeof(uint64_t));
        if (is_reached(static_cast<uint32_t>(word), needed)) {
          missing &= ~(1u << peer);
        } else {
          late = peer;
        }
      }
      if (late != kNobody && !may_wait_for(late)) return false;
    }
    return true;
  }

  /// Each block has lines that follow each other, each of its threads some of them.
  TUTTI_BOTH void run_steps() {
    TUTTI_ONCE
    for (uint32_t i = 0; i < program_.steps; ++i) {
      const FusedStep& step = program_.step[i];
      const uint32_t lines = step.count == 0 ? 1 : (step.count + kLanes - 1) / kLanes;
      const uint32_t even = (lines + at_.blocks - 1) / at_.blocks;
      const uint32_t each = even > program_.least_lines ? even : program_.least_lines;
      const uint64_t first = uint64_t{at_.block} * each;
      const uint64_t end = first + each < lines ? first + each : lines;
      TUTTI_ONCE
      for (uint64_t line = first + at_.thread; line < end; line += at_.threads) {
        if (!run_line(step, line)) return;
      }
    }
  }

  TUTTI_BOTH bool run_line(const FusedStep& step, uint64_t line) {
    const uint64_t rest = step.count - line * kLanes;
    const uint32_t elements = step.count == 0 ? 0
                              : rest < kLanes ? static_cast<uint32_t>(rest)
                                              : kLanes;
    const bool copies = step.sources == 1 && step.scaled == 0 && step.divides == 0;
    uint64_t value = 0;
    if (copies) {
      uint64_t values[1] = {};
      if (!load<1>(step.first + step.targets, 1, line, elements, values)) return false;
      value = values[0];
    } else if (step.sources > 0) {
      Wide folded[kLanes] = {};
      const bool done = step.in_tree != 0 ? fold_tree(step, line, elements, folded)
                                          : fold_list(step, line, elements, folded);
      if (!done) return false;
      value = narrowed(step, folded);
    }
    TUTTI_ONCE
    for (uint32_t i = 0; i < step.targets; ++i) store(step.first + i, line, elements, value);
    return true;
  }

  TUTTI_BOTH bool fold_list(const FusedStep& step, uint64_t line, uint32_t elements,
                            Wide (&folded)[kLanes]) {
    TUTTI_ONCE
    for (uint32_t source = 0; source < step.sources; source += kAtOnce) {
      const uint32_t left = step.sources - source;
      const uint32_t pieces = left < kAtOnce ? left : kAtOnce;
      uint64_t values[kAtOnce] = {};
      if (!load<kAtOnce>(step.first + step.targets + source, pieces, line, elements, values)) {
        return false;
      }
      TUTTI_UNROLL
      for (uint32_t u = 0; u < kAtOnce; ++u) {
        if (u < pieces) add(source + u, (step.scaled >> (source + u) & 1) != 0, values[u], folded);
      }
    }
    return true;
  }

  // As FoldThread's: a binary counter of complete subtrees. The sources are looked at one by one,
  // which makes for a small kernel; most have come when the first has.
  TUTTI_BOTH bool fold_tree(const FusedStep& step, uint64_t line, uint32_t elements,
                            Wide (&folded)[kLanes]) {
    Wide pending[kTreeHeight][kLanes] = {};
    TUTTI_ONCE
    for (uint32_t source = 0; source < step.sources; ++source) {
      uint64_t values[1] = {};
      if (!load<1>(step.first + step.targets + source, 1, line, elements, values)) return false;
      carry(source, (step.scaled >> source & 1) != 0, values[0], pending);
    }
    bool has_any = false;
    TUTTI_UNROLL
    for (uint32_t height = 0; height < kTreeHeight; ++height) {
      if ((step.sources >> height & 1) == 0) continue;
      TUTTI_UNROLL
      for (uint32_t lane = 0; lane < kLanes; ++lane) {
        const Wide left = pending[height][lane];
        folded[lane] = has_any ? joined<kType, kOp>(left, folded[lane]) : left;
      }
      has_any = true;
    }
    return true;
  }

  TUTTI_BOTH void carry(uint32_t source, bool scales, uint64_t value,
                        Wide (&pending)[kTreeHeight][kLanes]) {
    TUTTI_UNROLL
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      Wide node = widened(scales, value, lane);
      bool carries = true;
      TUTTI_UNROLL
      for (uint32_t height = 0; height < kTreeHeight; ++height) {
        const bool taken = (source >> height & 1) != 0;
        if (carries && taken) node = joined<kType, kOp>(pending[height][lane], node);
        if (carries && !taken) pending[height][lane] = node;
        carries = carries && taken;
      }
    }
  }

  TUTTI_BOTH uint64_t narrowed(const FusedStep& step, const Wide (&folded)[kLanes]) const {
    uint64_t value = 0;
    TUTTI_UNROLL
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      const Wide whole = step.divides != 0 ? factors_.divided(folded[lane]) : folded[lane];
      value |= uint64_t{E::narrow(whole)} << (8 * E::kBytes * lane);
    }
    return value;
  }

  TUTTI_BOTH Wide widened(bool scales, uint64_t value, uint32_t lane) const {
    const auto raw = static_cast<typename E::Raw>(value >> (8 * E::kBytes * lane));
    if (FoldFactors<kType, kOp>::kScales && scales) return factors_.scaled(raw);
    return E::widen(raw);
  }

  TUTTI_BOTH void add(uint32_t source, bool scales, uint64_t value, Wide (&folded)[kLanes]) {
    TUTTI_UNROLL
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      const Wide wide = widened(scales, value, lane);
      folded[lane] = source == 0 ? wide : combined<kOp>(folded[lane], wide);
    }
  }

  // The same 8 bytes of several sources; lines are looked at again until all have come.
  template <uint32_t kCount>
  TUTTI_BOTH bool load(uint32_t operand, uint32_t pieces, uint64_t line, uint32_t elements,
                       uint64_t (&values)[kCount]) {
    uint32_t missing = (1u << pieces) - 1;
    for (;;) {
      uint32_t late = kNobody;
      TUTTI_UNROLL
      for (uint32_t u = 0; u < kCount; ++u) {
        if ((missing >> u & 1) == 0) continue;
        const uint32_t peer = program_.line_of[operand + u];
        const uint64_t address = program_.address[operand + u];
        if (peer == 0) {
          values[u] = load_memory(address + line * kLinePayload, elements);
        } else {
          const FusedLine got =
              memory_.load_line(address + parity_shift(number_) + line * kLineBytes);
          if (!has_come(got)) {
            late = peer - 1;
            continue;
          }
          values[u] = (got.half[0] & ~0u) | got.half[1] << 32;
        }
        missing &= ~(1u << u);
      }
      if (missing == 0) return true;
      if (!may_wait_for(late)) return false;
    }
  }

  TUTTI_BOTH bool has_come(const FusedLine& line) const {
    const bool first = static_cast<uint32_t>(line.half[0] >> 32) == number_;
    const bool second = static_cast<uint32_t>(line.half[1] >> 32) == number_;
    return first && (second || !Rules::looks_at_both);
  }

  TUTTI_BOTH void store(uint32_t operand, uint64_t line, uint32_t elements, uint64_t value) {
    const uint64_t address = program_.address[operand];
    if (program_.line_of[operand] == 0) {
      store_memory(address + line * kLinePayload, elements, value);
      return;
    }
    const uint64_t number = uint64_t{number_} << 32;
    memory_.store_line(address + parity_shift(number_) + line * kLineBytes,
                       {{number | (value & ~0u), number | value >> 32}});
  }

  static TUTTI_BOTH uint64_t load_memory(uint64_t address, uint32_t elements) {
    if (elements == kLanes && address % kLinePayload == 0) {
      return *reinterpret_cast<const uint64_t*>(address);
    }
    uint64_t value = 0;
    TUTTI_ONCE
    for (uint32_t lane = 0; lane < elements; ++lane) {
      value |= uint64_t{E::load(address + lane * E::kBytes)} << (8 * E::kBytes * lane);
    }
    return value;
  }

  static TUTTI_BOTH void store_memory(uint64_t address, uint32_t elements, uint64_t value) {
    if (elements == kLanes && address % kLinePayload == 0) {
      *reinterpret_cast<uint64_t*>(address) = value;
      return;
    }
    TUTTI_ONCE
    for (uint32_t lane = 0; lane < elements; ++lane) {
      E::store(address + lane * E::kBytes,
               static_cast<typename E::Raw>(value >> (8 * E::kBytes * lane)));
    }
  }

  // False: the thread ends, since it is told to stop, or late. The host learns whom it waits for.
  TUTTI_BOTH bool may_wait_for(uint32_t peer) {
    memory_.missed();
    if (++polls_ % kPollsALook != 0) return true;
    if (memory_.load_word(program_.words + kFusedStop) != 0) return false;
    const uint64_t now_ns = memory_.now_ns();
    if (waits_since_ns_ == 0) waits_since_ns_ = now_ns;
    const uint64_t said = uint64_t{number_} << 32 | (peer + 1);
    if (told_ != peer) memory_.store_word(waiting(), said);
    told_ = peer;
    if (program_.timeout_ns == 0 || now_ns - waits_since_ns_ <= program_.timeout_ns) return true;
    memory_.store_word(program_.words + kFusedExpired, said);
    return false;
  }

  const FusedProgram& program_;
  const GridPlace at_;
  Memory& memory_;
  const FoldFactors<kType, kOp> factors_;
  uint32_t number_ = 0;
  uint32_t polls_ = 0;
  uint32_t told_ = kNobody;  // the peer of which the host was told last
  uint64_t waits_since_ns_ = 0;
};

}  // namespace tutti::engines::cuda
