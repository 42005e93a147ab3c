// The flags of `tutti perf` as data: the parser, --help, `tutti perf flags` and docs/perf_flags.md
// all read this one table.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "perf/collectives/options.h"
#include "perf/command_line.h"

namespace tutti::perf {

struct Flag;

/// Options while they are read: some of them depend on each other and are settled at the end.
struct Draft {
  PerfOptions options;
  std::optional<size_t> min_bytes;
  std::optional<size_t> max_bytes;
  std::string op = "sum";
  std::optional<int> processes;
  std::vector<const Flag*> given;
  bool in_one_process = false;  // -t or -g was given: without --ranks, nothing is forked
};

enum class FlagKind {
  kNcclTests,  // of nccl-tests, and means the same here
  kOwn,        // Tutti's
  kNoEffect,   // of nccl-tests; accepted, and `meaning` says why it does nothing here
  kInternal,   // between the parts of the tool; not shown
};

struct Flag {
  const char* names;  // these five: as in Argument
  const char* value;
  const char* standard;
  const char* meaning;
  const char* group;
  FlagKind kind;
  /// Once per value.
  /// Errors: PerfError, without the flag's name.
  void (*apply)(const std::string& value, Draft& draft);

  /// Whether --vs does not use the flag, since it has a loop and tables of its own.
  bool only_without_vs() const;
  /// Whether only --vs uses the flag.
  bool only_with_vs() const;
  /// Of --vs, and of nccl there, too.
  bool counts_rounds() const;

  Argument argument() const { return {names, value, meaning, standard, group}; }
};

std::span<const Flag> all_flags();

/// The table of all flags but internal ones: docs/perf_flags.md.
std::string flags_as_markdown();

}  // namespace tutti::perf
