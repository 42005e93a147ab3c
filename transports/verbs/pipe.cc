#include "transports/verbs/pipe.h"

#include <sys/epoll.h>

#include <algorithm>
#include <utility>

#include "src/base/clock.h"
#include "src/base/io.h"

namespace tutti::transports::verbs {
namespace {

using transport::stream::CarriedFrame;
using transport::stream::CarriedWrite;
using transport::stream::PipeEvents;

constexpr uint64_t kSocketTag = 1, kCompletionTag = 2;
constexpr uint32_t kLookEvery = 16;   // empty polls: a look costs a system call
constexpr int kMostBatches = 8;       // of one poll, so that other links get their turn
constexpr size_t kLeastControls = 2;  // one carries frames, and the other one stands by

bool any_up(std::span<const PairLane> lanes) {
  return std::any_of(lanes.begin(), lanes.end(), [](const PairLane& lane) { return lane.is_up(); });
}

}  // namespace

std::optional<transport::stream::KeyedPlace> PlacedRanges::place_of(const void* memory,
                                                                    uint64_t bytes) {
  const auto keys = ranges_->find(memory, bytes);
  if (!keys) return std::nullopt;
  transport::stream::KeyedPlace place;
  place.address = reinterpret_cast<uint64_t>(memory);
  place.key = key_of(*keys);
  return place;
}

// ---- the beginning ------------------------------------------------------------------------------

Result<std::unique_ptr<VerbsPipe>> VerbsPipe::open(const PipeGround& ground, const FlowShape& wish,
                                                   tcp::PeerSocket socket,
                                                   const WaitLimit& wait_limit) {
  std::unique_ptr<VerbsPipe> made(new VerbsPipe(ground, std::move(socket)));
  if (Status status = made->meet(wish, wait_limit); !status.ok()) return status;
  if (Status status = made->watch(); !status.ok()) return status;
  return made;
}

Status VerbsPipe::meet(const FlowShape& wish, const WaitLimit& wait_limit) {
  const int socket = socket_.get();
  PortsHello mine;
  for (const auto& domain : ground_.domains) mine.ports.push_back(end_of(domain->adapter()));
  mine.slots = ControlLanes::kSlots;
  mine.slot_bytes = ControlLanes::kSlotBytes;
  mine.wish = wish;
  if (Status status = send_hello(socket, mine, wait_limit); !status.ok()) return status;
  const Result<PortsHello> heard = receive_hello(socket, wait_limit);
  if (!heard.ok()) return heard.status();
  const PortsHello& theirs = heard.value();
  if (theirs.slots != mine.slots || theirs.slot_bytes != mine.slot_bytes) {
    return Status::remote_error(
        "the peer's receives are of another size: another version of Tutti");
  }
  if (Status status = make_lanes(theirs, larger_of(wish, theirs.wish)); !status.ok()) return status;
  std::vector<QueuePairEnd> ends;
  for (const PairLane& lane : lanes_) ends.push_back(lane.end());
  if (Status status = send_pairs(socket, ends, wait_limit); !status.ok()) return status;
  const auto peers = receive_pairs(socket, lanes_.size(), wait_limit);
  if (!peers.ok()) return peers.status();
  for (size_t i = 0; i < lanes_.size(); ++i) {
    Status status = lanes_[i].connect(theirs.ports[lanes_[i].path().there], peers.value()[i]);
    if (!status.ok()) return status;
  }
  if (Status status = exchange_ready(socket, wait_limit); !status.ok()) return status;
  control_->begin();
  return {};
}

// Both ends come to the same lanes.
Status VerbsPipe::make_lanes(const PortsHello& theirs, const FlowShape& shape) {
  const size_t here = ground_.domains.size(), there = theirs.ports.size();
  const size_t ports = std::max(here, there);
  controls_ = std::max(kLeastControls, ports);
  const size_t data = std::max<size_t>(shape.pairs, ports);
  std::vector<PairLane::LanePath> paths;
  for (size_t i = 0; i < controls_; ++i) paths.push_back({i % here, i % there});
  for (size_t i = 0; i < data; ++i) paths.push_back({i % here, i % there});
  if (Status status = make_rails(paths, shape); !status.ok()) return status;
  lanes_.reserve(paths.size());
  for (size_t i = 0; i < paths.size(); ++i) {
    const auto room = i < controls_ ? ControlLanes::room() : DataFlows::room(shape);
    auto lane = PairLane::create(i, paths[i], rails_[paths[i].here], room);
    if (!lane.ok()) return lane.status();
    lanes_.push_back(std::move(lane).value());
  }
  closed_there_.resize(lanes_.size());
  auto control =
      ControlLanes::create(std::span(lanes_).first(controls_), ground_.domains, ground_.moved);
  if (!control.ok()) return control.status();
  control_ = std::move(control).value();
  const bool adapts = ground_.domains.front()->adapter().settings().adaptive_routing;
  data_ = DataFlows::create(data_lanes(), ground_, shape, adapts);
  return {};
}

Status VerbsPipe::make_rails(const std::vector<PairLane::LanePath>& paths, const FlowShape& shape) {
  for (size_t rail = 0; rail < ground_.domains.size(); ++rail) {
    uint32_t entries = 0;
    for (size_t i = 0; i < paths.size(); ++i) {
      const auto room = i < controls_ ? ControlLanes::room() : DataFlows::room(shape);
      if (paths[i].here == rail) entries += room.sends + room.receives;
    }
    auto completions =
        Completions::create(ground_.domains[rail], static_cast<int>(std::max(entries, 1u)));
    if (!completions.ok()) return completions.status();
    rails_.push_back({ground_.domains[rail], std::move(completions).value()});
  }
  return {};
}

Status VerbsPipe::watch() {
  Result<std::unique_ptr<PollSet>> set = PollSet::create();
  if (!set.ok()) return set.status();
  set_ = std::move(set).value();
  for (const Rail& rail : rails_) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = kCompletionTag;
    if (epoll_ctl(set_->fd(), EPOLL_CTL_ADD, rail.completions->descriptor(), &event) < 0) {
      return errno_status("epoll_ctl");
    }
  }
  return socket_.watch(*set_, kSocketTag);
}

// ---- out ----------------------------------------------------------------------------------------

bool VerbsPipe::send(const CarriedFrame& frame) {
  if (!broken_.ok() || ended_ || !control_->send(frame)) return false;
  carried_.push_back(frame.name);
  return true;
}

bool VerbsPipe::write(const CarriedWrite& write) {
  if (!broken_.ok() || ended_ || !data_->write(write)) return false;
  if (Status status = data_->pump(); !status.ok()) break_off(std::move(status));
  return true;
}

// ---- in -----------------------------------------------------------------------------------------

Status VerbsPipe::poll(PipeEvents& events) {
  for (const uint64_t name : std::exchange(carried_, {})) events.carried(name);
  bool moved = false;
  for (int batch = 0; batch < kMostBatches; ++batch) {
    const Result<bool> some = take_some(events);
    if (!some.ok()) break_off(some.status());
    if (!some.ok() || !some.value()) break;
    moved = true;
  }
  control_->pump();
  if (Status status = data_->pump(); !status.ok()) break_off(std::move(status));
  if (Status status = go_on_without(events); !status.ok()) break_off(std::move(status));
  if (!moved && broken_.ok()) {
    if (Status status = look_around(events); !status.ok()) break_off(std::move(status));
  }
  if (!broken_.ok()) return broken_;
  return peer_ended_ ? Status::remote_error("it has closed the connection") : Status();
}

// Nothing has come. A thread that sleeps on the descriptor is told of what comes from now on.
Status VerbsPipe::look_around(PipeEvents& events) {
  const bool looks = ++idle_polls_ % kLookEvery == 0;
  bool arms = looks;
  for (const Rail& rail : rails_) arms = arms || rail.completions->needs_arming();
  if (arms) {
    for (const Rail& rail : rails_) {
      if (Status status = rail.completions->arm(); !status.ok()) return status;
    }
    if (const Result<bool> some = take_some(events); !some.ok()) return some.status();
    control_->pump();
    if (Status status = data_->pump(); !status.ok()) return status;
  }
  if (!looks) return {};
  for (PairLane& lane : lanes_) {
    const Adapter& adapter = lane.adapter();
    if (adapter.is_dead()) lane.fail(Status::system_error(adapter.trouble()));
  }
  if (Status status = hear(); !status.ok()) return status;
  return socket_.check_presence();
}

Result<bool> VerbsPipe::take_some(PipeEvents& events) {
  bool any = false;
  for (const Rail& rail : rails_) {
    const Result<std::span<const api::ibv_wc>> found = rail.completions->take();
    if (!found.ok()) return found.status();
    for (const api::ibv_wc& one : found.value()) {
      if (Status status = complete(one, events); !status.ok()) return status;
    }
    any = any || !found.value().empty();
  }
  return any;
}

Status VerbsPipe::complete(const api::ibv_wc& found, PipeEvents& events) {
  const size_t number = PairLane::number_of(found);
  if (number >= lanes_.size() || lanes_[number].is_closed()) return {};
  PairLane& lane = lanes_[number];
  const bool is_done = found.status == api::kDone;
  if (PairLane::is_receive(found)) {
    lane.came_back(is_done);
    if (is_done) return receive(found, events);
  }
  if (!is_done) {
    if (ended_ || peer_ended_) {
      lane.forget_sends();
    } else if (lane.is_up()) {
      const bool is_silent = found.status == api::kRetriesExceeded;
      lane.fail(explain(lane, found), is_silent ? LaneFault::kSilence : LaneFault::kError);
    }
    return {};
  }
  const std::optional<LaneWork> work = lane.finish();
  if (!work) return {};  // nobody waits for it any more
  if (work->name != PairLane::name_of(found)) {
    return Status::internal_error("sends of one queue pair have ended out of order");
  }
  if (number < controls_) {
    control_->finished(*work);
  } else {
    data_->finished(number - controls_, *work, events);
  }
  return {};
}

Status VerbsPipe::receive(const api::ibv_wc& found, PipeEvents& events) {
  const size_t number = PairLane::number_of(found);
  if (number >= controls_) return data_->receive(number - controls_, found, events);
  const Result<bool> is_last = control_->receive(found, events);
  if (!is_last.ok()) return is_last.status();
  peer_ended_ = peer_ended_ || is_last.value();
  return {};
}

// ---- lanes that fail ----------------------------------------------------------------------------

Status VerbsPipe::hear() {
  for (;;) {
    const auto heard = words_.hear(socket_.get(), lanes_.size());
    if (!heard.ok()) return heard.status();
    if (!heard.value()) return {};
    const ClosedLane& closed = *heard.value();
    PairLane& lane = lanes_[closed.lane];
    closed_there_[closed.lane] = closed;
    lane.fail(Status::remote_error("the peer's end of a queue pair on RDMA port " +
                                   lane.adapter().port().text() + " has failed"),
              LaneFault::kOfPeer);
  }
}

Status VerbsPipe::go_on_without(PipeEvents& events) {
  const bool all_well = std::all_of(lanes_.begin(), lanes_.end(), [](const PairLane& lane) {
    return lane.is_up() || lane.is_settled();
  });
  if (all_well || ended_ || peer_ended_ || !broken_.ok()) return {};
  if (Status status = socket_.check_presence(); !status.ok()) return status;
  if (Status status = check_what_is_left(); !status.ok()) return status;
  if (Status status = hear(); !status.ok()) return status;
  const uint64_t now_ns = monotonic_ns();
  for (size_t number = 0; number < lanes_.size(); ++number) {
    PairLane& lane = lanes_[number];
    if (lane.may_close(now_ns)) {
      lane.close(now_ns);
      if (number < controls_) control_->move_receives(number);
      words_.say({number, lane.taken(), lane.fault()});
    }
    if (lane.is_overdue(now_ns)) {
      return Status::remote_error(std::string(lane.why().message()) +
                                  "; it has not said for 60 s what it has got of it");
    }
    const bool is_due = lane.is_closed() && !lane.is_settled() && closed_there_[number];
    if (!is_due) continue;
    if (Status status = settle(number, events); !status.ok()) return status;
  }
  words_.flush(socket_.get());
  control_->pump();
  return data_->pump();
}

// Where the card had no answer from a peer that knew of no error, nothing passes between the two
// ports.
Status VerbsPipe::settle(size_t number, PipeEvents& events) {
  PairLane& lane = lanes_[number];
  const ClosedLane& there = *closed_there_[number];
  const Result<LaneRest> rest = lane.settle(there.taken);
  if (!rest.ok()) return rest.status();
  if (lane.fault() == LaneFault::kSilence && there.fault != LaneFault::kError) {
    for (PairLane& other : lanes_) {
      if (other.path() == lane.path()) other.fail(lane.why(), LaneFault::kSilence);
    }
  }
  if (number < controls_) {
    control_->settle(rest.value());
  } else {
    data_->settle(number - controls_, rest.value(), events);
  }
  return {};
}

Status VerbsPipe::check_what_is_left() const {
  const std::span<const PairLane> all(lanes_);
  for (const std::span<const PairLane> kind : {all.first(controls_), all.subspan(controls_)}) {
    if (any_up(kind)) continue;
    std::string text(kind.front().why().message());
    if (rails_.size() > 1) text += "; no other of its ports is left";
    return Status::remote_error(text);
  }
  return {};
}

Status VerbsPipe::explain(const PairLane& lane, const api::ibv_wc& found) const {
  const Adapter& adapter = lane.adapter();
  std::string text = "RDMA port " + adapter.port().text() +
                     " says: " + adapter.functions().ibv_wc_status_str(found.status) + " (status " +
                     std::to_string(found.status) + ", the card's own word " +
                     std::to_string(found.vendor_err) + ")";
  if (found.status == api::kRetriesExceeded) {
    text += "; the peer's card did not answer, " + std::to_string(adapter.settings().retries + 1) +
            " times (TUTTI_RDMA_TIMEOUT, TUTTI_RDMA_RETRIES): see docs/rdma.md for what to check";
  }
  const std::string trouble = adapter.trouble();
  if (!trouble.empty()) text += "; " + trouble;
  return Status::remote_error(text);
}

// ---- the end ------------------------------------------------------------------------------------

void VerbsPipe::break_off(Status status) {
  if (broken_.ok()) broken_ = std::move(status);
}

// The last word goes behind all frames, so the peer has them when it reads it.
void VerbsPipe::end() {
  if (std::exchange(ended_, true)) return;
  if (broken_.ok()) control_->say_last_word();
  data_->stop();
  for (PairLane& lane : data_lanes()) lane.close(0);
  if (broken_.ok()) return;
  for (PairLane& lane : lanes_) lane.fail(broken_);
  socket_.end();  // the peer's card may not notice
}

bool VerbsPipe::has_delivered() const {
  return control_->is_idle() || !broken_.ok() || !socket_.check_presence().ok();
}

VerbsPipe::~VerbsPipe() {
  if (set_ == nullptr) return;
  for (const Rail& rail : rails_) {
    epoll_ctl(set_->fd(), EPOLL_CTL_DEL, rail.completions->descriptor(), nullptr);
  }
}

}  // namespace tutti::transports::verbs
