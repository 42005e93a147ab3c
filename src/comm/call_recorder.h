// The flight recorder in the words of this layer: labels of requests and transfers, and what is
// said when a communicator fails.
//
// Owns: the recorder, which nobody can read if TUTTI_TRACE_RECORDS is 0. Threads and
// ordering: as trace::Recorder; dump() by any, once. Errors: create(), where memory is missing.
#pragma once

#include <atomic>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "src/base/env.h"
#include "src/comm/request.h"
#include "src/comm/window.h"
#include "src/exec/pairs.h"
#include "src/trace/recorder.h"

namespace tutti::comm {

class CallRecorder {
 public:
  static Result<std::unique_ptr<CallRecorder>> create(const Env& env,
                                                      trace::RecorderOptions options);

  trace::Label label(const Request& request, std::string_view algorithm = {});
  trace::Label label(std::span<const exec::Transfer> transfers) const;
  trace::Label label(const Access& access) const;

  /// To the log, the first time for this collective and about this size.
  void tell_choice(const Request& request, std::string_view algorithm);
  /// Likewise, the first time for this collective, that its calls read registered device memory.
  void tell_direct(const Request& request);

  trace::Recorder& recorder() { return *recorder_; }

  /// The first error of a communicator: one line to the log, and all calls to TUTTI_TRACE_FILE.
  void dump(const Status& reason);
  /// Errors from here on are nobody's business.
  void be_quiet() { dumped_.store(true); }

 private:
  CallRecorder(const Env& env, const trace::RecorderOptions& options,
               std::unique_ptr<trace::Recorder> recorder)
      : env_(env),
        communicator_(options.communicator),
        rank_(options.rank),
        recorder_(std::move(recorder)) {}
  void name_everything();
  std::string keep_record(const Status& reason) const;

  const Env& env_;
  uint64_t communicator_;
  int rank_;
  std::set<std::pair<schedule::Collective, int>> told_;  // and the bits of its size
  std::set<std::string> told_direct_;
  std::unique_ptr<trace::Recorder> recorder_;
  // Numbers of names in the file, which the thread that queues may use too: fixed once made.
  uint8_t collectives_[schedule::kCollectives] = {};
  uint8_t vectors_[schedule::kCollectives] = {};
  uint8_t types_[types::kDataTypes] = {};
  uint8_t ops_[types::kNamedReduceOps] = {};
  uint8_t send_ = 0, receive_ = 0, both_ = 0;
  uint8_t accesses_[kAccessKinds] = {};
  std::atomic<bool> dumped_{false};
};

}  // namespace tutti::comm
