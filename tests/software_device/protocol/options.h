// The ways in which the protocol is run, and the faults that are planted in it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace softdev {

enum class Fault {
  kNone,
  kNoReady,        // data goes into a peer's buffer that it may still be reading
  kNoDone,         // a rank reads what peers may still be writing
  kFlagInBatch,    // "the data is there" is copied in the data's own batch
  kOneWaitTooFew,  // one peer's "the data is there" is not waited for
};

struct ProtocolOptions {
  int ranks = 3;
  int iterations = 4;
  size_t bytes = 256 << 10;     // of each rank
  unsigned limit_s = 60;        // then it is a hang
  bool threads = false;         // ranks are threads of one process, not processes
  bool legacy_handles = false;  // memory by cuMemAlloc, not by the virtual memory API
  bool host_flags = false;      // flags in shared memory of the host, not in device memory
  bool copied_flags = false;    // flags are moved by copies of 4 bytes, not by writes
  bool graph = false;           // an iteration is a graph
  Fault fault = Fault::kNone;
};

inline constexpr int kMostRanks = 8;

/// Nothing: an argument is wrong.
std::optional<ProtocolOptions> parse_options(int argc, char** argv);
/// For people.
extern const char* const kProtocolUsage;

}  // namespace softdev
