#include "src/transport/import.h"

#include <algorithm>

namespace tutti::transport {

Result<std::byte*> ImportCache::import(const MemoryHandle& named, const Open& open) {
  const std::lock_guard lock(mutex_);
  const std::pair<uint64_t, uint64_t> file{named.device, named.inode};
  if (const auto found = entries_.find(file); found != entries_.end()) {
    ++found->second.users;
    return found->second.arena.data();
  }
  Result<Fd> fd = open();
  if (!fd.ok()) return fd.status();
  Result<Arena> arena = Arena::adopt(fd.value().release(), named.bytes);
  if (!arena.ok()) return arena.status();
  std::byte* const data = arena.value().data();
  entries_.emplace(file, Entry{std::move(arena).value(), 1});
  return data;
}

void ImportCache::release(const std::byte* memory) {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(entries_.begin(), entries_.end(), [memory](const auto& entry) {
    return entry.second.arena.data() == memory;
  });
  if (found != entries_.end() && --found->second.users == 0) entries_.erase(found);
}

Result<Import> Import::of(Mapped& link, std::string_view handle) {
  Result<std::byte*> data = link.import(handle);
  if (!data.ok()) return data.status();
  return Import(link, data.value());
}

}  // namespace tutti::transport
