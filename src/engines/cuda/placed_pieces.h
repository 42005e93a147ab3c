// The copy of pieces whose sources their owners tell late: what a receiver's stream runs behind the
// wait for a sender, where the sender may pass memory that both have registered. The word of a
// slot's place says where the piece lies: in registered memory, at the address by which the reader
// reaches it, or, where it is anything else, in the slot itself. So nobody has to know when a call
// is put into the stream whether its peer's buffer is registered.
//
// This is the kernel itself, for one thread of it; it compiles for devices (fold.cu) and for hosts.
// It never waits: word and piece are there when it begins. It does not read words of calls with
// other registrations, which a communicator that has failed may have left: their mark differs.
//
// Threads: those of the launch share the bytes of each piece, in no order. Errors: none.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/engines/cuda/fold_element.h"

namespace tutti::engines::cuda {

struct PlacedPiece {
  uint64_t target = 0;
  uint64_t slot = 0;   // where the piece lies unless the word says another place
  uint64_t place = 0;  // where the word is
  uint64_t bytes = 0;
};

/// A launch's parameter, passed by value. Addresses are those of the device.
struct PlacedPieces {
  static constexpr uint32_t kMost = 96;
  uint32_t count = 0;
  uint32_t mark = 0;  // of words that tell of a place
  PlacedPiece pieces[kMost] = {};
};
static_assert(sizeof(PlacedPieces) <= 4096, "more does not fit into a launch");

/// Addresses above are not told of.
inline constexpr int kPlaceBits = 48;

/// The word that tells of an address; 0: the piece lies in the slot.
constexpr uint64_t place_word(uint32_t mark, uint64_t address) {
  const bool fits = address != 0 && address >> kPlaceBits == 0;
  return fits ? uint64_t{mark} << kPlaceBits | address : 0;
}

/// Where the piece lies, by its word.
TUTTI_BOTH uint64_t source_of(const PlacedPiece& piece, uint32_t mark, uint64_t word) {
  const bool is_placed = mark != 0 && word >> kPlaceBits == mark;
  return is_placed ? word & ((uint64_t{1} << kPlaceBits) - 1) : piece.slot;
}

/// A copy of some bytes, for one of its threads.
struct PieceCopy {
  uint64_t target = 0, source = 0, bytes = 0;

  /// In words of up to 16 bytes, as long as both addresses allow.
  TUTTI_BOTH void run(uint64_t thread, uint64_t threads) const {
    const uint64_t differs = target ^ source;
    if (differs % kFoldWordsBytes == 0) {
      copy<FoldWords>(thread, threads);
    } else if (differs % 8 == 0) {
      copy<uint64_t>(thread, threads);
    } else if (differs % 4 == 0) {
      copy<uint32_t>(thread, threads);
    } else {
      copy<uint8_t>(thread, threads);
    }
  }

 private:
  static TUTTI_BOTH void load(uint64_t from, FoldWords& word) { word = load_words(from); }
  static TUTTI_BOTH void store(uint64_t to, const FoldWords& word) { store_words(to, word); }
  template <class Word>
  static TUTTI_BOTH void load(uint64_t from, Word& word) {
    word = *reinterpret_cast<const Word*>(from);
  }
  template <class Word>
  static TUTTI_BOTH void store(uint64_t to, Word word) {
    *reinterpret_cast<Word*>(to) = word;
  }

  // Whole words between a head and a tail of bytes. Several loads are under way at once.
  template <class Word>
  TUTTI_BOTH void copy(uint64_t thread, uint64_t threads) const {
    constexpr uint64_t kBytes = sizeof(Word);
    constexpr uint32_t kAtOnce = 4;
    const uint64_t misplaced = target % kBytes;
    const uint64_t to_aligned = misplaced == 0 ? 0 : kBytes - misplaced;
    const uint64_t head = to_aligned < bytes ? to_aligned : bytes;
    const uint64_t words = (bytes - head) / kBytes;
    TUTTI_ONCE
    for (uint64_t i = thread; i < words; i += threads * kAtOnce) {
      Word loaded[kAtOnce];
      TUTTI_UNROLL
      for (uint32_t u = 0; u < kAtOnce; ++u) {
        const uint64_t at = i + u * threads;
        load(source + head + (at < words ? at : i) * kBytes, loaded[u]);
      }
      TUTTI_UNROLL
      for (uint32_t u = 0; u < kAtOnce; ++u) {
        const uint64_t at = i + u * threads;
        if (at < words) store(target + head + at * kBytes, loaded[u]);
      }
    }
    const uint64_t singles = bytes - words * kBytes;
    TUTTI_ONCE
    for (uint64_t i = thread; i < singles; i += threads) {
      const uint64_t at = i < head ? i : i + words * kBytes;
      *reinterpret_cast<uint8_t*>(target + at) = *reinterpret_cast<const uint8_t*>(source + at);
    }
  }
};

}  // namespace tutti::engines::cuda
