// Which rank this process was started as, and by which launcher: read from what launchers leave in
// the environment.
//
// Errors: kInvalidUsage names the variable that is wrong; kUnsupported: no launcher is known here.
// Threads: no state.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/config.h"
#include "src/base/status.h"

namespace tutti::bootstrap {

struct Launch {
  int rank = 0;
  int ranks = 1;
  int local_rank = -1;     // -1: not known
  bool one_host = false;   // true only where it is certain
  bool exchanges = false;  // what PMIx or PMI2 serve here counts ranks as this launcher does
  std::string how;         // "torchrun"
  /// Equal on all ranks, and another one for every job as far as the launcher tells jobs apart.
  std::string job;
  bool named = false;  // it does: no other job has this name
  /// The variables that tell this rank its place, as "RANK=0", for starter_of(). Empty: the
  /// launcher is not what its variables say, and the process that started the rank tells nothing.
  std::vector<std::string> place;
  std::string master_host;  // "" where nobody named one
  uint16_t master_port = 0;
};

/// The variables by which a launcher tells a process its place. Where `rank` and `ranks` are both
/// set, the process was started by it.
struct Launcher {
  std::string_view name;
  std::string_view rank;
  std::string_view ranks;
  std::string_view local_rank;
  std::string_view local_ranks;  // "" where it does not say
  std::string_view hosts;        // how many; "" where it does not say
  bool exchanges;                // speaks PMIx or PMI2 itself
  std::span<const std::string_view> job;
  /// Of these one at least is set where the launcher gives its job a name.
  std::span<const std::string_view> names;
  /// Of these one at least is set in what the launcher's own processes start. Empty: not known.
  std::span<const std::string_view> contacts;
};

/// The innermost first: torchrun is itself started by the others.
std::span<const Launcher> launchers();

Result<Launch> read_launch(const Launcher& launcher, const Variables& variables);

/// The word of the first launcher in the table that has left its variables.
Result<Launch> find_launch(const Variables& variables);

}  // namespace tutti::bootstrap
