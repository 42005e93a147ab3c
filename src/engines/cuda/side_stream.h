// The second stream of calls whose plans have two lanes (plan::Turns): it forks from the caller's
// stream behind what that holds and joins it again before the call ends, by events. So the device
// can copy one slice of a call while it folds another.
//
// In captures, what was put into a graph has no order but its edges: whoever runs the graph may put
// its branches into one hardware queue one after the other, in any order that edges allow. So there
// a wait for peers also comes behind all signals that this rank put before it, in whichever stream
// (keeps_signals_first()). Then any such order is one in which all ranks come to their ends: the
// first signal that is missing, in an order in which one queue of each rank does everything as it
// was put (verify_plans() proves one), would have to be behind a wait for a later one.
//
// Threads: one at a time. Contexts: the streams' is current. Errors: of the driver's.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "src/drivers/cuda/stream.h"
#include "src/exec/arena_map.h"

namespace tutti::engines::cuda {

class SideStream {
 public:
  static Result<std::unique_ptr<SideStream>> create(const drivers::cuda::Cuda& cuda, int priority,
                                                    uint64_t capture);

  drivers::cuda::CUstream get() const { return stream_.get(); }
  int priority() const { return priority_; }
  /// The capture that the stream is part of, or was part of last; 0: it never was.
  uint64_t capture() const { return capture_; }
  void enter(uint64_t capture) { capture_ = capture; }
  bool keeps_signals_first() const { return capture_ != 0; }
  /// Marks where a lane's stream is now; each lane has one mark.
  Status mark(uint32_t lane, drivers::cuda::CUstream stream) const {
    return events_[lane].record(stream);
  }
  /// `stream` goes on behind that lane's mark.
  Status follow(drivers::cuda::CUstream stream, uint32_t lane) const {
    return events_[lane].make_wait(stream);
  }

 private:
  using Events = std::array<drivers::cuda::CudaEvent, exec::kDeviceLanes>;
  SideStream(drivers::cuda::CudaStream stream, Events events, int priority, uint64_t capture);

  drivers::cuda::CudaStream stream_;
  Events events_;  // by lane
  const int priority_;
  uint64_t capture_;
};

/// A rank's side streams. One is made when a call first needs it, and is kept. After a capture is
/// over, its stream serves the next capture.
class SideStreams {
 public:
  explicit SideStreams(const drivers::cuda::Cuda& cuda) : cuda_(cuda) {}
  /// A stream with the priority of `stream`; `capture`: the capture that `stream` is in, or 0.
  Result<const SideStream*> find(drivers::cuda::CUstream stream, uint64_t capture);
  void clear() { streams_.clear(); }

 private:
  const drivers::cuda::Cuda& cuda_;
  std::vector<std::unique_ptr<SideStream>> streams_;
};

}  // namespace tutti::engines::cuda
