// Memory and streams of tutti.h.
#include <utility>

#include "src/api/caught.h"
#include "src/api/device.h"
#include "src/api/process.h"
#include "src/api/submit.h"
#include "src/transport/memory_handle.h"

namespace tutti::api {
namespace {

Status allocate(void** memory, size_t bytes) {
  if (memory == nullptr) return Status::invalid_argument("tuttiMemAlloc: memory is null");
  if (bytes == 0) return Status::invalid_argument("tuttiMemAlloc: 0 bytes");
  Result<Process*> process = Process::current();
  if (!process.ok()) return process.status();
  Result<void*> made = process.value()->allocate(bytes);
  if (!made.ok()) return made.status();
  *memory = made.value();
  return {};
}

Status allocate(void** memory, size_t bytes, tuttiStream_t stream) {
  if (Status status = check_stream(stream); !status.ok()) return status;
  if (!is_of_device(stream)) return allocate(memory, bytes);
  if (memory == nullptr) return Status::invalid_argument("tuttiMemAllocFor: memory is null");
  if (bytes == 0) return Status::invalid_argument("tuttiMemAllocFor: 0 bytes");
  Result<Process*> process = Process::current();
  if (!process.ok()) return process.status();
  auto made = allocate_for(stream, bytes);
  if (!made.ok()) return made.status();
  Result<void*> kept = process.value()->keep(std::move(made).value());
  if (kept.ok()) *memory = kept.value();
  return kept.status();
}

Status release(void* memory) {
  if (memory == nullptr) return {};
  Result<Process*> process = Process::current();
  return process.ok() ? process.value()->release(memory) : process.status();
}

Status describe(Process& process, void* const* handle, comm::WindowMemory& mine) {
  if (handle == nullptr) return Status::invalid_argument("tuttiCommRegister: handle is null");
  look_for_device_memory();
  const Result<bool> on_device = is_device_memory(mine.bytes == 0 ? nullptr : mine.base);
  if (!on_device.ok()) return on_device.status();
  mine.on_device = on_device.value();
  if (mine.on_device) return {};
  const auto arena = process.arena_of(mine.base, mine.bytes);
  if (arena == nullptr || arena->data() != mine.base) {
    return Status::invalid_argument(
        "tuttiCommRegister: the range must begin where memory from tuttiMemAlloc begins");
  }
  Result<std::string> name = transport::describe_memory(*arena);
  if (!name.ok()) return name.status();
  mine.handle = std::move(name).value();
  mine.owner = arena;
  return {};
}

Status register_range(tuttiComm_t comm, void* memory, size_t bytes, void** handle) {
  const UseGuard use = guard_use(comm);
  if (Status status = check_handle(comm); !status.ok()) return status;
  Result<Process*> process = Process::current();
  if (!process.ok()) return process.status();
  if (Status status = drain(*comm->communicator); !status.ok()) return status;
  comm::WindowMemory mine;
  mine.base = static_cast<std::byte*>(memory);
  mine.bytes = bytes;
  // A rank with a problem takes part all the same, or the others would wait for it.
  mine.problem = describe(*process.value(), handle, mine);
  const Result<uint64_t> number = comm->communicator->add_registration(mine);
  if (number.ok()) *handle = reinterpret_cast<void*>(uintptr_t{number.value()});
  return number.status();
}

Status deregister(tuttiComm_t comm, void* handle) {
  const UseGuard use = guard_use(comm);
  if (Status status = check_readable(comm); !status.ok()) return status;
  return comm->communicator->remove_registration(reinterpret_cast<uintptr_t>(handle));
}

Status create_stream(tuttiStream_t* stream) {
  if (stream == nullptr) return Status::invalid_argument("tuttiStreamCreate: stream is null");
  Result<Process*> process = Process::current();
  if (!process.ok()) return process.status();
  *stream = {tuttiStreamHost, 0, process.value()->new_stream()};
  return {};
}

Status check_host_stream(tuttiStream_t stream) {
  if (!is_of_device(stream)) return check_stream(stream);
  return Status::invalid_argument(
      "a device's stream is synchronized and destroyed by its own functions");
}

Status synchronize(tuttiStream_t stream) {
  if (Status status = check_host_stream(stream); !status.ok()) return status;
  if (stream.kind == tuttiStreamBlocking) return {};
  if (Status status = check_can_wait("tuttiStreamSynchronize"); !status.ok()) return status;
  return static_cast<HostStream*>(stream.handle)->completion->wait();
}

Status destroy_stream(tuttiStream_t stream) {
  if (Status status = check_host_stream(stream); !status.ok()) return status;
  if (stream.kind == tuttiStreamBlocking) return {};
  if (Status status = check_can_wait("tuttiStreamDestroy"); !status.ok()) return status;
  Result<Process*> process = Process::current();
  if (!process.ok()) return process.status();
  Status status = synchronize(stream);
  process.value()->free_stream(static_cast<HostStream*>(stream.handle));
  return status;
}

}  // namespace
}  // namespace tutti::api

using tutti::api::report;

extern "C" {

tuttiResult_t tuttiMemAlloc(void** memory, size_t bytes) {
  return tutti::api::caught(nullptr,
                            [&] { return report(nullptr, tutti::api::allocate(memory, bytes)); });
}

tuttiResult_t tuttiMemAllocFor(void** memory, size_t bytes, tuttiStream_t stream) {
  return tutti::api::caught(
      nullptr, [&] { return report(nullptr, tutti::api::allocate(memory, bytes, stream)); });
}

tuttiResult_t tuttiMemFree(void* memory) {
  return tutti::api::caught(nullptr, [&] { return report(nullptr, tutti::api::release(memory)); });
}

tuttiResult_t tuttiCommRegister(tuttiComm_t comm, void* memory, size_t bytes, void** handle) {
  return tutti::api::caught(comm, [&]() -> tuttiResult_t {
    using namespace tutti::api;
    if (handle != nullptr) *handle = nullptr;
    return register_memory({comm, [memory, bytes, handle](const RegistrationCall& one) {
                              return register_range(one.comm, memory, bytes, handle);
                            }});
  });
}

tuttiResult_t tuttiCommDeregister(tuttiComm_t comm, void* handle) {
  return tutti::api::caught(comm,
                            [&] { return report(comm, tutti::api::deregister(comm, handle)); });
}

tuttiResult_t tuttiStreamCreate(tuttiStream_t* stream) {
  return tutti::api::caught(nullptr,
                            [&] { return report(nullptr, tutti::api::create_stream(stream)); });
}

tuttiResult_t tuttiStreamSynchronize(tuttiStream_t stream) {
  return tutti::api::caught(nullptr,
                            [&] { return report(nullptr, tutti::api::synchronize(stream)); });
}

tuttiResult_t tuttiStreamDestroy(tuttiStream_t stream) {
  return tutti::api::caught(nullptr,
                            [&] { return report(nullptr, tutti::api::destroy_stream(stream)); });
}

}  // extern "C"
