// One collective call as the communicator sees it: checked arguments, no handles.
#pragma once

#include <cstdint>
#include <string>

#include "src/schedule/schedule.h"
#include "src/types/types.h"

namespace tutti::comm {

struct Request {
  schedule::Collective collective = schedule::Collective::kAllReduce;
  types::DataType type = types::DataType::kInt8;
  types::ReduceOp op = types::ReduceOp::kSum;
  int root = 0;
  uint64_t count = 0;
  const void* send = nullptr;
  void* recv = nullptr;
};

/// What the user set for the calls that follow; equal on all ranks.
struct CallOptions {
  std::string algorithm;  // empty: chosen
  bool deterministic = false;
  uint64_t timeout_ns = 0;  // 0: none
};

}  // namespace tutti::comm
