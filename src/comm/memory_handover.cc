// This part of MemoryTable is about edits: what an epoch takes over from the one before it, and
// what removed processes may still reach.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/base/wait.h"
#include "src/comm/device_places.h"
#include "src/comm/memory_table.h"
#include "src/consensus/bytes.h"

namespace tutti::comm {

/// All that one rank has, as it tells the others.
struct MemoryTable::Inventory {
  uint64_t regions = 0;        // numbers of windows up to this one are taken
  uint64_t registrations = 0;  // the same of registered memory
  std::set<uint64_t> windows;
  std::map<uint64_t, uint64_t> registered;  // their bytes by number, and those of device memory
  uint64_t last_on_device = 0;              // as `registrations`, of device memory

  std::string write() const;
  static std::optional<Inventory> read(std::string_view text);
};

namespace {

// Of windows or registrations of one rank; more are no Tutti's.
constexpr uint64_t kMostListed = 1 << 20;

}  // namespace

std::string MemoryTable::Inventory::write() const {
  consensus::ByteWriter out;
  out.number(regions);
  out.number(registrations);
  out.number(last_on_device);
  out.number(windows.size());
  for (const uint64_t number : windows) out.number(number);
  out.number(registered.size());
  for (const auto& [number, bytes] : registered) {
    out.number(number);
    out.number(bytes);
  }
  return std::move(out).bytes();
}

std::optional<MemoryTable::Inventory> MemoryTable::Inventory::read(std::string_view text) {
  consensus::ByteReader in(text);
  Inventory read;
  read.regions = in.number();
  read.registrations = in.number();
  read.last_on_device = in.number();
  const uint64_t windows = in.number();
  if (windows > kMostListed) return std::nullopt;
  for (uint64_t i = 0; i < windows; ++i) read.windows.insert(in.number());
  const uint64_t registered = in.number();
  if (registered > kMostListed) return std::nullopt;
  for (uint64_t i = 0; i < registered; ++i) {
    const uint64_t number = in.number();
    read.registered[number] = in.number();
  }
  if (!in.finished()) return std::nullopt;
  return read;
}

std::string MemoryTable::list(const DevicePlaces& devices) {
  Inventory mine;
  mine.registered = devices.list();
  mine.last_on_device = devices.last_handle();
  mine.regions = regions_;
  mine.registrations = registrations_.last_number();
  const MutexLock lock(mutex_);
  for (const auto& window : windows_) {
    const bool is_closed = std::find(closed_.begin(), closed_.end(), window.get()) != closed_.end();
    if (!is_closed) mine.windows.insert(window->number());
  }
  for (const RegisteredPart& one : registered_) mine.registered[one.number] = one.mine.bytes;
  return mine.write();
}

std::string MemoryTable::list_of_newcomer() { return Inventory().write(); }

Window* MemoryTable::numbered(uint32_t number) {
  const MutexLock lock(mutex_);
  for (const auto& window : windows_) {
    const bool is_closed = std::find(closed_.begin(), closed_.end(), window.get()) != closed_.end();
    if (!is_closed && window->number() == number) return window.get();
  }
  return nullptr;
}

Result<KeptMemory> MemoryTable::take_over(const MemorySource& source,
                                          const std::vector<std::string>& lists,
                                          transport::ChannelId region, const GatherTexts& gather,
                                          const ShareDevices& share) {
  Inventory all;
  for (size_t rank = 0; rank < lists.size(); ++rank) {
    auto theirs = Inventory::read(lists[rank]);
    if (!theirs) {
      return Status::remote_error(membership_.name_of(static_cast<int>(rank)) +
                                  " has listed its memory badly");
    }
    all.regions = std::max(all.regions, theirs->regions);
    all.registrations = std::max(all.registrations, theirs->registrations);
    all.last_on_device = std::max(all.last_on_device, theirs->last_on_device);
    all.windows.merge(theirs->windows);
    if (rank == 0) all.registered = theirs->registered;
    std::erase_if(all.registered, [&](const auto& entry) {
      const auto found = theirs->registered.find(entry.first);
      return found == theirs->registered.end() || found->second != entry.second;
    });
  }
  regions_ = static_cast<uint32_t>(all.regions);
  registrations_.skip_to(static_cast<uint32_t>(all.registrations));
  KeptMemory kept;
  const WindowSteps steps{gather, [this] { return be_attended(); }, share};
  size_t place = 0;
  for (const uint64_t number : all.windows) {
    region.lane = static_cast<uint32_t>(number);
    const Result<Window*> window = take_window(source, place++, region, steps);
    if (!window.ok()) return window.status();
    if (window.value() != nullptr) kept.windows.push_back(window.value());
  }
  kept.last_device_handle = all.last_on_device;
  std::set<uint64_t> of_all;
  for (const auto& [number, bytes] : all.registered) {
    (number < DevicePlaces::kFirstHandle ? of_all : kept.device_handles).insert(number);
  }
  if (source.before == nullptr) return kept;
  const Result<uint32_t> registrations = take_registrations(*source.before, of_all, gather);
  if (!registrations.ok()) return registrations.status();
  kept.registrations = registrations.value();
  return kept;
}

// `place`: of the window among those that are open. Null: this rank has no part of it.
Result<Window*> MemoryTable::take_window(const MemorySource& source, size_t place,
                                         transport::ChannelId region, const WindowSteps& steps) {
  WindowMemory mine;
  if (source.before != nullptr) {
    const Window* old = source.before->numbered(region.lane);
    if (old != nullptr) mine = old->memory();
    mine.before = old;
    mine.is_absent = old == nullptr;
  } else if (place < source.parts.size()) {
    mine = source.parts[place];
  }
  auto made = Window::create(membership_, mine, region, steps);
  if (!made.ok()) return made.status();
  if (mine.is_absent) return static_cast<Window*>(nullptr);
  windows_.push_back(std::move(made).value());
  return windows_.back().get();
}

// Those that all ranks have, in the order of their numbers.
Result<uint32_t> MemoryTable::take_registrations(MemoryTable& before,
                                                 const std::set<uint64_t>& of_all,
                                                 const GatherTexts& gather) {
  std::map<uint32_t, RegisteredPart> kept;
  std::vector<uint32_t> unused;
  {
    const MutexLock lock(before.mutex_);
    unused = before.unused_;
    for (const RegisteredPart& old : before.registered_) {
      if (of_all.count(old.number) == 0) {
        unused.push_back(old.number);
      } else {
        kept.emplace(old.number, old);
      }
    }
  }
  {
    const MutexLock lock(mutex_);
    unused_ = std::move(unused);
  }
  for (const auto& [number, old] : kept) {
    if (Status status = take_registration(old, gather); !status.ok()) return status;
  }
  return static_cast<uint32_t>(kept.size());
}

Status MemoryTable::take_registration(const RegisteredPart& old, const GatherTexts& gather) {
  const Result<std::vector<std::string>> texts = gather(text_of(old.mine));
  if (!texts.ok()) return texts.status();
  const Status fit = check_sizes(old.mine.bytes, texts.value());
  Result<exec::Registration> made = share(old.mine, fit, texts.value(), gather);
  if (!made.ok()) return made.status();
  made.value().number = old.number;
  const MutexLock lock(mutex_);
  registrations_.restore(std::move(made).value());
  has_registered_.store(true, std::memory_order_relaxed);
  registered_.push_back(old);
  return {};
}

// The accesses of one rank to a peer take effect in order over all windows: one get tells of all.
Status MemoryTable::flush(const std::set<int>& without, uint64_t deadline_ns) {
  std::vector<Access> gets;
  std::set<int> peers = without;
  for (const auto& window : windows_) {
    for (const Access& get : window->flushes()) {
      if (peers.insert(static_cast<int>(get.peer)).second) gets.push_back(get);
    }
  }
  constexpr uint32_t kSpins = 100;
  Backoff backoff(kSpins);
  for (;;) {
    const auto over = std::remove_if(gets.begin(), gets.end(), [](Access& get) {
      return get.window->advance(get) == exec::Progress::kDone;
    });
    gets.erase(over, gets.end());
    // Puts that were on their way when a communicator failed are lost; its users know it failed.
    if (gets.empty() || !failure_.check().ok()) return {};
    if (monotonic_ns() > deadline_ns) {
      return Status::timeout(membership_.name_of(static_cast<int>(gets.front().peer)) +
                             " does not say that what was put to its windows has come");
    }
    for (const Access& get : gets) {
      membership_.link(static_cast<int>(get.peer))->stream()->progress();
    }
    backoff.pause();
  }
}

void MemoryTable::bar(int peer, bool out) const {
  for (const auto& window : windows_) window->bar(peer, out);
}

std::string MemoryTable::within_reach_of(int peer) {
  for (const auto& window : windows_) {
    if (window->is_inside(peer)) return "this rank's part of a window";
    if (window->has_captured_puts(peer)) {
      return "this rank's part of a window, by a put that it has captured into a graph";
    }
  }
  const MutexLock lock(mutex_);
  return registered_.empty() ? "" : "memory that this rank has registered";
}

}  // namespace tutti::comm
