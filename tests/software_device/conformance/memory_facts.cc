// Facts about memory, its handles in other processes, and what is known of an address.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <thread>

#include "tests/software_device/conformance/facts.h"
#include "tests/software_device/send_memory.h"

namespace softdev {
namespace {

constexpr CUdeviceptr kHeldWord = 128;  // of an exporter's memory: a stream of its waits for 1

std::string read_by_the_host(const Bench& bench) {
  std::signal(SIGSEGV, SIG_DFL);  // a sanitizer would report it
  return std::to_string(*reinterpret_cast<volatile char*>(bench.zeros()));
}

std::string legacy_handle_in_its_exporter(const Bench& bench) {
  CUipcMemHandle handle{};
  const CUresult got = bench.more.cuIpcGetMemHandle(&handle, bench.zeros());
  if (got != kSuccess) return bench.name(got);
  CUdeviceptr address = 0;
  return bench.name(bench.more.cuIpcOpenMemHandle(&address, handle, kIpcLazyPeerAccess));
}

Result<cuda::DeviceMemory> virtual_memory(const Bench& bench) {
  return cuda::DeviceMemory::allocate(bench.client.cuda(), bench.device, 4096);
}

std::string granularity(const Bench& bench) {
  const auto memory = virtual_memory(bench);
  return memory.ok() ? std::to_string(memory.value().bytes())
                     : std::string(memory.status().message());
}

std::string legacy_handle_of_virtual_memory(const Bench& bench) {
  const auto memory = virtual_memory(bench);
  if (!memory.ok()) return std::string(memory.status().message());
  CUipcMemHandle handle{};
  return bench.name(bench.more.cuIpcGetMemHandle(&handle, memory.value().address()));
}

std::string import_by_the_exporter(const Bench& bench) {
  const auto memory = virtual_memory(bench);
  if (!memory.ok()) return std::string(memory.status().message());
  const auto descriptor = memory.value().export_descriptor();
  if (!descriptor.ok()) return std::string(descriptor.status().message());
  const auto imported = cuda::DeviceMemory::import(bench.client.cuda(), descriptor.value().get(),
                                                   memory.value().bytes(), bench.device);
  if (!imported.ok()) return std::string(imported.status().message());
  CUstream stream = bench.stream();
  bench.more.cuStreamWriteValue32(stream, imported.value().address(), 42, 0);
  bench.call.cuStreamSynchronize(stream);
  return std::to_string(bench.word_at(memory.value().address()));
}

std::string import_of_anything(const Bench& bench) {
  const auto imported =
      cuda::DeviceMemory::import(bench.client.cuda(), STDIN_FILENO, 2 << 20, bench.device);
  return imported.ok() ? "imported" : "refused";
}

std::string copy_without_access(const Bench& bench) {
  CUmemAllocationProp properties{};
  properties.type = kAllocationPinned;
  properties.location = {kLocationDevice, bench.device};
  size_t bytes = 0;
  bench.call.cuMemGetAllocationGranularity(&bytes, &properties, kGranularityRecommended);
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  bench.call.cuMemCreate(&handle, bytes, &properties, 0);
  bench.call.cuMemAddressReserve(&address, bytes, 0, 0, 0);
  bench.call.cuMemMap(address, bytes, 0, handle, 0);
  return bench.name(bench.call.cuMemcpyAsync(address, bench.zeros(), 64, bench.stream()));
}

std::string range_of_inner_address(const Bench& bench) {
  const CUdeviceptr memory = bench.zeros(1 << 20);
  CUdeviceptr base = 0;
  size_t bytes = 0;
  bench.more.cuMemGetAddressRange(&base, &bytes, memory + 100);
  return base == memory ? std::to_string(bytes) : "another base";
}

std::string kind_name(const Bench& bench, const void* address) {
  const auto facts = cuda::inspect_address(bench.client.cuda(), address);
  if (!facts.ok()) return std::string(facts.status().message());
  constexpr const char* kNames[] = {"host", "pinned", "device", "managed"};
  return kNames[static_cast<int>(facts.value().kind)];
}

std::string kind_of_ordinary(const Bench& bench) {
  static int word = 0;
  return kind_name(bench, &word);
}
std::string kind_of_heap(const Bench& bench) {
  const auto memory = std::make_unique<char[]>(1 << 20);
  return kind_name(bench, memory.get());
}
std::string kind_of_pinned(const Bench& bench) {
  return kind_name(bench, const_cast<uint32_t*>(bench.pinned()) + 10);
}
std::string kind_of_device(const Bench& bench) {
  return kind_name(bench, reinterpret_cast<void*>(bench.zeros() + 100));
}
std::string kind_of_virtual(const Bench& bench) {
  const auto memory = virtual_memory(bench);
  if (!memory.ok()) return std::string(memory.status().message());
  return kind_name(bench, reinterpret_cast<void*>(memory.value().address()));
}

uint64_t buffer_of(const Bench& bench, CUdeviceptr address) {
  const auto facts = cuda::inspect_address(bench.client.cuda(), reinterpret_cast<void*>(address));
  return facts.ok() ? facts.value().buffer_id : 0;
}

std::string buffer_ids(const Bench& bench) {
  const CUdeviceptr first = bench.zeros();
  const uint64_t inside = buffer_of(bench, first + 100);
  const uint64_t before = buffer_of(bench, first);
  bench.more.cuMemFree(first);
  const uint64_t after = buffer_of(bench, bench.zeros());
  if (before == 0 || inside != before) return "not of the allocation";
  return after != before ? "another one" : "the same";
}

/// Another process with device memory and an event, until this ends. It is a program started anew:
/// a child of this process could not use the driver.
class Exporter {
 public:
  Exporter() {
    const auto [mine, its] = socket_pair();
    socket_ = mine;
    process_ = fork();
    if (process_ == 0) {
      const std::string argument = "--export=" + std::to_string(its);
      execl("/proc/self/exe", "exporter", argument.c_str(), nullptr);
      _exit(1);
    }
    close(its);
  }
  ~Exporter() { kill_now(); }
  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;

  Result<cuda::DeviceMemory> memory(const Bench& bench) const {
    uint64_t bytes = 0;
    const auto received = receive_memory(socket_, &bytes);
    if (!received.ok()) return received.status();
    return cuda::DeviceMemory::import(bench.client.cuda(), received.value().get(), bytes,
                                      bench.device);
  }
  CUipcEventHandle event() const {
    CUipcEventHandle handle{};
    const bool read_all = read(socket_, &handle, sizeof handle) == sizeof handle;
    return read_all ? handle : CUipcEventHandle{};
  }
  void kill_now() {
    if (process_ < 0) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    process_ = -1;
  }

 private:
  int socket_ = -1;
  pid_t process_ = -1;
};

std::string memory_of_a_killed_exporter(const Bench& bench) {
  Exporter exporter;
  const auto memory = exporter.memory(bench);
  exporter.kill_now();
  if (!memory.ok()) return std::string(memory.status().message());
  return std::to_string(bench.word_at(memory.value().address()));
}

/// The event comes behind a wait of its process, which this one ends.
std::string event_of_another_process(const Bench& bench) {
  const Exporter exporter;
  const auto memory = exporter.memory(bench);
  if (!memory.ok()) return std::string(memory.status().message());
  CUevent event = nullptr;
  const CUresult opened = bench.more.cuIpcOpenEventHandle(&event, exporter.event());
  if (opened != kSuccess) return bench.name(opened);
  CUstream stream = bench.stream();
  bench.call.cuStreamWaitEvent(stream, event, 0);
  const CUresult before = bench.call.cuStreamQuery(stream);
  bench.more.cuStreamWriteValue32(bench.stream(), memory.value().address() + kHeldWord, 1, 0);
  return bench.name(before) + ", " + bench.end_of(stream);
}

std::string register_twice(const Bench& bench) {
  static char memory[8192] __attribute__((aligned(4096)));
  bench.call.cuMemHostRegister(memory, sizeof memory, kHostRegisterPortable);
  return bench.name(bench.call.cuMemHostRegister(memory, 4096, kHostRegisterPortable));
}

}  // namespace

void export_and_wait(const Bench& bench, int socket) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const auto memory = virtual_memory(bench);
  if (!memory.ok()) _exit(1);
  CUstream stream = bench.stream();
  bench.more.cuStreamWriteValue32(stream, memory.value().address(), 4711, 0);
  bench.more.cuStreamWriteValue32(stream, memory.value().address() + kHeldWord, 0, 0);
  bench.call.cuStreamSynchronize(stream);
  CUevent event = nullptr;
  CUipcEventHandle handle{};
  bench.call.cuEventCreate(&event, kEventDisableTiming | kEventInterprocess);
  bench.more.cuIpcGetEventHandle(&handle, event);
  bench.more.cuStreamWaitValue32(stream, memory.value().address() + kHeldWord, 1, kWaitAtLeast);
  bench.call.cuEventRecord(event, stream);
  const bool sent = send_memory(socket, memory.value()).ok() &&
                    write(socket, &handle, sizeof handle) == sizeof handle;
  if (!sent) _exit(1);
  for (;;) pause();
}

namespace {

/// Of memory of the driver's pool: its kind, what a copy to it and its end are, and whether it can
/// be given to other processes.
std::string memory_of_a_pool(const Bench& bench) {
  CUstream stream = bench.stream();
  CUdeviceptr address = 0;
  const CUresult made = bench.more.cuMemAllocAsync(&address, 1 << 20, stream);
  if (made != kSuccess) return bench.name(made);
  unsigned type = 0;
  bench.more.cuPointerGetAttribute(&type, kPointerMemoryType, address);
  CUmemGenericAllocationHandle handle = 0;
  const bool exportable =
      bench.call.cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(address)) == kSuccess;
  bench.more.cuStreamWriteValue32(stream, address, 3, 0);
  bench.more.cuMemFreeAsync(address, stream);
  return std::string(type == kMemoryTypeDevice ? "device" : "other") + ", " +
         (exportable ? "with a handle" : "without a handle") + ", " + bench.end_of(stream);
}

/// Whether cards could read and write device memory (GPUDirect RDMA).
std::string dmabuf_of_virtual_memory(const Bench& bench) {
  const auto memory = cuda::DeviceMemory::allocate(bench.client.cuda(), bench.device, 2 << 20);
  if (!memory.ok()) return std::string(memory.status().message());
  const auto descriptor =
      cuda::export_dmabuf(bench.client.cuda(), memory.value().address(), memory.value().bytes());
  return descriptor.ok() ? "a descriptor" : std::string(descriptor.status().message());
}

/// A stream of another device, while this one is current: its state, its context, a copy in it.
std::string stream_of_another_context(const Bench& bench) {
  CUdevice device = 0;
  CUcontext other = nullptr, of_stream = nullptr;
  if (bench.call.cuDeviceGet(&device, 1) != kSuccess) return "one device";
  bench.call.cuDevicePrimaryCtxRetain(&other, device);
  bench.more.cuCtxSetCurrent(other);
  CUstream stream = bench.stream();
  const CUdeviceptr memory = bench.zeros();
  bench.more.cuCtxSetCurrent(bench.context);
  const CUresult asked = bench.call.cuStreamQuery(stream);
  const CUresult found = bench.call.cuStreamGetCtx(stream, &of_stream);
  const CUresult copied = bench.call.cuMemcpyAsync(memory, memory + 64, 64, stream);
  return bench.name(asked) + ", " + bench.name(found) + ", " +
         (of_stream == other ? "its own" : "another one") + ", " + bench.name(copied) + ", " +
         bench.end_of(stream);
}

}  // namespace

std::vector<Fact> memory_facts() {
  constexpr Source kSaid = Source::kDocumented, kTaken = Source::kAssumed;
  return {
      {"device memory read by the host", "signal 11", kTaken, read_by_the_host},
      {"a legacy handle, opened by its exporter", "CUDA_ERROR_INVALID_CONTEXT", kTaken,
       legacy_handle_in_its_exporter},
      {"the granularity of virtual memory", "2097152", kTaken, granularity},
      {"a legacy handle of virtual memory", "CUDA_ERROR_INVALID_VALUE", kTaken,
       legacy_handle_of_virtual_memory},
      {"a descriptor, imported by its exporter, is the same memory", "42", kTaken,
       import_by_the_exporter},
      {"memory of an exporter that was killed", "4711", kTaken, memory_of_a_killed_exporter},
      {"an event of another process, before and after it is done",
       "CUDA_ERROR_NOT_READY, CUDA_SUCCESS", kTaken, event_of_another_process},
      {"a descriptor that is none of the driver's", "refused", kTaken, import_of_anything},
      {"a copy to mapped memory that the device may not reach", "CUDA_ERROR_INVALID_VALUE", kTaken,
       copy_without_access},
      {"the range of an inner address", "1048576", kSaid, range_of_inner_address},
      {"the kind of a static variable", "host", kTaken, kind_of_ordinary},
      {"the kind of memory of the heap", "host", kTaken, kind_of_heap},
      {"the kind of pinned memory", "pinned", kSaid, kind_of_pinned},
      {"the kind of device memory", "device", kSaid, kind_of_device},
      {"the kind of virtual memory", "device", kSaid, kind_of_virtual},
      {"the buffer id of memory that was freed and allocated again", "another one", kSaid,
       buffer_ids},
      {"memory of cuMemAllocAsync: kind, handle, end of its stream",
       "device, without a handle, CUDA_SUCCESS", kTaken, memory_of_a_pool},
      {"a dmabuf of virtual memory, by which cards reach it", "", kTaken, dmabuf_of_virtual_memory},
      {"a stream of another context: query, context, copy, end",
       "CUDA_SUCCESS, CUDA_SUCCESS, its own, CUDA_SUCCESS, CUDA_SUCCESS | one device", kTaken,
       stream_of_another_context},
      {"host memory registered twice", "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", kSaid,
       register_twice},
  };
}

}  // namespace softdev
