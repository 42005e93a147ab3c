#include "transports/flows/pipe.h"

#include <algorithm>
#include <array>
#include <utility>

namespace tutti::transports::flows {
namespace {

using transport::stream::CarriedFrame;
using transport::stream::PipeEvents;

constexpr uint64_t kSocketTag = ~uint64_t{0};
constexpr size_t kMostEvents = 32;
constexpr uint32_t kLookEvery = 64;  // empty polls: a look costs a system call
constexpr int kMostFrames = 16;      // of a flow in one poll, so that others get their turn

}  // namespace

Result<std::unique_ptr<FlowsPipe>> FlowsPipe::open(tcp::PeerSocket socket,
                                                   std::vector<KeptFd> sockets) {
  std::unique_ptr<FlowsPipe> made(new FlowsPipe(std::move(socket)));
  Result<std::unique_ptr<PollSet>> set = PollSet::create();
  if (!set.ok()) return set.status();
  made->set_ = std::move(set).value();
  made->flows_.reserve(sockets.size());
  for (KeptFd& fd : sockets) {
    const uint64_t tag = made->flows_.size();
    FlowSocket& flow = made->flows_.emplace_back(NumberedFlow{FlowSocket(std::move(fd)), {}}).flow;
    if (Status status = flow.prepare(*made->set_, tag); !status.ok()) return status;
  }
  if (Status status = made->socket_.watch(*made->set_, kSocketTag); !status.ok()) return status;
  return made;
}

// ---- out ----------------------------------------------------------------------------------------

FlowsPipe::NumberedFlow* FlowsPipe::best_flow() {
  NumberedFlow* best = nullptr;
  size_t fewest = 0;
  for (NumberedFlow& one : flows_) {
    if (!one.flow.has_room()) continue;
    const size_t bytes = one.flow.bytes_on_their_way();
    if (best != nullptr && bytes >= fewest) continue;
    best = &one;
    fewest = bytes;
  }
  return best;
}

bool FlowsPipe::send(const CarriedFrame& frame) {
  if (!broken_.ok() || !lost_.ok() || ended_) return false;
  NumberedFlow* const best = best_flow();
  if (std::exchange(wants_room_, best == nullptr) != wants_room_) {
    for (NumberedFlow& one : flows_) one.flow.want_room(wants_room_);
  }
  if (best == nullptr) return false;
  const Result<bool> whole = best->flow.write(frame);
  if (!whole.ok()) {
    lost_ = whole.status();
    return false;
  }
  if (whole.value()) {
    carried_.push_back(frame.name);
  } else {
    best->half_out.push_back(frame.name);
    best->flow.want_room(true);
  }
  return true;
}

void FlowsPipe::write_rest(NumberedFlow& one, bool& moved) {
  if (!one.flow.is_half_out()) return;
  const Result<bool> whole = one.flow.write_rest();
  if (!whole.ok()) lost_ = whole.status();
  if (!whole.ok() || !whole.value()) return;
  moved = true;
  for (const uint64_t name : std::exchange(one.half_out, {})) carried_.push_back(name);
  one.flow.want_room(wants_room_);
  if (ended_) one.flow.end_output();
}

// ---- in -----------------------------------------------------------------------------------------

Status FlowsPipe::poll(PipeEvents& events) {
  bool moved = false;
  if (broken_.ok()) {
    if (Status status = move(events, moved); !status.ok()) break_off(std::move(status));
  }
  for (const uint64_t name : std::exchange(carried_, {})) events.carried(name);
  if (!broken_.ok()) return broken_;
  if (has_peer_ended())
    return Status::remote_error("it has closed the connection, or its process ended");
  if (moved || ++idle_polls_ % kLookEvery != 0) return {};
  if (Status status = socket_.check(); !status.ok()) break_off(std::move(status));
  return broken_;
}

Status FlowsPipe::move(PipeEvents& events, bool& moved) {
  std::array<epoll_event, kMostEvents> room;
  bool has_peer_gone = false;
  for (const epoll_event& event : set_->ready(room)) {
    if (event.data.u64 == kSocketTag) {
      has_peer_gone = true;
      continue;
    }
    NumberedFlow& one = flows_[event.data.u64];
    write_rest(one, moved);
    if ((event.events & ~uint32_t{EPOLLOUT}) == 0) continue;
    if (Status status = read(one.flow, events, moved); !status.ok()) return status;
  }
  if (parked_at_ && *parked_at_ != next_) {
    if (Status status = unpark(events, moved); !status.ok()) return status;
  }
  // Flows may still have what the peer sent before it went.
  if (moved || has_peer_ended()) return {};
  for (const NumberedFlow& one : flows_) {
    if (!one.flow.error().ok()) return one.flow.error();
  }
  if (!lost_.ok()) return lost_;
  return has_peer_gone ? socket_.check() : Status();
}

Status FlowsPipe::read(FlowSocket& flow, PipeEvents& events, bool& moved) {
  for (int frame = 0; frame < kMostFrames; ++frame) {
    const auto sequence = flow.next_sequence();
    if (!sequence.ok()) return sequence.status();
    if (!sequence.value()) return {};
    if (is_too_far(*sequence.value())) {
      parked_at_ = next_;
      flow.park(true);
      return {};
    }
    const auto whole = flow.read_frame();
    if (!whole) return {};
    moved = true;
    count(whole->sequence, whole->payload.size());
    events.came(whole->header, whole->payload);
    flow.drop_frame();
  }
  return {};
}

// The one that is awaited is on some flow, first in line there, and never parked.
bool FlowsPipe::is_too_far(uint64_t sequence) const {
  if (sequence == next_) return false;
  return sequence - next_ >= kMostAhead || ahead_bytes_ >= kMostAheadBytes;
}

void FlowsPipe::count(uint64_t sequence, uint64_t bytes) {
  if (sequence != next_) {
    if (ahead_.emplace(sequence, bytes).second) ahead_bytes_ += bytes;
    return;
  }
  ++next_;
  while (!ahead_.empty() && ahead_.begin()->first == next_) {
    ahead_bytes_ -= ahead_.begin()->second;
    ahead_.erase(ahead_.begin());
    ++next_;
  }
}

// A frame that is still too far is parked again. One without a payload is here already, and no
// event would tell of it.
Status FlowsPipe::unpark(PipeEvents& events, bool& moved) {
  parked_at_.reset();
  for (NumberedFlow& one : flows_) {
    one.flow.park(false);
    if (Status status = read(one.flow, events, moved); !status.ok()) return status;
  }
  return {};
}

bool FlowsPipe::has_peer_ended() const {
  return std::all_of(flows_.begin(), flows_.end(),
                     [](const NumberedFlow& one) { return one.flow.has_ended(); });
}

// ---- the end ------------------------------------------------------------------------------------

void FlowsPipe::break_off(Status status) {
  if (broken_.ok()) broken_ = std::move(status);
}

void FlowsPipe::end() {
  if (std::exchange(ended_, true)) return;
  for (NumberedFlow& one : flows_) {
    if (!broken_.ok() || !one.flow.is_half_out()) one.flow.end_output();
  }
  if (!broken_.ok()) socket_.end();
}

bool FlowsPipe::has_delivered() const {
  const bool all = std::all_of(flows_.begin(), flows_.end(), [](const NumberedFlow& one) {
    return !one.flow.is_half_out() && one.flow.bytes_on_their_way() == 0;
  });
  return all || !broken_.ok() || !socket_.check_presence().ok();
}

}  // namespace tutti::transports::flows
