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

enum class FlagOrigin {
  kNcclTests,  // of nccl-tests, and means the same here where it means anything
  kOwn,        // Tutti's
};

/// When a flag does something.
enum class FlagUse {
  kAlways,
  kWithoutVs,
  kWithVs,     // only in a comparison with MPI
  kWithAnyVs,  // and in one with NCCL
  kWithHosts,  // only with --hosts or --hostfile
  kNever,      // accepted, and `meaning` says why it does nothing here
};

struct FlagGroup {
  const char* heading;  // "": between the parts of the tool, and not shown
  FlagUse use;
};

struct Flag {
  const char* names;  // these four: as in Argument
  const char* value;
  const char* standard;
  const char* meaning;
  FlagGroup group;
  FlagOrigin origin;
  /// Called once per value; null where the flag is never used.
  /// Errors: PerfError, without the flag's name.
  void (*apply)(const std::string& value, Draft& draft);

  bool is_of_hosts() const;
  bool is_shown() const { return *group.heading != '\0'; }
  Argument argument() const { return {names, value, meaning, standard, group.heading}; }
};

std::span<const Flag> all_flags();

/// The table of all flags but internal ones: docs/perf_flags.md.
std::string flags_as_markdown();

}  // namespace tutti::perf
