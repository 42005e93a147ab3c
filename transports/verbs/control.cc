#include "transports/verbs/control.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace tutti::transports::verbs {
namespace {

using transport::stream::CarriedFrame;
using transport::stream::kSequencedHeaderBytes;
using transport::stream::PipeEvents;

// Sends without a frame need a receive, too, and nobody grants those: at most two grants are on
// their way, since half of the slots make one, and one last word.
constexpr uint32_t kReserve = 4;
constexpr uint32_t kReceives = ControlLanes::kSlots + kReserve;
constexpr uint32_t kGrantAt = ControlLanes::kSlots / 2;
constexpr uint32_t kSends = ControlLanes::kSlots + kReserve;

// The immediate value of a send: how many receives its sender has posted again, and whether it is
// the last one.
constexpr uint32_t kLastWord = 1u << 31, kGrantMask = 0xffff;

constexpr uint32_t kInlineBytes = 128;  // a header and some control payload

}  // namespace

QueuePair::PairRoom ControlLanes::room() { return {kSends, kReceives, kInlineBytes}; }

ControlLanes::ControlLanes(std::span<PairLane> lanes, std::unique_ptr<CardPages> pages,
                           std::shared_ptr<MovedCounts> moved)
    : lanes_(lanes),
      pages_(std::move(pages)),
      moved_(std::move(moved)),
      sent_(kSends),
      receives_on_(kReceives) {
  for (uint32_t name = kSends; name-- > 0;) free_[class_of(name)].push_back(name);
}

Result<std::unique_ptr<ControlLanes>> ControlLanes::create(std::span<PairLane> lanes,
                                                           const Domains& domains,
                                                           std::shared_ptr<MovedCounts> moved) {
  auto pages = CardPages::create(domains, (kSends + kReceives) * kSlotBytes);
  if (!pages.ok()) return pages.status();
  std::unique_ptr<ControlLanes> made(
      new ControlLanes(lanes, std::move(pages).value(), std::move(moved)));
  for (uint32_t slot = 0; slot < kReceives; ++slot) made->post_receive(slot);
  return made;
}

api::ibv_sge ControlLanes::piece(const PairLane& lane, size_t slot, size_t bytes) const {
  return {reinterpret_cast<uint64_t>(at(slot)), static_cast<uint32_t>(bytes),
          pages_->local_key(lane.path().here)};
}

// ---- out ----------------------------------------------------------------------------------------

// The first one of which no send can still be missing at the peer.
PairLane* ControlLanes::sending_lane() {
  for (PairLane& lane : lanes_) {
    if (lane.is_up()) return &lane;
    if (!lane.is_settled()) return nullptr;
  }
  return nullptr;
}

bool ControlLanes::send(const CarriedFrame& frame) {
  std::vector<uint32_t>& free = free_[0];
  if (credit_ == 0 || free.empty() || has_ended_ || !again_.empty()) return false;
  PairLane* const lane = sending_lane();
  if (lane == nullptr) return false;
  const uint32_t name = free.back();
  free.pop_back();
  std::byte* const start = at(name);
  std::byte* end = std::copy(frame.header.begin(), frame.header.end(), start);
  for (const iovec& piece : frame.payload) {
    std::memcpy(end, piece.iov_base, piece.iov_len);
    end += piece.iov_len;
  }
  if (frame.is_data) {
    const auto bytes = static_cast<uint64_t>(end - start) - frame.header.size();
    moved_->by_processor.fetch_add(bytes, std::memory_order_relaxed);
  }
  sent_[name] = {static_cast<uint32_t>(end - start), std::exchange(owed_, 0)};
  --credit_;
  post(*lane, name);
  return true;
}

void ControlLanes::post(PairLane& lane, uint32_t name) {
  const SentSlot& sent = sent_[name];
  api::ibv_sge source = piece(lane, name, sent.bytes);
  api::ibv_send_wr work{};
  work.sg_list = &source;
  work.num_sge = sent.bytes > 0 ? 1 : 0;
  work.opcode = api::kOpSendWithImmediate;
  work.imm_data = htonl(sent.immediate);
  if (sent.bytes > 0 && sent.bytes <= lane.inline_bytes()) work.send_flags |= api::kSendInline;
  lane.send(work, {name, true});
}

void ControlLanes::say(uint32_t flags) {
  std::vector<uint32_t>& free = free_[1];
  if (free.empty()) return;  // several are on their way already
  const uint32_t name = free.back();
  free.pop_back();
  sent_[name] = {0, flags | std::exchange(owed_, 0)};
  again_.push_back(name);
}

void ControlLanes::say_last_word() {
  if (std::exchange(has_ended_, true)) return;
  say(kLastWord);
  pump();
}

void ControlLanes::pump() {
  if (owed_ >= kGrantAt && !has_ended_) say(0);
  while (!again_.empty()) {
    PairLane* const lane = sending_lane();
    if (lane == nullptr) return;
    const uint32_t name = again_.front();
    again_.pop_front();
    post(*lane, name);
  }
}

// ---- in -----------------------------------------------------------------------------------------

PairLane* ControlLanes::receiving_lane() {
  const auto up =
      std::find_if(lanes_.begin(), lanes_.end(), [](const PairLane& lane) { return lane.is_up(); });
  return up == lanes_.end() ? nullptr : &*up;
}

void ControlLanes::post_receive(uint32_t slot) {
  PairLane* const lane = receiving_lane();
  if (lane == nullptr) return;
  receives_on_[slot] = static_cast<size_t>(lane - lanes_.data());
  api::ibv_sge target = piece(*lane, kSends + slot, kSlotBytes);
  api::ibv_recv_wr work{};
  work.sg_list = &target;
  work.num_sge = 1;
  lane->receive(work, slot);
}

Result<bool> ControlLanes::receive(const api::ibv_wc& found, PipeEvents& events) {
  const uint32_t slot = PairLane::name_of(found);
  const uint32_t immediate = ntohl(found.imm_data);
  credit_ += immediate & kGrantMask;
  const bool has_frame = found.byte_len > 0;
  const bool sound = (found.wc_flags & api::kHasImmediate) != 0 && credit_ <= kSlots &&
                     (!has_frame || found.byte_len >= kSequencedHeaderBytes);
  if (!sound) return Status::remote_error("it sent what no Tutti sends");
  if (has_frame) {
    const std::span<const std::byte> bytes(at(kSends + slot), found.byte_len);
    events.came(bytes.first(kSequencedHeaderBytes), bytes.subspan(kSequencedHeaderBytes));
  }
  if ((immediate & kLastWord) != 0) return true;
  post_receive(slot);
  if (has_frame) ++owed_;
  return false;
}

// ---- a lane that has failed ---------------------------------------------------------------------

void ControlLanes::move_receives(size_t lane) {
  for (uint32_t slot = 0; slot < kReceives; ++slot) {
    if (receives_on_[slot] == lane) post_receive(slot);
  }
}

void ControlLanes::settle(const LaneRest& rest) {
  for (const LaneWork& work : rest.arrived) finished(work);
  // Names that were to be sent again before are later than those that had been sent.
  std::deque<uint32_t> again;
  for (const LaneWork& work : rest.lost) again.push_back(work.name);
  again.insert(again.end(), again_.begin(), again_.end());
  again_ = std::move(again);
}

bool ControlLanes::is_idle() const {
  return again_.empty() && std::all_of(lanes_.begin(), lanes_.end(),
                                       [](const PairLane& lane) { return lane.is_idle(); });
}

}  // namespace tutti::transports::verbs
