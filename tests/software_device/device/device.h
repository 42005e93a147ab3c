// State of the process and the frame of every entry point.
#pragma once

#include <memory>
#include <vector>

#include "tests/software_device/device/stream.h"

namespace softdev {

/// The reason to refuse any call: not initialized, a child of a fork, a host function, an earlier
/// fault.
CUresult refusal();
bool is_device(int device);

/// The context that is current for the calling thread; null: none.
Context* current_context();
std::vector<Context*>& context_stack();
/// Whether this was a context once; its last share may have been given up.
bool is_context(CUcontext handle);

/// Runs a host function: calls of the driver are refused in it, and one runs at a time.
void run_host_function(CUhostFn function, void* data);

/// An entry point that needs no context.
template <class Body>
CUresult entered(Body body) {
  const CUresult refused = refusal();
  return refused != kSuccess ? refused : body();
}

/// One that needs a current context.
template <class Body>
CUresult in_context(Body body) {
  return entered([&]() -> CUresult {
    Context* context = current_context();
    if (context == nullptr) return kErrorInvalidContext;
    if (context->shares == 0) return kErrorContextIsDestroyed;
    return body(*context);
  });
}

/// One that a capture elsewhere forbids.
template <class Body>
CUresult in_context_outside_captures(Body body) {
  return in_context([&](Context& context) {
    return is_unsafe_now() ? kErrorStreamCaptureUnsupported : body(context);
  });
}

/// The stream that a handle means, of whatever context; a default stream is the current one's.
/// Null: none.
Stream* find_stream(Context& current, CUstream handle);

/// One on a stream of any context, as a driver takes it; it is about the stream's context then.
template <class Body>
CUresult on_stream(CUstream handle, Body body) {
  return in_context([&](Context& context) {
    Stream* stream = find_stream(context, handle);
    return stream == nullptr ? kErrorInvalidHandle : body(*stream);
  });
}

/// One that a driver takes on streams of the current context only.
template <class Body>
CUresult on_own_stream(CUstream handle, Body body) {
  return in_context([&](Context& context) {
    Stream* stream = context.resolve(handle);
    return stream == nullptr ? kErrorInvalidHandle : body(*stream);
  });
}

}  // namespace softdev
