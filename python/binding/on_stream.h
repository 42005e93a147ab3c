// The stream of a device on which a thread's calls go: `with tutti.on_stream(handle):`.
#pragma once

#include "tutti/tutti.h"

namespace tutti::python {

/// This thread's stream: BLOCKING outside of every such block.
tuttiStream_t current_stream();

/// Such a block, of a stream that an object has.
class OnStreamScope {
 public:
  explicit OnStreamScope(tuttiStream_t stream);
  ~OnStreamScope();
  OnStreamScope(const OnStreamScope&) = delete;
  OnStreamScope& operator=(const OnStreamScope&) = delete;
};

}  // namespace tutti::python
