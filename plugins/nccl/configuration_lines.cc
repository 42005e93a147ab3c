#include "plugins/nccl/configuration_lines.h"

#include <algorithm>

namespace tutti::nccl {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

void read_line(std::string_view line, std::vector<ConfigurationLine>& lines) {
  const size_t equals = line.find('=');
  // A zero byte would end a name early, and it would be another one.
  if (equals == std::string_view::npos || line.find('\0') != std::string_view::npos) return;
  const std::string_view name = trimmed(line.substr(0, equals));
  if (name.rfind("NCCL_", 0) != 0) return;
  lines.push_back({std::string(name), std::string(trimmed(line.substr(equals + 1)))});
}

}  // namespace

std::vector<ConfigurationLine> read_configuration_lines(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // of editors for Windows
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  std::vector<ConfigurationLine> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    read_line(text.substr(0, end), lines);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace tutti::nccl
