// A send or a receive, whoever moves it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/types/types.h"

namespace tutti::exec {

struct Transfer {
  uint32_t peer = 0;
  bool is_send = false;
  std::byte* data = nullptr;  // a send only reads it
  uint64_t bytes = 0;
  types::DataType type = types::DataType::kInt8;  // for the flight recorder
};

}  // namespace tutti::exec
