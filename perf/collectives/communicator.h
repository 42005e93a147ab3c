// Tutti as the perf tools use it: a communicator with options, a stream and registered memory,
// whose failures are exceptions; and one collective call with all its arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "perf/collectives/collective.h"
#include "perf/collectives/crew.h"
#include "perf/collectives/device.h"
#include "perf/collectives/subgroup.h"
#include "tutti/tutti.h"

namespace tutti::perf {

struct CommunicatorOptions {
  std::string algorithm;  // empty: the library chooses
  bool deterministic = false;
  bool host_stream = false;
  uint64_t timeout_ns = 0;
  OpenDevice open_device;  // none: buffers are host memory
  int engine = tuttiEngineAuto;
};

/// One rank's membership in a group of the ranks of the board.
class Communicator {
 public:
  /// Collective over all ranks. The leader of each group makes its id: in its own process, so that
  /// the parent of the ranks never has a thread before it forks.
  Communicator(const RankContext& context, const Subgroup& group,
               const CommunicatorOptions& options);
  Communicator(const RankContext& context, const CommunicatorOptions& options)
      : Communicator(context, whole_group(context), options) {}
  /// Aborts instead of destroys when left by an exception: then the peers are not coming.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  tuttiComm_t comm() const { return comm_; }
  tuttiStream_t stream() const { return stream_; }
  /// Null: buffers are host memory.
  Device* device() const { return device_.get(); }
  /// Waits for what was queued; nothing to do on a blocking stream.
  void synchronize() const;
  /// Errors: PerfError with `call`, the name of the result and the library's sentence.
  void check(tuttiResult_t result, const char* call) const {
    if (__builtin_expect(result != tuttiSuccess, 0)) raise(result, call);
  }

 private:
  [[noreturn]] void raise(tuttiResult_t result, const char* call) const;

  int exceptions_;
  std::unique_ptr<Device> device_;
  tuttiComm_t comm_ = nullptr;
  tuttiStream_t stream_ = tuttiBlocking();
};

/// One collective with everything but the buffers.
struct Operation {
  Collective collective;
  size_t count;
  tuttiDataType_t type;
  tuttiRedOp_t op;
  int root;
  int rank;
  int ranks;
  const size_t* send_counts = nullptr;  // by rank; for uneven calls, which do not own them
  const size_t* recv_counts = nullptr;
};

/// An operation as its communicator takes it: in place of kMulSum stands what this rank makes for
/// it, with its scalar.
class ReadyOperation {
 public:
  /// Local. Errors: PerfError.
  ReadyOperation(const Communicator& communicator, const Operation& operation);
  ~ReadyOperation();
  ReadyOperation(const ReadyOperation&) = delete;
  ReadyOperation& operator=(const ReadyOperation&) = delete;

  const Operation& get() const { return operation_; }

 private:
  const Communicator& communicator_;
  const bool made_;
  Operation operation_;
};

tuttiResult_t enqueue(const Operation& operation, const void* send, void* recv,
                      const Communicator& communicator);

/// tuttiExplain's text for a call.
std::string explanation(const Communicator& communicator, const Operation& operation);
/// The same for a call by its name: "send", "put".
std::string explanation(const Communicator& communicator, const char* call, size_t count,
                        tuttiDataType_t type);

/// The algorithm that the library says it would run, for two columns of the table.
struct Choice {
  std::string algorithm;   // "pairs" for what is made of sends and receives
  std::string transports;  // "shm", "shm+tcp": those by which rank 0 reaches the others
};

/// From tuttiExplain, so for ordinary buffers and out of place. Not collective.
Choice choice_of(const Communicator& communicator, const Operation& operation);

/// Reads the line of tuttiExplain's text that tells: "... ranks: ring, staged, 4 slices, over shm".
/// A missing field is "?".
Choice parse_choice(std::string_view explanation);

}  // namespace tutti::perf
