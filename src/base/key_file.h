// The job's key as people hand it over: 64 hexadecimal digits, in a variable or in a file that only
// its owner can read.
//
// Errors: kInvalidArgument, kSystemError; no message ever contains a digit of a key. Threads: no
// state.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/base/status.h"

namespace tutti {

inline constexpr size_t kKeyBytes = 32;

std::optional<std::array<uint8_t, kKeyBytes>> parse_key(std::string_view text);

/// Refuses a file that others can read or write, or that belongs to somebody else.
Result<std::array<uint8_t, kKeyBytes>> read_key_file(const std::string& path);

}  // namespace tutti
