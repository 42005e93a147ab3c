// The call that a rank's streams are in, for people: the flight recorder has it, and a report says
// for whom a stream waits that has waited for long.
//
// Calls run in the order in which they are put, so the oldest one that is not over runs; of those
// behind it the recorder says that they are queued.
//
// Threads: one at a time. Units: ns of
// CLOCK_MONOTONIC. Errors: none.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "src/base/clock.h"
#include "src/trace/recorder.h"

namespace tutti::engines::streams {

struct ReportedCall {
  uint64_t place = 0;   // in the order of the rank's streams, from 1
  uint64_t number = 0;  // equal on all ranks; 0: sends and receives, which have none
  uint64_t ticket = 0;  // of queue()
  trace::Label label = {};
  std::string what = {};
};

struct ReporterOptions {
  int rank = 0;
  std::string manner;                                   // "on device memory", "in a graph"
  std::function<std::string(int)> name_of;              // a rank, in messages
  std::function<void(const std::string&)> report = {};  // to the log; empty: nobody is told
  uint64_t slow_ns = kNoDeadline;                       // a call is reported after so long
  trace::Recorder* recorder = nullptr;                  // may be null
  std::string device = {};  // whose streams other communicators use as well; empty: not compared
};

class CallReporter {
 public:
  explicit CallReporter(ReporterOptions options) : options_(std::move(options)) {}

  const std::string& manner() const { return options_.manner; }
  /// A call goes into a stream. Returns its ticket.
  uint64_t queue(const trace::Label& label);
  /// It is the oldest one. `late`: a rank that its stream waits for, if it waits; then `reason`
  /// says why.
  void look(const ReportedCall& call, std::optional<int> late,
            const std::function<std::string()>& reason);
  /// Its stream is past it, or will never be.
  void over(const ReportedCall& call, bool ok);
  /// Nobody is told of anything any more.
  void mute();

 private:
  void begin(const ReportedCall& call, uint64_t now_ns);

  ReporterOptions options_;
  uint64_t place_ = 0;  // of the call that runs; 0: none was seen yet
  uint64_t since_ns_ = 0;
  uint64_t report_at_ns_ = 0;
};

}  // namespace tutti::engines::streams
