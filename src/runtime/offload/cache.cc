// The cache of saved storages. The caller's thread decides everything; threads of the disk only
// report that a request has ended.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <map>
#include <mutex>
#include <new>
#include <system_error>
#include <utility>

#include "src/runtime/index.h"
#include "src/runtime/offload/disk.h"
#include "src/runtime/offload/profile.h"
#include "src/runtime/offload/spill_file.h"
#include "src/runtime/refuse.h"

namespace tutti::runtime {

using offload::Disk;
using offload::StepProfile;

class OffloadCache::Impl {
 public:
  explicit Impl(const OffloadSpec& given)
      : spec(given), file(given.folder), profile(given.slack), disk(open_disk(given, file.fd())) {}

  ~Impl() {
    std::unique_lock lock(mutex);
    for (auto& [number, storage] : storages) {
      if (storage->request != 0 && disk->cancel(storage->request)) --in_flight;
    }
    disk->hurry();
    ended.wait(lock, [this] { return in_flight == 0; });
  }

  int64_t pack(int64_t name, const OffloadMemory& memory);
  OffloadMemory unpack(int64_t handle);
  void drop(int64_t handle);
  OffloadCounters count();

  enum class At { kMemory, kWriting, kDisk, kReading };
  struct Storage {
    int64_t number = 0;  // in the order of the step
    std::pair<int64_t, int64_t> key;
    OffloadMemory memory;  // as packed; without `hold` when it is on the disk alone
    int64_t version = 0;
    At at = At::kMemory;
    std::shared_ptr<char> loaded;  // what was read
    bool has_failed = false;       // its last request
    int64_t request = 0;
    int64_t offset = -1;
    uint64_t checksum = 0;
    int64_t handles = 0;
    StepProfile::Clock::time_point begun;
  };
  using Stored = std::shared_ptr<Storage>;
  struct DiskEnd {
    Stored storage;
    int error = 0;
    StepProfile::Clock::time_point when;
  };

  static std::unique_ptr<Disk> open_disk(const OffloadSpec& spec, int fd) {
    std::unique_ptr<Disk> disk = spec.io_uring ? offload::ring_disk(fd, spec.limit) : nullptr;
    return disk ? std::move(disk) : offload::threads_disk(fd, spec.threads, spec.limit);
  }

  static int64_t version_of(const OffloadMemory& memory) {
    return memory.version ? memory.version() : 0;
  }
  bool is_plain(const Storage& storage) const { return storage.memory.hold != nullptr; }

  Stored& storage_of(int64_t handle);
  void reap();
  int settle(const Storage& storage) const;
  void settle_write(const Stored& storage);
  void make_room(std::unique_lock<std::mutex>& lock, int64_t bytes);
  void wait_for_disk(std::unique_lock<std::mutex>& lock);
  void write(const Stored& storage);
  void read(const Stored& storage);
  void submit(const Stored& storage, bool is_write, char* data);
  void read_ahead(int64_t before);
  void hold(int64_t bytes);
  void release(Storage& storage);
  void forget(const Stored& storage);
  OffloadMemory from_disk(std::unique_lock<std::mutex>& lock, const Stored& storage);
  [[noreturn]] void failed(const Storage& storage, std::string_view what) const;
  void expect_unchanged(const Storage& storage) const;

  OffloadSpec spec;
  offload::SpillFile file;
  StepProfile profile;
  std::mutex mutex;
  std::condition_variable ended;
  std::vector<DiskEnd> finished;
  std::vector<OffloadMemory> let_go;  // until no lock is held: its end may run the caller's code
  int64_t in_flight = 0;
  std::string write_failure;  // why the disk takes no more; empty: it does
  std::map<std::pair<int64_t, int64_t>, Stored> by_key;
  std::map<int64_t, Stored> by_handle;
  std::map<int64_t, Stored> storages;  // of this step, by number
  int64_t next_handle = 1, next_number = 0;
  OffloadCounters counters;
  std::unique_ptr<Disk> disk;  // last: its threads use all others
};

OffloadCache::Impl::Stored& OffloadCache::Impl::storage_of(int64_t handle) {
  const auto found = by_handle.find(handle);
  require(found != by_handle.end(), "handle ", handle,
          " is unknown or was dropped; unpack what pack() has given, before drop()");
  return found->second;
}

void OffloadCache::Impl::failed(const Storage& storage, std::string_view what) const {
  infeasible("storage ", storage.number, " of this step (", storage.memory.bytes.value,
             " bytes) in ", file.folder(), ": ", what);
}

void OffloadCache::Impl::expect_unchanged(const Storage& storage) const {
  const int64_t now = version_of(storage.memory);
  require(now == storage.version, "the memory of storage ", storage.number,
          " was changed in place after it was saved: version ", now, " instead of ",
          storage.version, "; save it later, or change a copy");
}

void OffloadCache::Impl::release(Storage& storage) {
  const Bytes bytes = storage.memory.bytes;
  let_go.push_back(std::exchange(storage.memory, {}));
  storage.memory.bytes = bytes;
}

void OffloadCache::Impl::hold(int64_t bytes) {
  counters.held += Bytes(bytes);
  counters.peak = std::max(counters.peak, counters.held);
}

/// Takes note of all that has ended since the last call, in the caller's thread.
void OffloadCache::Impl::reap() {
  for (auto& [storage, error, when] : std::exchange(finished, {})) {
    storage->request = 0;
    storage->has_failed = error != 0;
    profile.moved(storage->at == At::kWriting, storage->memory.bytes, storage->begun, when);
    if (storage->at == At::kWriting) {
      if (error != 0 && write_failure.empty()) {
        write_failure =
            words("a write to ", file.folder(),
                  " failed: ", std::string_view(std::generic_category().message(error)));
      }
      settle_write(storage);
    } else if (error != 0) {
      storage->at = At::kDisk;
      storage->loaded.reset();
      hold(-storage->memory.bytes.value);
    } else {
      storage->at = At::kMemory;
      counters.read += storage->memory.bytes;
    }
    if (storage->handles == 0) forget(storage);
  }
}

void OffloadCache::Impl::settle_write(const Stored& storage) {
  storage->at = At::kMemory;
  if (storage->has_failed || storage->handles == 0) return;
  counters.written += storage->memory.bytes;
  // Changed in place while it was written: the disk has neither the one nor the other.
  if (version_of(storage->memory) != storage->version) return;
  storage->at = At::kDisk;
  release(*storage);
  hold(-storage->memory.bytes.value);
}

/// Waits until the disk has the bytes: some of its errors come only then, and pages that are on the
/// disk need not fill the system's cache, too.
int OffloadCache::Impl::settle(const Storage& storage) const {
  constexpr unsigned kAll =
      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  const int64_t bytes = storage.memory.bytes.value;
  if (sync_file_range(file.fd(), storage.offset, bytes, kAll) == 0) return 0;
  return errno == ENOSYS || errno == EINVAL || errno == ESPIPE ? 0 : errno;
}

void OffloadCache::Impl::submit(const Stored& storage, bool is_write, char* data) {
  storage->at = is_write ? At::kWriting : At::kReading;
  storage->begun = StepProfile::Clock::now();
  ++in_flight;
  offload::DiskRequest request{is_write, storage->offset, data, storage->memory.bytes.value, {}};
  request.done = [this, storage, is_write](int error) {
    const int result = error == 0 && is_write ? settle(*storage) : error;
    posix_fadvise(file.fd(), storage->offset, storage->memory.bytes.value, POSIX_FADV_DONTNEED);
    const std::lock_guard lock(mutex);
    finished.push_back({storage, result, StepProfile::Clock::now()});
    --in_flight;
    ended.notify_all();
  };
  storage->request = disk->submit(std::move(request));
}

void OffloadCache::Impl::write(const Stored& storage) {
  const int64_t bytes = storage->memory.bytes.value;
  storage->offset = file.take(bytes);
  storage->checksum = offload::checksum_of(storage->memory.data, bytes);
  ++counters.writes;
  // The disk only reads it.
  submit(storage, true, static_cast<char*>(const_cast<void*>(storage->memory.data)));
}

void OffloadCache::Impl::read(const Stored& storage) {
  constexpr std::align_val_t kLine{64};
  const auto bytes = size_t(std::max<int64_t>(storage->memory.bytes.value, 1));
  storage->loaded.reset(static_cast<char*>(operator new(bytes, kLine)),
                        [](char* memory) { operator delete(memory, kLine); });
  hold(storage->memory.bytes.value);
  ++counters.reads;
  submit(storage, false, storage->loaded.get());
}

void OffloadCache::Impl::wait_for_disk(std::unique_lock<std::mutex>& lock) {
  const auto silence = std::chrono::nanoseconds(spec.silence.value);
  if (!ended.wait_for(lock, silence, [this] { return !finished.empty(); })) {
    infeasible("the disk of ", file.folder(), " has finished nothing for ",
               milliseconds(spec.silence) / 1000, " s; see whether it hangs");
  }
  reap();
}

/// Waits for writes, and begins those of the oldest storages that were kept.
void OffloadCache::Impl::make_room(std::unique_lock<std::mutex>& lock, int64_t bytes) {
  while (counters.held.value + bytes > spec.budget.value) {
    if (!write_failure.empty()) infeasible(write_failure);
    if (in_flight > 0 || !finished.empty()) {
      wait_for_disk(lock);
      continue;
    }
    const auto read = std::find_if(storages.begin(), storages.end(), [this](const auto& entry) {
      return entry.second->at == At::kMemory && !is_plain(*entry.second);
    });
    if (read != storages.end()) {
      read->second->at = At::kDisk;
      read->second->loaded.reset();
      hold(-read->second->memory.bytes.value);
      continue;
    }
    const auto kept = std::find_if(storages.begin(), storages.end(), [this](const auto& entry) {
      const Storage& storage = *entry.second;
      return storage.at == At::kMemory && is_plain(storage) && !storage.has_failed &&
             version_of(storage.memory) == storage.version;
    });
    if (kept == storages.end()) {
      infeasible("a storage of ", bytes, " bytes does not fit beside ", counters.held.value,
                 " bytes that cannot leave memory, into a budget of ", spec.budget.value,
                 "; raise the budget");
    }
    write(kept->second);
  }
}

int64_t OffloadCache::Impl::pack(int64_t name, const OffloadMemory& memory) {
  require(memory.bytes >= Bytes(0) && (memory.data != nullptr || memory.bytes == Bytes(0)) &&
              memory.hold != nullptr,
          "a storage of ", memory.bytes.value, " bytes needs data and a hold that keeps it alive");
  std::vector<OffloadMemory> trash;  // ends behind the lock
  std::unique_lock lock(mutex);
  reap();
  trash.swap(let_go);
  if (!write_failure.empty()) infeasible(write_failure);
  const std::pair key{name, version_of(memory)};
  Stored& known = by_key[key];
  if (!known) {
    const auto waited_from = StepProfile::Clock::now();
    auto storage = std::make_shared<Storage>();
    storage->key = key;
    storage->memory = memory;
    storage->version = key.second;
    try {
      make_room(lock, memory.bytes.value);
    } catch (const Error&) {
      by_key.erase(key);
      throw;
    }
    storage->number = next_number++;
    hold(memory.bytes.value);
    const bool goes = profile.packed(memory.bytes, StepProfile::Clock::now() - waited_from);
    storages[storage->number] = storage;
    if (goes) {
      write(storage);
    } else {
      ++counters.kept;
    }
    known = storage;
  }
  require(known->memory.bytes == memory.bytes, "storage ", name, " was packed with ",
          known->memory.bytes.value, " bytes and now with ", memory.bytes.value,
          "; give each storage a number of its own");
  ++known->handles;
  ++counters.packed;
  by_handle[next_handle] = known;
  return next_handle++;
}

/// Storages are used in the reverse order of the forward pass.
void OffloadCache::Impl::read_ahead(int64_t before) {
  auto it = storages.lower_bound(before);
  for (int64_t ahead = 0; ahead < kReadAhead && it != storages.begin(); ++ahead) {
    const Stored& storage = (--it)->second;
    if (storage->at != At::kDisk || storage->has_failed) continue;
    if (counters.held + storage->memory.bytes > spec.budget) return;
    read(storage);
  }
}

OffloadMemory OffloadCache::Impl::from_disk(std::unique_lock<std::mutex>& lock,
                                            const Stored& storage) {
  // It is what the step waits for, so it is read whatever the budget has room for; the caller has
  // its memory then, as it had before pack().
  if (storage->at == At::kDisk) read(storage);
  while (storage->at == At::kReading) wait_for_disk(lock);
  if (storage->has_failed) {
    failed(*storage, "it cannot be read back; the disk or its file is damaged");
  }
  const uint64_t sum = offload::checksum_of(storage->loaded.get(), storage->memory.bytes.value);
  if (sum != storage->checksum) {
    storage->has_failed = true;
    failed(*storage, "its bytes are not those that were written; the disk or its file is damaged");
  }
  return {storage->loaded.get(), storage->memory.bytes, storage->loaded, {}};
}

OffloadMemory OffloadCache::Impl::unpack(int64_t handle) {
  std::vector<OffloadMemory> trash;  // ends behind the lock
  std::unique_lock lock(mutex);
  reap();
  const Stored storage = storage_of(handle);
  profile.unpacked(storage->number);
  if (is_plain(*storage)) {
    expect_unchanged(*storage);
    if (storage->at == At::kWriting) {
      ++counters.forwarded;
      if (disk->cancel(storage->request)) {
        --in_flight;
        --counters.writes;
        storage->request = 0;
        storage->at = At::kMemory;
        file.give_back(std::exchange(storage->offset, -1), storage->memory.bytes.value);
      }
    }
    read_ahead(storage->number);
    trash.swap(let_go);
    return storage->memory;
  }
  // The one that is needed now is read before those that will be.
  if (storage->at == At::kDisk) read(storage);
  read_ahead(storage->number);
  OffloadMemory memory = from_disk(lock, storage);
  profile.resumed();
  trash.swap(let_go);
  return memory;
}

void OffloadCache::Impl::forget(const Stored& storage) {
  if (storage->at == At::kMemory) hold(-storage->memory.bytes.value);
  if (storage->offset >= 0) file.give_back(storage->offset, storage->memory.bytes.value);
  storage->offset = -1;
  release(*storage);
  storage->loaded.reset();
}

void OffloadCache::Impl::drop(int64_t handle) {
  std::vector<OffloadMemory> trash;  // ends behind the lock
  std::unique_lock lock(mutex);
  reap();
  const Stored storage = storage_of(handle);
  by_handle.erase(handle);
  if (--storage->handles == 0) {
    by_key.erase(storage->key);
    storages.erase(storage->number);
    if (storage->request != 0 && disk->cancel(storage->request)) {
      --in_flight;
      if (storage->at == At::kWriting) --counters.writes;
      storage->request = 0;
      storage->at = At::kMemory;
    }
    if (storage->request == 0) forget(storage);  // else reap() does
  }
  if (by_handle.empty()) {
    profile.end_step(spec.budget);
    counters.planned = profile.planned();
    next_number = 0;
  }
  trash.swap(let_go);
}

OffloadCounters OffloadCache::Impl::count() {
  std::vector<OffloadMemory> trash;  // ends behind the lock
  const std::lock_guard lock(mutex);
  reap();
  trash.swap(let_go);
  return counters;
}

OffloadCache::OffloadCache(const OffloadSpec& spec) {
  require(spec.budget >= Bytes(1), "a budget of ", spec.budget.value, " bytes; give 1 or more");
  require(spec.threads >= 1 && spec.threads <= 256, spec.threads, " threads; give 1 to 256");
  require(spec.limit.write >= 0 && spec.limit.read >= 0, "a limit of the disk is negative");
  require(spec.slack >= 0 && spec.slack <= 1, "a slack of ", spec.slack, " of a step; give 0 to 1");
  require(spec.silence > Nanoseconds(0), "a silence of ", spec.silence.value, " ns; give more");
  impl_ = std::make_unique<Impl>(spec);
}
OffloadCache::~OffloadCache() = default;

int64_t OffloadCache::pack(int64_t storage, const OffloadMemory& memory) {
  return impl_->pack(storage, memory);
}
OffloadMemory OffloadCache::unpack(int64_t handle) { return impl_->unpack(handle); }
void OffloadCache::drop(int64_t handle) { impl_->drop(handle); }
OffloadCounters OffloadCache::counters() { return impl_->count(); }
const char* OffloadCache::io() const { return impl_->disk->name(); }

}  // namespace tutti::runtime
