#include "src/transport/stream/channel_table.h"

namespace tutti::transport::stream {

size_t ChannelTable::ChannelIdHash::operator()(const transport::ChannelId& id) const {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio
  uint64_t mixed = id.communicator * kOdd;
  mixed ^= (static_cast<uint64_t>(id.epoch) << 32 | id.lane) + (mixed >> 29);
  return static_cast<size_t>((mixed * kOdd) ^ (mixed >> 32));
}

Channel* ChannelTable::lookup(transport::ChannelId id) {
  if (latest_ != nullptr && latest_->id == id) return latest_;
  const auto found = channels_.find(id);
  if (found == channels_.end()) return nullptr;
  return latest_ = &found->second;
}

bool ChannelTable::stale(transport::ChannelId id) const {
  const auto newest = epochs_.find(id.communicator);
  return newest != epochs_.end() && id.epoch < newest->second;
}

Channel* ChannelTable::use(transport::ChannelId id, const std::function<void(Channel&)>& retire) {
  Channel* channel = lookup(id);
  if (channel != nullptr && channel->used_here) return channel;
  if (stale(id)) return nullptr;
  begin_epoch(id, retire);
  if (channel != nullptr) {
    --foreign_;
  } else {
    channel = latest_ = &channels_.try_emplace(id, id).first->second;
  }
  channel->used_here = true;
  return channel;
}

void ChannelTable::begin_epoch(transport::ChannelId id,
                               const std::function<void(Channel&)>& retire) {
  const auto [newest, fresh] = epochs_.try_emplace(id.communicator, id.epoch);
  if (!fresh && newest->second == id.epoch) return;
  newest->second = id.epoch;
  for (auto entry = channels_.begin(); entry != channels_.end();) {
    Channel& channel = entry->second;
    const bool over = channel.id.communicator == id.communicator && channel.id.epoch < id.epoch;
    if (!over) {
      ++entry;
      continue;
    }
    retire(channel);
    if (!channel.used_here) --foreign_;
    if (latest_ == &channel) latest_ = nullptr;
    entry = channels_.erase(entry);
  }
}

const Channel* ChannelTable::look(transport::ChannelId id) const {
  const auto found = channels_.find(id);
  return found == channels_.end() ? nullptr : &found->second;
}

ChannelTable::Known ChannelTable::find(transport::ChannelId id, Channel*& channel) {
  channel = lookup(id);
  if (channel != nullptr) return Known::kYes;
  if (stale(id)) return Known::kStale;
  if (foreign_ == kMaxForeign) return Known::kTooMany;
  ++foreign_;
  channel = latest_ = &channels_.try_emplace(id, id).first->second;
  return Known::kYes;
}

}  // namespace tutti::transport::stream
