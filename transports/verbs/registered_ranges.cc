#include "transports/verbs/registered_ranges.h"

#include <algorithm>
#include <utility>

#include "transports/verbs/adapter.h"

namespace tutti::transports::verbs {

/// A range, as long as it is known.
class RegisteredRanges::Entry {
 public:
  Entry(std::shared_ptr<RegisteredRanges> all, Ranges::iterator place,
        std::unique_ptr<CardMemory> registration)
      : all_(std::move(all)), place_(place), registration_(std::move(registration)) {}
  ~Entry() {
    const std::lock_guard lock(all_->mutex_);
    all_->ranges_.erase(place_);
  }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;

 private:
  const std::shared_ptr<RegisteredRanges> all_;
  const Ranges::iterator place_;
  const std::unique_ptr<CardMemory> registration_;  // ends after nobody can find it
};

Result<std::shared_ptr<const void>> RegisteredRanges::add(std::shared_ptr<Domain> domain,
                                                          void* memory, size_t bytes) {
  auto made = CardMemory::create(std::move(domain), memory, bytes,
                                 api::kAccessLocalWrite | api::kAccessRemoteWrite);
  if (!made.ok()) return made.status();
  const RangeKeys keys{made.value()->local_key(), made.value()->remote_key()};
  const std::lock_guard lock(mutex_);
  longest_ = std::max(longest_, bytes);
  const auto place = ranges_.emplace(reinterpret_cast<uintptr_t>(memory), KnownRange{bytes, keys});
  return std::shared_ptr<const void>(
      std::make_shared<Entry>(shared_from_this(), place, std::move(made).value()));
}

// No range that begins further back reaches so far.
std::optional<RangeKeys> RegisteredRanges::find(const void* memory, uint64_t bytes) const {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  const std::lock_guard lock(mutex_);
  for (auto next = ranges_.upper_bound(address); next != ranges_.begin();) {
    const auto& [start, range] = *--next;
    const uint64_t skipped = address - start;
    if (skipped > longest_) break;
    if (skipped <= range.bytes && bytes <= range.bytes - skipped) return range.keys;
  }
  return std::nullopt;
}

}  // namespace tutti::transports::verbs
