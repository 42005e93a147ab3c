// The stream that a call names: where its outcome is told, and what it is behind.
#pragma once

#include <cstdint>
#include <memory>

#include "src/exec/stream_rank.h"
#include "src/operation/task.h"

namespace tutti::operation {

enum class StreamKind : uint8_t { kBlocking, kHost, kDevice };

struct CallStream {
  StreamKind kind = StreamKind::kBlocking;
  Task::TaskStream told;
  void* handle = nullptr;   // of a device's, as the vendor has it
  exec::StreamPlace place;  // of a device's, since it was found

  bool is_of_device() const { return kind == StreamKind::kDevice; }
};

}  // namespace tutti::operation
