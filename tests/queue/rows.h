// The rows that the processes of a test of the transfer queue agree on.
#pragma once

#include <string>

#include "tutti/runtime/transfer_queue.h"

namespace tutti::testing_support {

inline constexpr int64_t kRowsOfStep = 24;

/// From nothing to some tens of KiB, so that a put is often killed within its bytes.
inline std::string bytes_of_cell(const runtime::QueueRow& row, const std::string& field) {
  const auto number = size_t(row.step * kRowsOfStep + row.row);
  std::string bytes = field + " " + std::to_string(number) + " ";
  const size_t length = number * 7919 % 40'000;
  while (bytes.size() < length) bytes += bytes;
  return bytes;
}

}  // namespace tutti::testing_support
