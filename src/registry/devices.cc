#include "src/registry/devices.h"

#include <algorithm>
#include <array>

#include "src/engines/cuda/device.h"

namespace tutti::registry {
namespace {

struct DeviceEntry {
  std::string_view name;
  exec::Device& (*get)();
};
constexpr std::array kDevices = {DeviceEntry{"cuda", &engines::cuda::device}};

}  // namespace

exec::Device* find_device(std::string_view name) {
  const auto* const found =
      std::find_if(kDevices.begin(), kDevices.end(),
                   [&](const DeviceEntry& entry) { return entry.name == name; });
  return found == kDevices.end() ? nullptr : &found->get();
}

}  // namespace tutti::registry
