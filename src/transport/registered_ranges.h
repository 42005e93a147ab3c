// Memory that a transport has told its hardware of once and for all, found by address: windows, and
// buffers that users have registered. `Keys` is by what the hardware finds it.
//
// Owns:     nothing: a registration lives as long as what add() returned.
// Threads:  any.
// Lifetime: a range ends before its memory does, and when no peer writes to it any more.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "src/base/mutex.h"

namespace tutti::transport {

template <class Keys>
class RegisteredRanges : public std::enable_shared_from_this<RegisteredRanges<Keys>> {
 public:
  /// `registration` ends when nobody can find the range any more. Ranges may overlap.
  std::shared_ptr<const void> add(const void* memory, size_t bytes, Keys keys,
                                  std::shared_ptr<const void> registration) {
    const MutexLock lock(mutex_);
    longest_ = std::max(longest_, bytes);
    const auto place =
        ranges_.emplace(reinterpret_cast<uintptr_t>(memory), KnownRange{bytes, std::move(keys)});
    return std::make_shared<Entry>(this->shared_from_this(), place, std::move(registration));
  }

  /// Of the range that holds all of these bytes. None that begins further back reaches so far.
  std::optional<Keys> find(const void* memory, uint64_t bytes) const {
    const auto address = reinterpret_cast<uintptr_t>(memory);
    const MutexLock lock(mutex_);
    for (auto next = ranges_.upper_bound(address); next != ranges_.begin();) {
      const auto& [start, range] = *--next;
      const uint64_t skipped = address - start;
      if (skipped > longest_) break;
      if (skipped <= range.bytes && bytes <= range.bytes - skipped) return range.keys;
    }
    return std::nullopt;
  }

 private:
  struct KnownRange {
    size_t bytes = 0;
    Keys keys;
  };
  using Ranges = std::multimap<uintptr_t, KnownRange>;  // by address

  /// A range, as long as it is known.
  class Entry {
   public:
    Entry(std::shared_ptr<RegisteredRanges> all, typename Ranges::iterator place,
          std::shared_ptr<const void> registration)
        : all_(std::move(all)), place_(place), registration_(std::move(registration)) {}
    ~Entry() {
      const MutexLock lock(all_->mutex_);
      all_->ranges_.erase(place_);
    }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    const std::shared_ptr<RegisteredRanges> all_;
    const typename Ranges::iterator place_;
    const std::shared_ptr<const void> registration_;
  };

  mutable Mutex mutex_;
  Ranges ranges_ TUTTI_GUARDED_BY(mutex_);
  size_t longest_ TUTTI_GUARDED_BY(mutex_) = 0;  // ever
};

}  // namespace tutti::transport
