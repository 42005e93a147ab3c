// Sets of processors, as the system's files and other programs write them.
//
// Threads: pure functions. Errors: nullopt for a text that is none, or names a processor from
// kMostProcessors on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::topology {

inline constexpr uint32_t kMostProcessors = 1u << 16;

/// "0-3,8" as rising numbers; a text of white space is the empty set.
std::optional<std::vector<uint32_t>> read_list(std::string_view text);
std::string write_list(const std::vector<uint32_t>& processors);

/// Words of 32 bits from the highest, in hexadecimal digits, with or without 0x:
/// "00000001,ffffffff". An empty word is 0.
std::optional<std::vector<uint32_t>> read_mask(std::string_view text);
/// At least one word of eight digits, without 0x.
std::string write_mask(const std::vector<uint32_t>& processors);

}  // namespace tutti::topology
