// Entry points of stream capture and graphs.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/software_device/device/chance.h"
#include "tests/software_device/device/device.h"
#include "tests/software_device/device/entry_points.h"
#include "tests/software_device/device/settings.h"
#include "tests/software_device/device/statistics.h"

namespace softdev {
namespace {

/// Whether a branch of the capture was never joined with the stream that it ends in.
bool has_unjoined_branch(const Graph& graph, const std::vector<size_t>& end) {
  std::set<size_t> followed(end.begin(), end.end());
  for (const Graph::Node& node : graph.nodes) {
    followed.insert(node.behind.begin(), node.behind.end());
  }
  return followed.size() != graph.nodes.size();
}

/// One run of a graph, behind the one before. Nodes that may run do so in random order; one that
/// waits holds up none but those behind it, or, with one queue for all of the graph, all of them.
class GraphRun {
 public:
  GraphRun(GraphHandle graph, Point before)
      : graph_(std::move(graph)), before_(std::move(before)), done_(graph_->nodes.size()) {
    for (const Graph::Node& node : graph_->nodes) steps_.push_back(node.make());
  }

  bool go_on() {
    if (before_.progress != nullptr) {
      if (!before_.reached()) return false;
      if (Agent* agent = running_agent()) agent->learn(before_.clock());
      before_.progress = nullptr;
    }
    for (bool moved = true; moved;) {
      moved = false;
      std::vector<size_t> ready;
      for (size_t i = 0; i < steps_.size(); ++i) {
        if (!done_[i] && may_run(i)) ready.push_back(i);
      }
      std::shuffle(ready.begin(), ready.end(), dice());
      if (settings().graph_queues == 1 && !ready.empty()) ready = {next_in_queue(ready)};
      for (const size_t i : ready) {
        if (!steps_[i]()) continue;
        done_[i] = moved = true;
      }
    }
    return std::all_of(done_.begin(), done_.end(), [](bool done) { return done; });
  }

 private:
  /// The node that the queue stands at, until it is done.
  size_t next_in_queue(const std::vector<size_t>& ready) {
    if (!at_ || done_[*at_]) at_ = ready.front();
    return *at_;
  }

  bool may_run(size_t node) const {
    const auto& behind = graph_->nodes[node].behind;
    return std::all_of(behind.begin(), behind.end(), [this](size_t i) { return done_[i]; });
  }

  GraphHandle graph_;
  Point before_;  // behind the run before this one
  std::vector<Step> steps_;
  std::vector<bool> done_;
  std::optional<size_t> at_;
};

/// A CUgraphExec points to one: its runs follow each other, in whatever streams.
struct Instance {
  GraphHandle graph;
  std::mutex mutex;
  Point last;  // under mutex: behind its last launch
};

uint64_t next_capture() {
  static std::atomic<uint64_t> captures{0};
  return ++captures;
}

}  // namespace

bool release(UserObject* object, unsigned references) {
  const int64_t left = object->references.fetch_sub(references) - references;
  if (left != 0) return left > 0;
  std::thread([object] {
    run_host_function(object->destroy, object->data);
    delete object;
    count(&SoftdevStatistics::live_user_objects, -1);
  }).detach();
  return true;
}

Graph::~Graph() {
  for (const Kept& one : kept) (void)release(one.object, one.count);
}

CUresult cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) {
  return on_stream(handle, [&](Stream& stream) {
    if (is_legacy(handle)) return kErrorStreamCaptureUnsupported;
    const std::lock_guard lock(stream.context->mutex);
    if (stream.capture != nullptr) return kErrorIllegalState;
    stream.capture = std::make_shared<Capture>();
    stream.capture->id = next_capture();
    stream.capture->mode = mode;
    stream.capture->origin = &stream;
    stream.captured_behind.clear();
    count_capture(mode, 1);
    return kSuccess;
  });
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph* out) {
  return on_stream(handle, [&](Stream& stream) {
    const std::lock_guard lock(stream.context->mutex);
    const std::shared_ptr<Capture> capture = stream.capture;
    if (capture == nullptr) return kErrorIllegalState;
    if (capture->origin != &stream) return kErrorStreamCaptureUnmatched;
    const bool unjoined = has_unjoined_branch(*capture->graph, stream.captured_behind);
    for (const auto& [other, owned] : stream.context->streams) {
      if (other->capture != capture) continue;
      other->capture = nullptr;
      other->captured_behind.clear();
    }
    count_capture(capture->mode, -1);
    // Events of the capture know it for longer, and a graph may keep such an event.
    capture->graph.reset();
    std::unique_ptr<GraphHandle> made = std::move(capture->handle);
    *out = nullptr;
    if (capture->invalid) return kErrorStreamCaptureInvalidated;
    if (unjoined) return kErrorStreamCaptureUnjoined;
    *out = reinterpret_cast<CUgraph>(made.release());
    return kSuccess;
  });
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  return on_stream(handle, [&](Stream& stream) {
    const std::lock_guard lock(stream.context->mutex);
    if (&stream == stream.context->legacy) {
      for (const auto& [other, owned] : stream.context->streams) {
        if (other->capture != nullptr && other->blocking()) return kErrorStreamCaptureImplicit;
      }
    }
    *status = stream.capture == nullptr ? kCaptureNone
              : stream.capture->invalid ? kCaptureInvalidated
                                        : kCaptureActive;
    return kSuccess;
  });
}

CUresult cuUserObjectCreate(CUuserObject* out, void* data, CUhostFn destroy, unsigned references,
                            unsigned flags) {
  return entered([&] {
    if (references == 0 || flags != kUserObjectNoDestructorSync) return kErrorInvalidValue;
    auto* const made = new UserObject{destroy, data, {references}};
    *out = reinterpret_cast<CUuserObject>(made);
    count(&SoftdevStatistics::live_user_objects, 1);
    return kSuccess;
  });
}

CUresult cuUserObjectRelease(CUuserObject object, unsigned references) {
  return entered([&] {
    auto* const released = reinterpret_cast<UserObject*>(object);
    return release(released, references) ? kSuccess : kErrorInvalidValue;
  });
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned references,
                                 unsigned flags) {
  return entered([&] {
    if (references == 0 || flags > kGraphUserObjectMove) return kErrorInvalidValue;
    auto* const kept = reinterpret_cast<UserObject*>(object);
    if (flags != kGraphUserObjectMove) kept->references += references;
    (*reinterpret_cast<GraphHandle*>(graph))->kept.push_back({kept, references});
    return kSuccess;
  });
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph, unsigned long long) {
  return entered([&] {
    auto* const instance = new Instance;
    instance->graph = *reinterpret_cast<GraphHandle*>(graph);
    *out = reinterpret_cast<CUgraphExec>(instance);
    return kSuccess;
  });
}

/// The objects that the new graph keeps take the place of the old one's; runs under way keep
/// theirs.
CUresult cuGraphExecUpdate(CUgraphExec handle, CUgraph graph, CUgraphExecUpdateResultInfo* info) {
  return entered([&] {
    auto& instance = *reinterpret_cast<Instance*>(handle);
    const GraphHandle& other = *reinterpret_cast<GraphHandle*>(graph);
    const std::lock_guard lock(instance.mutex);
    const auto alike = [](const Graph::Node& a, const Graph::Node& b) {
      return a.behind == b.behind;
    };
    const auto &ours = instance.graph->nodes, &theirs = other->nodes;
    const bool same = std::equal(ours.begin(), ours.end(), theirs.begin(), theirs.end(), alike);
    if (info != nullptr) *info = {same ? 0 : 1, nullptr, nullptr};
    if (!same) return kErrorGraphExecUpdateFailure;
    instance.graph = other;
    return kSuccess;
  });
}

CUresult cuGraphDestroy(CUgraph graph) {
  return entered([&] {
    delete reinterpret_cast<GraphHandle*>(graph);
    return kSuccess;
  });
}

CUresult cuGraphExecDestroy(CUgraphExec graph) {
  return entered([&] {
    delete reinterpret_cast<Instance*>(graph);
    return kSuccess;
  });
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream_handle) {
  return on_stream(stream_handle, [&](Stream& stream) {
    count(&SoftdevStatistics::graph_launches, 1);
    auto& instance = *reinterpret_cast<Instance*>(handle);
    const std::lock_guard lock(instance.mutex);
    const CUresult submitted =
        submit(stream, [graph = instance.graph, before = instance.last]() -> Step {
          const auto run = std::make_shared<GraphRun>(graph, before);
          return [run] { return run->go_on(); };
        });
    if (submitted == kSuccess && !is_captured(stream)) instance.last = point_of(stream);
    return submitted;
  });
}

extern "C" {

CUresult cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus* status, uint64_t* id,
                                CUgraph* graph, const CUgraphNode** nodes, size_t* how_many) {
  const CUresult asked = cuStreamIsCapturing(handle, status);
  if (asked != kSuccess || *status != kCaptureActive) return asked;
  return on_stream(handle, [&](Stream& stream) {
    const std::lock_guard lock(stream.context->mutex);
    if (id != nullptr) *id = stream.capture->id;
    if (graph != nullptr) *graph = reinterpret_cast<CUgraph>(stream.capture->handle.get());
    if (nodes != nullptr) *nodes = nullptr;  // nodes have no handles here
    if (how_many != nullptr) *how_many = 0;
    return kSuccess;
  });
}

}  // extern "C"

}  // namespace softdev
