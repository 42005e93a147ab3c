// An operation that runs elsewhere or later than where it was called: of one communicator, with
// all that are told of its outcome.
//
// Owns: all it needs but the caller's buffers. Threads: a Completion from any; a Task belongs to
// one.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <variant>
#include <vector>

#include "src/comm/communicator.h"
#include "src/exec/staging.h"

namespace tutti::comm {

/// Where the outcome of tasks is collected: a HOST stream, a group, a request.
class Completion {
 public:
  /// By the monotonic clock; 0: not yet, or never.
  struct Times {
    uint64_t began_ns = 0;
    uint64_t ended_ns = 0;
  };

  void add();
  void finish(const Status& status);
  /// All that was added runs from now on. Only of what is asked for its times.
  void begin(uint64_t now_ns);
  /// Until nothing added is unfinished; the first error since the last wait().
  Status wait();
  /// The same, and the error stays.
  Status outcome();
  /// Whether wait() would return at once. The error is left for it.
  bool is_done(Status& status);
  /// The same after waiting until `deadline_ns` at most.
  bool is_done_by(uint64_t deadline_ns, Status& status);
  /// Calls it when nothing added is unfinished: now, or later in the thread that finishes. Only one
  /// at a time: false if there is one already.
  bool call_back(std::function<void(const Status& outcome)> listener);
  Times times();
  /// As new. Nothing is unfinished.
  void reset();

 private:
  std::mutex mutex_;
  std::condition_variable idle_;
  uint64_t open_ = 0;
  Status first_error_;
  Times times_;
  std::function<void(const Status&)> listener_;
};

struct Task {
  struct TaskStream {
    std::shared_ptr<Completion> completion;
    const void* order = nullptr;  // tasks with equal ones that are not null keep their order
  };

  Communicator* communicator = nullptr;
  std::variant<Request, exec::Transfer, std::vector<exec::Transfer>, Access> work;
  Extras extras;      // of work that has some
  KeptCounts counts;  // of a v-collective
  int priority = 0;
  uint64_t ticket = 0;     // Communicator::queue
  bool is_replay = false;  // of a graph: its streams have come, so it goes before what waits
  uint64_t group = 0;      // not 0: those of one group do not wait for each other's streams
  TaskStream stream;
  std::vector<TaskStream> more_streams;              // of transfers that a group has joined
  std::vector<std::shared_ptr<Completion>> handles;  // told too; counted when they were made
  // Of device streams: the work begins when all are open, and is told of when all are over.
  std::vector<std::shared_ptr<exec::Fence>> fences;

  std::span<const exec::Transfer> transfers() const;  // if it is_transfer()
  /// Whether it keeps the order of this stream.
  bool is_on(const TaskStream& stream) const;
  bool is_request() const { return std::holds_alternative<Request>(work); }
  bool is_transfer() const { return !is_request() && !std::holds_alternative<Access>(work); }
  /// Whether it may run; nothing has begun after an error. Without announce().
  Status check() const;
  /// Gives the task its place in line, and counts it where its outcome will be told. Takes no
  /// memory.
  void announce();
  /// The work's end, to the handles. Without announce(): it will not run.
  void tell(const Status& status) const;
  void finish(const Status& status);
  /// Whether it need not wait for a stream of a device any more.
  bool may_begin() const;
  /// The work is done: what its streams have behind it goes on.
  void release() const;
  /// They are past what the work left for them.
  bool is_over() const;
  /// Hands the work to the communicator.
  Status begin();
  /// How long it should take. Without announce().
  Result<double> predict_ns();

 private:
  // The work's own copies are used from now on: what it came with may be gone.
  void adopt();
};

}  // namespace tutti::comm
