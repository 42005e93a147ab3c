// Entry points of events.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "tests/software_device/device/chance.h"
#include "tests/software_device/device/device.h"
#include "tests/software_device/device/entry_points.h"
#include "tests/software_device/device/ipc.h"
#include "tests/software_device/device/settings.h"
#include "tests/software_device/device/statistics.h"

namespace softdev {
namespace {

/// In memory that processes may share.
struct EventPage {
  std::atomic<uint64_t> recorded{0};
  std::atomic<uint64_t> done{0};
  std::atomic<double> milliseconds{0};  // when it was done last

  bool reached(uint64_t record) const { return done.load(std::memory_order_acquire) >= record; }
};

struct Event {
  Context* context = nullptr;
  unsigned flags = 0;
  std::shared_ptr<Physical> physical;  // of an event that processes share
  EventPage own;
  EventPage* page = &own;
  Place place;
  std::mutex mutex;
  std::shared_ptr<Capture> capture;     // under mutex: it was recorded in a captured stream
  std::vector<size_t> captured_behind;  // under mutex

  bool captured() {
    const std::lock_guard lock(mutex);
    return capture != nullptr;
  }
};

struct Events {
  std::mutex mutex;
  std::unordered_map<Event*, std::shared_ptr<Event>> all;
};

Events& events() {
  static Events* const all = new Events;
  return *all;
}

CUevent keep(std::shared_ptr<Event> event) {
  const std::lock_guard lock(events().mutex);
  Event* const handle = event.get();
  events().all[handle] = std::move(event);
  count(&SoftdevStatistics::live_events, 1);
  return reinterpret_cast<CUevent>(handle);
}

/// Null: there is no such event.
std::shared_ptr<Event> find(CUevent handle) {
  const std::lock_guard lock(events().mutex);
  const auto found = events().all.find(reinterpret_cast<Event*>(handle));
  return found != events().all.end() ? found->second : nullptr;
}

void use_shared_page(Event& event) {
  event.page = reinterpret_cast<EventPage*>(event.physical->alias);
  event.place = {event.physical->inode, 0};
}

double now_ms() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(now).count();
}

void reach(Event& event, uint64_t record) {
  if (const Agent* agent = running_agent()) publish(event.place, agent->clock());
  event.page->milliseconds = now_ms();
  uint64_t before = event.page->done.load();
  while (before < record && !event.page->done.compare_exchange_weak(before, record)) {
  }
}

void host_learns_of(const Event& event) {
  if (checking()) host_learns(published(event.place));
}

/// An event of the same capture: what follows in the stream comes behind it in the graph.
CUresult join_capture(Stream& stream, Event& event) {
  const std::scoped_lock lock(stream.context->mutex, event.mutex);
  if (stream.capture != nullptr && stream.capture != event.capture) return kErrorStreamCaptureMerge;
  stream.capture = event.capture;
  for (const size_t node : event.captured_behind) {
    auto& behind = stream.captured_behind;
    if (std::find(behind.begin(), behind.end(), node) == behind.end()) behind.push_back(node);
  }
  return kSuccess;
}

/// A wait for the record of the event that was the last one when this was called.
Step wait_for(const std::shared_ptr<Event>& event) {
  const uint64_t record = event->page->recorded;
  return [event, record] {
    if (!event->page->reached(record)) return false;
    if (Agent* agent = running_agent()) agent->learn(published(event->place));
    return true;
  };
}

/// The event of a node; a graph does not keep it alive.
std::shared_ptr<Event> event_of_node(const std::weak_ptr<Event>& event) {
  std::shared_ptr<Event> known = event.lock();
  if (known == nullptr) fail_operation("an event that was destroyed, in a graph", 0, 0);
  return known;
}

Step nothing() {
  return [] { return true; };
}

}  // namespace

CUresult cuEventCreate(CUevent* out, unsigned flags) {
  return in_context([&](Context& context) {
    auto event = std::make_shared<Event>();
    event->context = &context;
    event->flags = flags;
    const auto process = static_cast<uint64_t>(getpid());
    event->place = {uint64_t{3} << 62 | process, addresses().next_id()};
    if ((flags & kEventInterprocess) != 0) {
      if ((flags & kEventDisableTiming) == 0) return kErrorInvalidValue;
      event->physical = Physical::make(kPage, context.device);
      if (event->physical == nullptr) return kErrorOutOfMemory;
      use_shared_page(*event);
    }
    *out = keep(std::move(event));
    return kSuccess;
  });
}

CUresult cuEventDestroy(CUevent handle) {
  return entered([&] {
    const std::lock_guard lock(events().mutex);
    if (events().all.erase(reinterpret_cast<Event*>(handle)) == 0) return kErrorInvalidHandle;
    count(&SoftdevStatistics::live_events, -1);
    return kSuccess;
  });
}

CUresult cuEventRecord(CUevent handle, CUstream stream_handle) {
  return on_stream(stream_handle, [&](Stream& stream) {
    const std::shared_ptr<Event> event = find(handle);
    if (event == nullptr || event->context != stream.context) return kErrorInvalidHandle;
    {
      const std::scoped_lock lock(stream.context->mutex, event->mutex);
      event->capture = stream.capture;
      event->captured_behind = stream.captured_behind;
      if (stream.capture != nullptr) return kSuccess;
    }
    const uint64_t record = ++event->page->recorded;
    return submit(stream, once([event, record] { reach(*event, record); }));
  });
}

CUresult cuEventRecordWithFlags(CUevent handle, CUstream stream_handle, unsigned flags) {
  if (flags != kEventRecordExternal) return cuEventRecord(handle, stream_handle);
  return on_stream(stream_handle, [&](Stream& stream) {
    const std::shared_ptr<Event> event = find(handle);
    if (event == nullptr || event->context != stream.context) return kErrorInvalidHandle;
    if (!is_captured(stream)) return kErrorIllegalState;
    return submit(stream, [weak = std::weak_ptr(event)] {
      const std::shared_ptr<Event> known = event_of_node(weak);
      if (known == nullptr) return nothing();
      const uint64_t record = ++known->page->recorded;
      return once([known, record] { reach(*known, record); })();
    });
  });
}

CUresult cuEventQuery(CUevent handle) {
  return entered([&] {
    const std::shared_ptr<Event> event = find(handle);
    if (event == nullptr) return kErrorInvalidHandle;
    if (event->captured()) return kErrorCapturedEvent;
    if (!event->page->reached(event->page->recorded)) return kErrorNotReady;
    host_learns_of(*event);
    return kSuccess;
  });
}

CUresult cuEventSynchronize(CUevent handle) {
  return entered([&] {
    const std::shared_ptr<Event> event = find(handle);
    if (event == nullptr) return kErrorInvalidHandle;
    if (event->captured()) return kErrorCapturedEvent;
    const uint64_t record = event->page->recorded;
    Backoff backoff;
    while (!event->page->reached(record) && sticky_error() == kSuccess) backoff.pause();
    host_learns_of(*event);
    return sticky_error();
  });
}

CUresult cuEventElapsedTime(float* milliseconds, CUevent begin_handle, CUevent end_handle) {
  return entered([&] {
    const std::shared_ptr<Event> begin = find(begin_handle);
    const std::shared_ptr<Event> end = find(end_handle);
    if (begin == nullptr || end == nullptr) return kErrorInvalidHandle;
    if (((begin->flags | end->flags) & kEventDisableTiming) != 0) return kErrorInvalidHandle;
    for (const auto& event : {begin, end}) {
      if (!event->page->reached(event->page->recorded)) return kErrorNotReady;
    }
    *milliseconds = static_cast<float>(end->page->milliseconds - begin->page->milliseconds);
    return kSuccess;
  });
}

CUresult cuStreamWaitEvent(CUstream stream_handle, CUevent handle, unsigned flags) {
  return on_stream(stream_handle, [&](Stream& stream) {
    const std::shared_ptr<Event> event = find(handle);
    if (event == nullptr) return kErrorInvalidHandle;
    if (flags == kEventWaitExternal) {
      if (!is_captured(stream)) return kErrorIllegalState;
      return submit(stream, [weak = std::weak_ptr(event)] {
        const std::shared_ptr<Event> known = event_of_node(weak);
        return known != nullptr ? wait_for(known) : nothing();
      });
    }
    if (event->captured()) return join_capture(stream, *event);
    if (spoil_capture(stream)) return kErrorStreamCaptureIsolation;
    if (settings().event_waits == 0) return kSuccess;
    return submit(stream, [event] { return wait_for(event); });
  });
}

CUresult cuIpcGetEventHandle(CUipcEventHandle* out, CUevent handle) {
  return in_context([&](Context&) {
    const std::shared_ptr<Event> event = find(handle);
    if (event == nullptr || event->physical == nullptr) return kErrorInvalidHandle;
    name_memory(*event->physical, out->reserved);
    return kSuccess;
  });
}

CUresult cuIpcOpenEventHandle(CUevent* out, CUipcEventHandle handle) {
  return in_context([&](Context& context) {
    auto event = std::make_shared<Event>();
    const CUresult opened = open_named(handle.reserved, &event->physical);
    if (opened != kSuccess) return opened;
    event->context = &context;
    event->flags = kEventDisableTiming | kEventInterprocess;
    use_shared_page(*event);
    *out = keep(std::move(event));
    return kSuccess;
  });
}

}  // namespace softdev
