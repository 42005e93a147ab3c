// The parts of DeviceRing about the multicast address behind which all rings lie.
#include <algorithm>

#include "src/engines/cuda/device_ring.h"

namespace tutti::engines::cuda {

// The driver binds whole units. A rank that cannot take part has a ring as long as it needs.
uint64_t DeviceRing::padded(uint64_t bytes, const exec::DeviceRankOptions& options) const {
  if (options.multicast == MulticastWish::kOff || places_[rank_] != RingPlace::kDevice) {
    return bytes;
  }
  const Result<uint64_t> unit =
      MulticastRing::unit(cuda_, device_, static_cast<unsigned>(options.arenas.size()));
  return unit.ok() ? (bytes + unit.value() - 1) / unit.value() * unit.value() : bytes;
}

Status DeviceRing::share_places(const exec::DeviceRankOptions& options, const Status& ready) {
  if (options.multicast == MulticastWish::kOff || options.arenas.size() < 2) {
    shares_ = Status::unsupported(options.arenas.size() < 2 ? "the rank is alone on its host"
                                                            : "TUTTI_MULTICAST is off");
    return {};
  }
  if (mine_->device_memory() == nullptr || !why_pinned_.empty()) {
    shares_ = Status::unsupported("not all rings lie in device memory");
  } else {
    shares_ = ready;
  }
  places_of_all_.emplace(cuda_, device_, static_cast<unsigned>(options.arenas.size()), ring_bytes_);
  shares_ = places_of_all_->join(options, mine_->device_memory(), shares_);
  if (shares_.ok()) return {};
  places_of_all_.reset();
  return shares_.code() == Code::kUnsupported ? Status() : shares_;
}

Status DeviceRing::restore_places(const exec::DeviceRankOptions& options) {
  return places_of_all_->join(options, mine_->device_memory(), {});
}

}  // namespace tutti::engines::cuda
