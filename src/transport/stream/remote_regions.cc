#include "src/transport/stream/remote_regions.h"

namespace tutti::transport::stream {

void RemoteRegions::forget(const Id& id) {
  known_.erase(id);
  late_.erase(id);
}

void RemoteRegions::forget(const transport::EpochId& epoch) {
  std::erase_if(known_, [&](const auto& entry) { return epoch.has(entry.first); });
  std::erase_if(late_, [&](const auto& entry) { return epoch.has(entry.first); });
}

std::optional<KeyedPlace> RemoteRegions::find(const Id& id, uint64_t offset, uint64_t bytes) const {
  const auto found = known_.find(id);
  if (found == known_.end()) return std::nullopt;
  const KnownRegion& region = found->second;
  if (offset > region.bytes || bytes > region.bytes - offset) return std::nullopt;
  KeyedPlace place = region.place;
  place.address += offset;
  return place;
}

bool RemoteRegions::note_get(const Id& id) {
  const auto late = late_.find(id);
  if (late == late_.end()) return false;
  late->second.is_put = false;
  ++late->second.gets;
  return true;
}

void RemoteRegions::note_answer(const Id& id) {
  const auto late = late_.find(id);
  if (late == late_.end() || late->second.gets == 0) return;
  if (--late->second.gets == 0 && !late->second.is_put) late_.erase(late);
}

}  // namespace tutti::transport::stream
