// Entry points of kernels, which are functions of the host here.
#include <unistd.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tests/software_device/device/checker.h"
#include "tests/software_device/device/device.h"
#include "tests/software_device/device/entry_points.h"
#include "tests/software_device/device/kernels.h"
#include "tests/software_device/device/multicast.h"
#include "tests/software_device/device/settings.h"
#include "tests/software_device/device/statistics.h"

namespace softdev {
namespace {

struct Kernel {
  SoftdevKernel function = nullptr;
  std::vector<size_t> parameter_bytes;
  WaitingKernel waits = nullptr;
  bool was_launched = false;
};

struct Kernels {
  std::mutex mutex;
  std::map<std::string, Kernel> by_name;
};

/// With those of Tutti, if there are to be any. Others are added by tests.
Kernels& kernels() {
  static Kernels* const all = [] {
    auto* made = new Kernels;
    if (settings().kernels == 0) return made;
    for (const auto& kernels : {known_kernels(), multicast_kernels(), waiting_kernels()}) {
      for (const KnownKernel& one : kernels) {
        made->by_name[one.name] = {one.function, {one.parameter_bytes}, one.waits};
      }
    }
    return made;
  }();
  return *all;
}

/// To load a function may be to wait for all kernels that run, as CUDA's guide says of lazy
/// loading.
void load_behind_kernels(Context& context) {
  while (context.waiting_kernels.load() > 0) usleep(50);
}

/// As in a library that gets its functions when it needs them: the first launch loads.
CUresult load_at_launch(CUfunction function) {
  return in_context([&](Context& context) {
    const std::unique_lock lock(kernels().mutex);
    const bool is_first = !std::exchange(reinterpret_cast<Kernel*>(function)->was_launched, true);
    if (is_first) load_behind_kernels(context);
    return kSuccess;
  });
}

/// A launch of a kernel that waits, as a step of its stream.
StepMaker waiting_step(Context& context, const SoftdevLaunch& launch, WaitingKernel kernel,
                       std::vector<char> parameter) {
  return [&context, launch, kernel, parameter = std::move(parameter)]() -> Step {
    auto run = std::make_shared<std::function<bool()>>();
    return [&context, launch, kernel, parameter, run] {
      if (*run == nullptr) {
        *run = kernel(launch, parameter.data());
        ++context.waiting_kernels;
      }
      const bool is_over = (*run)();
      if (is_over) --context.waiting_kernels;
      return is_over;
    };
  };
}

/// Of the kernel that runs in this thread: memory of several handles that it has touched.
std::vector<std::unique_ptr<WholeRange>>& touched() {
  static thread_local std::vector<std::unique_ptr<WholeRange>> ranges;
  return ranges;
}

}  // namespace

std::vector<char*> touch_team(uint64_t address, size_t bytes, int device, bool writes) {
  const auto mapping = addresses().find(address);
  const bool is_team = mapping && mapping->kind == Kind::kMulticast;
  const bool reaches = is_team && ((mapping->reachable >> device) & 1) != 0;
  std::vector<Segment> segments;
  if (reaches && bytes <= mapping->bytes - (address - mapping->address)) {
    segments = mapping->multicast->locate(mapping->offset + (address - mapping->address), bytes);
  }
  if (segments.empty()) fail_operation("a kernel reaches for a team's memory", address, bytes);
  std::vector<char*> places;
  for (const Segment& segment : segments) {
    if (Agent* agent = running_agent(); agent != nullptr) {
      check_access(*agent, segment.place, segment.bytes, writes);
    }
    places.push_back(segment.data);
  }
  return places;
}

// All images have the same functions, under the names that the host's have.
CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return in_context_outside_captures([&](Context&) {
    if (image == nullptr) return kErrorInvalidValue;
    if (settings().module_result != 0) return static_cast<CUresult>(settings().module_result);
    *module = reinterpret_cast<CUmodule>(&kernels());
    count(&SoftdevStatistics::live_modules, 1);
    return kSuccess;
  });
}

CUresult cuModuleUnload(CUmodule) {
  return entered([] {
    if (is_unsafe_now()) return kErrorStreamCaptureUnsupported;
    count(&SoftdevStatistics::live_modules, -1);
    return kSuccess;
  });
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule, const char* name) {
  return in_context([&](Context& context) {
    if (settings().function_loads == 1) load_behind_kernels(context);
    const std::lock_guard lock(kernels().mutex);
    const auto found = kernels().by_name.find(name);
    if (found == kernels().by_name.end()) return kErrorNotFound;
    *function = reinterpret_cast<CUfunction>(&found->second);
    return kSuccess;
  });
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction, int threads, size_t) {
  return in_context([&](Context&) {
    constexpr int kThreadsAtOnce = 2048;
    if (threads < 1) return kErrorInvalidValue;
    *blocks = kThreadsAtOnce / threads;
    return kSuccess;
  });
}

extern "C" {

CUresult cuLaunchKernel(CUfunction function, unsigned blocks_x, unsigned blocks_y,
                        unsigned blocks_z, unsigned threads_x, unsigned threads_y,
                        unsigned threads_z, unsigned, CUstream handle, void** parameters, void**) {
  if (settings().function_loads == 2) {
    if (const CUresult loaded = load_at_launch(function); loaded != kSuccess) return loaded;
  }
  return on_own_stream(handle, [&](Stream& stream) {
    const SoftdevLaunch launch{stream.context->device, blocks_x * blocks_y * blocks_z,
                               threads_x * threads_y * threads_z};
    constexpr unsigned kMostThreads = 1024;
    if (launch.blocks == 0 || launch.threads == 0 || launch.threads > kMostThreads) {
      return kErrorInvalidValue;
    }
    const Kernel kernel = *reinterpret_cast<Kernel*>(function);
    auto values = std::make_shared<std::vector<std::vector<char>>>();
    for (size_t i = 0; i < kernel.parameter_bytes.size(); ++i) {
      const char* value = static_cast<const char*>(parameters[i]);
      values->emplace_back(value, value + kernel.parameter_bytes[i]);
    }
    count(&SoftdevStatistics::kernels, 1);
    count(&SoftdevStatistics::thread_blocks, launch.blocks);
    if (kernel.waits != nullptr) {
      return submit(stream, waiting_step(*stream.context, launch, kernel.waits, (*values)[0]));
    }
    return submit(stream, once([launch, kernel, values] {
                    std::vector<void*> pointers;
                    for (auto& value : *values) pointers.push_back(value.data());
                    kernel.function(launch, pointers.data());
                    touched().clear();
                  }));
  });
}

__attribute__((visibility("default"))) void softdev_register_kernel(const char* name,
                                                                    SoftdevKernel kernel,
                                                                    const size_t* parameter_bytes,
                                                                    int parameters) {
  const std::lock_guard lock(kernels().mutex);
  kernels().by_name[name] = {kernel, {parameter_bytes, parameter_bytes + parameters}, nullptr};
}

__attribute__((visibility("default"))) void* softdev_touch(uint64_t address, size_t bytes,
                                                           int device, bool writes) {
  const Range range = addresses().locate(address, bytes, device);
  auto whole = range.segments.size() > 1 ? WholeRange::map(range) : nullptr;
  if (!range.valid || range.pageable || (range.segments.size() > 1 && whole == nullptr)) {
    fail_operation(writes ? "a kernel writes" : "a kernel reads", address, bytes);
    return nullptr;
  }
  for (const Segment& segment : range.segments) {
    if (Agent* agent = running_agent(); agent != nullptr && segment.place.object != 0) {
      check_access(*agent, segment.place, segment.bytes, writes);
    }
  }
  if (whole == nullptr) return range.segments[0].data;
  touched().push_back(std::move(whole));
  return touched().back()->data();
}

}  // extern "C"

}  // namespace softdev
