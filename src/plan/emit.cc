#include "src/plan/emit.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "src/plan/touch.h"

namespace tutti::plan {

using schedule::Block;
using schedule::Collective;
using schedule::Source;
using schedule::Space;
using schedule::Step;
using schedule::StepKind;

namespace {

constexpr uint64_t kLine = 64;
constexpr uint64_t round_up(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}
constexpr uint64_t divide_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit; }

bool fits_cells(const Match& match, uint64_t longest_bytes, const Tuning& tuning) {
  return match.mode == Mode::kStaged && match.lanes.size() == 1 &&
         match.lanes[0].messages <= tuning.cells_per_region &&
         match.message_blocks * longest_bytes <= tuning.inline_bytes;
}

// Nobody waits in a circle, so the receivers copy out one slice while the sender copies in the
// next.
bool pipelines(const Match& match) { return match.flows_one_way && !match.far; }

// The bytes of a share that the algorithm declares in counts.
uint64_t declared_bytes(schedule::Fraction share, const BindRequest& request) {
  const double counts = static_cast<double>(share.num) / static_cast<double>(share.den);
  const auto bytes = static_cast<double>(request.count * types::size_of(request.type));
  return static_cast<uint64_t>(std::ceil(counts * bytes));
}

// The bytes that a rank publishes.
uint64_t published_bytes(const Match& match, const BindRequest& request) {
  return declared_bytes(match.published, request);
}

// Slices in which cost and wait balance. The blocks of a frame are cut hardly shorter than a slice
// may be, unless it would be longer than any frame.
uint64_t pipeline_slices(uint64_t bytes, uint64_t longest_bytes, bool is_long,
                         const Tuning& tuning) {
  const uint64_t most =
      is_long ? std::min(tuning.frame_bytes, tuning.long_frame_bytes) : tuning.frame_bytes;
  const auto balanced = static_cast<uint64_t>(std::sqrt(
      static_cast<double>(tuning.pipeline_slice_cost_bytes) * static_cast<double>(bytes)));
  const uint64_t frame_bytes = std::clamp(balanced, std::min(tuning.pipeline_bytes, most), most);
  const uint64_t least = divide_up(bytes, tuning.frame_bytes);
  const uint64_t whole = divide_up(longest_bytes, tuning.pipeline_bytes);
  return std::min(divide_up(bytes, frame_bytes), std::max(least, whole));
}

// Of lanes that take turns, where `slices` have frames that fit a region. Several slices are
// several lanes, each of which needs scratch memory.
uint64_t slices_in_turns(const Match& match, uint64_t slices, const BindRequest& request,
                         const Tuning& tuning) {
  if (slices > tuning.most_short_slices) {
    const uint64_t bytes = published_bytes(match, request);
    slices = std::max(tuning.most_short_slices, divide_up(bytes, tuning.spanning_frame_bytes));
  }
  const uint64_t scratch = declared_bytes(match.scratch, request);
  if (slices == 1 && scratch <= tuning.scratch_bytes) return slices;
  return std::max(slices, divide_up(scratch * tuning.turns, tuning.scratch_bytes));
}

// The number of slices must be the same on every rank of the communicator, so it follows from what
// all of them know: the declared cost of the algorithm, the count, the tuning.
uint64_t count_slices(const Match& match, const SliceGeometry& geometry, uint64_t longest,
                      const BindRequest& request, const Tuning& tuning) {
  const uint64_t longest_bytes = longest * geometry.element_bytes;
  const bool has_slots = std::any_of(match.lanes.begin(), match.lanes.end(),
                                     [](const LaneMatch& lane) { return lane.blocks > 0; });
  const bool staged = match.far || has_slots || match.mode == Mode::kStaged;
  uint64_t slices = 1;
  if (staged) {
    const uint64_t bytes = published_bytes(match, request);
    slices = pipelines(match)
                 ? pipeline_slices(bytes, longest_bytes, geometry.is_long_pipeline, tuning)
                 : divide_up(bytes, tuning.frame_bytes);
  }
  if (tuning.turns > 1) slices = slices_in_turns(match, slices, request, tuning);
  if (match.mode == Mode::kSingleCopy && !match.far) {
    slices = std::max(slices, divide_up(longest_bytes, tuning.read_bytes));
  }
  if (match.far) {
    const bool is_said = tuning.lands && request.far_slices > 0;
    slices = std::max(slices,
                      is_said ? request.far_slices : divide_up(longest_bytes, tuning.stream_bytes));
  }
  return std::clamp<uint64_t>(slices, 1, std::max<uint64_t>(1, longest / geometry.quantum));
}

// Elements of the longest piece of a block of so many.
uint64_t longest_piece(const SliceGeometry& geometry, uint64_t longest, uint64_t slices) {
  return slices > 1 ? std::min(longest, longest / slices + 1 + geometry.quantum) : longest;
}

// In whole cache lines.
uint64_t padded_bytes(const SliceGeometry& geometry, uint64_t elements) {
  return std::max(kLine, round_up(elements * geometry.element_bytes, kLine));
}

// Slices end at multiples of it: of cache lines, and of what shares bytes of an encoding.
uint64_t quantum_of(const Match& match, uint64_t element_bytes) {
  uint64_t quantum = kLine / element_bytes;
  for (const codecs::Codec& codec : match.wire.codecs) quantum = std::lcm(quantum, block_of(codec));
  return quantum;
}

// Short slices suit staging, long ones a link with a long delay: where some lanes have only one
// kind of message, and others the other kind, each gets what suits it.
void join_slices(const Match& match, uint64_t far_slices, SliceGeometry& geometry) {
  const auto far = std::count_if(match.lanes.begin(), match.lanes.end(),
                                 [](const LaneMatch& lane) { return lane.far; });
  if (far == 0 || far_slices == 0 || far_slices >= geometry.slices) return;
  const auto parts = static_cast<uint32_t>(divide_up(geometry.slices, far_slices));
  geometry.slices = divide_up(geometry.slices, parts);
  if (static_cast<size_t>(far) < match.lanes.size()) geometry.parts = parts;
}

}  // namespace

SliceGeometry measure(const Match& match, const BindRequest& request, const Tuning& tuning) {
  SliceGeometry geometry;
  geometry.element_bytes = types::size_of(request.type);
  geometry.quantum = quantum_of(match, geometry.element_bytes);
  geometry.lands = tuning.lands;
  const uint64_t longest = request.layout(match.shape).longest();
  geometry.is_long_pipeline = match.mode == Mode::kStaged && pipelines(match) &&
                              published_bytes(match, request) >= tuning.long_pipeline_bytes;
  geometry.slices = count_slices(match, geometry, longest, request, tuning);
  // All lanes together stage no more than one ring, so that a rank's staging memory is bounded.
  geometry.region_bytes = tuning.region_bytes / match.lanes.size();
  if (pipelines(match)) {
    geometry.region_bytes = std::min(geometry.region_bytes, tuning.pipeline_region_bytes);
  }
  if (geometry.is_long_pipeline) {
    geometry.region_bytes = std::min(geometry.region_bytes, tuning.long_frame_bytes);
  }
  if (!tuning.lands) join_slices(match, request.far_slices, geometry);
  geometry.piece = longest_piece(geometry, longest, geometry.slices);
  geometry.stride = padded_bytes(geometry, geometry.piece);
  geometry.part_stride =
      padded_bytes(geometry, longest_piece(geometry, longest, geometry.slices * geometry.parts));
  geometry.in_cells = geometry.slices * geometry.parts == 1 &&
                      fits_cells(match, longest * geometry.element_bytes, tuning);
  geometry.tiny = geometry.in_cells && match.flows_one_way && match.lanes[0].messages == 1 &&
                  match.message_blocks * longest * geometry.element_bytes <= kTinyBytes;
  return geometry;
}

namespace {

size_t near_ranks_of(const Match& match) {
  return match.group->near_ranks(match.schedule.rank).size();
}

}  // namespace

Emitter::Emitter(const Match& match, const BindRequest& request, const SliceGeometry& geometry)
    : match_(match),
      request_(request),
      geometry_(geometry),
      layout_(request.layout(match.shape)),
      lanes_(match.lanes.size()),
      step_end_(match.schedule.steps.size(), 0),
      known_(match.lanes.size(), std::vector<uint32_t>(near_ranks_of(match), 0)),
      entered_(near_ranks_of(match), false),
      posted_begin_(match.schedule.steps.size(), 0),
      encoded_(match, geometry.piece) {
  plan_.lanes.resize(match.lanes.size());
  plan_.slices = geometry.slices;
  plan_.quantum = geometry.quantum;
  plan_.element_bytes = static_cast<uint32_t>(geometry.element_bytes);
  plan_.codecs = match.wire.codecs;
}

Plan Emitter::run() {
  for (uint16_t lane = 0; lane < lanes_.size(); ++lane) open_lane(lane);
  const uint32_t steps = static_cast<uint32_t>(match_.schedule.steps.size());
  for (uint32_t index = 0; index < steps; ++index) {
    emit_levels(index);
    emit_step(index);
    step_end_[index] = static_cast<uint32_t>(lanes_[match_.schedule.steps[index].lane].size());
  }
  emit_levels(steps);
  close_lanes();
  join();
  return std::move(plan_);
}

void Emitter::open_lane(uint16_t lane) {
  LanePlan& plan = plan_.lanes[lane];
  const LaneMatch& matched = match_.lanes[lane];
  plan.advance = matched.advance;
  plan.parts = matched.far ? 1 : geometry_.parts;
  if (geometry_.in_cells) {
    plan.cells = matched.messages;
    plan.tiny = geometry_.tiny;
  } else {
    plan.frame_bytes = matched.blocks * stride_of(lane);
    plan.region_bytes = std::max(plan.frame_bytes, geometry_.region_bytes);
  }
  const auto& steps = match_.schedule.steps;
  for (uint32_t i = 0; i < steps.size(); ++i) {
    const MatchedStep& step = match_.steps[i];
    const bool stages = step.near && step.message.mechanism == Mechanism::kSlot;
    plan.publishes = plan.publishes || (steps[i].lane == lane && stages);
  }
  if (plan.publishes) emit(lane, {.code = OpCode::kCredit});
  if (match_.far) post_receives(lane);
}

void Emitter::emit(uint16_t lane, Op op, std::span<const Operand> operands) {
  op.index = step_;
  op.operands = static_cast<uint32_t>(plan_.operands.size());
  op.is_encoded =
      std::ranges::any_of(operands, [](const Operand& one) { return one.encoding != 0; });
  plan_.operands.insert(plan_.operands.end(), operands.begin(), operands.end());
  lanes_[lane].push_back(op);
}

void Emitter::emit_step(uint32_t index) {
  step_ = index;
  const Step& step = match_.schedule.steps[index];
  emit_afters(step);
  if (step.kind == StepKind::kSend) {
    emit_send(index);
  } else if (!match_.steps[index].by_level) {
    emit_move(index);
  }
}

void Emitter::emit_afters(const Step& step) {
  for (uint32_t earlier : match_.schedule.afters_of(step)) {
    const uint16_t lane = match_.schedule.steps[earlier].lane;
    emit(step.lane, {.code = OpCode::kAfter, .peer = lane, .value = step_end_[earlier]});
  }
}

void Emitter::emit_send(uint32_t index) {
  const Step& step = match_.schedule.steps[index];
  const MatchedStep& matched = match_.steps[index];
  if (matched.far_count > 0) emit_far(index);
  if (!matched.near) return;
  if (geometry_.in_cells) {
    emit_cell(step, matched.message);
    return;
  }
  emit_publication(step, matched);
  if (matched.signal) emit(step.lane, {.code = OpCode::kSignal, .value = matched.message.value});
}

void Emitter::emit_publication(const Step& step, const MatchedStep& matched) {
  const auto blocks = match_.schedule.blocks_of(step);
  std::vector<Operand> operands;
  for (uint32_t i = 0; i < blocks.size(); ++i) {
    operands.clear();
    if (matched.message.mechanism == Mechanism::kSlot) {
      const uint64_t offset = (matched.message.slot + i) * stride_of(step.lane);
      const uint32_t base = register_of(PeerBase::kSlot, match_.schedule.rank);
      operands.push_back({base, Shift::kFrame, offset});
    } else if (matched.message.mechanism == Mechanism::kPush) {
      for (uint32_t p = 0; p < matched.push_count; ++p) {
        const PushTarget& target = match_.push_targets[matched.pushes + p];
        await_entry(target.peer);
        operands.push_back(remote(target.peer, match_.block(target.blocks, i)));
      }
    } else {
      return;  // the receivers pull
    }
    operands.push_back(readable(step, blocks[i]));
    emit_copy(step, operands, length_of(blocks[i]));
  }
}

void Emitter::emit_cell(const Step& step, const NearMessage& message) {
  const auto blocks = match_.schedule.blocks_of(step);
  const uint32_t base = register_of(PeerBase::kCell, match_.schedule.rank);
  uint64_t offset =
      uint64_t{message.cell} * kCellStride + cell_payload_offset(message_bytes(blocks));
  for (Block block : blocks) {
    const Operand operands[] = {{base, Shift::kCell, offset}, readable(step, block)};
    emit_copy(step, operands, length_of(block));
    offset += length_of(block) * geometry_.element_bytes;
  }
  emit(step.lane, {.code = OpCode::kRaise, .value = message.cell});
}

void Emitter::emit_copy(const Step& step, std::span<const Operand> operands, uint64_t length) {
  if (length == 0) return;
  Op op;
  op.target_count = static_cast<uint16_t>(operands.size() - 1);
  op.source_count = 1;
  op.length = length;
  emit(step.lane, op, operands);
}

void Emitter::emit_move(uint32_t index) {
  const schedule::Schedule& mine = match_.schedule;
  const Step& step = mine.steps[index];
  const auto targets = mine.blocks_of(step);
  uint32_t arrival = match_.steps[index].arrivals;
  uint32_t posted = posted_begin_[index];
  bool pushed = false;
  for (Source source : mine.sources_of(step)) {
    if (!source.is_message()) continue;
    if (!match_.group->near(mine.rank, source.peer())) {
      emit(step.lane, {.code = OpCode::kStreamArrived,
                       .peer = static_cast<uint32_t>(source.peer()),
                       .value = posted_[posted++].ordinal});
      continue;
    }
    const NearMessage& message = match_.arrivals[arrival++];
    pushed = message.mechanism == Mechanism::kPush;
    await(step, message);
  }
  if (lands_by_itself(index)) return note_landing(index);
  if (pushed) return;
  protect(step, targets);
  // Landing zones of single-copy reads are dead after their fold, so every step uses the same ones.
  for (uint32_t i = 0; i < targets.size(); ++i) emit_fold(index, i, landing_bytes_);
}

// A message that is the only source and was posted straight into the target.
bool Emitter::lands_by_itself(uint32_t index) const {
  const schedule::Schedule& mine = match_.schedule;
  const Step& step = mine.steps[index];
  if (step.operand_count != 1) return false;
  const Source source = mine.sources_of(step)[0];
  return source.is_message() && !match_.group->near(mine.rank, source.peer()) &&
         !posted_[posted_begin_[index]].landed;
}

void Emitter::emit_fold(uint32_t index, uint32_t i, uint64_t landing) {
  const schedule::Schedule& mine = match_.schedule;
  const Step& step = mine.steps[index];
  const Block target = mine.blocks_of(step)[i];
  const uint64_t length = length_of(target);
  if (length == 0 && !match_.rounding.rounds()) return;
  const auto targets = mine.blocks_of(step);
  const uint64_t cell_offset =  // asked for only there: it takes the lengths of all blocks
      geometry_.in_cells
          ? cell_payload_offset(message_bytes(targets)) + message_bytes(targets.first(i))
          : 0;
  std::vector<Operand> operands = {local(target)};
  uint32_t arrival = match_.steps[index].arrivals;
  uint32_t posted = posted_begin_[index];
  for (Source source : mine.sources_of(step)) {
    if (!source.is_message()) {
      operands.push_back(readable(step, mine.blocks_of(step, source)[i]));
    } else if (!match_.group->near(mine.rank, source.peer())) {
      const Posted& message = posted_[posted++];
      const uint64_t offset = message.landing + i * stride_of(step.lane);
      operands.push_back(message.encoded.empty()
                             ? Operand{register_of(Base::kLanding), Shift::kNone, offset}
                             : message.encoded[i]);
    } else {
      const NearMessage& message = match_.arrivals[arrival++];
      Operand operand = arrived(message, step.lane, i, cell_offset);
      if (message.mechanism == Mechanism::kRead) {
        const bool alone = step.operand_count == 1;
        const Operand zone =
            alone ? operands[0] : Operand{register_of(Base::kLanding), Shift::kNone, landing};
        landing += alone ? 0 : stride_of(step.lane);
        const Operand read[] = {zone, operand};
        emit(step.lane,
             {.code = OpCode::kReadPeer,
              .target_count = 1,
              .source_count = 1,
              .peer = static_cast<uint32_t>(message.source),
              .length = length},
             read);
        operand = zone;
      }
      operands.push_back(operand);
    }
  }
  plan_.landing_bytes = std::max(plan_.landing_bytes, landing);
  if (match_.rounding.rounds()) return emit_rounding_fold(index, i, std::move(operands));
  emit_fold(index, i, operands);
}

// Targets, encoded ones first, and then the sources.
void Emitter::emit_fold(uint32_t index, uint32_t i, std::span<const Operand> operands) {
  const Step& step = match_.schedule.steps[index];
  const uint64_t length = length_of(match_.schedule.blocks_of(step)[i]);
  const bool is_there = operands.size() == 2 && operands[0] == operands[1];  // in place
  if (length == 0 || is_there) return;
  Op op;
  op.source_count = static_cast<uint16_t>(step.operand_count);
  op.target_count = static_cast<uint16_t>(operands.size() - op.source_count);
  op.fold = step.fold;
  op.block = i;
  op.length = length;
  emit(step.lane, op, operands);
}

void Emitter::await(const Step& step, const NearMessage& message) {
  if (geometry_.in_cells) {
    emit(step.lane, {.code = OpCode::kWaitCell,
                     .peer = static_cast<uint32_t>(message.source),
                     .value = message.cell});
    return;
  }
  const bool direct =
      message.mechanism == Mechanism::kPull || message.mechanism == Mechanism::kRead;
  if (direct && enters(match_.mode)) await_entry(message.source);
  uint32_t& known = known_[step.lane][match_.group->near_place(message.source)];
  if (message.value <= known) return;
  known = message.value;
  emit(step.lane, {.code = OpCode::kWait,
                   .lane = static_cast<uint8_t>(step.lane),
                   .peer = static_cast<uint32_t>(message.source),
                   .value = message.value});
}

void Emitter::await_entry(int peer) {
  const uint32_t place = match_.group->near_place(peer);
  if (entered_[place]) return;
  entered_[place] = true;
  plan_.prologue.push_back({.code = OpCode::kWaitEnter, .peer = static_cast<uint32_t>(peer)});
}

void Emitter::close_lanes() {
  step_ = static_cast<uint32_t>(match_.schedule.steps.size());
  for (uint16_t lane = 0; lane < lanes_.size(); ++lane) {
    for (const Unsent& unsent : unsent_) {
      if (unsent.lane != lane) continue;
      emit(lane, {.code = OpCode::kStreamSent,
                  .lane = static_cast<uint8_t>(lane),
                  .value = unsent.ordinal});
    }
    emit(lane, {.code = OpCode::kSignal, .value = plan_.lanes[lane].advance});
  }
  if (enters(match_.mode)) {
    plan_.prologue.insert(plan_.prologue.begin(), {.code = OpCode::kEnter});
  }
  for (const Reader& reader : match_.readers) {
    plan_.epilogue.push_back({.code = OpCode::kWait,
                              .lane = static_cast<uint8_t>(reader.lane),
                              .peer = static_cast<uint32_t>(reader.peer),
                              .value = reader.value});
  }
}

void Emitter::join() {
  for (uint16_t lane = 0; lane < lanes_.size(); ++lane) {
    plan_.lanes[lane].begin = static_cast<uint32_t>(plan_.ops.size());
    plan_.ops.insert(plan_.ops.end(), lanes_[lane].begin(), lanes_[lane].end());
    plan_.lanes[lane].end = static_cast<uint32_t>(plan_.ops.size());
  }
  plan_.scratch_bytes = (match_.schedule.scratch.size() + rounded_.size()) * geometry_.stride;
  plan_.encoded_bytes = encoded_.bytes();
  plan_.landing_bytes = std::max(plan_.landing_bytes, landing_bytes_);
}

}  // namespace tutti::plan
