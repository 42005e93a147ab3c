// The process that started a rank. Where a launcher gives its jobs no names, this tells the ranks
// of one job from those of another job of the same user.
//
// The starter is the nearest ancestor process without the variables that tell the rank its place.
// Processes in between (a shell, timeout, a debugger) are the rank's own, and a copy that a process
// forked of itself, as shells do, counts as that process. Of a starter that has ended only the
// session is left, which its ranks still share.
//
// Errors: known() is false where nothing was found. Threads: no state.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::bootstrap {

/// A process, also after its number was given to another one.
struct ProcessName {
  pid_t number = 0;    // 0: none
  uint64_t start = 0;  // in clock ticks since the host started

  bool operator==(const ProcessName&) const = default;
  bool lives() const;
};

struct Starter {
  ProcessName rank;     // the outermost process that is the rank's own
  ProcessName process;  // none: it has ended
  pid_t session = 0;    // 0: the rank has one of its own, which tells nothing

  bool known() const { return process.number != 0 || session != 0; }
  /// The other rank was started by the same process, or by this rank, or this one by it.
  bool started_with(const Starter& other) const;

  std::string encode() const;
  static std::optional<Starter> decode(std::string_view text);
  /// For messages: "process 77 (bash)".
  std::string text() const;
};

/// The process that started a rank; none where the name of the job says enough.
using Origin = std::optional<Starter>;

/// Whether two ranks with these origins, and with one name of the job, are of one job.
bool of_one_job(const Origin& a, const Origin& b);

/// `place`: what the environment tells this rank, as "RANK=0"; not empty.
Starter starter_of(pid_t rank, const std::vector<std::string>& place);

}  // namespace tutti::bootstrap
