#include "src/transport/stream/channel_table.h"

#include <algorithm>
#include <utility>

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

Channel* ChannelTable::make(transport::ChannelId id) {
  latest_ = &channels_.try_emplace(id, id).first->second;
  const auto found = epochs_.find(id.communicator);
  const bool high = found != epochs_.end() && found->second.has_high && found->second.high.has(id);
  if (high) latest_->priority = transport::Priority::kHigh;
  return latest_;
}

void ChannelTable::prioritize(transport::EpochId epoch, transport::Priority priority,
                              const std::function<void(Channel&)>& each) {
  EpochsOf& epochs = epochs_[epoch.communicator];
  epochs.high = epoch;
  epochs.has_high = priority == transport::Priority::kHigh;
  for (auto& [id, channel] : channels_) {
    if (!epoch.has(id) || channel.priority == priority) continue;
    each(channel);
  }
}

bool ChannelTable::stale(transport::ChannelId id) const {
  const auto found = epochs_.find(id.communicator);
  if (found == epochs_.end()) return false;
  const uint64_t count = count_of(id.epoch);
  return count < found->second.used || count <= found->second.ended;
}

Channel* ChannelTable::use(transport::ChannelId id, const std::function<void(Channel&)>& retire) {
  Channel* channel = lookup(id);
  if (channel != nullptr && channel->used_here) return channel;
  if (stale(id)) return nullptr;
  begin_epoch(id, retire);
  if (channel != nullptr) {
    --foreign_;
  } else {
    channel = make(id);
  }
  channel->used_here = true;
  return channel;
}

void ChannelTable::begin_epoch(transport::ChannelId id,
                               const std::function<void(Channel&)>& retire) {
  EpochsOf& epochs = epochs_[id.communicator];
  const uint64_t count = count_of(id.epoch);
  if (epochs.used == count) return;
  epochs.used = count;
  if (std::exchange(epochs.listed, false)) std::erase(over_, id.communicator);
  drop(id.communicator, count, retire);
}

void ChannelTable::drop(uint64_t communicator, uint64_t below,
                        const std::function<void(Channel&)>& retire) {
  for (auto entry = channels_.begin(); entry != channels_.end();) {
    Channel& channel = entry->second;
    if (channel.id.communicator != communicator || count_of(channel.id.epoch) >= below) {
      ++entry;
      continue;
    }
    retire(channel);
    if (!channel.used_here) --foreign_;
    if (latest_ == &channel) latest_ = nullptr;
    entry = channels_.erase(entry);
  }
}

bool ChannelTable::end(transport::EpochId epoch, const std::function<void(Channel&)>& retire) {
  EpochsOf& epochs = epochs_[epoch.communicator];
  const uint64_t count = count_of(epoch.epoch);
  if (epochs.ended >= count) return false;
  epochs.ended = count;
  drop(epoch.communicator, count + 1, retire);
  forget_if_over(epoch.communicator);
  return true;
}

bool ChannelTable::has_ended(transport::EpochId epoch) const {
  const auto found = epochs_.find(epoch.communicator);
  return found != epochs_.end() && count_of(epoch.epoch) <= found->second.ended;
}

bool ChannelTable::end_there(transport::EpochId epoch, const std::function<void(Channel&)>& each) {
  EpochsOf& epochs = epochs_[epoch.communicator];
  epochs.ended_there = std::max(epochs.ended_there, count_of(epoch.epoch));
  for (auto& [id, channel] : channels_) {
    if (id.communicator == epoch.communicator && id.epoch <= epoch.epoch) each(channel);
  }
  forget_if_over(epoch.communicator);
  return epochs_.size() <= kMaxForeignEpochs;
}

void ChannelTable::note_seen(transport::EpochId epoch) {
  const auto found = epochs_.find(epoch.communicator);
  if (found == epochs_.end()) return;
  found->second.seen = std::max(found->second.seen, count_of(epoch.epoch));
  forget_if_over(epoch.communicator);
}

bool ChannelTable::is_seen(transport::EpochId epoch) const {
  const auto found = epochs_.find(epoch.communicator);
  return found == epochs_.end() || count_of(epoch.epoch) <= found->second.seen;
}

// The peer says nothing of it after its OVER, which came behind what it sent.
void ChannelTable::forget_if_over(uint64_t communicator) {
  const auto found = epochs_.find(communicator);
  const EpochsOf& epochs = found->second;
  const bool over = epochs.ended >= epochs.used && epochs.seen >= epochs.ended &&
                    epochs.ended_there >= epochs.ended && epochs.ended > 0;
  if (!over || std::exchange(found->second.listed, true)) return;
  over_.push_back(communicator);
  if (over_.size() <= kRemembered) return;
  epochs_.erase(over_.front());
  over_.pop_front();
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
  channel = make(id);
  return Known::kYes;
}

}  // namespace tutti::transport::stream
