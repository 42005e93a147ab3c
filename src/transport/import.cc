#include "src/transport/import.h"

#include <algorithm>

namespace tutti::transport {

Result<Buffer> ImportCache::import(pid_t owner, const MemoryHandle& named, const Open& open) {
  const MutexLock lock(mutex_);
  const FileOfOwner file{owner, named.device, named.inode};
  if (const auto found = entries_.find(file); found != entries_.end()) {
    ++found->second.users;
    const Arena& arena = found->second.arena;
    return Buffer{arena.data(), arena.bytes()};
  }
  Result<Fd> fd = open();
  if (!fd.ok()) return fd.status();
  Result<Arena> arena = Arena::adopt(fd.value().release(), named.bytes);
  if (!arena.ok()) return arena.status();
  const Buffer memory{arena.value().data(), arena.value().bytes()};
  entries_.emplace(file, ImportedFile{std::move(arena).value(), 1});
  return memory;
}

void ImportCache::release(const std::byte* memory) {
  const MutexLock lock(mutex_);
  const auto found = std::find_if(entries_.begin(), entries_.end(), [memory](const auto& entry) {
    return entry.second.arena.data() == memory;
  });
  if (found != entries_.end() && --found->second.users == 0) entries_.erase(found);
}

Result<Import> Import::of(Mapped& link, std::string_view handle) {
  Result<Buffer> memory = link.import(handle);
  if (!memory.ok()) return memory.status();
  return Import(link, memory.value());
}

}  // namespace tutti::transport
