#include "transports/verbs/flows.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace tutti::transports::verbs {
namespace {

using transport::stream::CarriedWrite;
using transport::stream::PipeEvents;

// Two grants may be on their way on a lane: half of its receives make one.
constexpr uint32_t kReserve = 4;
constexpr uint32_t kNumberMask = (1u << 24) - 1;
constexpr int kCopies = 8;        // segments whose memory is not registered
constexpr uint32_t kGrant = ~0u;  // the name of a grant
constexpr uint64_t kWritesAtOnce = 32;

Status nonsense() { return Status::remote_error("it wrote what no Tutti writes"); }

// Few writes hold all that may be on the way, and a small one is told of early.
uint64_t limit_for(const FlowShape& shape) {
  return std::clamp<uint64_t>(shape.outstanding() / kWritesAtOnce,
                              transport::stream::kMaxFrameBytes,
                              transport::stream::kMaxPlacedBytes);
}

}  // namespace

QueuePair::PairRoom DataFlows::room(const FlowShape& shape) {
  return {shape.depth + kReserve, shape.depth + kReserve, 0};
}

DataFlows::DataFlows(std::span<PairLane> lanes, const PipeGround& ground, const FlowShape& shape,
                     bool adapts)
    : lanes_(lanes),
      ground_(ground),
      shape_(shape),
      write_limit_(limit_for(shape)),
      adapts_(adapts),
      flows_(lanes.size()),
      sent_(lanes.size() * shape.depth) {
  for (uint32_t i = 0; i < sent_.size(); ++i) free_sent_.push_back(i);
}

std::unique_ptr<DataFlows> DataFlows::create(std::span<PairLane> lanes, const PipeGround& ground,
                                             const FlowShape& shape, bool adapts) {
  std::unique_ptr<DataFlows> made(new DataFlows(lanes, ground, shape, adapts));
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    made->flows_[lane].credit = shape.depth;
    for (uint32_t i = 0; i < shape.depth + kReserve; ++i) made->post_receive(lane);
  }
  return made;
}

// ---- out ----------------------------------------------------------------------------------------

bool DataFlows::write(const CarriedWrite& carried) {
  const size_t most_waiting = 2 * sent_.size();
  if (stopped_ || waiting_.size() >= most_waiting) return false;
  uint64_t remote = carried.write.place.address;
  OpenWrite open;
  open.name = carried.write.name;
  open.is_read = carried.write.is_read;
  open.is_plain = !open.is_read && (adapts_ || carried.write.is_put);
  open.remote = remote;
  open.key = carried.write.place.key;
  const size_t most = shape_.segment_bytes;
  for (const iovec& piece : carried.source) {
    auto* const local = static_cast<std::byte*>(piece.iov_base);
    for (size_t at = 0; at < piece.iov_len; at += most) {
      const auto bytes = static_cast<uint32_t>(std::min(most, piece.iov_len - at));
      waiting_.push_back({local + at, bytes, remote, carried.write.number});
      remote += bytes;
      ++open.left;
    }
  }
  open.waiting = open.left;
  if (!open.is_plain) open.segments = open.left;
  open_[carried.write.number] = open;
  return true;
}

bool DataFlows::has_room(size_t lane, bool takes_receive) const {
  const DataFlow& flow = flows_[lane];
  if (!lanes_[lane].is_up() || (takes_receive && flow.credit == 0)) return false;
  return flow.segments < shape_.depth;
}

// A port that has told that it is down may come back, so its lanes stay, and get nothing while
// others are up.
size_t DataFlows::best_lane(bool takes_receive) const {
  size_t best = lanes_.size();
  const auto cost = [&](size_t lane) {
    return std::pair(lanes_[lane].adapter().is_port_down(), flows_[lane].bytes);
  };
  const bool any_well = std::any_of(lanes_.begin(), lanes_.end(), [](const PairLane& lane) {
    return lane.is_up() && !lane.adapter().is_port_down();
  });
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    if (!has_room(lane, takes_receive)) continue;
    if (any_well && lanes_[lane].adapter().is_port_down()) continue;
    if (best == lanes_.size() || cost(lane) < cost(best)) best = lane;
  }
  return best;
}

Status DataFlows::pump() {
  while (!stopped_ && !waiting_.empty() && !free_sent_.empty()) {
    OpenWrite& open = open_.at(waiting_.front().number);
    const size_t lane = best_lane(!open.is_read && !open.is_plain);
    if (lane == lanes_.size()) break;
    bool posted = false;
    if (Status status = post(lane, waiting_.front(), posted); !status.ok()) return status;
    if (!posted) break;
    const uint32_t number = waiting_.front().number;
    waiting_.pop_front();
    open.lanes |= uint64_t{1} << lane;
    if (--open.waiting == 0 && open.is_plain) queue_notes(number, open);
  }
  post_notes();
  return {};
}

uint32_t DataFlows::begin_work(size_t lane, const SentSegment& sent, bool takes_receive) {
  const uint32_t index = free_sent_.back();
  free_sent_.pop_back();
  sent_[index] = sent;
  DataFlow& flow = flows_[lane];
  if (takes_receive) --flow.credit;
  ++flow.segments;
  flow.bytes += sent.segment.bytes;
  return index;
}

Status DataFlows::post(size_t lane, const WriteSegment& segment, bool& posted) {
  const OpenWrite& open = open_.at(segment.number);
  const PairLane::LanePath& path = lanes_[lane].path();
  api::ibv_sge piece{};
  int copy = kNoCopy;
  const Result<bool> found = find_local(segment, open.is_read, path.here, piece, copy);
  if (!found.ok()) return found.status();
  if (!found.value()) return {};
  const bool takes_receive = !open.is_read && !open.is_plain;
  const uint32_t index = begin_work(lane, {segment, copy, {}}, takes_receive);
  if (copy != kNoCopy) free_copies_.pop_back();
  api::ibv_send_wr work{};
  work.sg_list = &piece;
  work.num_sge = 1;
  work.opcode = open.is_read    ? api::kOpRead
                : takes_receive ? api::kOpWriteWithImmediate
                                : api::kOpWrite;
  work.imm_data = htonl(segment.number & kNumberMask);
  work.rdma.remote_addr = segment.remote;
  work.rdma.rkey = read_key(open.key, path.there);
  lanes_[lane].send(work, {index, takes_receive, !open.is_read});
  posted = true;
  return {};
}

// ---- notes --------------------------------------------------------------------------------------

// Only a later send on the same pair proves that what the pair brought is there, whatever way it
// took and however its packets came.
void DataFlows::queue_notes(uint32_t number, OpenWrite& open) {
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    if ((open.lanes >> lane & 1) == 0) continue;
    ++open.segments;
    if (lanes_[lane].is_settled()) {
      note_again({number, open.remote, open.key});
    } else {
      flows_[lane].notes.push_back({number, open.remote, open.key});
    }
  }
  open.lanes = 0;
}

void DataFlows::post_notes() {
  for (size_t lane = 0; lane < lanes_.size() && !stopped_; ++lane) {
    const DataFlow& flow = flows_[lane];
    while (!flow.notes.empty() && has_room(lane, true) && !free_sent_.empty()) post_note(lane);
  }
}

void DataFlows::post_note(size_t lane) {
  const WriteNote note = flows_[lane].notes.front();
  flows_[lane].notes.pop_front();
  api::ibv_send_wr work{};
  work.opcode = api::kOpWriteWithImmediate;
  work.imm_data = htonl(note.number & kNumberMask);
  work.rdma.remote_addr = note.remote;
  work.rdma.rkey = read_key(note.key, lanes_[lane].path().there);
  const uint32_t index = begin_work(lane, {{}, kNoCopy, note}, true);
  lanes_[lane].send(work, {index, true, true});
}

// All that the lane brought has been acknowledged, and the peer has closed its end.
void DataFlows::note_again(const WriteNote& note) {
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    if (!lanes_[lane].is_up()) continue;
    flows_[lane].notes.push_back(note);
    return;
  }
}

// False: it goes through a copy, and there is no room now.
Result<bool> DataFlows::find_local(const WriteSegment& segment, bool is_read, size_t rail,
                                   api::ibv_sge& piece, int& copy) {
  std::byte* local = segment.local;
  uint32_t key = 0;
  if (const auto keys = ground_.ranges->find(local, segment.bytes)) {
    key = keys->local[rail];
  } else {
    if (Status status = prepare_copies(); !status.ok()) return status;
    if (free_copies_.empty()) return false;
    copy = free_copies_.back();
    local = copy_at(copy);
    if (!is_read) std::memcpy(local, segment.local, segment.bytes);
    key = copies_->local_key(rail);
  }
  piece = {reinterpret_cast<uint64_t>(local), segment.bytes, key};
  return true;
}

std::byte* DataFlows::copy_at(int copy) const {
  return copies_->data() + static_cast<size_t>(copy) * shape_.segment_bytes;
}

Status DataFlows::prepare_copies() {
  if (copies_ != nullptr) return {};
  auto made = CardPages::create(ground_.domains, size_t{kCopies} * shape_.segment_bytes);
  if (!made.ok()) return made.status();
  copies_ = std::move(made).value();
  for (int copy = 0; copy < kCopies; ++copy) free_copies_.push_back(copy);
  return {};
}

// ---- completions --------------------------------------------------------------------------------

void DataFlows::post_receive(size_t lane) {
  api::ibv_recv_wr work{};  // without memory: the immediate value is all there is
  lanes_[lane].receive(work, 0);
}

void DataFlows::grant(size_t lane) {
  api::ibv_send_wr work{};
  work.opcode = api::kOpSendWithImmediate;
  work.imm_data = htonl(std::exchange(flows_[lane].owed, 0));
  lanes_[lane].send(work, {kGrant, true});
}

DataFlows::SentSegment DataFlows::take_back(size_t lane, uint32_t index) {
  const SentSegment sent = sent_[index];
  free_sent_.push_back(index);
  if (sent.copy != kNoCopy) free_copies_.push_back(sent.copy);
  --flows_[lane].segments;
  flows_[lane].bytes -= sent.segment.bytes;
  return sent;
}

void DataFlows::finished(size_t lane, const LaneWork& work, PipeEvents& events) {
  if (work.name == kGrant || stopped_) return;
  const SentSegment done = take_back(lane, work.name);
  const auto open = open_.find(done.segment.number);
  if (done.note || open == open_.end()) return;
  count(done);
  if (open->second.is_read && done.copy != kNoCopy) {
    std::memcpy(done.segment.local, copy_at(done.copy), done.segment.bytes);
  }
  if (--open->second.left > 0) return;
  const OpenWrite whole = open->second;
  open_.erase(open);
  events.written(whole.name, whole.segments);
}

void DataFlows::count(const SentSegment& done) {
  ground_.moved->by_cards.fetch_add(done.segment.bytes, std::memory_order_relaxed);
  if (done.copy == kNoCopy) return;
  ground_.moved->by_processor.fetch_add(done.segment.bytes, std::memory_order_relaxed);
}

Status DataFlows::receive(size_t lane, const api::ibv_wc& found, PipeEvents& events) {
  DataFlow& here = flows_[lane];
  const uint32_t immediate = ntohl(found.imm_data);
  if (found.opcode == api::kDidReceiveWrite) {
    events.arrived(immediate & kNumberMask, 1);
    ++here.owed;
  } else {
    here.credit += immediate;
    if (here.credit > shape_.depth) return nonsense();
  }
  post_receive(lane);
  if (here.owed >= (shape_.depth + 1) / 2) grant(lane);
  return {};
}

void DataFlows::settle(size_t lane, const LaneRest& rest, PipeEvents& events) {
  if (stopped_) return;
  for (const LaneWork& work : rest.arrived) finished(lane, work, events);
  std::vector<WriteSegment> again;
  std::deque<WriteNote> notes;
  for (const LaneWork& work : rest.lost) {
    if (work.name == kGrant) continue;
    const SentSegment lost = take_back(lane, work.name);
    if (lost.note) {
      notes.push_back(*lost.note);
    } else {
      again.push_back(lost.segment);
      ++open_.at(lost.segment.number).waiting;
    }
  }
  waiting_.insert(waiting_.begin(), again.begin(), again.end());
  auto& unsent = flows_[lane].notes;
  notes.insert(notes.end(), unsent.begin(), unsent.end());
  unsent.clear();
  for (const WriteNote& note : notes) {
    // Where some of the write is sent again, a note behind that is in its place.
    const auto open = open_.find(note.number);
    if (open != open_.end() && open->second.waiting > 0) {
      --open->second.segments;
    } else {
      note_again(note);
    }
  }
}

void DataFlows::stop() {
  stopped_ = true;
  waiting_.clear();
  for (DataFlow& flow : flows_) flow.notes.clear();
}

}  // namespace tutti::transports::verbs
