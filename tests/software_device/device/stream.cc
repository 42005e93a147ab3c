#include "tests/software_device/device/stream.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <utility>

#include "tests/software_device/device/chance.h"
#include "tests/software_device/device/settings.h"
#include "tests/software_device/device/statistics.h"

namespace softdev {
namespace {

std::atomic<int> error{kSuccess};
std::atomic<int> captures{0};

/// Called with the context's mutex. The legacy stream joins, and is joined by, blocking streams.
std::vector<Point> implicit_dependencies(const Stream& stream) {
  std::vector<Point> points;
  const Context& context = *stream.context;
  if (&stream == context.legacy) {
    for (const auto& [other, owned] : context.streams) {
      if (other != &stream && other->blocking()) points.push_back(other->point());
    }
    for (const Context::Gone& one : context.gone) {
      if (one.blocking) points.push_back(one.end);
    }
  } else if (stream.blocking()) {
    points.push_back(context.legacy->point());
  }
  return points;
}

/// An operation with all that must hold before it begins, and what it says when it has ended.
class Operation {
 public:
  Operation(std::shared_ptr<Progress> progress, uint64_t number, std::vector<Point> behind,
            Step step)
      : progress_(std::move(progress)),
        number_(number),
        behind_(std::move(behind)),
        step_(std::move(step)) {
    if (checking()) seen_ = host_clock();
  }

  bool go_on() {
    if (!begun_ && !begin()) return false;
    running_agent() = checking() ? &progress_->agent : nullptr;
    const bool done = step_();
    running_agent() = nullptr;
    if (!done) return false;
    if (checking()) {
      const std::lock_guard lock(progress_->mutex);
      progress_->reached = progress_->agent.clock();
    }
    progress_->done.store(number_, std::memory_order_release);
    return true;
  }

 private:
  bool begin() {
    for (const Point& point : behind_) {
      if (!point.reached()) return false;
    }
    begun_ = true;
    if (!checking()) return true;
    for (const Point& point : behind_) seen_.join(point.clock());
    progress_->agent.begin(seen_);
    return true;
  }

  std::shared_ptr<Progress> progress_;
  uint64_t number_;
  std::vector<Point> behind_;
  Step step_;
  Clock seen_;
  bool begun_ = false;
};

/// With the context's mutex.
CUresult capture_node(Stream& stream, StepMaker make) {
  Capture& capture = *stream.capture;
  if (capture.invalid) return kErrorStreamCaptureInvalidated;
  capture.graph->nodes.push_back({std::move(make), stream.captured_behind});
  stream.captured_behind = {capture.graph->nodes.size() - 1};
  return kSuccess;
}

}  // namespace

Clock Point::clock() const {
  const std::lock_guard lock(progress->mutex);
  return progress->reached;
}

std::shared_ptr<Channel> Channel::start() {
  auto channel = std::make_shared<Channel>();
  std::thread(run, channel).detach();
  return channel;
}

void Channel::push(Step step) {
  {
    const std::lock_guard lock(mutex_);
    steps_.push_back(std::move(step));
  }
  changed_.notify_one();
}

bool Channel::is_full() {
  const auto most = static_cast<size_t>(settings().queue_entries);
  const std::lock_guard lock(mutex_);
  return most > 0 && steps_.size() >= most;
}

void Channel::run(const std::shared_ptr<Channel>& channel) {
  for (;;) {
    Step step;
    {
      std::unique_lock lock(channel->mutex_);
      while (channel->steps_.empty()) {
        if (channel.use_count() == 1) return;
        channel->changed_.wait_for(lock, std::chrono::milliseconds(100));
      }
      step = std::move(channel->steps_.front());
      channel->steps_.pop_front();
    }
    skew();
    Backoff backoff;
    while (!step() && sticky_error() == kSuccess) backoff.pause();
  }
}

Context::Context(int device_number) : device(device_number) {
  const std::lock_guard lock(mutex);
  legacy = make_stream(0, 0);
}

Stream* Context::make_stream(unsigned flags, int priority) {
  static std::atomic<uint64_t> last_id{0};
  auto stream = std::make_unique<Stream>();
  stream->context = this;
  stream->flags = flags;
  stream->priority = priority;
  stream->id = ++last_id;
  const auto most = static_cast<size_t>(settings().channels);
  if (most == 0) {
    stream->channel = Channel::start();
  } else {
    if (channels.size() < most) channels.push_back(Channel::start());
    stream->channel = channels[streams_made++ % channels.size()];
  }
  Stream* const made = stream.get();
  streams[made] = std::move(stream);
  return made;
}

void Context::destroy_stream(Stream& stream) {
  const std::lock_guard lock(mutex);
  std::erase_if(gone, [](const Gone& one) { return one.end.reached(); });
  if (!stream.point().reached()) gone.push_back({stream.point(), stream.blocking()});
  streams.erase(&stream);
}

bool is_legacy(CUstream handle) {
  return handle == nullptr || reinterpret_cast<uintptr_t>(handle) == kStreamLegacy;
}

bool is_captured(const Stream& stream) {
  const std::lock_guard lock(stream.context->mutex);
  return stream.capture != nullptr;
}

Stream* Context::resolve(CUstream handle) {
  if (is_legacy(handle)) return legacy;
  const std::lock_guard lock(mutex);
  if (reinterpret_cast<uintptr_t>(handle) == kStreamPerThread) {
    Stream*& stream = per_thread[std::this_thread::get_id()];
    if (stream == nullptr) stream = make_stream(0, 0);
    return stream;
  }
  const auto found = streams.find(reinterpret_cast<Stream*>(handle));
  return found != streams.end() ? found->first : nullptr;
}

namespace {

/// A thread that puts something into a queue that is full stays until there is room, however long.
void wait_for_room(Stream& stream) {
  Backoff backoff;
  bool waited = false;
  while (!is_captured(stream) && stream.channel->is_full() && sticky_error() == kSuccess) {
    if (!std::exchange(waited, true)) count(&SoftdevStatistics::full_queues, 1);
    backoff.pause();
  }
}

}  // namespace

CUresult submit(Stream& stream, StepMaker make) {
  Context& context = *stream.context;
  wait_for_room(stream);
  const std::lock_guard lock(context.mutex);
  if (stream.capture != nullptr) return capture_node(stream, std::move(make));
  if (&stream == context.legacy) {
    for (const auto& [other, owned] : context.streams) {
      if (other->capture == nullptr || !other->blocking()) continue;
      other->capture->invalid = true;
      return kErrorStreamCaptureImplicit;
    }
  }
  std::vector<Point> behind = implicit_dependencies(stream);
  auto operation =
      std::make_shared<Operation>(stream.progress, ++stream.submitted, std::move(behind), make());
  stream.channel->push([operation] { return operation->go_on(); });
  return kSuccess;
}

StepMaker once(std::function<void()> work) {
  return [work = std::move(work)]() -> Step {
    return [work] {
      work();
      return true;
    };
  };
}

Point point_of(const Stream& stream) {
  const std::lock_guard lock(stream.context->mutex);
  return stream.point();
}

namespace {

CUresult await(const std::vector<Point>& points) {
  for (const Point& point : points) {
    Backoff backoff;
    while (!point.reached() && sticky_error() == kSuccess) backoff.pause();
    if (checking()) host_learns(point.clock());
  }
  return sticky_error();
}

}  // namespace

bool spoil_capture(Stream& stream) {
  const std::lock_guard lock(stream.context->mutex);
  if (stream.capture == nullptr) return false;
  stream.capture->invalid = true;
  return true;
}

CUresult drain(Stream& stream) {
  if (spoil_capture(stream)) return kErrorStreamCaptureUnsupported;
  const Point point = point_of(stream);
  return await({point});
}

CUresult drain(Context& context) {
  std::vector<Point> points;
  {
    const std::lock_guard lock(context.mutex);
    for (const auto& [stream, owned] : context.streams) points.push_back(stream->point());
    for (const Context::Gone& one : context.gone) points.push_back(one.end);
  }
  return await(points);
}

CUresult query(Stream& stream) {
  if (spoil_capture(stream)) return kErrorStreamCaptureUnsupported;
  const Point point = point_of(stream);
  if (!point.reached()) return kErrorNotReady;
  if (checking()) host_learns(point.clock());
  return sticky_error();
}

Agent*& running_agent() {
  static thread_local Agent* agent = nullptr;
  return agent;
}

CUresult sticky_error() { return static_cast<CUresult>(error.load()); }

void fail_operation(const char* what, uint64_t address, size_t bytes) {
  count(&SoftdevStatistics::faults, 1);
  int none = kSuccess;
  if (error.compare_exchange_strong(none, kErrorIllegalAddress)) {
    std::fprintf(stderr, "[software device %d] illegal address: %s at %#lx, %zu bytes\n", getpid(),
                 what, static_cast<unsigned long>(address), bytes);
  }
}

CUstreamCaptureMode& thread_capture_mode() {
  static thread_local CUstreamCaptureMode mode = kCaptureGlobal;
  return mode;
}

bool is_unsafe_now() { return captures.load() > 0 && thread_capture_mode() == kCaptureGlobal; }

void count_capture(CUstreamCaptureMode mode, int change) {
  if (mode == kCaptureGlobal) captures += change;
}

}  // namespace softdev
