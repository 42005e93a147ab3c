// The ranks of a host share this about one rank's part of a window: the signals raised for it, and
// a flag that says whether they may go to its memory.
//
// A rank that copies is inside for one piece at a time, and only while the access flag is open and
// does not bar it. The owner changes the access flag, or bars a rank, and then waits until nobody
// is inside: both sides store before they look. A rank whose streams hold copies to or from the
// memory has entered once for each.
//
// Owns: nothing; it is a view of memory that is mapped by all. Threads: a signal and an `inside`
// have one writer, the rank they are named for; so have `held` and `captured`, but several of its
// threads write them; the access flag and the bars have its owner.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tutti::comm {

enum class AccessFlag : uint64_t {
  kOpen,
  kFailed,  // the owner's communicator has failed: who comes will learn why
  kClosed,  // the owner has ended its part
};

class SharedPartState {
 public:
  using Word = std::atomic<uint64_t>;
  static constexpr uint32_t kSignals = 16;  // for each pair of ranks: TUTTI_WINDOW_SIGNALS

  SharedPartState() = default;
  /// Over `bytes_for(ranks)` bytes, zero at first.
  explicit SharedPartState(std::byte* memory) : words_(reinterpret_cast<Word*>(memory)) {}

  static constexpr size_t bytes_for(size_t ranks) { return (kHead + ranks * kRow) * sizeof(Word); }

  bool valid() const { return words_ != nullptr; }
  /// kSignals in a row, which `source` raises.
  Word* signals(uint32_t source) const { return words_ + kHead + size_t{source} * kRow; }
  Word& inside(uint32_t source) const { return signals(source)[kSignals]; }
  /// The owner keeps `source` out, and looks for it inside then: as with the access flag.
  void bar(uint32_t source, bool out) const {
    signals(source)[kSignals + 1].store(out ? 1 : 0, std::memory_order_seq_cst);
  }
  bool bars(uint32_t source) const {
    return signals(source)[kSignals + 1].load(std::memory_order_seq_cst) != 0;
  }

  /// How many copies the streams of `source` hold.
  Word& held(uint32_t source) const { return signals(source)[kSignals + 2]; }
  /// How many puts into the memory are in graphs of `source`, which may run at any time.
  Word& captured(uint32_t source) const { return signals(source)[kSignals + 3]; }

  AccessFlag access_flag() const {
    return static_cast<AccessFlag>(words_->load(std::memory_order_seq_cst));
  }
  void set(AccessFlag access_flag) const {
    words_->store(static_cast<uint64_t>(access_flag), std::memory_order_seq_cst);
  }

 private:
  static constexpr size_t kHead = 8;            // the access flag, in a cache line of its own
  static constexpr size_t kRow = kSignals + 8;  // what two ranks write is in two lines

  Word* words_ = nullptr;
};

}  // namespace tutti::comm
