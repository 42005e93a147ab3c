#include "src/api/structure.h"

#include <cstring>

namespace tutti::api {
namespace {

constexpr size_t kMostBytes = 4096;  // more is a structure nobody initialised

}  // namespace

Status read_structure(const void* given, std::span<const size_t> field_ends, void* known) {
  size_t bytes = 0;
  std::memcpy(&bytes, given, sizeof bytes);
  if (bytes < field_ends.front() || bytes > kMostBytes) {
    return Status::invalid_argument("size is " + std::to_string(bytes));
  }
  size_t whole = 0;  // half an address leads nowhere
  for (const size_t end : field_ends) {
    if (bytes >= end) whole = end;
  }
  std::memcpy(known, given, whole);
  const auto* raw = static_cast<const unsigned char*>(given);
  for (size_t at = field_ends.back(); at < bytes; ++at) {
    if (raw[at] == 0) continue;
    return Status::invalid_argument("byte " + std::to_string(at) +
                                    " of a newer structure is set, which this version of Tutti "
                                    "does not know");
  }
  return {};
}

}  // namespace tutti::api
