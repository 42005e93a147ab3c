// Arguments that several commands have: help, algorithms, numbers of ranks.
//
// Errors: parse_ranks gives none for a text that is not understood or asks for too much.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/schedule/algorithm.h"

namespace tutti::cli {

bool asks_for_help(std::string_view word);

/// "all_reduce/ring".
std::string full_name(const schedule::Algorithm& algorithm);

/// No name, that of its collective, or its full name.
bool is_named(const schedule::Algorithm& algorithm, std::string_view name);

/// "8" or "1-64" as the numbers it stands for, from 1 to `most`; empty if it is neither.
std::vector<int> parse_ranks(std::string_view text, int most);

}  // namespace tutti::cli
