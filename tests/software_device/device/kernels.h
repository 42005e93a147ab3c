// The kernels that images have on the software device from the start: those of Tutti.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "tests/software_device/hooks.h"

namespace softdev {

/// A launch of a kernel that waits: it is called until it returns true.
using WaitingKernel = std::function<bool()> (*)(const SoftdevLaunch& launch, const void* parameter);

struct KnownKernel {
  std::string name;
  SoftdevKernel function = nullptr;
  size_t parameter_bytes = 0;     // of its one parameter
  WaitingKernel waits = nullptr;  // null: it is `function`
};

std::vector<KnownKernel> known_kernels();
/// Those that load and store by multicast.
std::vector<KnownKernel> multicast_kernels();
/// For one of these: where it finds the memory of each device of the team. Empty: it is not all
/// there, and the device has failed. `writes`: it also writes.
std::vector<char*> touch_team(uint64_t address, size_t bytes, int device, bool writes);
/// Those that wait for other devices.
std::vector<KnownKernel> waiting_kernels();

}  // namespace softdev
