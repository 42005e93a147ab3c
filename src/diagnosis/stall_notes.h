// The contents of the notes of diagnosis::Stall, and how its messages name a call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "src/base/clock.h"
#include "src/diagnosis/loss.h"
#include "src/diagnosis/stall.h"

namespace tutti::diagnosis {

// A rank that has not been seen waiting for this time does something else.
inline constexpr uint64_t kMostSilenceNs = kNanosecondsPerSecond;

// Note::large[0] on the control lane is kind << 32 | rank; large[1] of kGaveUp is a Loss's word.
// The thread of a call sends kWaits, with the call's signature; the control thread sends kAnswers
// and kElsewhere, which have none.
enum class NoteKind : uint32_t { kWaits = 1, kGaveUp = 2, kElsewhere = 3, kAnswers = 4 };

// Note::small[0] on the lane of notices; large[0] has the word of the Loss, as the arenas have it.
enum class NoticeSubject : uint32_t { kLost = 1, kLeaves = 2 };

constexpr uint64_t pack(uint32_t high, uint32_t low) { return uint64_t{high} << 32 | low; }
constexpr uint32_t high(uint64_t word) { return static_cast<uint32_t>(word >> 32); }
constexpr uint32_t low(uint64_t word) { return static_cast<uint32_t>(word); }

inline NoteKind kind_of(const transport::Note& note) {
  return static_cast<NoteKind>(high(note.large[0]));
}

inline transport::Note loss_notice(const Loss& loss) {
  transport::Note note;
  note.small[0] = static_cast<uint32_t>(NoticeSubject::kLost);
  note.large[0] = loss.word();
  return note;
}

/// Not known if the note does not say that its sender gave up.
inline Cause cause_in(const transport::Note& note, size_t ranks) {
  const auto loss =
      kind_of(note) == NoteKind::kGaveUp ? Loss::read(note.large[1], ranks) : std::nullopt;
  return loss ? loss->cause : Cause();
}

inline std::string seconds(uint64_t duration_ns) {
  constexpr uint64_t kTenth = kNanosecondsPerSecond / 10;
  const uint64_t tenths = duration_ns / kTenth;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

inline std::string call_text(uint32_t number) { return "call " + std::to_string(number); }

// Only calls of the whole group have numbers that all ranks know; a send or receive has none.
inline bool is_collective(const LongWait& wait) { return wait.signature != 0; }

}  // namespace tutti::diagnosis
