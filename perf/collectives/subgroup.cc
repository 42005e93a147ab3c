#include "perf/collectives/subgroup.h"

#include <cctype>
#include <cstdlib>
#include <string>

#include "perf/collectives/error.h"

namespace tutti::perf {
namespace {

[[noreturn]] void refuse(std::string_view split) {
  throw PerfError("NCCL_TESTS_SPLIT='" + std::string(split) +
                      "' is not AND, OR, MOD or DIV (or & | % /) and a number",
                  kExitUsage);
}

/// Decimal, 0x hexadecimal, 0b binary.
int number_of(std::string_view split, std::string text) {
  text.erase(0, text.find_first_not_of(' '));
  const bool binary = text.starts_with("0b") || text.starts_with("0B");
  if (binary) text.erase(0, 2);
  char* end = nullptr;
  const unsigned long number = std::strtoul(text.c_str(), &end, binary ? 2 : 0);
  if (end == text.c_str() || *end != '\0' || number > 0x7fffffff) refuse(split);
  return static_cast<int>(number);
}

std::optional<std::string> split_asked_for() {
  if (const char* mask = std::getenv("NCCL_TESTS_SPLIT_MASK")) return "&0x" + std::string(mask);
  if (const char* split = std::getenv("NCCL_TESTS_SPLIT")) return split;
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
  const int number = number_of(split, std::string(split.substr(end)));
  if (name == "AND" || name == "&") return process & number;
  if (name == "OR" || name == "|") return process | number;
  if ((name == "MOD" || name == "%") && number > 0) return process % number;
  if ((name == "DIV" || name == "/") && number > 0) return process / number;
  refuse(split);
}

Subgroup subgroup_of(const RankContext& context, int ranks_per_process) {
  const std::optional<std::string> split = split_asked_for();
  if (!split) return whole_group(context);
  const auto color = [&](int rank) { return color_of(*split, rank / ranks_per_process); };
  Subgroup group{color(context.rank), 0, 0, -1};
  for (int rank = 0; rank < context.ranks; ++rank) {
    if (color(rank) != group.color) continue;
    if (group.leader < 0) group.leader = rank;
    group.rank += rank < context.rank ? 1 : 0;
    ++group.ranks;
  }
  return group;
}

}  // namespace tutti::perf
