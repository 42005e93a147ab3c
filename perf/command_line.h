// The command line of a tool: what it takes, --help, and what is said about mistakes.
//
// CLI11 does the work; its headers, which take seconds to compile, are included in one file.
// Threads: one. A variable that add() is given is kept until parse() has returned.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace tutti::perf {

/// Whole numbers as C writes them: 16, 0x10. Errors: PerfError.
uint64_t whole_number(const std::string& text, uint64_t least = 0,
                      uint64_t most = std::numeric_limits<uint64_t>::max());
/// Errors: PerfError.
double real_number(const std::string& text, double least = 0,
                   double most = std::numeric_limits<double>::max());
/// "64", "1K", "4M", "1.5G" (powers of 1024). Errors: PerfError.
size_t byte_count(const std::string& text);

struct Argument {
  const char* names;  // "-b,--minbytes", or "algorithm" for what is known by its place
  const char* value;  // what follows, for --help; "": nothing; ending in "...": a,b,c
  const char* meaning;
  const char* standard = "";      // the value without the argument, for --help; "": none
  const char* group = "Options";  // the heading it stands under; "": not shown
  bool required = false;

  bool stands_alone() const { return *value == '\0'; }
  bool is_list() const { return std::string_view(value).ends_with("..."); }
};

class CommandLine {
 public:
  /// Called once per value; of a value given twice, with the last. Throws PerfError if it does not
  /// like it; parse() says for which argument.
  using Take = std::function<void(const std::string& value)>;

  CommandLine(const std::string& description, const std::string& program);
  ~CommandLine();

  void add(const Argument& argument, Take take);
  void add(const Argument& argument, std::string& value);
  void add(const Argument& argument, bool& given);

  /// A whole number from `least` to `most`.
  template <class Number>
  void add(const Argument& argument, Number& number, uint64_t least, uint64_t most) {
    add(argument, [&number, least, most](const std::string& text) {
      number = static_cast<Number>(whole_number(text, least, most));
    });
  }

  /// Says on the output or error output what there is to say. Returns the exit status if the
  /// program is to end: 0 after --help, 2 after a mistake.
  std::optional<int> parse(int argc, const char* const* argv);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace tutti::perf
