// One-sided access of windows.h: windows, put, get, signals.
#include <limits>
#include <string>

#include "src/api/caught.h"
#include "src/api/device.h"
#include "src/api/process.h"
#include "src/api/submit.h"
#include "src/api/window_memory.h"
#include "src/operation/access_operation.h"
#include "src/transport/memory_handle.h"

namespace tutti::api {

Status describe_window(const char* call, Process& process, comm::WindowMemory& mine) {
  if (mine.base == nullptr && mine.bytes > 0) {
    return Status::invalid_argument(std::string(call) + ": base is null");
  }
  if (mine.bytes > static_cast<size_t>(std::numeric_limits<ptrdiff_t>::max())) {
    return Status::invalid_argument(std::string(call) + ": no memory has " +
                                    std::to_string(mine.bytes) + " bytes");
  }
  look_for_device_memory();
  const Result<bool> on_device = is_device_memory(mine.bytes == 0 ? nullptr : mine.base);
  if (!on_device.ok()) return on_device.status();
  mine.on_device = on_device.value();
  if (mine.on_device) return {};
  const auto arena = mine.bytes == 0 ? nullptr : process.arena_of(mine.base, mine.bytes);
  if (arena == nullptr) return {};  // nobody maps it: threads reach it, and the kernel's copies
  Result<std::string> handle = transport::describe_memory(*arena);
  if (!handle.ok()) return handle.status();
  mine.handle = std::move(handle).value();
  mine.offset = static_cast<uint64_t>(mine.base - arena->data());
  mine.owner = arena;
  return {};
}

namespace {

using comm::Access;

static_assert(comm::Window::kSignals == TUTTI_WINDOW_SIGNALS);

// `mine` becomes what there is to register.
Status prepare(Process& process, const tuttiWindow_t* window, int flags, comm::WindowMemory& mine) {
  if (window == nullptr) {
    return Status::invalid_argument("tuttiCommWindowRegister: window is null");
  }
  if (flags != 0) return Status::invalid_argument("tuttiCommWindowRegister: flags must be 0");
  return describe_window("tuttiCommWindowRegister", process, mine);
}

struct WindowCall {
  void* base;
  size_t bytes;
  tuttiWindow_t* window;
  int flags;
};

Status register_window(const RegistrationCall& registration, const WindowCall& call) {
  tuttiComm_t comm = registration.comm;
  const UseGuard use = guard_use(comm);
  if (Status status = check_handle(comm); !status.ok()) return status;
  Result<Process*> process = Process::current();
  if (!process.ok()) return process.status();
  if (Status status = drain(*comm->communicator); !status.ok()) return status;
  comm::WindowMemory mine;
  mine.base = static_cast<std::byte*>(call.base);
  mine.bytes = call.bytes;
  // A rank with a problem takes part all the same, or the others would wait for it.
  mine.problem = prepare(*process.value(), call.window, call.flags, mine);
  // Operations of the group may be on a window that another thread has deregistered.
  Result<comm::Window*> made = comm->communicator->open_window(mine, registration.operated_on);
  if (!made.ok()) return made.status();
  tuttiWindow* handle = process.value()->new_window();
  handle->window = made.value();
  handle->comm.store(comm, std::memory_order_release);
  *call.window = handle;
  return {};
}

Status find_comm(tuttiWindow_t window, tuttiComm_t& comm) {
  if (window == nullptr) return Status::invalid_argument("the window is null");
  comm = window->comm.load(std::memory_order_acquire);
  if (comm == nullptr) return Status::invalid_usage("the window has been deregistered");
  return {};
}

Status deregister_window(tuttiComm_t comm, tuttiWindow_t window) {
  const UseGuard use = guard_use(comm);
  tuttiComm_t own = nullptr;
  if (Status status = find_comm(window, own); !status.ok()) return status;
  if (Status status = check_readable(own); !status.ok()) return status;
  if (own != comm) return Status::invalid_usage("the window belongs to another communicator");
  if (group_operates_on(comm)) {
    return Status::invalid_usage(
        "tuttiCommWindowDeregister: the open group has operations on this communicator");
  }
  // Operations that are queued or running are not waited for: they may wait for a peer that never
  // comes.
  if (!window->comm.compare_exchange_strong(own, nullptr)) return find_comm(window, own);
  return comm->communicator->close_window(window->window);
}

Status number_of_window(tuttiWindow_t window, uint32_t* number) {
  tuttiComm_t comm = nullptr;
  if (Status status = find_comm(window, comm); !status.ok()) return status;
  const UseGuard use = guard_use(comm);
  if (Status status = check_readable(comm); !status.ok()) return status;
  if (number == nullptr) return Status::invalid_argument("tuttiWindowGetNumber: number is null");
  *number = window->window->number();
  return {};
}

tuttiResult_t run(tuttiWindow_t window, int peer, Access access, tuttiStream_t stream) {
  tuttiComm_t comm = nullptr;
  if (Status status = find_comm(window, comm); !status.ok()) return refuse(comm, status);
  const CallGuard guard(comm->in_flight);
  Status status = check_handle(comm);
  if (status.ok()) status = check_stream(stream);
  if (status.ok()) {
    access.peer = static_cast<uint32_t>(peer);  // a negative one is beyond every rank
    access.window = window->window;
    status = access.window->check(access);
    access.by_stream = access.bytes > 0 && access.window->is_on_device(access.peer);
  }
  if (status.ok() && access.by_stream && !is_of_device(stream)) {
    status = Status::unsupported(std::string(comm::name_of(access.kind)) + ": the part of rank " +
                                 std::to_string(peer) +
                                 " lies in the memory of a device, so a stream of a device moves "
                                 "the bytes: pass one (tuttiStreamCuda)");
  }
  if (!status.ok()) return refuse(comm, status);
  return submit(comm, operation::AccessOperation(*comm->communicator, access), stream);
}

Access access_of(Access::Kind kind, const void* local, size_t bytes, size_t offset) {
  Access access;
  access.kind = kind;
  access.local = static_cast<std::byte*>(const_cast<void*>(local));
  access.bytes = bytes;
  access.offset = offset;
  return access;
}

}  // namespace
}  // namespace tutti::api

using tutti::api::access_of;
using tutti::comm::Access;

extern "C" {

tuttiResult_t tuttiCommWindowRegister(tuttiComm_t comm, void* base, size_t bytes,
                                      tuttiWindow_t* window, int flags) {
  return tutti::api::caught(comm, [&]() -> tuttiResult_t {
    using namespace tutti::api;
    if (window != nullptr) *window = nullptr;
    const WindowCall call{base, bytes, window, flags};
    return register_memory(
        {comm, [call](const RegistrationCall& one) { return register_window(one, call); }});
  });
}

tuttiResult_t tuttiCommWindowDeregister(tuttiComm_t comm, tuttiWindow_t window) {
  return tutti::api::caught(
      comm, [&] { return tutti::api::report(comm, tutti::api::deregister_window(comm, window)); });
}

tuttiResult_t tuttiWindowGetNumber(tuttiWindow_t window, uint32_t* number) {
  return tutti::api::caught(nullptr, [&] {
    return tutti::api::report(nullptr, tutti::api::number_of_window(window, number));
  });
}

tuttiResult_t tuttiPut(const void* source, size_t bytes, int peer, tuttiWindow_t window,
                       size_t offset, tuttiStream_t stream) {
  return tutti::api::caught(nullptr, [&] {
    return tutti::api::run(window, peer, access_of(Access::Kind::kPut, source, bytes, offset),
                           stream);
  });
}

tuttiResult_t tuttiGet(void* target, size_t bytes, int peer, tuttiWindow_t window, size_t offset,
                       tuttiStream_t stream) {
  return tutti::api::caught(nullptr, [&] {
    return tutti::api::run(window, peer, access_of(Access::Kind::kGet, target, bytes, offset),
                           stream);
  });
}

tuttiResult_t tuttiPutSignal(const void* source, size_t bytes, int peer, tuttiWindow_t window,
                             size_t offset, uint32_t signal, tuttiStream_t stream) {
  return tutti::api::caught(nullptr, [&]() -> tuttiResult_t {
    Access access = access_of(Access::Kind::kPut, source, bytes, offset);
    access.then_signal = true;
    access.signal = signal;
    return tutti::api::run(window, peer, access, stream);
  });
}

tuttiResult_t tuttiSignal(int peer, tuttiWindow_t window, uint32_t signal, tuttiStream_t stream) {
  return tutti::api::caught(nullptr, [&]() -> tuttiResult_t {
    Access access = access_of(Access::Kind::kSignal, nullptr, 0, 0);
    access.signal = signal;
    return tutti::api::run(window, peer, access, stream);
  });
}

tuttiResult_t tuttiWaitSignal(int peer, tuttiWindow_t window, uint32_t signal, uint64_t times,
                              tuttiStream_t stream) {
  return tutti::api::caught(nullptr, [&]() -> tuttiResult_t {
    Access access = access_of(Access::Kind::kWaitSignal, nullptr, 0, 0);
    access.signal = signal;
    access.times = times;
    return tutti::api::run(window, peer, access, stream);
  });
}

}  // extern "C"
