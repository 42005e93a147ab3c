#include "src/engines/cuda/pair_streams.h"

#include <algorithm>
#include <utility>

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

PairSlots PairSlots::with(uint64_t slots) const {
  PairSlots other = *this;
  other.slots_ = slots;
  return other;
}

PairStreams::PairStreams(const drivers::cuda::Cuda* cuda, PairAddresses addresses)
    : cuda_(cuda),
      addresses_(std::move(addresses)),
      near_(2 * addresses_.sends.size()),
      directions_(near_) {}

bool PairStreams::is_sent(Direction direction) const {
  return is_far(direction) ? call_.bounce.pairs->directions()[direction - near_].sends
                           : sends(direction);
}

uint64_t PairStreams::slot_bytes_of(Direction direction) const {
  return is_far(direction) ? call_.bounce.pairs->directions()[direction - near_].slot_bytes
                           : addresses_.slots.slot_bytes();
}

CUdeviceptr PairStreams::slot_address(Direction direction) const {
  if (!is_far(direction)) {
    return end_of(direction).slots + slot_of(direction) * addresses_.slots.slot_bytes();
  }
  const exec::BounceDirection& far = call_.bounce.pairs->directions()[direction - near_];
  return reinterpret_cast<CUdeviceptr>(call_.bounce.memory) + far.place +
         pieces(direction) % far.slots * far.slot_bytes;
}

// A send waits until the piece that lay in its slot before is out.
void PairStreams::add_wait(Direction direction) {
  if (!is_far(direction)) return wait(direction, words_);
  const exec::BounceOfPairs& bounce = call_.bounce;
  const auto far = static_cast<uint32_t>(direction - near_);
  const uint64_t before = is_sent(direction) ? bounce.pairs->directions()[far].slots : 0;
  if (pieces(direction) + 1 <= before) return;
  const exec::DevicePage::Word& word = bounce.pairs->words(bounce.memory, far).by_host;
  words_.wait_at_least_64(reinterpret_cast<CUdeviceptr>(&word), pieces(direction) + 1 - before);
}

void PairStreams::add_signal(Direction direction) {
  if (!is_far(direction)) {
    const uint32_t mark = sends(direction) ? mark_of(direction) : 0;
    if (mark != 0) {
      const uint64_t place = place_of(direction);
      words_.write_64(place_word_of(direction), place_word(mark, place));
    }
    return signal(direction, words_);
  }
  const exec::BounceOfPairs& bounce = call_.bounce;
  const auto far = static_cast<uint32_t>(direction - near_);
  const exec::DevicePage::Word& word = bounce.pairs->words(bounce.memory, far).by_stream;
  words_.write_64(reinterpret_cast<CUdeviceptr>(&word), pieces(direction) + 1);
}

void PairStreams::put_in_line(uint32_t transfer, Direction index) {
  DirectionState& direction = directions_[index];
  if (direction.current == kNone) {
    direction.is_read = false;
    direction.current = transfer;
    direction.moved = 0;
    open_.push_back(index);
  } else {
    next_[direction.last] = transfer;
  }
  direction.last = transfer;
}

// Transfers without bytes are compared by the host alone.
void PairStreams::line_up(std::span<const Transfer> transfers) {
  const exec::BouncePairs* const far = call_.bounce.pairs;
  const size_t near = transfers.size() - (far == nullptr ? 0 : far->transfers());
  directions_.resize(near_);
  directions_.resize(near_ + (far == nullptr ? 0 : far->directions().size()));
  next_.assign(transfers.size(), kNone);
  open_.clear();
  for (uint32_t i = 0; i < transfers.size(); ++i) {
    const Transfer& transfer = transfers[i];
    const bool is_own = i < near && transfer.peer == addresses_.rank;
    if (is_own || transfer.bytes == 0) continue;
    put_in_line(i, i < near ? direction_of(transfer.peer, transfer.is_send)
                            : near_ + far->direction_of(i - near));
  }
  // Each rank begins with the peer behind it, so that not all read from one at a time.
  const size_t directions = directions_.size();
  std::sort(open_.begin(), open_.end(), [&](Direction a, Direction b) {
    const size_t begin = 2 * size_t{addresses_.rank};
    return (a + directions - begin) % directions < (b + directions - begin) % directions;
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
      copies_.add(target, source, transfers[send].bytes, false);
    }
  }
}

Status PairStreams::put(const PairCall& call, std::span<const Transfer> transfers) {
  call_ = call;
  stream_ = call.side != nullptr ? call.side->first_for(call.stream) : call.stream;
  status_ = Status();
  if (!goes_behind(stream_, call_.stream)) return status_;
  counts_ = {};
  copies_.clear();
  words_.clear();
  pieces_.count = 0;
  piece_bytes_ = 0;
  begin();
  line_up(transfers);
  const size_t far = call.bounce.pairs == nullptr ? 0 : call.bounce.pairs->transfers();
  copy_own(transfers.first(transfers.size() - far));
  step_ = 0;
  do {
    if (!put_step(transfers)) return status_;
    ++step_;
  } while (!open_.empty());
  add_end();
  return status_;
}

// A buffer that peers read where it lies is the caller's again when all of it has been taken.
void PairStreams::add_end() {
  for (Direction direction = 0; direction < near_; ++direction) {
    if (!std::exchange(directions_[direction].is_read, false)) continue;
    wait_until_taken(direction, words_);
  }
}

/// Of the current transfer; 0: copy engines take it from its slots, at both ends.
uint32_t PairStreams::mark_of(Direction direction) const {
  if (call_.registered == nullptr || is_far(direction)) return 0;
  const uint32_t transfer = directions_[direction].current;
  const std::vector<uint32_t>& marks = call_.registered->marks;
  return transfer < marks.size() ? marks[transfer] : 0;
}

/// Where the peer reads the next piece of what is sent; 0: in its slot.
uint64_t PairStreams::place_of(Direction direction) const {
  const uint64_t begin = call_.registered->places[directions_[direction].current];
  const uint64_t place = begin == 0 ? 0 : begin + directions_[direction].moved;
  return place >> kPlaceBits == 0 ? place : 0;
}

// Receives are one step behind sends: the peer's signal is on its way while
// this rank's copies run.
bool PairStreams::put_step(std::span<const Transfer> transfers) {
  const auto takes_part = [&](Direction direction) { return is_sent(direction) || step_ > 0; };
  for (const Direction direction : open_) {
    if (takes_part(direction)) add_wait(direction);
  }
  if (!put_words()) return false;
  for (const Direction direction : open_) {
    if (takes_part(direction)) copy(direction, transfers[directions_[direction].current]);
  }
  if (!put_copies() || !put_pieces()) return false;
  for (const Direction direction : open_) {
    if (!takes_part(direction)) continue;
    add_signal(direction);
    advance(direction, transfers[directions_[direction].current]);
  }
  std::erase_if(open_,
                [&](Direction direction) { return directions_[direction].current == kNone; });
  return true;
}

void PairStreams::copy(Direction direction, const Transfer& transfer) {
  const CUdeviceptr slot = slot_address(direction);
  const uint64_t moved = directions_[direction].moved;
  const CUdeviceptr user = reinterpret_cast<CUdeviceptr>(transfer.data) + moved;
  const uint64_t bytes = std::min(transfer.bytes - moved, slot_bytes_of(direction));
  const bool crosses = is_far(direction) || end_of(direction).crosses;
  const uint32_t mark = mark_of(direction);
  if (mark != 0 && is_sent(direction) && place_of(direction) != 0) {
    directions_[direction].is_read = true;
    return;
  }
  if (mark != 0 && !is_sent(direction)) {
    if (pieces_.count == PlacedPieces::kMost) put_pieces();
    pieces_.mark = mark;  // one of all transfers of a call
    pieces_.pieces[pieces_.count++] = {user, slot, place_word_of(direction), bytes};
    piece_bytes_ += bytes;
    return;
  }
  is_sent(direction) ? copies_.add(slot, user, bytes, crosses)
                     : copies_.add(user, slot, bytes, crosses);
}

// To the way's next piece.
void PairStreams::advance(Direction index, const Transfer& transfer) {
  DirectionState& direction = directions_[index];
  ++direction.pieces;
  direction.moved += std::min(transfer.bytes - direction.moved, slot_bytes_of(index));
  if (direction.moved < transfer.bytes) return;
  direction.current = next_[direction.current];
  direction.moved = 0;
}

Status PairStreams::finish(CUdeviceptr word, uint64_t value) {
  words_.write_64(word, value);
  if (put_words()) goes_behind(call_.stream, stream_);
  return status_;
}

// The caller's stream and the one in its place.
bool PairStreams::goes_behind(drivers::cuda::CUstream behind, drivers::cuda::CUstream before) {
  if (behind == before) return true;
  return keep(call_.side->mark(0, before)) && keep(call_.side->follow(behind, 0));
}

bool PairStreams::put_copies() {
  if (copies_.size() == 0) return true;
  counts_.copies += copies_.size();
  counts_.crossing += copies_.crossing();
  ++counts_.batches;
  if (cuda_ != nullptr) {
    const bool beside = copies_.size() > 1 && call_.side != nullptr && call_.side->capture() != 0;
    keep(beside ? call_.side->put_beside(stream_, copies_)
                : copies_.submit(*cuda_, stream_, call_.engines_alone));
  }
  copies_.clear();
  return status_.ok();
}

bool PairStreams::put_pieces() {
  if (pieces_.count == 0) return true;
  ++counts_.kernels;
  counts_.fetched_bytes += piece_bytes_;
  if (call_.kernels != nullptr) {
    const uint32_t blocks =
        call_.kernels->blocks_of(types::DataType::kUint8, piece_bytes_, true, {0, 0});
    counts_.most_ctas = std::max(counts_.most_ctas, blocks);
    if (cuda_ != nullptr) keep(call_.kernels->launch(pieces_, blocks, stream_));
  }
  pieces_.count = 0;
  piece_bytes_ = 0;
  return status_.ok();
}

bool PairStreams::put_words() {
  if (words_.size() == 0) return true;
  counts_.operations += words_.size();
  counts_.waits += words_.waits();
  ++counts_.groups;
  if (cuda_ != nullptr) keep(words_.submit(*cuda_, stream_));
  words_.clear();
  return status_.ok();
}

CountedPairs::CountedPairs(const drivers::cuda::Cuda* cuda, PairAddresses addresses)
    : PairStreams(cuda, std::move(addresses)), highest_(directions()), in_group_(directions()) {}

void CountedPairs::begin() { in_group_.assign(directions(), {}); }

void CountedPairs::wait(Direction direction, drivers::cuda::MemoryOps& words) {
  const uint64_t before = sends(direction) ? slots().slots() : 0;
  if (pieces(direction) + 1 <= before) return;  // a slot that nothing has lain in
  wait_for(direction, pieces(direction) + 1 - before, words);
}

void CountedPairs::wait_until_taken(Direction direction, drivers::cuda::MemoryOps& words) {
  wait_for(direction, pieces(direction), words);
}

void CountedPairs::wait_for(Direction direction, uint64_t value, drivers::cuda::MemoryOps& words) {
  streams::AwaitedWord& in_group = in_group_[direction];
  if (in_group.last == 0) in_group = {peer_of(direction), sends(direction), value, value, step()};
  in_group.last = value;
  if (value <= highest_[direction]) return;
  words.wait_at_least_64(end_of(direction).other, value);
  highest_[direction] = value;
}

void CountedPairs::signal(Direction direction, drivers::cuda::MemoryOps& words) {
  words.write_64(end_of(direction).own, pieces(direction) + 1);
}

std::vector<streams::AwaitedWord> CountedPairs::awaited() const {
  std::vector<streams::AwaitedWord> all;
  for (const streams::AwaitedWord& one : in_group_) {
    if (one.last > 0) all.push_back(one);
  }
  return all;
}

}  // namespace tutti::engines::cuda
