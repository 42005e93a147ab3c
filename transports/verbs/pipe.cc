#include "transports/verbs/pipe.h"

#include <arpa/inet.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/base/clock.h"
#include "src/base/io.h"

namespace tutti::transports::verbs {
namespace {

using transport::stream::CarriedFrame;
using transport::stream::CarriedWrite;
using transport::stream::kSequencedHeaderBytes;
using transport::stream::PipeEvents;

constexpr uint64_t kSocketTag = 1, kCompletionTag = 2;

// Sends without a frame need a receive, too, and nobody grants those: at most two grants are on
// their way, since half of the slots make one, and one last word.
constexpr uint32_t kReserve = 4;
constexpr uint32_t kReceives = VerbsPipe::kSlots + kReserve;
constexpr uint32_t kGrantAt = VerbsPipe::kSlots / 2;
constexpr uint32_t kSends = VerbsPipe::kSlots + kReserve;

// The immediate value of a send: how many receives its sender has posted again, and whether it is
// the last one.
constexpr uint32_t kLastWord = 1u << 31, kGrantMask = 0xffff;

// The name of a work request: its slot, or that it has none, and whether it is a receive.
constexpr uint64_t kReceiveName = uint64_t{1} << 32, kNoSlot = kReceiveName - 1;

constexpr uint32_t kInlineBytes = 128;  // a header and some control payload
constexpr uint32_t kLookEvery = 16;     // empty polls: a look costs a system call
constexpr int kMostBatches = 8;         // of one poll, so that other links get their turn

}  // namespace

// ---- slots --------------------------------------------------------------------------------------

// Shared, so that a forked child has the same pages and the card never another copy of them.
Result<std::unique_ptr<SlotMemory>> SlotMemory::create(std::shared_ptr<Domain> domain,
                                                       size_t slots) {
  const size_t bytes = slots * kSlotBytes;
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return errno_status("mmap");
  std::unique_ptr<SlotMemory> made(new SlotMemory(static_cast<std::byte*>(memory), bytes));
  auto registration = CardMemory::create(std::move(domain), memory, bytes, api::kAccessLocalWrite);
  if (!registration.ok()) return registration.status();
  made->registration_ = std::move(registration).value();
  return made;
}

SlotMemory::~SlotMemory() {
  registration_.reset();
  munmap(memory_, bytes_);
}

api::ibv_sge SlotMemory::piece(size_t slot, size_t bytes) const {
  return {reinterpret_cast<uint64_t>(at(slot)), static_cast<uint32_t>(bytes),
          registration_->local_key()};
}

// ---- the beginning ------------------------------------------------------------------------------

std::optional<transport::stream::KeyedPlace> PlacedRanges::place_of(const void* memory,
                                                                    uint64_t bytes) {
  const auto keys = ranges_->find(memory, bytes);
  if (!keys) return std::nullopt;
  transport::stream::KeyedPlace place;
  place.address = reinterpret_cast<uint64_t>(memory);
  place.key = key_of(keys->remote);
  return place;
}

Result<std::unique_ptr<VerbsPipe>> VerbsPipe::open(std::shared_ptr<Domain> domain,
                                                   std::shared_ptr<RegisteredRanges> ranges,
                                                   tcp::PeerSocket socket,
                                                   const Patience& patience) {
  std::unique_ptr<VerbsPipe> made(
      new VerbsPipe(std::move(domain), std::move(ranges), std::move(socket)));
  if (Status status = made->prepare(); !status.ok()) return status;
  if (Status status = made->meet(patience); !status.ok()) return status;
  return made;
}

Status VerbsPipe::prepare() {
  Result<std::unique_ptr<PollSet>> set = PollSet::create();
  if (!set.ok()) return set.status();
  set_ = std::move(set).value();
  auto memory = SlotMemory::create(domain_, kSlots + kReceives);
  if (!memory.ok()) return memory.status();
  memory_ = std::move(memory).value();
  for (size_t slot = kSlots; slot-- > 0;) free_slots_.push_back(slot);
  auto completions = Completions::create(domain_, kSends + kReceives + DataFlows::kCompletions);
  if (!completions.ok()) return completions.status();
  completions_ = std::move(completions).value();
  auto control = QueuePair::create(domain_, *completions_, {kSends, kReceives, kInlineBytes});
  if (!control.ok()) return control.status();
  control_ = std::move(control).value();
  auto flows = DataFlows::create(domain_, ranges_, *completions_);
  if (!flows.ok()) return flows.status();
  flows_ = std::move(flows).value();
  for (size_t slot = kSlots; slot < kSlots + kReceives; ++slot) {
    if (Status status = post_receive(slot); !status.ok()) return status;
  }
  return {};
}

Status VerbsPipe::meet(const Patience& patience) {
  const int socket = socket_.get();
  PortHello mine;
  mine.port = end_of(domain_->adapter());
  mine.slots = kSlots;
  mine.slot_bytes = SlotMemory::kSlotBytes;
  mine.control = control_->end();
  mine.data = flows_->ends();
  if (Status status = send_hello(socket, mine, patience); !status.ok()) return status;
  const Result<PortHello> theirs = receive_hello(socket, patience);
  if (!theirs.ok()) return theirs.status();
  if (theirs.value().slots != kSlots || theirs.value().slot_bytes != SlotMemory::kSlotBytes) {
    return Status::remote_error(
        "the peer's receives are of another size: another version of Tutti");
  }
  if (Status status = control_->connect(theirs.value().port, theirs.value().control);
      !status.ok()) {
    return status;
  }
  if (Status status = flows_->connect(theirs.value().port, theirs.value().data); !status.ok()) {
    return status;
  }
  if (Status status = exchange_ready(socket, patience); !status.ok()) return status;
  credit_ = kSlots;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kCompletionTag;
  if (epoll_ctl(set_->fd(), EPOLL_CTL_ADD, completions_->descriptor(), &event) < 0) {
    return errno_status("epoll_ctl");
  }
  return socket_.watch(*set_, kSocketTag);
}

Status VerbsPipe::post_receive(size_t slot) {
  api::ibv_sge piece = memory_->piece(slot, SlotMemory::kSlotBytes);
  api::ibv_recv_wr work{};
  work.wr_id = kReceiveName | slot;
  work.sg_list = &piece;
  work.num_sge = 1;
  return control_->receive(work);
}

// ---- out ----------------------------------------------------------------------------------------

bool VerbsPipe::send(const CarriedFrame& frame) {
  if (!broken_.ok() || ended_ || credit_ == 0 || free_slots_.empty()) return false;
  const size_t slot = free_slots_.back();
  std::byte* const start = memory_->at(slot);
  std::byte* at = std::copy(frame.header.begin(), frame.header.end(), start);
  for (const iovec& piece : frame.payload) {
    std::memcpy(at, piece.iov_base, piece.iov_len);
    at += piece.iov_len;
  }
  if (!send_slot(slot, static_cast<size_t>(at - start), 0)) return false;
  free_slots_.pop_back();
  --credit_;
  carried_.push_back(frame.name);
  return true;
}

bool VerbsPipe::send_slot(uint64_t name, size_t bytes, uint32_t flags) {
  api::ibv_sge piece{};
  if (name != kNoSlot) piece = memory_->piece(name, bytes);
  api::ibv_send_wr work{};
  work.wr_id = name;
  work.sg_list = &piece;
  work.num_sge = bytes > 0 ? 1 : 0;
  work.opcode = api::kOpSendWithImmediate;
  work.imm_data = htonl(flags | owed_);
  work.send_flags = api::kSendSignaled;
  if (bytes > 0 && bytes <= control_->inline_bytes()) work.send_flags |= api::kSendInline;
  if (Status status = control_->send(work); !status.ok()) {
    break_off(std::move(status));
    return false;
  }
  owed_ = 0;
  ++in_flight_;
  return true;
}

bool VerbsPipe::write(const CarriedWrite& write) {
  if (!broken_.ok() || ended_ || !flows_->write(write)) return false;
  if (Status status = flows_->pump(); !status.ok()) break_off(std::move(status));
  return true;
}

void VerbsPipe::grant_if_due() {
  if (owed_ >= kGrantAt && broken_.ok() && !ended_) (void)send_slot(kNoSlot, 0, 0);
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
  grant_if_due();
  if (Status status = flows_->pump(); !status.ok()) break_off(std::move(status));
  if (!moved && broken_.ok()) {
    if (Status status = look_around(events); !status.ok()) break_off(std::move(status));
  }
  if (!broken_.ok()) return broken_;
  return peer_ended_ ? Status::remote_error("it has closed the connection") : Status();
}

// Nothing has come. A thread that sleeps on the descriptor is told of what comes from now on.
Status VerbsPipe::look_around(PipeEvents& events) {
  const bool looks = ++idle_polls_ % kLookEvery == 0;
  if (looks || completions_->needs_arming()) {
    if (Status status = completions_->arm(); !status.ok()) return status;
    if (const Result<bool> some = take_some(events); !some.ok()) return some.status();
    grant_if_due();
    if (Status status = flows_->pump(); !status.ok()) return status;
  }
  if (!looks) return {};
  if (domain_->adapter().is_dead()) return Status::system_error(domain_->adapter().trouble());
  return socket_.check();
}

Result<bool> VerbsPipe::take_some(PipeEvents& events) {
  const Result<std::span<const api::ibv_wc>> found = completions_->take();
  if (!found.ok()) return found.status();
  for (const api::ibv_wc& one : found.value()) {
    if (Status status = complete(one, events); !status.ok()) return status;
  }
  return !found.value().empty();
}

Status VerbsPipe::complete(const api::ibv_wc& found, PipeEvents& events) {
  if (DataFlows::is_mine(found)) {
    if (ended_ || peer_ended_) return {};
    return found.status == api::kDone ? flows_->complete(found, events) : explain(found);
  }
  const bool is_receive = (found.wr_id & kReceiveName) != 0;
  if (!is_receive) {
    --in_flight_;
    if (found.wr_id != kNoSlot) free_slots_.push_back(found.wr_id);
  }
  if (found.status != api::kDone) return ended_ || peer_ended_ ? Status() : explain(found);
  return is_receive ? receive(found, events) : Status();
}

Status VerbsPipe::receive(const api::ibv_wc& found, PipeEvents& events) {
  const size_t slot = found.wr_id & ~kReceiveName;
  const uint32_t immediate = ntohl(found.imm_data);
  credit_ += immediate & kGrantMask;
  peer_ended_ = peer_ended_ || (immediate & kLastWord) != 0;
  const bool has_frame = found.byte_len > 0;
  const bool sound = (found.wc_flags & api::kHasImmediate) != 0 && credit_ <= kSlots &&
                     (!has_frame || found.byte_len >= kSequencedHeaderBytes);
  if (!sound) return Status::remote_error("it sent what no Tutti sends");
  if (has_frame) {
    const std::span<const std::byte> bytes(memory_->at(slot), found.byte_len);
    events.came(bytes.first(kSequencedHeaderBytes), bytes.subspan(kSequencedHeaderBytes));
  }
  if (peer_ended_) return {};
  if (Status status = post_receive(slot); !status.ok()) return status;
  if (has_frame) ++owed_;
  return {};
}

// ---- what goes wrong, and the end ---------------------------------------------------------------

Status VerbsPipe::explain(const api::ibv_wc& found) const {
  if (Status status = socket_.check(); !status.ok()) return status;
  const Adapter& adapter = domain_->adapter();
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

void VerbsPipe::break_off(Status status) {
  if (broken_.ok()) broken_ = std::move(status);
}

// The last word goes behind all frames, so the peer has them when it reads it.
void VerbsPipe::end() {
  if (std::exchange(ended_, true)) return;
  if (broken_.ok()) (void)send_slot(kNoSlot, 0, kLastWord);
  flows_->stop();
  if (broken_.ok()) return;
  control_->stop();
  socket_.end();  // the peer's card may not notice
}

bool VerbsPipe::has_delivered() const {
  return in_flight_ == 0 || !broken_.ok() || !socket_.check().ok();
}

VerbsPipe::~VerbsPipe() {
  if (completions_ != nullptr && set_ != nullptr) {
    epoll_ctl(set_->fd(), EPOLL_CTL_DEL, completions_->descriptor(), nullptr);
  }
  flows_.reset();
  control_.reset();
}

}  // namespace tutti::transports::verbs
