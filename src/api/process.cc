#include "src/api/process.h"

#include <sodium.h>

#include <utility>

#include "src/api/events.h"
#include "src/base/fork.h"
#include "src/registry/algorithms.h"
#include "src/registry/settings.h"

namespace tutti::api {
namespace {

struct Slot {
  Slot();

  Mutex mutex;                 // held across a fork
  Process* process = nullptr;  // never freed: threads may use it while the program ends
  std::vector<Default> defaults;
};

Slot& slot() {
  // tidy: allow mutable (a C API has no other owner for what communicators share)
  static Slot* slot = new Slot;
  return *slot;
}

transport::Endpoint::EndpointServer served_by(bootstrap::Watch& watch) {
  const auto attend = [&watch](int fd, std::function<void()> visit) {
    return watch.attend(fd, bootstrap::Watch::News::kInput, [visit = std::move(visit)] {
      visit();
      return uint64_t{0};
    });
  };
  return {attend, [&watch](int fd) { watch.remove(fd); }};
}

// These hold the mutex from one handler to another, which clang cannot follow.
void before_fork() TUTTI_LOCKS_UNCHECKED {
  slot().mutex.lock();
  if (slot().process != nullptr) slot().process->hold_handles();
}

void after_fork_in_parent() TUTTI_LOCKS_UNCHECKED {
  if (slot().process != nullptr) slot().process->release_handles();
  slot().mutex.unlock();
}

void after_fork_in_child() TUTTI_LOCKS_UNCHECKED {
  if (slot().process != nullptr) {
    slot().process->disinherit();
    slot().process->release_handles();
    slot().process = nullptr;
  }
  slot().mutex.unlock();
}

Slot::Slot() { at_fork(before_fork, after_fork_in_parent, after_fork_in_child); }

/// When the library is loaded: made at its first use, it could be half made for ever in the child
/// of a fork beside that.
[[gnu::constructor]] void make_slot() { (void)slot(); }

/// At the end of the program, of exit() and not of a forked child, which has no process here.
[[gnu::destructor]] void end_slot() {
  if (slot().process != nullptr) slot().process->end_claim();
}

}  // namespace

Result<Process*> Process::current() {
  Slot& at = slot();
  const MutexLock lock(at.mutex);
  if (at.process != nullptr) return at.process;
  Result<std::unique_ptr<Process>> made = create(at.defaults);
  if (!made.ok()) return made.status();
  at.process = std::move(made).value().release();
  return at.process;
}

Status Process::add_default(Default given) {
  Slot& at = slot();
  const MutexLock lock(at.mutex);
  if (at.process != nullptr) {
    return Status::invalid_usage("tuttiSetDefault: the settings of this process are read already");
  }
  at.defaults.push_back(std::move(given));
  return {};
}

Result<std::unique_ptr<Process>> Process::create(std::span<const Default> defaults) {
  if (sodium_init() < 0) return Status::system_error("libsodium does not start");
  std::unique_ptr<Process> made(new Process);
  Result<Config> config = registry::read_settings(process_environment(), defaults);
  if (!config.ok()) return config.status();
  made->config_ = std::move(config).value();
  Result<std::unique_ptr<Logger>> log = Logger::create(made->config_);
  if (!log.ok()) return log.status();
  made->log_ = std::move(log).value();
  made->descriptors_ = std::make_unique<DescriptorRoom>(*made->log_);
  randombytes_buf(&made->id_, sizeof made->id_);
  made->env_ = {&made->config_, made->log_.get(), monotonic_ns};
  Result<std::unique_ptr<bootstrap::Watch>> watch = bootstrap::Watch::create();
  if (!watch.ok()) return watch.status();
  made->watch_ = std::move(watch).value();
  made->endpoint_ = std::make_unique<transport::Endpoint>(served_by(*made->watch_));
  made->has_barrier_ = prepare_process_barrier();
  (void)registry::algorithms();  // a static, which is made while no fork can come beside it
  tell_start(made->config_, *made->log_);
  return made;
}

Result<operation::StreamEngine*> Process::engine() {
  const MutexLock lock(mutex_);
  if (engine_ != nullptr) return engine_.get();
  Result<std::unique_ptr<operation::StreamEngine>> made = operation::StreamEngine::create();
  if (!made.ok()) return made.status();
  engine_ = std::move(made).value();
  return engine_.get();
}

bool Process::is_awaited() {
  const MutexLock lock(mutex_);
  return std::ranges::any_of(handles_, [](tuttiComm& handle) {
    if (handle.in_flight.has_caller()) return false;
    const UseGuard use(&handle.in_flight);
    if (handle.state.load(std::memory_order_seq_cst) != CommState::kAlive) return false;
    const comm::Communicator& communicator = *handle.communicator;
    return communicator.pending.load(std::memory_order_acquire) == 0 && communicator.is_awaited();
  });
}

tuttiComm* Process::new_handle() {
  const MutexLock lock(mutex_);
  tuttiComm& handle = handles_.emplace_back();
  handle.in_flight.use_process_barrier(has_barrier_);
  return &handle;
}

tuttiWindow* Process::new_window() {
  const MutexLock lock(mutex_);
  return &windows_.emplace_back();
}

void Process::move_windows(tuttiComm* handle, comm::Communicator& next) {
  const MutexLock lock(mutex_);
  for (tuttiWindow& window : windows_) {
    if (window.comm.load(std::memory_order_acquire) != handle) continue;
    window.window = next.memory().numbered(window.window->number());
  }
}

tuttiRequest* Process::new_request() {
  const MutexLock lock(mutex_);
  if (free_requests_.empty()) {
    free_requests_.reserve(requests_.size() + 1);  // to give it back takes no memory
    free_requests_.push_back(&requests_.emplace_back());
  }
  tuttiRequest* request = free_requests_.back();
  free_requests_.pop_back();
  request->completion->reset();
  request->state.store(tuttiRequest::kAlive, std::memory_order_release);
  return request;
}

void Process::free_request(tuttiRequest* request) {
  const MutexLock lock(mutex_);
  request->state.store(0, std::memory_order_release);
  free_requests_.push_back(request);
}

HostStream* Process::new_stream() {
  auto stream = std::make_unique<HostStream>();
  const MutexLock lock(mutex_);
  streams_.insert(stream.get());
  return stream.release();
}

void Process::free_stream(HostStream* stream) {
  const MutexLock lock(mutex_);
  streams_.erase(stream);
  delete stream;
}

WaitLimit Process::wait_limit(std::shared_ptr<Cancellation> cancellation) const {
  const auto tell = [log = env_.log](const std::string& what, uint64_t waited_ns) {
    log->warning("a communicator has been in the making for {} s, and goes on: {}",
                 waited_ns / kNanosecondsPerSecond, what);
  };
  return WaitLimit(deadline_after(config_.init_timeout_ns), std::move(cancellation),
                   config_.slow_ns, tell);
}

void Process::disinherit() {
  for (tuttiComm& handle : handles_) {
    if (handle.state.load(std::memory_order_relaxed) != CommState::kNone) {
      handle.state.store(CommState::kInherited, std::memory_order_relaxed);
    }
  }
  for (tuttiRequest& request : requests_) {
    uint32_t alive = tuttiRequest::kAlive;
    request.state.compare_exchange_strong(alive, tuttiRequest::kInherited);
  }
  for (HostStream* stream : streams_) stream->inherited = true;
}

Result<void*> Process::allocate(size_t bytes) {
  Result<transport::Arena> arena = transport::Arena::create("tutti-memory", bytes);
  if (!arena.ok()) return arena.status();
  std::byte* memory = arena.value().data();
  const MutexLock lock(mutex_);
  arenas_.emplace(memory, std::make_shared<const transport::Arena>(std::move(arena).value()));
  return static_cast<void*>(memory);
}

Result<void*> Process::keep(std::unique_ptr<exec::DeviceAllocation> allocation) {
  std::byte* const memory = allocation->data();
  const MutexLock lock(mutex_);
  device_memory_.emplace(memory, std::move(allocation));
  return static_cast<void*>(memory);
}

Status Process::release(void* memory) {
  std::unique_ptr<exec::DeviceAllocation> ended;  // behind the lock: its end may wait for a device
  const MutexLock lock(mutex_);
  auto* const begin = static_cast<std::byte*>(memory);
  if (arenas_.erase(begin) > 0) return {};
  const auto found = device_memory_.find(begin);
  if (found == device_memory_.end()) {
    return Status::invalid_argument("tuttiMemFree: this memory is not from tuttiMemAlloc");
  }
  ended = std::move(found->second);
  device_memory_.erase(found);
  return {};
}

std::shared_ptr<const transport::Arena> Process::arena_of(const void* memory, size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(memory);
  const MutexLock lock(mutex_);
  auto above = arenas_.upper_bound(const_cast<std::byte*>(begin));
  if (above == arenas_.begin()) return nullptr;
  const std::shared_ptr<const transport::Arena>& arena = std::prev(above)->second;
  const auto at = static_cast<size_t>(begin - arena->data());
  const bool inside = at <= arena->bytes() && bytes <= arena->bytes() - at;
  return inside ? arena : nullptr;
}

}  // namespace tutti::api
