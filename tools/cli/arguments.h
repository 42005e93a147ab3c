// Arguments that several commands have: help, algorithms, numbers of ranks; and the settings.
//
// Errors: parse_ranks gives none for a text that is not understood or asks for too much.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/config.h"
#include "src/schedule/algorithm.h"

namespace tutti::cli {

bool asks_for_help(std::string_view word);

/// Of a command that takes no arguments: its exit status where it has some, after its usage.
std::optional<int> end_with_usage(int argc, char** argv, const char* usage);

/// The settings of this process; nothing after an error has been told.
std::optional<Config> settings_for(const char* command);

/// "all_reduce/ring".
std::string full_name(const schedule::Algorithm& algorithm);

/// No name, that of its collective, or its full name.
bool is_named(const schedule::Algorithm& algorithm, std::string_view name);

/// "8" or "1-64" as the numbers it stands for, from 1 to `most`; empty if it is neither.
std::vector<int> parse_ranks(std::string_view text, int most);

}  // namespace tutti::cli
