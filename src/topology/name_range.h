// Many names in few letters, as job schedulers write them: "node[001-016,020]", "r[0-1]n[0-7]".
//
// Threads: pure functions. Errors: kInvalidArgument says what is wrong with the text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"

namespace tutti::topology {

/// The names behind the text, the last bracket fastest. Numbers keep the width of the first of
/// their range. At most `most` names.
Result<std::vector<std::string>> expand_names(std::string_view text, size_t most);

/// Whether `next` is the name that follows `name` in a range: node9, node10; n01, n02.
bool follows(std::string_view name, std::string_view next);

/// The range from the first to the last name, which are neighbours or further apart in one row.
std::string fold_names(std::string_view first, std::string_view last);

}  // namespace tutti::topology
