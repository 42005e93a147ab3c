// The blob a rank publishes: a list of texts, each with its length. Read from peers, so nothing in
// it is believed before it is checked.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"

namespace tutti::comm {

inline constexpr size_t kMaxCardTexts = 64;

std::string write_texts(std::span<const std::string> texts);
Result<std::vector<std::string>> read_texts(std::string_view card);

}  // namespace tutti::comm
