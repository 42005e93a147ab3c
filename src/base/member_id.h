// A member of groups is known by the process that it lives in and a number there. Neither depends
// on the rank that a group gives it, so what belongs to two members (a connection) outlives a
// group.
//
// A process draws its bits at random when it first needs them; a forked child draws its own.
//
// Threads: values. Errors: read_*() give nothing for text that to_text() did not make.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tutti {

/// 128 random bits.
struct ProcessId {
  uint64_t high = 0;
  uint64_t low = 0;
  auto operator<=>(const ProcessId&) const = default;
};

struct MemberId {
  /// Of a member that was in no group yet: the first one gives it a number (group/members.h).
  static constexpr uint32_t kNoNumber = ~uint32_t{0};

  ProcessId process;
  uint32_t number = kNoNumber;
  auto operator<=>(const MemberId&) const = default;
};

/// 32 hexadecimal digits.
std::string to_text(const ProcessId& id);
std::optional<ProcessId> read_process_id(std::string_view text);

/// The process, a colon and the number: "0123...cdef:2"; no number: "0123...cdef:-".
std::string to_text(const MemberId& id);
std::optional<MemberId> read_member_id(std::string_view text);

}  // namespace tutti
