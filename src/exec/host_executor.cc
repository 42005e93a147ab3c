#include "src/exec/host_executor.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "src/base/clock.h"
#include "src/exec/stall.h"
#include "src/exec/wait.h"
#include "src/schedule/layout.h"

namespace tutti::exec {

using plan::Op;
using plan::OpCode;
using plan::Operand;
using plan::PeerBase;
using plan::Shift;

namespace {

std::vector<const StagingReads*> readers_among(const std::vector<Peer>& peers, int rank) {
  std::vector<const StagingReads*> readers;
  for (size_t peer = 0; peer < peers.size(); ++peer) {
    if (peer == static_cast<size_t>(rank) || !peers[peer].arena.valid()) continue;
    readers.push_back(&peers[peer].arena.reads());
  }
  return readers;
}

}  // namespace

HostExecutor::HostExecutor(const ExecutorOptions& options, std::vector<Peer> peers, Health& health)
    : options_(options),
      peers_(std::move(peers)),
      health_(health),
      mine_(peers_[static_cast<size_t>(options.rank)].arena),
      lanes_(kLanes),
      passed_(kLanes, 0),
      cells_(kCellsPerRegion),
      log_(mine_.log()),
      write_staging_(options.staging_stores, readers_among(peers_, options.rank)),
      read_staging_(mine_.reads()) {
  const auto ranks = static_cast<uint32_t>(options.ranks);
  registers_.assign(plan::register_of(PeerBase::kSlot, options.ranks), nullptr);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const int r = static_cast<int>(rank);
    has_streams_ = has_streams_ || peers_[rank].stream != nullptr;
    if (!peers_[rank].arena.valid()) continue;
    if (r != options.rank) domain_.push_back(rank);
    registers_[plan::register_of(PeerBase::kSlot, r)] = peers_[rank].arena.rings();
    registers_[plan::register_of(PeerBase::kCell, r)] = peers_[rank].arena.cells();
  }
  call_number_ = transfers_ = options.calls_before;
  last_number_ = options.calls_before % Registration::kNumbers;
  mine_.counter(0).call.store(uint64_t{call_number_} << 32, std::memory_order_release);
  for (uint32_t i = 0; i < kLanes; ++i) {
    lanes_[i].progress = options.first_progress;
    lanes_[i].ring = RingCursor<kRingRegions>(options.layout.region_bytes());
    mine_.counter(i).progress.store(options.first_progress, std::memory_order_release);
  }
  if (options.recorder != nullptr) tally_.resize(2 * size_t{ranks});
  stall_ = std::make_unique<Stall>(options_, peers_, health_);
}

HostExecutor::~HostExecutor() = default;

void HostExecutor::reserve(const plan::Plan& plan) {
  const auto grow = [&](std::unique_ptr<std::byte[]>& memory, uint64_t& capacity, uint64_t bytes) {
    if (bytes <= capacity) return;
    memory.reset(new (std::nothrow) std::byte[bytes]);
    capacity = memory == nullptr ? 0 : bytes;
    if (memory != nullptr) return;
    fail(Status::system_error(std::string(call_.what) + " on rank " +
                              std::to_string(options_.rank) + ": " + plan.algorithm + " needs " +
                              std::to_string(bytes) + " bytes of memory beside the buffers, and " +
                              "there is no room for them: choose another algorithm"),
         {options_.rank, -1});
  };
  grow(scratch_, scratch_capacity_, plan.scratch_bytes * plan.slices_in_flight);
  grow(landing_, landing_capacity_, plan.landing_bytes);
  registers_[plan::register_of(plan::Base::kScratch)] = scratch_.get();
  registers_[plan::register_of(plan::Base::kLanding)] = landing_.get();
}

void HostExecutor::start(const plan::Plan& plan, const Call& call) {
  ++call_number_;
  call_ = call;
  plan_ = &plan;
  next_stored_ = this;
  next_lines_ = 1;
  exposed_ = !plan.prologue.empty();
  announce();
  registers_[plan::register_of(plan::Base::kInput)] =
      static_cast<std::byte*>(const_cast<void*>(call.send));
  registers_[plan::register_of(plan::Base::kOutput)] = static_cast<std::byte*>(call.recv);
  prologue_ = 0;
  epilogue_ = 0;
  if (!plan.prologue.empty()) cell_shift_ = cells_.take(1, false, lanes_[0].progress);
  for (uint32_t i = 0; i < plan.lanes.size(); ++i) {
    Lane& lane = lanes_[i];
    lane.slice = 0;
    lane.op = plan.lanes[i].begin;
    lane.open = false;
    lane.piece_of = ~uint64_t{0};
    lane.received.resize(plan.lanes[i].receives);
    lane.sent.resize(plan.lanes[i].sends);
    lane.sent_to.resize(plan.lanes[i].sends);
  }
  reserve(plan);  // last: if it fails, the recorder looks at the lanes
}

Status HostExecutor::run(const plan::Plan& plan, const Call& call) {
  if (!status_.ok()) return status_;
  start(plan, call);
  return wait([this] { return advance(); });
}

Progress HostExecutor::advance() {
  if (!status_.ok()) return Progress::kDone;
  const Progress progress = exposed_ ? advance_among_buffers() : advance_plan();
  if (progress == Progress::kDone) plan_ = nullptr;  // whose plans they are may drop it now
  return progress;
}

// Between the two stores a peer that leaves the call with an error waits for me; before the first
// one it has told me not to begin.
Progress HostExecutor::advance_among_buffers() {
  const auto in_plan = [this] {
    const Stay stay(mine_.guard().inside);
    return is_shut_out() ? Progress::kBlocked : advance_plan();
  };
  const Progress progress = in_plan();
  if (!status_.ok()) close_buffers();
  if (progress == Progress::kDone) exposed_ = false;
  return progress;
}

// Whether a peer has left this call, or one before it, with an error.
bool HostExecutor::is_shut_out() {
  const uint64_t closed = mine_.guard().closed.load(std::memory_order_seq_cst);
  if (closed == 0) return false;
  if (static_cast<int32_t>(call_number_ - static_cast<uint32_t>(closed)) < 0) return false;
  const auto who = static_cast<uint32_t>(closed >> 32) - 1;
  if (who < peers_.size()) waiting_for_ = who;  // in vain: check_rare() finds out
  return true;
}

Progress HostExecutor::advance_plan() {
  bool moved = false;
  if (prologue_ < plan_->prologue.size()) {
    moved = advance_prologue();
    if (prologue_ < plan_->prologue.size()) return moved ? Progress::kMoved : Progress::kBlocked;
  }
  bool finished = true;
  for (uint32_t i = 0; i < plan_->lanes.size(); ++i) {
    moved = advance_lane(i) || moved;
    finished = finished && lanes_[i].slice == plan_->slices;
  }
  if (!status_.ok()) return Progress::kDone;
  if (finished) {
    moved = advance_epilogue() || moved;
    if (epilogue_ == plan_->epilogue.size()) return Progress::kDone;
  }
  return moved ? Progress::kMoved : Progress::kBlocked;
}

bool HostExecutor::advance_prologue() {
  bool moved = false;
  for (; prologue_ < plan_->prologue.size(); ++prologue_, moved = true) {
    const Op& op = plan_->prologue[prologue_];
    if (op.code == OpCode::kEnter) {
      if (!credit(lanes_[0], 0)) return moved;
      enter();
    } else if (!entered(op.peer)) {
      return moved;
    }
  }
  return moved;
}

bool HostExecutor::advance_epilogue() {
  bool moved = false;
  for (; epilogue_ < plan_->epilogue.size(); ++epilogue_, moved = true) {
    const Op& op = plan_->epilogue[epilogue_];
    const uint64_t last = lanes_[op.lane].progress - plan_->lanes[op.lane].advance;
    if (!reached(op.peer, op.lane, last + op.value)) return moved;
  }
  return moved;
}

bool HostExecutor::advance_lane(uint32_t index) {
  Lane& lane = lanes_[index];
  const plan::LanePlan& plan = plan_->lanes[index];
  // Who runs this looks between the turns at what is rare.
  constexpr uint64_t kSlicesATurn = 16;
  const uint64_t end = std::min(plan_->slices, lane.slice + kSlicesATurn);
  bool moved = false;
  while (lane.slice < end && status_.ok()) {
    if (!lane.open) {
      for (uint32_t i = 0; i < plan_->lanes.size(); ++i) {
        if (lane.slice >= lanes_[i].slice + plan_->slices_in_flight) return moved;
      }
      open_slice(lane, index);
    }
    for (; lane.op < plan.end; ++lane.op, moved = true) {
      if (!execute(lane, index, plan_->ops[lane.op])) return moved;
    }
    close_slice(lane, index);
    moved = true;
  }
  return moved;
}

void HostExecutor::open_slice(Lane& lane, uint32_t index) {
  const plan::LanePlan& plan = plan_->lanes[index];
  lane.open = true;
  if (plan.cells > 0) cell_shift_ = cells_.take(plan.cells, plan.tiny, lane.progress);
  const uint64_t frame = plan.frame_bytes > 0 ? take_frame(index, plan) : 0;
  lane.shift[static_cast<size_t>(Shift::kFrame)] = index * options_.layout.ring_bytes + frame;
  lane.shift[static_cast<size_t>(Shift::kCell)] = cell_shift_;
  lane.shift[static_cast<size_t>(Shift::kScratch)] =
      lane.slice % plan_->slices_in_flight * plan_->scratch_bytes;
  lane.piece_of = ~uint64_t{0};
}

void HostExecutor::close_slice(Lane& lane, uint32_t index) {
  lane.progress += plan_->lanes[index].advance;
  ++lane.slice;
  lane.op = plan_->lanes[index].begin;
  lane.open = false;
}

// The part of a block of `length` elements that belongs to the lane's slice.
void HostExecutor::set_piece(Lane& lane, uint64_t length) {
  if (lane.piece_of == length) return;
  lane.piece_of = length;
  const schedule::Extent piece = schedule::piece(length, lane.slice, plan_->slices, plan_->quantum);
  lane.piece_length = piece.length;
  lane.piece_bytes = piece.length * plan_->element_bytes;
  lane.shift[static_cast<size_t>(Shift::kPiece)] = piece.offset * plan_->element_bytes;
}

bool HostExecutor::execute(Lane& lane, uint32_t index, const Op& op) {
  switch (op.code) {
    case OpCode::kMove:
      return move(lane, index, op);
    case OpCode::kSignal:
      mine_.counter(index).progress.store(lane.progress + op.value, std::memory_order_release);
      return true;
    case OpCode::kWait:
      return reached(op.peer, index, lane.progress + op.value);
    case OpCode::kRaise: {
      auto* cell = mine_.cells() + cell_shift_ + uint64_t{op.value} * plan::kCellStride;
      reinterpret_cast<Flag*>(cell)->store(cell_flag(lane.progress + 1), std::memory_order_release);
      return true;
    }
    case OpCode::kWaitCell: {
      const ArenaView& arena = peers_[op.peer].arena;
      auto* cell = arena.cells() + cell_shift_ + uint64_t{op.value} * plan::kCellStride;
      waiting_for_ = op.peer;
      return reinterpret_cast<Flag*>(cell)->load(std::memory_order_acquire) ==
             cell_flag(lane.progress + 1);
    }
    case OpCode::kCredit:
      return credit(lane, index);
    case OpCode::kAfter:
      return after(lane, op);
    case OpCode::kReadPeer:
      return read_peer(lane, op);
    default:
      return execute_stream(lane, index, op);
  }
}

bool HostExecutor::move(Lane& lane, uint32_t index, const Op& op) {
  set_piece(lane, op.length);
  if (lane.piece_length == 0) return true;
  std::byte* targets[plan::kMaxTargets];
  const std::byte* sources[types::kMaxSources];
  const Operand* operand = plan_->operands.data() + op.operands;
  for (uint32_t i = 0; i < op.target_count; ++i) targets[i] = address(lane, *operand++);
  for (uint32_t i = 0; i < op.source_count; ++i) sources[i] = address(lane, *operand++);
  types::FoldCall call{targets, sources, op.target_count, op.source_count, lane.piece_length};
  if (op.mask != plan::kNoMask) {
    call.scaled = plan_->masks.data() + op.mask;
    call.scale = plan_->scale;
  }
  if (op.divide) call.divisor = plan_->divisor;
  if (op.streaming_kernel == nullptr && exposed_) {
    return move_in_pieces(op, call, targets, sources);
  }
  if (op.streaming_kernel == nullptr) {
    read_staging(lane, op.peer, lane.piece_bytes, [&] { op.kernel(call); });
    return has_moved(lane.piece_bytes);
  }
  const bool is_copy =
      op.source_count == 1 && op.target_count == 1 && call.scaled == nullptr && !op.divide;
  const StagingWriter::Order order{mine_.counter(index).staged, lane.progress};
  write_staging_(lane.piece_bytes, is_copy, order,
                 [&](bool streaming) { (streaming ? op.streaming_kernel : op.kernel)(call); });
  return has_moved(lane.piece_bytes);
}

// Blocks of user memory have any length, and a peer that leaves the call waits for the piece in
// hand. What is left when this rank is shut out nobody needs: the call fails.
bool HostExecutor::move_in_pieces(const Op& op, types::FoldCall call, std::byte** targets,
                                  const std::byte** sources) {
  constexpr uint64_t kPieceBytes = 16 << 20;  // of all operands together
  const uint64_t operands = uint64_t{call.target_count} + call.source_count;
  const uint64_t most = std::max<uint64_t>(kPieceBytes / operands / plan_->element_bytes, 4096);
  for (uint64_t rest = call.count; rest > 0; rest -= call.count) {
    if (is_shut_out()) return false;
    call.count = std::min(rest, most);
    op.kernel(call);
    const uint64_t bytes = call.count * plan_->element_bytes;
    for (uint32_t i = 0; i < call.target_count; ++i) targets[i] += bytes;
    for (uint32_t i = 0; i < call.source_count; ++i) sources[i] += bytes;
    if (!has_moved(bytes)) return false;
  }
  return true;
}

// False if that was enough: the call has failed.
bool HostExecutor::has_moved(uint64_t bytes) {
  constexpr uint64_t kMostUnseenBytes = 64 << 20;
  unseen_bytes_ += bytes;
  if (unseen_bytes_ < kMostUnseenBytes) return true;
  unseen_bytes_ = 0;
  check_while_moving();
  return status_.ok();
}

bool HostExecutor::read_peer(Lane& lane, const Op& op) {
  set_piece(lane, op.length);
  if (lane.piece_length == 0) return true;
  if (is_shut_out()) return false;
  const Operand* operand = plan_->operands.data() + op.operands;
  const transport::Buffer target{address(lane, operand[0]), lane.piece_bytes};
  const auto source = reinterpret_cast<uint64_t>(address(lane, operand[1]));
  Status status = peers_[op.peer].mapped->read(target, source);
  if (status.ok()) return true;
  // Not whoever was waited for last, and no call that differs: a process that has ended, or memory.
  fail(std::move(status), {static_cast<int>(op.peer), -1});
  return false;  // nothing of this plan is signalled any more: others would forward what is not
                 // there
}

bool HostExecutor::after(const Lane& lane, const Op& op) const {
  const Lane& other = lanes_[op.peer];
  if (other.slice != lane.slice) return other.slice > lane.slice;
  return other.op - plan_->lanes[op.peer].begin >= op.value;
}

// A ring region, or the cell ring of lane 0, may be written when all ranks have read what lay
// there.
bool HostExecutor::credit(Lane& lane, uint32_t index) {
  if (!lane.ring.credited()) {
    if (!passed(index, lane.ring.required())) return false;
    lane.ring.set_credited();
  }
  if (index != 0 || cells_.credited()) return true;
  if (!passed(0, cells_.required())) return false;
  cells_.set_credited();
  constexpr uint64_t kRegionBytes = uint64_t{kCellsPerRegion} * plan::kCellStride;
  const uint64_t begin = cells_.region() * kRegionBytes;
  populated_cells_.reach(mine_.cells(), kCellRegions * kRegionBytes, begin, begin + kRegionBytes);
  return true;
}

bool HostExecutor::passed(uint32_t lane, uint64_t progress) {
  if (passed_[lane] >= progress) return true;
  uint64_t least = ~uint64_t{0};
  for (uint32_t rank : domain_) {
    const uint64_t at = peers_[rank].arena.counter(lane).progress.load(std::memory_order_acquire);
    if (at < progress) {
      waiting_for_ = rank;
      return false;
    }
    least = std::min(least, at);
  }
  passed_[lane] = least;
  // Who has come so far by other calls than mine has not read what lay there.
  for (uint32_t rank : domain_) check_signature(rank);
  return status_.ok();
}

bool HostExecutor::reached(uint32_t peer, uint32_t lane, uint64_t progress) {
  const Counter& counter = peers_[peer].arena.counter(lane);
  waiting_for_ = peer;
  if (counter.progress.load(std::memory_order_acquire) < progress) return false;
  lanes_[lane].mark = StagingMark(counter.staged.load(std::memory_order_relaxed));
  lanes_[lane].marked_by = peer;
  check_signature(peer);
  return status_.ok();
}

void HostExecutor::enter() {
  auto* cell = mine_.cells() + cell_shift_;
  uint64_t addresses[2] = {reinterpret_cast<uint64_t>(call_.send),
                           reinterpret_cast<uint64_t>(call_.recv)};
  if (call_.registered) {
    for (uint64_t& at : addresses) {
      const Registration* own = registration_of(reinterpret_cast<const void*>(at), 1);
      // A rank without input (or output) passes none.
      at = own == nullptr ? Registration::kNone
                          : uint64_t{own->number} << Registration::kOffsetBits |
                                (at - reinterpret_cast<uint64_t>(own->mine));
    }
  }
  std::copy_n(addresses, 2, reinterpret_cast<uint64_t*>(cell + sizeof(Flag)));
  reinterpret_cast<Flag*>(cell)->store(cell_flag(lanes_[0].progress), std::memory_order_release);
}

bool HostExecutor::entered(uint32_t peer) {
  const std::byte* cell = peers_[peer].arena.cells() + cell_shift_;
  waiting_for_ = peer;
  const uint64_t flag = reinterpret_cast<const Flag*>(cell)->load(std::memory_order_acquire);
  if (flag != cell_flag(lanes_[0].progress)) return false;
  const auto* addresses = reinterpret_cast<const uint64_t*>(cell + sizeof(Flag));
  const PeerBase bases[2] = {PeerBase::kInput, PeerBase::kOutput};
  for (int i = 0; i < 2; ++i) {
    auto* memory = reinterpret_cast<std::byte*>(addresses[i]);
    if (call_.registered) {
      const auto number = static_cast<uint32_t>(addresses[i] >> Registration::kOffsetBits);
      const uint64_t offset = addresses[i] % Registration::kMaxBytes;
      const Registration* own = number == Registration::kNone ? nullptr : numbered(number);
      if (number != Registration::kNone && (own == nullptr || offset >= own->bytes)) {
        fail(Status::remote_error("rank " + std::to_string(peer) + " entered " + call_.what +
                                  " with registered memory that rank " +
                                  std::to_string(options_.rank) +
                                  " does not know (any more): deregister it on all ranks before or "
                                  "after the call"));
        return true;
      }
      memory = own == nullptr ? nullptr : own->peers[peer] + offset;
    }
    registers_[plan::register_of(bases[i], static_cast<int>(peer))] = memory;
  }
  return true;
}

uint32_t HostExecutor::add_registration(Registration made) {
  last_number_ = last_number_ % (Registration::kNumbers - 1) + 1;  // whatever others have removed
  if (numbered(last_number_) != nullptr) return Registration::kNone;
  made.number = last_number_;
  registrations_.push_back(std::move(made));
  return last_number_;
}

Registration HostExecutor::remove_registration(uint32_t number) {
  const auto found = std::find_if(registrations_.begin(), registrations_.end(),
                                  [&](const Registration& one) { return one.number == number; });
  if (found == registrations_.end()) return {};
  Registration removed = std::move(*found);
  registrations_.erase(found);
  return removed;
}

const Registration* HostExecutor::numbered(uint32_t number) const {
  const auto found = std::find_if(registrations_.begin(), registrations_.end(),
                                  [&](const Registration& one) { return one.number == number; });
  return found == registrations_.end() ? nullptr : &*found;
}

const Registration* HostExecutor::registration_of(const void* memory, uint64_t bytes) const {
  const auto* begin = static_cast<const std::byte*>(memory);
  for (const Registration& one : registrations_) {
    const std::byte* end = one.mine + one.bytes;
    const bool inside = begin >= one.mine && begin <= end;
    if (inside && bytes <= static_cast<uint64_t>(end - begin)) return &one;
  }
  return nullptr;
}

}  // namespace tutti::exec
