#include "src/api/config.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "src/api/structure.h"
#include "src/codecs/wire.h"

namespace tutti::api {
namespace {

// The first version had all fields before the engine.
constexpr size_t kFieldEnds[] = {
    offsetof(tuttiConfig_t, engine),     offsetof(tuttiConfig_t, name),
    offsetof(tuttiConfig_t, timeout_ns), offsetof(tuttiConfig_t, least_ctas),
    offsetof(tuttiConfig_t, wire),       sizeof(tuttiConfig_t)};
constexpr size_t kMaxNameBytes = 128;

Status not_valid(const char* call, const std::string& what) {
  return Status::invalid_argument(std::string(call) + ": config: " + what +
                                  "; begin with TUTTI_CONFIG_INITIALIZER");
}

/// A name is for people, so a long one is cut, before a character of UTF-8 and not within.
std::string fitting(const char* name) {
  const auto continues = [](unsigned char byte) { return (byte & 0xc0) == 0x80; };
  size_t bytes = strnlen(name, kMaxNameBytes + 1);
  if (bytes > kMaxNameBytes) {
    bytes = kMaxNameBytes;
    while (bytes > 0 && continues(static_cast<unsigned char>(name[bytes]))) --bytes;
  }
  return std::string(name, bytes);
}

}  // namespace

std::string check_ctas(int least, int most) {
  constexpr auto kMost = static_cast<int>(kMostCtas);
  const auto fits = [](int ctas) { return ctas >= 0 && ctas <= kMost; };
  const auto text = [](const char* field, int ctas) {
    return std::string(field) + " is " + std::to_string(ctas);
  };
  const std::string upper = text("most_ctas", most), lower = text("least_ctas", least);
  const std::string range = ", and may be 0 to " + std::to_string(kMost);
  if (!fits(least)) return lower + range;
  if (!fits(most)) return upper + range;
  const bool crossed = most > 0 && least > most;
  return crossed ? lower + ", which is above most_ctas, " + std::to_string(most) : "";
}

std::optional<EngineWish> engine_of(int number) {
  switch (number) {
    case tuttiEngineAuto:
      return EngineWish::kAuto;
    case tuttiEngineHost:
      return EngineWish::kHost;
    case tuttiEngineCopy:
      return EngineWish::kCopyEngine;
    case tuttiEngineKernel:
      return EngineWish::kKernel;
    case tuttiEngineNccl:
      return EngineWish::kNccl;
    case tuttiEngineNoNccl:
      return EngineWish::kNoNccl;
    default:
      return std::nullopt;
  }
}

Result<CommConfig> read_config(const tuttiConfig_t* config, const CommConfig& inherited,
                               const char* call) {
  if (config == nullptr) return inherited;
  tuttiConfig_t known = TUTTI_CONFIG_INITIALIZER;
  const Status status = read_structure(config, kFieldEnds, &known);
  if (!status.ok()) return not_valid(call, std::string(status.message()));
  if (known.blocking != 0 && known.blocking != 1) return not_valid(call, "blocking is 0 or 1");
  const std::optional<EngineWish> engine = engine_of(known.engine);
  if (!engine)
    return not_valid(call, "engine is " + std::to_string(known.engine) + ", which is none");
  if (const std::string wrong = check_ctas(known.least_ctas, known.most_ctas); !wrong.empty())
    return not_valid(call, wrong);
  CommConfig read;
  if (known.wire != nullptr) {
    const Result<codecs::WireOption> wire = codecs::parse_wire(known.wire);
    if (!wire.ok()) return not_valid(call, "wire: " + std::string(wire.status().message()));
    read.wire = codecs::wire_text(wire.value());
  }
  read.engine = *engine;
  read.least_ctas = static_cast<uint32_t>(known.least_ctas);
  read.most_ctas = static_cast<uint32_t>(known.most_ctas);
  read.blocking = known.blocking == 1;
  read.timeout_ns = known.timeout_ns;
  if (known.name == nullptr) return read;
  read.name = fitting(known.name);
  // It is printed in logs and reports: one line, no control characters.
  std::replace_if(
      read.name.begin(), read.name.end(),
      [](unsigned char letter) { return letter < ' ' || letter == 0x7f; }, '_');
  return read;
}

}  // namespace tutti::api
