#include "perf/command_line.h"

#include <CLI/CLI.hpp>

#include <charconv>
#include <cstdio>
#include <system_error>
#include <utility>
#include <vector>

#include "perf/collectives/error.h"

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

uint64_t whole_number(const std::string& text, uint64_t least, uint64_t most) {
  const bool hex = text.starts_with("0x") || text.starts_with("0X");
  const char* begin = text.data() + (hex ? 2 : 0);
  const char* end = text.data() + text.size();
  uint64_t number = 0;
  const auto [stop, error] = std::from_chars(begin, end, number, hex ? 16 : 10);
  if (error == std::errc{} && stop == end && begin != end && number >= least && number <= most) {
    return number;
  }
  const bool bounded = most < std::numeric_limits<uint64_t>::max();
  throw PerfError("'" + text + "' is not a number from " + std::to_string(least) +
                      (bounded ? " to " + std::to_string(most) : " up"),
                  kExitUsage);
}

}  // namespace tutti::perf
