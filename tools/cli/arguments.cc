#include "tools/cli/arguments.h"

#include <charconv>
#include <cstdio>
#include <numeric>
#include <system_error>
#include <utility>

#include "src/registry/settings.h"

namespace tutti::cli {

bool asks_for_help(std::string_view word) { return word == "--help" || word == "-h"; }

std::optional<int> end_with_usage(int argc, char** argv, const char* usage) {
  if (argc <= 1) return std::nullopt;
  const bool help = asks_for_help(argv[1]);
  std::fputs(usage, help ? stdout : stderr);
  return help ? 0 : 2;
}

std::optional<Config> settings_for(const char* command) {
  Result<Config> config = registry::read_settings();
  if (config.ok()) return std::move(config).value();
  std::fprintf(stderr, "%s: %s\n", command, std::string(config.status().message()).c_str());
  return std::nullopt;
}

std::string full_name(const schedule::Algorithm& algorithm) {
  return std::string(schedule::name_of(algorithm.collective)) + '/' + std::string(algorithm.name);
}

bool is_named(const schedule::Algorithm& algorithm, std::string_view name) {
  return name.empty() || name == schedule::name_of(algorithm.collective) ||
         name == full_name(algorithm);
}

std::vector<int> parse_ranks(std::string_view text, int most) {
  int bounds[2] = {0, 0};
  const char* at = text.data();
  const char* end = text.data() + text.size();
  for (int i = 0; i < 2; ++i) {
    const auto [next, error] = std::from_chars(at, end, bounds[i]);
    if (error != std::errc()) return {};
    at = next;
    if (i == 0 && at == end) bounds[++i] = bounds[0];
    if (i == 0 && *at++ != '-') return {};
  }
  if (at != end || bounds[0] < 1 || bounds[1] < bounds[0] || bounds[1] > most) return {};
  std::vector<int> ranks(static_cast<size_t>(bounds[1] - bounds[0] + 1));
  std::iota(ranks.begin(), ranks.end(), bounds[0]);
  return ranks;
}

}  // namespace tutti::cli
