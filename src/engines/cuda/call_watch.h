// The call that a rank's streams are in, for people: the flight recorder has it, and a report says
// for whom a stream waits that has waited for long.
//
// Calls run in the order in which they are put, so the oldest one that is not over runs; of those
// behind it the recorder says that they are queued.
//
// Threads: queue() by the thread that puts calls; look() and over() one at a time. Units: ns of
// CLOCK_MONOTONIC. Errors: none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/exec/device.h"
#include "src/trace/recorder.h"

namespace tutti::engines::cuda {

class CallWatch {
 public:
  struct Watched {
    uint64_t place = 0;   // in the order of the rank's streams, from 1
    uint64_t number = 0;  // equal on all ranks; 0: sends and receives, which have none
    uint64_t ticket = 0;  // of queue()
    trace::Label label;
    std::string what;
  };

  /// The options outlive it.
  explicit CallWatch(const exec::DeviceRankOptions& options) : options_(options) {}

  /// A call goes into a stream. Returns its ticket.
  uint64_t queue(const trace::Label& label);
  /// It is the oldest one. `late`: a rank that its stream waits for, if it waits.
  void look(const Watched& call, std::optional<int> late);
  /// Its stream is past it, or will never be.
  void over(const Watched& call, bool ok);

  /// The rank because of which `late` is late: it may wait for another one itself.
  int find_culprit(int late) const;
  /// "it waits for rank 3 (...), which has not made that call: ...".
  std::string reason(uint64_t number, int late) const;

 private:
  void begin(const Watched& call, uint64_t now_ns);
  std::string story_of(int rank, uint64_t number) const;

  const exec::DeviceRankOptions& options_;
  uint64_t place_ = 0;  // of the call that runs; 0: none was seen yet
  uint64_t since_ns_ = 0;
  uint64_t report_at_ns_ = 0;
};

}  // namespace tutti::engines::cuda
