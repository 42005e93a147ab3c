// Streams of the software device: first in, first out, run by threads that stand for hardware
// queues.
//
// An operation is a step that is called until it says that it is done, so that a wait holds up its
// queue and nothing else. With SOFTDEV_CHANNELS several streams share a queue, as they may on a
// board: a wait then holds up the others, too.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "tests/software_device/device/checker.h"
#include "tests/software_device/more_api.h"

namespace softdev {

using Step = std::function<bool()>;       // called until it returns true
using StepMaker = std::function<Step()>;  // a graph runs its operations many times

/// A hardware queue and its thread, which ends when nobody uses it any more and it is empty.
class Channel {
 public:
  static std::shared_ptr<Channel> start();
  void push(Step step);
  /// As many operations are behind the one that runs as a queue of the hardware has entries.
  bool is_full();

 private:
  static void run(const std::shared_ptr<Channel>& channel);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Step> steps_;
};

/// How far a stream has come: what others wait for.
struct Progress {
  std::atomic<uint64_t> done{0};
  Agent agent;  // of the channel's thread
  std::mutex mutex;
  Clock reached;  // under mutex: of the checker, when `done` was raised last
};

/// The stream has come to a number of its operations.
struct Point {
  std::shared_ptr<Progress> progress;
  uint64_t operations = 0;

  bool reached() const { return progress->done.load(std::memory_order_acquire) >= operations; }
  Clock clock() const;
};

/// A graph keeps it alive. Its destructor is called in a thread of the driver's when nobody has a
/// reference any more; it may not call the driver.
struct UserObject {
  CUhostFn destroy = nullptr;
  void* data = nullptr;
  std::atomic<int64_t> references{0};
};
/// False: there are not so many.
bool release(UserObject* object, unsigned references);

struct Graph {
  struct Node {
    StepMaker make;  // called where the graph is launched
    std::vector<size_t> behind;
  };
  struct Kept {
    UserObject* object = nullptr;
    unsigned count = 0;
  };
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph();

  std::vector<Node> nodes;
  std::vector<Kept> kept;
};
using GraphHandle = std::shared_ptr<Graph>;  // what CUgraph and CUgraphExec point to

struct Stream;

struct Capture {
  uint64_t id = 0;
  GraphHandle graph = std::make_shared<Graph>();
  std::unique_ptr<GraphHandle> handle = std::make_unique<GraphHandle>(graph);  // until its end
  CUstreamCaptureMode mode = kCaptureGlobal;
  Stream* origin = nullptr;
  bool invalid = false;
};

struct Context;

struct Stream {
  Context* context = nullptr;
  unsigned flags = 0;
  int priority = 0;
  uint64_t id = 0;  // of no other stream, as long as the process lives
  std::shared_ptr<Channel> channel;
  uint64_t submitted = 0;
  std::shared_ptr<Progress> progress = std::make_shared<Progress>();
  std::shared_ptr<Capture> capture;     // null: work runs
  std::vector<size_t> captured_behind;  // the last nodes of the graph in this stream

  bool blocking() const { return (flags & kStreamNonBlocking) == 0; }
  Point point() const { return {progress, submitted}; }
};

/// The primary context of a device; there are no others.
struct Context {
  explicit Context(int device_number);

  const int device;
  std::atomic<int> shares{0};
  std::atomic<int> waiting_kernels{0};  // that run now
  std::mutex mutex;                     // of all below and of the streams
  std::unordered_map<Stream*, std::unique_ptr<Stream>> streams;
  std::vector<std::shared_ptr<Channel>> channels;
  uint64_t streams_made = 0;
  Stream* legacy = nullptr;
  std::map<std::thread::id, Stream*> per_thread;
  struct Gone {
    Point end;
    bool blocking = false;
  };
  std::vector<Gone> gone;  // streams that are no more, with work that may still run

  /// With the mutex.
  Stream* make_stream(unsigned flags, int priority);
  void destroy_stream(Stream& stream);
  /// The stream that a handle means in this context. Null: none.
  Stream* resolve(CUstream handle);
};

bool is_legacy(CUstream handle);
bool is_captured(const Stream& stream);

/// Puts an operation behind what the stream holds, or into the graph if it is captured.
CUresult submit(Stream& stream, StepMaker make);
/// Behind all that the stream holds.
Point point_of(const Stream& stream);
/// An operation that never waits.
StepMaker once(std::function<void()> work);

/// A captured stream's capture becomes invalid. False: it is not captured.
bool spoil_capture(Stream& stream);

/// Waits for all that was submitted. An error if the stream is captured, which spoils the capture.
CUresult drain(Stream& stream);
CUresult drain(Context& context);
/// Whether all is done, without waiting: kErrorNotReady if not.
CUresult query(Stream& stream);

/// The agent whose operation runs on this thread; null where nobody checks.
Agent*& running_agent();

/// The first error of an operation that ran: it is returned from then on.
CUresult sticky_error();
void fail_operation(const char* what, uint64_t address, size_t bytes);

/// Whether a capture somewhere forbids the calling thread what could change the device's state.
bool is_unsafe_now();
CUstreamCaptureMode& thread_capture_mode();
void count_capture(CUstreamCaptureMode mode, int change);

}  // namespace softdev
