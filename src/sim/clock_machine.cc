#include "src/sim/clock_machine.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "src/schedule/layout.h"
#include "src/sim/simulation.h"

namespace tutti::sim {

using plan::Answer;
using plan::Op;
using plan::OpCode;
using plan::Position;

ClockMachine::ClockMachine(Simulation& simulation, uint32_t actor, const Speed& speed,
                           bool is_traced)
    : simulation_(simulation),
      actor_(actor),
      rank_(simulation.actor(actor).rank),
      plan_(simulation.actor(actor).plan),
      speed_(speed),
      runs_ahead_(plan_.lanes.size() == 1),
      is_traced_(is_traced),
      lanes_(plan_.lanes.size()) {
  for (size_t i = 0; i < lanes_.size(); ++i) {
    lanes_[i].arrived.resize(plan_.lanes[i].receives);
    lanes_[i].sent.resize(plan_.lanes[i].sends);
    lanes_[i].sent_to.resize(plan_.lanes[i].sends);
    lanes_[i].sent_bytes.resize(plan_.lanes[i].sends);
  }
  find_near();
  group_lengths();
}

// Those of an actor that are equally far away are seen at the same time.
void ClockMachine::find_near() {
  const group::GroupView& group = *simulation_.network().group();
  std::set<std::pair<uint32_t, size_t>> known;
  for (const int rank : group.near_ranks(rank_)) {
    if (rank == rank_) continue;
    const auto other = static_cast<uint32_t>(rank);
    const size_t level = group.common_level(rank, rank_);
    if (known.emplace(simulation_.actor_of(other), level).second) near_.push_back(other);
  }
}

void ClockMachine::group_lengths() {
  runs_.resize(plan_.ops.size());
  for (size_t i = 0; i < plan_.ops.size(); ++i) {
    const Op& op = plan_.ops[i];
    if (op.code != OpCode::kStreamSend && op.code != OpCode::kStreamReceive) continue;
    std::map<std::pair<uint64_t, uint8_t>, uint32_t> counts;
    for (uint32_t k = 0; k < uint32_t{op.source_count} + op.target_count; ++k) {
      ++counts[{plan_.lengths[op.lengths + k], plan_.operands[op.operands + k].encoding}];
    }
    for (const auto& [kind, count] : counts) {
      runs_[i].push_back({kind.first, kind.second, count});
    }
  }
}

double ClockMachine::piece_bytes(const Position& at, uint64_t length, uint8_t encoding) const {
  const uint64_t elements = plan::slices_of(plan_, at.lane) == 1
                                ? length
                                : plan::piece_of(plan_, at.lane, at.slice, length).length;
  return static_cast<double>(plan::bytes_of(plan_, encoding, elements));
}

// Beside what it moves: every encoded source is decoded, every encoded target is encoded, and
// decoded where others get the value.
double ClockMachine::coding_ns(const Position& at, const Op& op) const {
  if (!op.is_encoded) return 0;
  double of_one = 0;
  for (uint32_t i = 0; i < uint32_t{op.target_count} + op.source_count; ++i) {
    const uint8_t encoding = plan_.operands[op.operands + i].encoding;
    if (encoding == 0) continue;
    const codecs::CodecTimes& times = plan_.codecs[encoding - 1].family->times;
    const bool is_target = i < op.target_count;
    of_one += is_target ? times.encode_ns : times.decode_ns;
    if (is_target && op.target_count > 1) of_one += times.decode_ns;
  }
  return of_one * piece_bytes(at, op.length, 0) / plan_.element_bytes;
}

double ClockMachine::message_bytes(const Position& at, uint32_t op) const {
  double bytes = 0;
  for (const LengthRun& run : runs_[op])
    bytes += run.count * piece_bytes(at, run.length, run.encoding);
  return bytes;
}

void ClockMachine::work(double cost_ns) { clock_ += picoseconds(cost_ns * speed_.factor); }

void ClockMachine::wake_at(Time time) {
  if (woken_at_ == time) return;
  woken_at_ = time;
  simulation_.wake_at(actor_, time);
}

bool ClockMachine::may_act() {
  is_dead_ = is_dead_ || clock_ >= speed_.dead_from;
  if (is_dead_ || copies_) return false;
  if (runs_ahead_ || clock_ <= simulation_.now()) return true;
  wake_at(clock_);
  return false;
}

// Until now by the clock.
void ClockMachine::note(SpanKind kind, const Position& at, uint32_t peer, double bytes,
                        Time begin) {
  if (is_traced_) spans_.push_back({kind, actor_, at.lane, peer, at.slice, bytes, begin, clock_});
}

Answer ClockMachine::register_want(uint32_t lane_number, const Want& want) {
  ClockLane& lane = lanes_[lane_number];
  const bool is_known = lane.registered && lane.want == want;
  lane.want = want;
  if (is_known) return Answer::kNotYet;
  lane.registered = true;
  simulation_.put_aside(want, actor_, lane_number);
  return Answer::kNotYet;
}

// The clock goes on to what is known. Of a plan of several lanes another may have something to do
// before.
Answer ClockMachine::answer(const Position& at, const KnownTime& known, const Want& want,
                            uint8_t level) {
  lanes_[at.lane].want = {};
  if (known.time <= clock_) return Answer::kGoOn;
  if (!runs_ahead_ && known.time > simulation_.now()) {
    lanes_[at.lane].want = want;
    wake_at(known.time);
    return Answer::kNotYet;
  }
  const bool streams = want.kind == WantKind::kArrival || want.kind == WantKind::kOut;
  const Time time = known.time + speed_.turn;
  if (time >= speed_.dead_from) {
    is_dead_ = true;
    return Answer::kNotYet;
  }
  hop_ = simulation_.add_hop(
      {known.before, known.by, actor_, level, streams, known.begun, known.out, time});
  const Time begin = std::exchange(clock_, time);
  note(SpanKind::kWait, at, want.peer, 0, begin);
  return Answer::kGoOn;
}

// For another rank's counter or flag.
Answer ClockMachine::wait(const Position& at, KnownTime known, const Want& want) {
  if (known.time == kNever) return register_want(at.lane, want);
  uint8_t level = 0;
  known.time += simulation_.signal_latency(rank_, want.peer, level);
  return answer(at, known, want, level);
}

Answer ClockMachine::move(const Position& at, const Op& op) {
  ClockLane& lane = lanes_[at.lane];
  if (lane.copied) {
    lane.copied = false;
    return Answer::kGoOn;
  }
  if (!may_act()) return Answer::kNotYet;
  const double bytes = piece_bytes(at, op.length, 0);
  if (bytes == 0) return Answer::kGoOn;
  count_peers(op, bytes);
  const double copied = bytes * (op.target_count + op.source_count) / 2;
  work(coding_ns(at, op));
  const Time begin = clock_;
  if (simulation_.wires().shares_medium(actor_)) {
    copies_ = true;
    copying_lane_ = at.lane;
    copy_begin_ = begin;
    lane.want = {.kind = WantKind::kCopy, .slice = at.slice};
    simulation_.wires().copy(actor_, copied, begin);
    return Answer::kNotYet;
  }
  work(copied * simulation_.costs().copy_ns_per_byte);
  note(SpanKind::kMove, at, ~0u, bytes, begin);
  return Answer::kGoOn;
}

Answer ClockMachine::read(const Position& at, const Op& op) {
  if (!may_act()) return Answer::kNotYet;
  const double bytes = piece_bytes(at, op.length, 0);
  if (bytes == 0) return Answer::kGoOn;
  count_peers(op, bytes);
  const Time begin = clock_;
  work(simulation_.costs().read_ns + bytes * simulation_.costs().copy_ns_per_byte);
  note(SpanKind::kMove, at, op.peer, bytes, begin);
  return Answer::kGoOn;
}

// A message within a host is read, or written, in the other's memory.
void ClockMachine::count_peers(const Op& op, double bytes) {
  const group::GroupView& group = *simulation_.network().group();
  for (uint32_t i = 0; i < uint32_t{op.target_count} + op.source_count; ++i) {
    const uint32_t base = plan_.operands[op.operands + i].base;
    if (base < plan::register_of(plan::Base::kFixed)) continue;
    const auto owner = static_cast<int>(plan::rank_of(base));
    if (owner == rank_) continue;
    simulation_.count_bytes(static_cast<uint8_t>(group.common_level(rank_, owner)),
                            bytes * simulation_.actor(actor_).size);
  }
}

Answer ClockMachine::signal(const Position& at, uint64_t value) {
  if (!may_act()) return Answer::kNotYet;
  work(simulation_.costs().signal_ns);
  simulation_.raise_counter(actor_, at.lane, value, self());
  return Answer::kGoOn;
}

Answer ClockMachine::reached(const Position& at, uint32_t member, uint32_t lane, uint64_t value) {
  if (!may_act()) return Answer::kNotYet;
  const uint32_t other = simulation_.actor_of(member);
  return wait(at, simulation_.counter(other, lane, value),
              {WantKind::kCounter, other, member, lane, value, at.slice});
}

Answer ClockMachine::own_reached(const Position& at, uint32_t lane, uint64_t value) {
  return reached(at, static_cast<uint32_t>(rank_), lane, value);
}

// Until the last of them has come so far.
Answer ClockMachine::passed(const Position& at, uint32_t lane, uint64_t value) {
  if (!may_act()) return Answer::kNotYet;
  KnownTime last;
  Want want;
  uint8_t level = 0;
  for (const uint32_t member : near_) {
    const uint32_t other = simulation_.actor_of(member);
    const Want one{WantKind::kCounter, other, member, lane, value, at.slice};
    KnownTime known = simulation_.counter(other, lane, value);
    if (known.time == kNever) return register_want(at.lane, one);
    uint8_t distance = 0;
    known.time += simulation_.signal_latency(rank_, member, distance);
    if (known.time <= last.time) continue;
    last = known;
    want = one;
    level = distance;
  }
  return answer(at, last, want, level);
}

Answer ClockMachine::raise(const Position& /*at*/, uint64_t cell, uint64_t flag) {
  if (!may_act()) return Answer::kNotYet;
  work(simulation_.costs().signal_ns);
  simulation_.raise_flag(actor_, cell, flag, self());
  return Answer::kGoOn;
}

Answer ClockMachine::raised(const Position& at, uint32_t member, uint64_t cell, uint64_t flag) {
  if (!may_act()) return Answer::kNotYet;
  const uint32_t other = simulation_.actor_of(member);
  return wait(at, simulation_.flag(other, cell, flag),
              {WantKind::kFlag, other, member, cell, flag, at.slice});
}

Answer ClockMachine::post(const Position& at, const Op& op) {
  if (!may_act()) return Answer::kNotYet;
  ClockLane& lane = lanes_[at.lane];
  const auto index = static_cast<uint32_t>(&op - plan_.ops.data());
  Wires::Post post{.actor = actor_,
                   .lane = at.lane,
                   .ordinal = op.value,
                   .bytes = message_bytes(at, index),
                   .time = clock_,
                   .hop = hop_};
  if (op.code == OpCode::kStreamReceive) {
    lane.arrived[op.value] = {.time = kNever};
    simulation_.wires().receive(simulation_.connection_of_receive(actor_, op), post);
    return Answer::kGoOn;
  }
  work(simulation_.costs().message_ns);
  post.time = clock_;
  lane.sent[op.value] = {.time = kNever};
  lane.sent_to[op.value] = op.peer;
  lane.sent_bytes[op.value] = post.bytes;
  const auto level = simulation_.network().group()->common_level(rank_, static_cast<int>(op.peer));
  simulation_.count_bytes(static_cast<uint8_t>(level), post.bytes * simulation_.actor(actor_).size);
  simulation_.wires().send(simulation_.connection_of_send(actor_, op), post);
  return Answer::kGoOn;
}

Answer ClockMachine::arrived(const Position& at, const Op& op) {
  if (!may_act()) return Answer::kNotYet;
  const Want want{WantKind::kArrival, actor_, op.peer, op.value, at.lane, at.slice};
  const KnownTime& known = lanes_[at.lane].arrived[op.value];
  lanes_[at.lane].want = want;
  if (known.time == kNever) return Answer::kNotYet;
  const auto level = simulation_.network().group()->common_level(rank_, static_cast<int>(op.peer));
  const Answer went = answer(at, known, want, static_cast<uint8_t>(level));
  if (went == Answer::kGoOn) work(simulation_.costs().message_ns);
  return went;
}

Answer ClockMachine::sent(const Position& at, const Op& op) {
  if (!may_act()) return Answer::kNotYet;
  const ClockLane& sender = lanes_[op.lane];
  const uint32_t peer = sender.sent_to[op.value];
  const Want want{WantKind::kOut, actor_, peer, op.value, op.lane, at.slice};
  lanes_[at.lane].want = want;
  if (sender.sent[op.value].time == kNever) return Answer::kNotYet;
  const auto level = simulation_.network().group()->common_level(rank_, static_cast<int>(peer));
  return answer(at, sender.sent[op.value], want, static_cast<uint8_t>(level));
}

void ClockMachine::happened(WantKind kind, uint32_t lane, uint32_t ordinal) {
  for (const ClockLane& one : lanes_) {
    const Want& want = one.want;
    const bool is_it = want.kind == kind && want.place == ordinal && want.value == lane;
    if (is_it) simulation_.make_ready(actor_);
  }
}

void ClockMachine::set_arrived(uint32_t lane, uint32_t ordinal, const KnownTime& known) {
  lanes_[lane].arrived[ordinal] = known;
  happened(WantKind::kArrival, lane, ordinal);
}

void ClockMachine::set_sent(uint32_t lane, uint32_t ordinal, const KnownTime& known) {
  lanes_[lane].sent[ordinal] = known;
  if (is_traced_) {
    spans_.push_back({SpanKind::kSend, actor_, lane, lanes_[lane].sent_to[ordinal], 0,
                      lanes_[lane].sent_bytes[ordinal], known.begun, known.out});
  }
  happened(WantKind::kOut, lane, ordinal);
}

void ClockMachine::set_copied(Time time) {
  copies_ = false;
  lanes_[copying_lane_].copied = true;
  lanes_[copying_lane_].want = {};
  clock_ = time;
  if (is_traced_) {
    spans_.push_back({SpanKind::kMove, actor_, copying_lane_, ~0u, 0, 0, copy_begin_, time});
  }
  simulation_.make_ready(actor_);
}

}  // namespace tutti::sim
