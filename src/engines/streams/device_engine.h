// An engine that puts a whole call into a stream by itself, beside the walk of a plan: one kernel
// that waits for its peers' kernels, or a library of the vendor's. A rank has a table of them, by
// exec::CallEngine; nothing that uses the table knows which ones there are.
//
// Threads: put() and capture() one at a time, by the caller of the rank's calls; all else any, also
// while a call is being put. Lifetime: graphs that have calls of it keep it, longer than the rank.
// Errors: as each function says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/diagnosis/loss.h"
#include "src/exec/stream_rank.h"

namespace tutti::engines::streams {

class DeviceEngine {
 public:
  /// Something that an engine has found out by itself.
  struct EngineTrouble {
    Status status;
    diagnosis::Cause cause;
  };

  virtual ~DeviceEngine() = default;
  /// Puts a call into its stream that has been announced to the peers. `place`: as
  /// StreamWatch::next_place(). The result is PendingCall::awaited, for the watch. An error fails
  /// the communicator.
  virtual Result<std::vector<uint64_t>> put(const exec::StreamedCall& call, uint64_t place) = 0;
  /// The same of a captured stream; an error leaves the communicator as it was.
  virtual Status capture(const exec::StreamedCall& call) = 0;
  /// Whether its part of a graph waits for all ranks and knows the deadline by itself, so that
  /// nothing has to be around it. Then runs are looked at now and then (EagerCalls::patrol).
  virtual bool runs_alone() const { return false; }

  /// Another number when a run of a graph has begun of which no function of the host tells; 0: no
  /// graph has such a call.
  virtual uint64_t runs_alone_so_far() const { return 0; }

  /// A failure that it has found out about, if there is one. Often asked.
  virtual std::optional<EngineTrouble> look() { return std::nullopt; }
  /// The place of the last call that it is past, where the streams do not say so.
  virtual uint64_t finished() const { return 0; }
  /// A peer that it waits for, where counters do not say so.
  virtual std::optional<int> find_late() const { return std::nullopt; }
  /// A call that the watch does not know, as a graph's, in which this rank waits for a peer or a
  /// peer for it, for people; else "".
  virtual std::string describe_wait() const { return {}; }
  /// Nothing of it waits for a peer from now on, and what is put later comes to its end at once.
  /// Returns at once; called any number of times.
  virtual void let_go() = 0;
};

}  // namespace tutti::engines::streams
