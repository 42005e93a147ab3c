#include "src/engines/cuda/pair_streams.h"

#include <algorithm>

namespace tutti::engines::cuda {

using drivers::cuda::CUdeviceptr;
using exec::Transfer;

PairSlots::PairSlots(uint64_t bytes, size_t ranks) {
  constexpr uint64_t kLine = 256;
  constexpr uint64_t kMostBytes = 16 << 20;  // longer pieces gain nothing, and delay the first
  if (ranks < 2) return;
  const uint64_t share = bytes / (ranks - 1);
  slot_bytes_ = std::min(share / kSlots, kMostBytes) / kLine * kLine;
}

PairStreams::PairStreams(const drivers::cuda::Cuda* cuda, PairAddresses addresses)
    : cuda_(cuda), addresses_(std::move(addresses)), ways_(2 * addresses_.sends.size()) {}

// Transfers without bytes are compared by the host alone.
void PairStreams::line_up(std::span<const Transfer> transfers) {
  next_.assign(transfers.size(), kNone);
  open_.clear();
  for (OneWay& way : ways_) way.in_group = {};
  for (uint32_t i = 0; i < transfers.size(); ++i) {
    const Transfer& transfer = transfers[i];
    if (transfer.peer == addresses_.rank || transfer.bytes == 0) continue;
    OneWay& way = way_of(transfer.peer, transfer.is_send);
    if (way.current == kNone) {
      way.current = i;
      way.moved = 0;
      open_.push_back(static_cast<size_t>(&way - ways_.data()));
    } else {
      next_[way.last] = i;
    }
    way.last = i;
  }
  // Each rank begins with the peer behind it, so that not all read from one at a time.
  const size_t ways = ways_.size();
  std::sort(open_.begin(), open_.end(), [&](size_t a, size_t b) {
    const size_t begin = 2 * size_t{addresses_.rank};
    return (a + ways - begin) % ways < (b + ways - begin) % ways;
  });
}

// The k-th send to this rank itself goes to the k-th receive.
void PairStreams::copy_own(std::span<const Transfer> transfers) {
  const auto next = [&](size_t from, bool is_send) {
    while (from < transfers.size() &&
           (transfers[from].peer != addresses_.rank || transfers[from].is_send != is_send)) {
      ++from;
    }
    return from;
  };
  size_t send = next(0, true), receive = next(0, false);
  for (; send < transfers.size() && receive < transfers.size();
       send = next(send + 1, true), receive = next(receive + 1, false)) {
    const auto target = reinterpret_cast<CUdeviceptr>(transfers[receive].data);
    const auto source = reinterpret_cast<CUdeviceptr>(transfers[send].data);
    if (target != source && transfers[send].bytes > 0) {
      copies_.add(target, source, transfers[send].bytes);
    }
  }
}

Status PairStreams::put(drivers::cuda::CUstream stream, std::span<const Transfer> transfers) {
  stream_ = stream;
  status_ = Status();
  counts_ = {};
  copies_.clear();
  words_.clear();
  line_up(transfers);
  copy_own(transfers);
  step_ = 0;
  do {
    if (!step(transfers)) return status_;
    ++step_;
  } while (!open_.empty());
  return status_;
}

// Receives are one step behind sends: the peer's signal is on its way while
// this rank's copies run.
bool PairStreams::step(std::span<const Transfer> transfers) {
  const auto takes_part = [&](size_t way) { return way % 2 == 1 || step_ > 0; };
  for (const size_t way : open_) {
    if (takes_part(way)) wait(way);
  }
  if (!put_words()) return false;
  for (const size_t way : open_) {
    if (takes_part(way)) copy(way, transfers[ways_[way].current]);
  }
  if (!put_copies()) return false;
  for (const size_t way : open_) {
    if (takes_part(way)) signal(way, transfers[ways_[way].current]);
  }
  std::erase_if(open_, [&](size_t way) { return ways_[way].current == kNone; });
  return true;
}

void PairStreams::wait(size_t index) {
  OneWay& way = ways_[index];
  const bool sends = index % 2 == 1;
  const uint64_t before = sends ? PairSlots::kSlots : 0;
  if (way.pieces + 1 <= before) return;  // a slot that nothing has lain in
  const uint64_t value = way.pieces + 1 - before;
  if (way.in_group.last == 0) way.in_group = {index / 2, sends, value, value, step_};
  way.in_group.last = value;
  if (value <= way.awaited) return;
  const size_t peer = index / 2;
  words_.wait_at_least_64(sends ? addresses_.sends[peer].other : addresses_.receives[peer].other,
                          value);
  way.awaited = value;
}

void PairStreams::copy(size_t index, const Transfer& transfer) {
  const OneWay& way = ways_[index];
  const bool sends = index % 2 == 1;
  const uint64_t slot_bytes = addresses_.slots.slot_bytes();
  const CUdeviceptr slots =
      sends ? addresses_.sends[index / 2].slots : addresses_.receives[index / 2].slots;
  const CUdeviceptr slot = slots + way.pieces % PairSlots::kSlots * slot_bytes;
  const CUdeviceptr user = reinterpret_cast<CUdeviceptr>(transfer.data) + way.moved;
  const uint64_t bytes = std::min(transfer.bytes - way.moved, slot_bytes);
  sends ? copies_.add(slot, user, bytes) : copies_.add(user, slot, bytes);
}

void PairStreams::signal(size_t index, const Transfer& transfer) {
  OneWay& way = ways_[index];
  ++way.pieces;
  way.moved += std::min(transfer.bytes - way.moved, addresses_.slots.slot_bytes());
  words_.write_64(
      index % 2 == 1 ? addresses_.sends[index / 2].own : addresses_.receives[index / 2].own,
      way.pieces);
  if (way.moved < transfer.bytes) return;
  way.current = next_[way.current];
  way.moved = 0;
}

Status PairStreams::finish(CUdeviceptr word, uint64_t value) {
  words_.write_64(word, value);
  put_words();
  return status_;
}

std::vector<PairStreams::Awaited> PairStreams::awaited() const {
  std::vector<Awaited> all;
  for (const OneWay& way : ways_) {
    if (way.in_group.last > 0) all.push_back(way.in_group);
  }
  return all;
}

bool PairStreams::put_copies() {
  if (copies_.size() == 0) return true;
  counts_.copies += copies_.size();
  ++counts_.batches;
  if (cuda_ != nullptr) status_ = copies_.submit(*cuda_, stream_);
  copies_.clear();
  return status_.ok();
}

bool PairStreams::put_words() {
  if (words_.size() == 0) return true;
  counts_.operations += words_.size();
  ++counts_.groups;
  if (cuda_ != nullptr) status_ = words_.submit(*cuda_, stream_);
  words_.clear();
  return status_.ok();
}

}  // namespace tutti::engines::cuda
