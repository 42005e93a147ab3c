#include "src/drivers/cuda/capture.h"

#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "src/base/thread.h"

namespace tutti::drivers::cuda {
namespace {

using Kept = std::shared_ptr<const void>;

/// A thread that lets go of what graphs have kept. Where there can be none, it stays.
class Reaper {
 public:
  static Reaper& get() {
    // tidy: allow mutable (one thread for all graphs of the process)
    static auto* const known = new Reaper;  // for the process's life
    return *known;
  }

  /// Never throws, never waits for the driver.
  void take(std::unique_ptr<Kept> kept) {
    const std::lock_guard lock(mutex_);
    if (!runs_) {
      Result<std::thread> thread = start_thread("tutti-graphs", [this] { loop(); });
      if (!thread.ok()) return (void)kept.release();
      thread.value().detach();
      runs_ = true;
    }
    taken_.push_back(std::move(kept));
    changed_.notify_one();
  }

 private:
  void loop() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return !taken_.empty(); });
      std::vector<std::unique_ptr<Kept>> over = std::exchange(taken_, {});
      lock.unlock();
      over.clear();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Kept>> taken_;  // under mutex_
  bool runs_ = false;                         // under mutex_
};

}  // namespace

Result<Capture> find_capture(const Cuda& cuda, CUstream stream) {
  CUstreamCaptureStatus status = kCaptureNone;
  Capture capture;
  const CUresult result = cuda.call.cuStreamGetCaptureInfo(stream, &status, &capture.id,
                                                           &capture.graph, nullptr, nullptr);
  if (result != kSuccess) return cuda.error_status(result, "cuStreamGetCaptureInfo");
  if (status == kCaptureInvalidated) {
    return Status::invalid_usage(
        "the stream is being captured, and an earlier operation has made the capture invalid; end "
        "the capture and begin it again");
  }
  return status == kCaptureActive ? capture : Capture{};
}

Status keep_with(const Cuda& cuda, CUgraph graph, std::shared_ptr<const void> kept) {
  auto owned = std::make_unique<Kept>(std::move(kept));
  const CUhostFn let_go = [](void* data) {
    Reaper::get().take(std::unique_ptr<Kept>(static_cast<Kept*>(data)));
  };
  CUuserObject object = nullptr;
  CUresult result =
      cuda.call.cuUserObjectCreate(&object, owned.get(), let_go, 1, kUserObjectNoDestructorSync);
  if (result != kSuccess) return cuda.error_status(result, "cuUserObjectCreate");
  (void)owned.release();  // the object's
  result = cuda.call.cuGraphRetainUserObject(graph, object, 1, kGraphUserObjectMove);
  if (result == kSuccess) return {};
  cuda.call.cuUserObjectRelease(object, 1);
  return cuda.error_status(result, "cuGraphRetainUserObject");
}

Status call_on_host(const Cuda& cuda, CUstream stream, CUhostFn function, void* data) {
  return cuda.check(cuda.call.cuLaunchHostFunc(stream, function, data), "cuLaunchHostFunc");
}

}  // namespace tutti::drivers::cuda
