// The streams of a rank's own that its calls need beside the caller's:
//
//   the second one, of calls whose plans have two lanes (plan::Turns), so that the device can copy
//     one slice of a call while it folds another;
//   the first one, in place of the caller's where that is the legacy stream, which takes no lists
//     of copies;
//   branches, in captures, where lists of copies are not to be had either: the copies of one list
//     become nodes beside each other.
//
// Each forks from the caller's stream behind what that holds, and joins it again before the call
// ends, by events.
//
// In captures, what was put into a graph has no order but its edges: whoever runs the graph may put
// its branches into one hardware queue one after the other, in any order that edges allow. So there
// a wait for peers also comes behind all signals that this rank put before it, in whichever stream.
// Then any such order is one in which all ranks come to their ends: the first signal that is
// missing, in an order in which one queue of each rank does everything as it was put
// (verify_plans() proves one), would have to be behind a wait for a later one.
//
// Threads: one at a time. Contexts: the streams' is current. Errors: of the driver's.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "src/drivers/cuda/stream.h"
#include "src/exec/arena_map.h"

namespace tutti::engines::cuda {

class SideStream {
 public:
  static Result<std::unique_ptr<SideStream>> create(const drivers::cuda::Cuda& cuda, int priority,
                                                    uint64_t capture);

  /// Of the second lane.
  drivers::cuda::CUstream get() const { return stream_.get(); }
  /// Of the first lane of a call in `callers`.
  drivers::cuda::CUstream first_for(drivers::cuda::CUstream callers) const {
    return first_ && drivers::cuda::is_legacy_stream(callers) ? first_->get() : callers;
  }
  /// From now on there is a stream in place of the legacy one.
  Status replace_legacy();
  /// Whether some of the streams is part of a capture.
  Result<bool> is_captured() const;
  /// In a capture: puts the copies beside each other, behind all that `stream` holds; what is put
  /// into it later is behind all of them.
  Status put_beside(drivers::cuda::CUstream stream, const drivers::cuda::CopyBatch& copies);
  int priority() const { return priority_; }
  /// The capture that the stream is part of, or was part of last; 0: it never was.
  uint64_t capture() const { return capture_; }
  void enter(uint64_t capture) { capture_ = capture; }
  /// Marks where a lane's stream is now; each lane has one mark.
  Status mark(uint32_t lane, drivers::cuda::CUstream stream) const {
    return events_[lane].record(stream);
  }
  /// Beside those of lanes: where the last level call is.
  static constexpr uint32_t kLevelMark = exec::kDeviceLanes;
  /// `stream` goes on behind that lane's mark.
  Status follow(drivers::cuda::CUstream stream, uint32_t lane) const {
    return events_[lane].make_wait(stream);
  }

 private:
  using Events = std::array<drivers::cuda::CudaEvent, exec::kDeviceLanes + 1>;
  SideStream(const drivers::cuda::Cuda& cuda, drivers::cuda::CudaStream stream, Events events,
             int priority, uint64_t capture);
  Status branch_out(size_t branches);

  const drivers::cuda::Cuda& cuda_;
  drivers::cuda::CudaStream stream_;
  std::optional<drivers::cuda::CudaStream> first_;
  std::vector<drivers::cuda::CudaStream> branches_;
  Events events_;                                            // by lane, and kLevelMark
  std::optional<drivers::cuda::CudaEvent> forked_, joined_;  // of branches
  const int priority_;
  uint64_t capture_;
};

/// A rank's side streams. One is made when a call first needs it, and is kept. After a capture is
/// over, its stream serves the next capture.
class SideStreams {
 public:
  explicit SideStreams(const drivers::cuda::Cuda& cuda) : cuda_(cuda) {}
  /// For a call of so many lanes in `stream`: with its priority. `capture`: the capture that it is
  /// in, or 0. Null: the call needs none.
  Result<SideStream*> find(drivers::cuda::CUstream stream, uint64_t capture, size_t lanes);
  void clear() { streams_.clear(); }

 private:
  Result<SideStream*> find_or_make(int priority, uint64_t capture);

  const drivers::cuda::Cuda& cuda_;
  std::vector<std::unique_ptr<SideStream>> streams_;
};

}  // namespace tutti::engines::cuda
