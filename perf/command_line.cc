#include "perf/command_line.h"

#include <CLI/CLI.hpp>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <system_error>
#include <utility>
#include <vector>

#include "perf/collectives/error.h"
#include "src/base/words.h"

namespace tutti::perf {

struct CommandLine::Parser {
  CLI::App app;
};

CommandLine::CommandLine(const std::string& description, const std::string& program)
    : parser_(new Parser{CLI::App(description, program)}) {}

CommandLine::~CommandLine() = default;

void CommandLine::add(const Argument& argument, Take take) {
  const auto named = [names = std::string(argument.names), take](const std::string& value) {
    try {
      take(value);
    } catch (const PerfError& error) {
      throw PerfError(names + ": " + error.what(), kExitUsage);
    }
  };
  CLI::App& app = parser_->app;
  CLI::Option* option = nullptr;
  if (argument.stands_alone()) {
    option = app.add_flag_callback(
        argument.names, [named] { named(""); }, argument.meaning);
  } else if (argument.is_list()) {
    const auto each = [named](const std::vector<std::string>& values) {
      for (const std::string& value : values) named(value);
    };
    option =
        app.add_option_function<std::vector<std::string>>(argument.names, each, argument.meaning);
    option->delimiter(',');
  } else {
    option = app.add_option_function<std::string>(argument.names, named, argument.meaning);
    option->take_last();  // as getopt does for nccl-tests
  }
  if (!argument.stands_alone()) option->type_name(argument.value);
  if (*argument.standard != '\0') option->default_str(argument.standard);
  option->group(argument.group)->required(argument.required);
}

void CommandLine::add(const Argument& argument, std::string& value) {
  add(argument, [&value](const std::string& text) { value = text; });
}

void CommandLine::add(const Argument& argument, bool& given) {
  add(argument, [&given](const std::string&) { given = true; });
}

std::optional<int> CommandLine::parse(int argc, const char* const* argv) {
  CLI::App& app = parser_->app;
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  } catch (const PerfError& error) {
    std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(), error.what());
    return kExitUsage;
  }
}

namespace {

[[noreturn]] void refuse_number(const std::string& text, const std::string& least,
                                const std::string& most) {
  throw PerfError(
      "'" + text + "' is not a number from " + least + (most.empty() ? " up" : " to ") + most,
      kExitUsage);
}

}  // namespace

uint64_t whole_number(const std::string& text, uint64_t least, uint64_t most) {
  const bool hex = text.starts_with("0x") || text.starts_with("0X");
  const auto number = parse_integer<uint64_t>(hex ? text.substr(2) : text, hex ? 16 : 10);
  if (number && *number >= least && *number <= most) return *number;
  const bool bounded = most < std::numeric_limits<uint64_t>::max();
  refuse_number(text, std::to_string(least), bounded ? std::to_string(most) : "");
}

double real_number(const std::string& text, double least, double most) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc{} && stop == end && number >= least && number <= most) return number;
  const auto words = [](double bound) {
    std::ostringstream said;
    said << bound;
    return said.str();
  };
  const bool bounded = most < std::numeric_limits<double>::max();
  refuse_number(text, words(least), bounded ? words(most) : "");
}

size_t byte_count(const std::string& text) {
  constexpr std::pair<const char*, double> kUnits[] = {{"", 1},       {"B", 1},      {"K", 0x1p10},
                                                       {"k", 0x1p10}, {"M", 0x1p20}, {"m", 0x1p20},
                                                       {"G", 0x1p30}, {"g", 0x1p30}};
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  for (const auto& [unit, scale] : kUnits) {
    const bool is_size = end != text.c_str() && number >= 0 && number * scale <= 0x1p60;
    if (is_size && std::string_view(end) == unit) return static_cast<size_t>(number * scale);
  }
  throw PerfError("'" + text + "' is not a size such as 8, 64K, 1M or 1.5G", kExitUsage);
}

}  // namespace tutti::perf
