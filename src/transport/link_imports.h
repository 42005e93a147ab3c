// The uses that one link has of memory that its process has mapped: those that are left end with
// the link, so that a peer's memory is not kept for somebody who has gone without a word.
//
// Owns:    its uses. Threads: locks inside. Errors: those of ImportCache.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "src/base/mutex.h"
#include "src/transport/import.h"

namespace tutti::transport {

class LinkImports {
 public:
  explicit LinkImports(std::shared_ptr<ImportCache> process) : process_(std::move(process)) {}
  ~LinkImports() {
    for (const auto& [memory, uses] : uses_) {
      for (int i = 0; i < uses; ++i) process_->release(memory);
    }
  }
  LinkImports(const LinkImports&) = delete;
  LinkImports& operator=(const LinkImports&) = delete;

  /// As ImportCache::import().
  Result<Buffer> import(pid_t owner, const MemoryHandle& named, const ImportCache::Open& open) {
    Result<Buffer> memory = process_->import(owner, named, open);
    if (!memory.ok()) return memory;
    const MutexLock lock(mutex_);
    ++uses_[memory.value().data];
    return memory;
  }
  /// Only what this link has imported.
  void release(const std::byte* memory) {
    const MutexLock lock(mutex_);
    const auto found = uses_.find(memory);
    if (found == uses_.end()) return;
    if (--found->second == 0) uses_.erase(found);
    process_->release(memory);
  }

 private:
  const std::shared_ptr<ImportCache> process_;
  Mutex mutex_;
  std::map<const std::byte*, int> uses_ TUTTI_GUARDED_BY(mutex_);  // by memory, how often
};

}  // namespace tutti::transport
