#include "src/topology/name_range.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "src/base/words.h"

namespace tutti::topology {
namespace {

Status refuse(std::string_view text, const std::string& why) {
  return Status::invalid_argument("'" + std::string(text) + "' is no range of names: " + why);
}

std::string padded(uint64_t number, size_t width) {
  std::string digits = std::to_string(number);
  if (digits.size() < width) digits.insert(0, width - digits.size(), '0');
  return digits;
}

// "001-016" or "7", appended to `found`.
Status expand_run(std::string_view text, std::string_view run, size_t most,
                  std::vector<std::string>& found) {
  const size_t dash = run.find('-');
  const std::string_view low = run.substr(0, dash);
  const std::string_view high = dash == std::string_view::npos ? low : run.substr(dash + 1);
  const auto first = parse_integer<uint32_t>(low);
  const auto last = parse_integer<uint32_t>(high);
  if (!first || !last) {
    return refuse(text, "'" + std::string(run) + "' is neither a number nor two with '-' between");
  }
  if (*last < *first) return refuse(text, "'" + std::string(run) + "' runs backwards");
  if (*last - *first >= most - std::min(most, found.size())) {
    return refuse(text, "there are more than " + std::to_string(most) + " names");
  }
  for (uint64_t number = *first; number <= *last; ++number) {
    found.push_back(padded(number, low.size()));
  }
  return {};
}

struct Numbered {
  std::string_view stem;
  std::string_view digits;
};

Numbered parts_of(std::string_view name) {
  size_t end = name.size();
  while (end > 0 && name[end - 1] >= '0' && name[end - 1] <= '9') --end;
  return {name.substr(0, end), name.substr(end)};
}

}  // namespace

Result<std::vector<std::string>> expand_names(std::string_view text, size_t most) {
  std::vector<std::string> names = {""};
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t open = rest.find('[');
    const std::string_view plain = rest.substr(0, open);
    if (plain.find(']') != std::string_view::npos) return refuse(text, "']' closes nothing");
    for (std::string& name : names) name += plain;
    if (open == std::string_view::npos) break;
    const size_t close = rest.find(']', open);
    if (close == std::string_view::npos) return refuse(text, "'[' is not closed");
    std::vector<std::string> numbers;
    for (const std::string_view run : split(rest.substr(open + 1, close - open - 1), ',')) {
      if (Status status = expand_run(text, run, most, numbers); !status.ok()) return status;
    }
    if (numbers.size() > most / names.size()) {
      return refuse(text, "there are more than " + std::to_string(most) + " names");
    }
    std::vector<std::string> longer;
    for (const std::string& name : names) {
      for (const std::string& number : numbers) longer.push_back(name + number);
    }
    names = std::move(longer);
    rest.remove_prefix(close + 1);
  }
  return names;
}

bool follows(std::string_view name, std::string_view next) {
  const Numbered a = parts_of(name), b = parts_of(next);
  if (a.stem != b.stem) return false;
  const auto low = parse_integer<uint32_t>(a.digits);
  const auto high = parse_integer<uint32_t>(b.digits);
  // "n9" and "n10" follow each other, "n09" and "n010" do not: the width is that of the first.
  return low && high && *high == uint64_t{*low} + 1 && padded(*high, a.digits.size()) == b.digits;
}

std::string fold_names(std::string_view first, std::string_view last) {
  if (first == last) return std::string(first);
  const Numbered a = parts_of(first);
  return std::string(a.stem) + "[" + std::string(a.digits) + "-" +
         std::string(parts_of(last).digits) + "]";
}

}  // namespace tutti::topology
