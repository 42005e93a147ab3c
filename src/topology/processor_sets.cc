#include "src/topology/processor_sets.h"

#include <algorithm>

#include <fmt/format.h>

#include "src/base/words.h"

namespace tutti::topology {
namespace {

constexpr uint32_t kBits = 32;

std::vector<uint32_t> in_order(std::vector<uint32_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

}  // namespace

std::optional<std::vector<uint32_t>> read_list(std::string_view text) {
  std::vector<uint32_t> numbers;
  const std::string_view trimmed = trim(text);
  if (trimmed.empty()) return numbers;
  for (const std::string_view run : split(trimmed, ',')) {
    const size_t dash = run.find('-');
    const auto first = parse_integer<uint32_t>(run.substr(0, dash));
    const auto last =
        dash == std::string_view::npos ? first : parse_integer<uint32_t>(run.substr(dash + 1));
    if (!first || !last || *last < *first || *last >= kMostProcessors) return std::nullopt;
    for (uint32_t number = *first; number <= *last; ++number) numbers.push_back(number);
    if (numbers.size() > kMostProcessors) return std::nullopt;
  }
  return in_order(std::move(numbers));
}

std::string write_list(const std::vector<uint32_t>& processors) {
  std::string text;
  for (size_t i = 0; i < processors.size();) {
    size_t end = i + 1;
    while (end < processors.size() && processors[end] == processors[end - 1] + 1) ++end;
    text += (text.empty() ? "" : ",") + std::to_string(processors[i]);
    if (end - i > 1) text += "-" + std::to_string(processors[end - 1]);
    i = end;
  }
  return text;
}

std::optional<std::vector<uint32_t>> read_mask(std::string_view text) {
  const std::vector<std::string_view> words = split(trim(text), ',');
  if (words.size() > kMostProcessors / kBits || words.front().empty()) return std::nullopt;
  std::vector<uint32_t> numbers;
  uint32_t first = 0;
  for (size_t i = words.size(); i-- > 0; first += kBits) {
    std::string_view digits = words[i];
    if (digits.starts_with("0x")) digits.remove_prefix(2);
    if (digits.empty() && words[i].empty()) continue;
    const auto word = parse_integer<uint32_t>(digits, 16);
    if (!word) return std::nullopt;
    for (uint32_t bit = 0; bit < kBits; ++bit) {
      if ((*word >> bit & 1) != 0) numbers.push_back(first + bit);
    }
  }
  return numbers;
}

std::string write_mask(const std::vector<uint32_t>& processors) {
  std::vector<uint32_t> words(processors.empty() ? 1 : processors.back() / kBits + 1);
  for (const uint32_t number : processors) words[number / kBits] |= 1u << number % kBits;
  std::string text;
  for (size_t i = words.size(); i-- > 0;) {
    text += fmt::format("{}{:08x}", text.empty() ? "" : ",", words[i]);
  }
  return text;
}

}  // namespace tutti::topology
