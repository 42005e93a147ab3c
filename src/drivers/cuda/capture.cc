#include "src/drivers/cuda/capture.h"

#include <utility>

#include "src/drivers/cuda/reaper.h"

namespace tutti::drivers::cuda {
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
  auto owned = std::make_unique<Reaper::Kept>(std::move(kept));
  const CUhostFn let_go = [](void* data) {
    Reaper::get().take(std::unique_ptr<Reaper::Kept>(static_cast<Reaper::Kept*>(data)));
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
