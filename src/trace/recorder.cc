#include "src/trace/recorder.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <utility>

#include "src/base/memory_file.h"

namespace tutti::trace {
namespace {

// Where ranks share cores every call waits a little, and what it exchanges takes microseconds to
// find out.
constexpr uint64_t kFirstLinesNs = 10'000'000;
constexpr uint64_t kNextLinesNs = 100'000'000;
constexpr uint64_t kLeastLines = 256;

// Room for the last calls that waited: each has a line for either direction of every peer.
uint64_t lines_for(int ranks) {
  const auto wanted = 4 * static_cast<uint64_t>(std::max(ranks, 1));
  return std::bit_ceil(std::clamp(wanted, kLeastLines, kMostLines));
}

void copy_text(char* target, size_t room, std::string_view text) {
  const size_t bytes = std::min(text.size(), room - 1);
  std::memcpy(target, text.data(), bytes);
  target[bytes] = '\0';
}

/// The file, or memory of this process alone.
Result<std::byte*> map(int fd, size_t bytes) {
  const int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (memory == MAP_FAILED) return errno_status("flight recorder: mmap");
  return static_cast<std::byte*>(memory);
}

}  // namespace

Label label_of(const Description& description) {
  Label label;
  label.what = description.collective | uint64_t{description.type} << 8 |
               uint64_t{description.op} << 16 | uint64_t{description.algorithm} << 24 |
               uint64_t{static_cast<uint32_t>(description.root)} << 32;
  label.bytes = description.bytes;
  return label;
}

Result<std::unique_ptr<Recorder>> Recorder::create(const RecorderOptions& options) {
  const uint64_t records = std::bit_ceil(std::clamp<uint64_t>(options.records, 1, kMostRecords));
  const uint64_t lines = lines_for(options.ranks);
  const size_t bytes = file_bytes(records, lines);
  KeptFd fd;  // a child would show its parent's calls as its own
  if (options.records > 0) {
    Status failure;
    fd = KeptFd::open([&] {
      Result<Fd> made = make_memory_file(kFileLabel, bytes);
      failure = made.ok() ? Status() : made.status();
      return made.ok() ? made.value().release() : -1;
    });
    if (!failure.ok()) {
      return Status::system_error("flight recorder: " + std::string(failure.message()));
    }
  }
  Result<std::byte*> memory = map(fd.get(), bytes);
  if (!memory.ok()) return memory.status();
  auto* header = new (memory.value()) Header();
  header->version = kVersion;
  header->record_bytes = sizeof(Record);
  header->records = records;
  header->line_bytes = sizeof(Line);
  header->lines = lines;
  header->communicator = options.communicator;
  header->epoch = options.epoch;
  header->rank = options.rank;
  header->ranks = options.ranks;
  header->process = static_cast<uint64_t>(getpid());
  copy_text(header->host, kHostBytes, options.host);
  copy_text(reinterpret_cast<char*>(memory.value()) + kNamesAt, kNameBytes, "?");
  header->magic = kMagic;
  return std::unique_ptr<Recorder>(new Recorder(std::move(fd), memory.value(), bytes));
}

// The pages come from the kernel as zeros, which is what empty records and atomics of 0 are.
Recorder::Recorder(KeptFd fd, std::byte* memory, size_t bytes)
    : fd_(std::move(fd)),
      memory_(memory),
      bytes_(bytes),
      records_(reinterpret_cast<Record*>(memory + kRecordsAt)),
      mask_(header().records - 1),
      lines_(reinterpret_cast<Line*>(memory + lines_at(header().records))),
      line_mask_(header().lines - 1),
      messages_(
          reinterpret_cast<TimedMessage*>(memory + messages_at(header().records, header().lines))),
      ended_(header().ended) {}

Recorder::~Recorder() { munmap(memory_, bytes_); }

uint8_t Recorder::name(std::string_view text) {
  char wanted[kNameBytes] = {};
  copy_text(wanted, kNameBytes, text);
  char* names = reinterpret_cast<char*>(memory_ + kNamesAt);
  for (uint32_t i = 0; i < names_; ++i) {
    if (std::strncmp(names + i * kNameBytes, wanted, kNameBytes) == 0) {
      return static_cast<uint8_t>(i);
    }
  }
  if (names_ == kNames) return 0;
  std::memcpy(names + names_ * kNameBytes, wanted, kNameBytes);
  return static_cast<uint8_t>(names_++);
}

uint64_t Recorder::stamp_start(Record& record) {
  record.start_ns.store(monotonic_ns(), std::memory_order_release);
  return kHasStart;
}

void Recorder::start_clock(Record& record, uint64_t bytes) {
  const uint64_t progress = record.progress.load(std::memory_order_relaxed);
  if (bytes < kTimedBytes || (progress & kHasStart) != 0) return;
  record.progress.store(progress | stamp_start(record), std::memory_order_release);
}

void Recorder::conclude(bool ok) {
  Record& record = current();
  uint64_t progress = record.progress.load(std::memory_order_relaxed);
  if ((progress & kHasStart) != 0) {
    record.end_ns.store(monotonic_ns(), std::memory_order_release);
    progress |= kHasEnd;
  }
  const RecordState state = ok ? RecordState::kDone : RecordState::kFailed;
  record.progress.store((progress & ~kStateMask) | static_cast<uint64_t>(state),
                        std::memory_order_release);
  if (running_ != 0) ended_.store(running_, std::memory_order_release);
}

bool Recorder::is_unfinished(const Record& record) const {
  const uint64_t state = record.progress.load(std::memory_order_acquire) & kStateMask;
  if (state == static_cast<uint64_t>(RecordState::kQueued)) return true;
  return state == static_cast<uint64_t>(RecordState::kRunning) &&
         record.order.load(std::memory_order_relaxed) > ended_.load(std::memory_order_acquire);
}

uint64_t Recorder::queue(const Label& label) {
  Record& record = records_[(orders_ + 1) & mask_];
  if (is_unfinished(record)) {
    header().missed.fetch_add(1, std::memory_order_relaxed);
    return 0;
  }
  const uint64_t order = ++orders_;
  write(record, order, label, static_cast<uint64_t>(RecordState::kQueued));
  return order;
}

void Recorder::begin_queued(uint64_t ticket, const Label& label, uint32_t number, Series series) {
  running_ = ticket;
  Record& record = current();
  record.what.store(label.what, std::memory_order_release);
  record.progress.store(progress_of(number, series), std::memory_order_release);
  start_clock(record, label.bytes);
}

void Recorder::waits_for(uint32_t peer, uint32_t lane, uint32_t step) {
  constexpr int kPeerAt = 44, kLaneAt = 40, kStepAt = 28;
  Record& record = current();
  const uint64_t at = uint64_t{peer} << kPeerAt | uint64_t{lane} << kLaneAt |
                      std::min<uint64_t>(step, kMostStep) << kStepAt;
  uint64_t progress = record.progress.load(std::memory_order_relaxed);
  const uint64_t before = record.wait.load(std::memory_order_relaxed);
  if ((progress & kHasWait) != 0 && (before & ~kMostMilliseconds) == at) return;
  if ((progress & kHasStart) == 0) progress |= stamp_start(record);
  const uint64_t since_ns = monotonic_ns() - record.start_ns.load(std::memory_order_relaxed);
  record.wait.store(at | std::min(since_ns / kNanosecondsPerMillisecond, kMostMilliseconds),
                    std::memory_order_release);
  record.progress.store(progress | kHasWait, std::memory_order_release);
}

uint64_t Recorder::begin_message(const MessageState& state) {
  if (running_ == 0) return 0;
  const uint64_t number = ++messages_given_;
  TimedMessage& at = message(number);
  at.order.store(0, std::memory_order_relaxed);
  at.number.store(number, std::memory_order_release);
  at.what.store(
      uint64_t{state.peer} << 32 | uint64_t{state.lane} << 8 | (state.sends ? kLineSends : 0),
      std::memory_order_release);
  at.slice.store(state.slice, std::memory_order_release);
  at.bytes.store(state.bytes, std::memory_order_release);
  at.begin_ns.store(monotonic_ns(), std::memory_order_release);
  at.end_ns.store(0, std::memory_order_release);
  at.order.store(running_, std::memory_order_release);
  return number;
}

void Recorder::end_message(uint64_t number) {
  TimedMessage& at = message(number);
  const bool is_there = number != 0 && at.number.load(std::memory_order_relaxed) == number;
  if (is_there) at.end_ns.store(monotonic_ns(), std::memory_order_release);
}

bool Recorder::lines_due(uint64_t now_ns) {
  if (!in_call()) return false;
  if (timed_ != running_) {
    timed_ = running_;
    due_ns_ = now_ns + kFirstLinesNs;
  }
  if (now_ns < due_ns_) return false;
  due_ns_ = now_ns + kNextLinesNs;
  return true;
}

}  // namespace tutti::trace
