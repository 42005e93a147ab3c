// The way of an operation on streams of devices through the host: its buffers in device memory get
// copies in host memory, which the streams fill and empty, and it begins when all streams have come
// (exec::Fence). The operation is the same as any other, and does not know.
//
// Threads: the caller's. Errors: nothing has been put into a stream.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "src/operation/call_stream.h"
#include "src/operation/captured_task.h"

namespace tutti::operation {

/// One for each stream of a device.
using Stagings = std::vector<std::shared_ptr<exec::HostStaging>>;

/// Of a task on these streams, by those that its buffers belong to. It gets a fence for each.
Result<Stagings> stage(Task& task, std::span<const CallStream> streams);
/// The same of captured streams: the stagings belong to the graph.
Status stage_captured(CapturedTask& captured, std::span<const CallStream> streams);

}  // namespace tutti::operation
