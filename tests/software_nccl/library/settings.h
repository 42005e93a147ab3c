// How the stand-in for NCCL behaves: SOFTNCCL_* variables, read once.
//
// Threads: any. Errors: none; what is no number is 0.
#pragma once

#include <string>

namespace softnccl {

struct Settings {
  long version = 22809;    // SOFTNCCL_VERSION: what it says of itself
  long rank = -1;          // SOFTNCCL_RANK: the rank that what follows is about; -1: all
  long init_ms = 0;        // SOFTNCCL_INIT_MS: a communicator takes so long
  long init_result = 0;    // SOFTNCCL_INIT_RESULT: of its making, which fails at its end; 0: none
  long config_result = 0;  // SOFTNCCL_CONFIG_RESULT: every configuration is refused so; 0: none
  long late_ms = 0;        // SOFTNCCL_LATE_MS: each kernel begins so late
  long stuck_at = 0;       // SOFTNCCL_STUCK_AT: the kernel of this number, from 1, never begins
  long async_at = 0;       // SOFTNCCL_ASYNC_AT: this kernel ends with an error, and all others then
  long lose_at = 0;        // SOFTNCCL_LOSE_AT: this kernel ends without a result
  long memory_kb = 4096;   // SOFTNCCL_MEMORY_KB: of a communicator, on its device
  // SOFTNCCL_SUSPEND_RESULT: it gives no memory back, but this; 0: it does; -1: it never returns
  long suspend_result = 0;
  long resume_result = 0;  // SOFTNCCL_RESUME_RESULT: the same of taking it again
  std::string log;         // SOFTNCCL_LOG: a file that gets a line for each function

  bool is_about(int which) const { return rank < 0 || rank == which; }
};

const Settings& settings();

/// A line of the log, if there is one, with the process's number in front.
void log(const std::string& line);

}  // namespace softnccl
