#include "perf/collectives/subgroup.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "perf/collectives/error.h"

namespace tutti::perf {
namespace {

constexpr uint64_t kLargestColor = 0x7fffffff;

[[noreturn]] void refuse(std::string_view split) {
  throw PerfError("NCCL_TESTS_SPLIT='" + std::string(split) +
                      "' is not AND, OR, MOD or DIV (or & | % /) and a number: decimal, 0x "
                      "hexadecimal, 0 octal or 0b binary",
                  kExitUsage);
}

bool takes_prefix(std::string_view& text, char letter) {
  const bool has = text.size() > 1 && text[0] == '0' && (text[1] | 0x20) == letter;
  if (has) text.remove_prefix(2);
  return has;
}

std::optional<uint64_t> number_of(std::string_view text, int base) {
  uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number, base);
  return error == std::errc{} && stop == end ? std::optional(number) : std::nullopt;
}

/// As C writes it, and 0b binary.
std::optional<uint64_t> number_of(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  if (takes_prefix(text, 'b')) return number_of(text, 2);
  if (takes_prefix(text, 'x')) return number_of(text, 16);
  return number_of(text, text.starts_with('0') ? 8 : 10);
}

/// By the variables; empty where neither is set.
std::optional<int> color_asked_for(int process) {
  if (const char* mask = std::getenv("NCCL_TESTS_SPLIT_MASK")) return color_by_mask(mask, process);
  if (const char* split = std::getenv("NCCL_TESTS_SPLIT")) return color_of(split, process);
  return std::nullopt;
}

}  // namespace

int color_of(std::string_view split, int process) {
  std::string name;
  size_t end = 0;
  while (end < split.size() && !std::isdigit(static_cast<unsigned char>(split[end]))) {
    const char letter = split[end++];
    if (letter != ' ') name += static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  }
  const std::optional<uint64_t> parsed = number_of(split.substr(end));
  if (!parsed) refuse(split);
  const bool is_and = name == "AND" || name == "&";
  if (is_and) return static_cast<int>(static_cast<uint64_t>(process) & *parsed);
  if (*parsed > kLargestColor) refuse(split);
  const auto number = static_cast<int>(*parsed);
  if (name == "OR" || name == "|") return process | number;
  if ((name == "MOD" || name == "%") && number > 0) return process % number;
  if ((name == "DIV" || name == "/") && number > 0) return process / number;
  refuse(split);
}

int color_by_mask(std::string_view mask, int process) {
  std::string_view digits = mask;
  takes_prefix(digits, 'x');
  const std::optional<uint64_t> number = number_of(digits, 16);
  if (number) return static_cast<int>(static_cast<uint64_t>(process) & *number);
  throw PerfError("NCCL_TESTS_SPLIT_MASK='" + std::string(mask) +
                      "' is not a hexadecimal number such as 7 or 0x7",
                  kExitUsage);
}

Subgroup subgroup_of(const RankContext& context, int ranks_per_process) {
  const auto color = [&](int rank) { return color_asked_for(rank / ranks_per_process); };
  const std::optional<int> own = color(context.rank);
  if (!own) return whole_group(context);
  Subgroup group{*own, 0, 0, -1};
  for (int rank = 0; rank < context.ranks; ++rank) {
    if (color(rank) != group.color) continue;
    if (group.leader < 0) group.leader = rank;
    group.rank += rank < context.rank ? 1 : 0;
    ++group.ranks;
  }
  return group;
}

}  // namespace tutti::perf
