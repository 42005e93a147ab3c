#include "src/api/config.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace tutti::api {
namespace {

// The first version had all fields up to and with this one.
constexpr size_t kLeastBytes = offsetof(tuttiConfig_t, reserved);
constexpr size_t kMostBytes = 4096;  // more is a structure nobody initialised
constexpr size_t kMaxNameBytes = 128;

Status wrong(const char* call, const std::string& what) {
  return Status::invalid_argument(std::string(call) + ": config: " + what +
                                  "; begin with TUTTI_CONFIG_INITIALIZER");
}

/// The part of the structure that holds no field but wholly: half an address leads nowhere.
size_t whole_fields(size_t bytes) {
  constexpr size_t kEnds[] = {offsetof(tuttiConfig_t, name), offsetof(tuttiConfig_t, timeout_ns),
                              sizeof(tuttiConfig_t)};
  size_t whole = kLeastBytes;
  for (const size_t end : kEnds) {
    if (bytes >= end) whole = end;
  }
  return whole;
}

}  // namespace

Result<CommConfig> read_config(const tuttiConfig_t* config, const CommConfig& inherited,
                               const char* call) {
  if (config == nullptr) return inherited;
  size_t bytes = 0;
  std::memcpy(&bytes, config, sizeof bytes);
  if (bytes < kLeastBytes || bytes > kMostBytes) {
    return wrong(call, "size is " + std::to_string(bytes));
  }
  tuttiConfig_t known = TUTTI_CONFIG_INITIALIZER;
  std::memcpy(&known, config, whole_fields(bytes));
  const auto* raw = reinterpret_cast<const unsigned char*>(config);
  for (size_t at = sizeof known; at < bytes; ++at) {
    if (raw[at] == 0) continue;
    return wrong(call, "byte " + std::to_string(at) + " of a newer structure is set, which this " +
                           "version of Tutti does not know");
  }
  if (known.blocking != 0 && known.blocking != 1) return wrong(call, "blocking is 0 or 1");
  if (known.reserved != 0) return wrong(call, "reserved is 0");
  CommConfig read;
  read.blocking = known.blocking == 1;
  read.timeout_ns = known.timeout_ns;
  if (known.name == nullptr) return read;
  const size_t name_bytes = strnlen(known.name, kMaxNameBytes + 1);
  if (name_bytes > kMaxNameBytes) {
    return wrong(call, "name has more than " + std::to_string(kMaxNameBytes) + " bytes");
  }
  read.name.assign(known.name, name_bytes);
  // It is printed in logs and reports: one line, no control characters.
  std::replace_if(
      read.name.begin(), read.name.end(),
      [](unsigned char letter) { return letter < ' ' || letter == 0x7f; }, '_');
  return read;
}

}  // namespace tutti::api
