#include "src/trace/recorder.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <utility>

namespace tutti::trace {
namespace {

// Calls of at least this size are always timed: two looks at the clock do not show in them.
constexpr uint64_t kTimedBytes = 64 << 10;
constexpr uint64_t kSampled = 64;

void copy_text(char* target, size_t room, std::string_view text) {
  const size_t bytes = std::min(text.size(), room - 1);
  std::memcpy(target, text.data(), bytes);
  target[bytes] = '\0';
}

bool is_unfinished(const Record& record) {
  const uint64_t state = record.progress.load(std::memory_order_acquire) & kStateMask;
  return state == static_cast<uint64_t>(State::kQueued) ||
         state == static_cast<uint64_t>(State::kRunning);
}

}  // namespace

Label label_of(const Description& description) {
  Label label;
  label.what = description.collective | uint64_t{description.type} << 8 |
               uint64_t{description.op} << 16 | uint64_t{description.algorithm} << 24 |
               uint64_t{static_cast<uint32_t>(description.root)} << 32;
  label.bytes = description.bytes;
  label.untimed = description.bytes >= kTimedBytes ? 0 : kSampled - 1;
  return label;
}

Result<std::unique_ptr<Recorder>> Recorder::create(const RecorderOptions& options) {
  const uint64_t records = std::bit_ceil(std::clamp<uint64_t>(options.records, 1, kMostRecords));
  const size_t bytes = file_bytes(records);
  Fd fd(memfd_create(kFileLabel, MFD_CLOEXEC));
  if (!fd.valid()) return errno_status("flight recorder: memfd_create");
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) < 0) {
    return errno_status("flight recorder: ftruncate to " + std::to_string(bytes) + " bytes");
  }
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return errno_status("flight recorder: mmap");
  auto* header = new (memory) Header();
  header->version = kVersion;
  header->record_bytes = sizeof(Record);
  header->records = records;
  header->communicator = options.communicator;
  header->epoch = options.epoch;
  header->rank = options.rank;
  header->ranks = options.ranks;
  header->process = static_cast<uint64_t>(getpid());
  copy_text(header->host, kHostBytes, options.host);
  copy_text(static_cast<char*>(memory) + kNamesAt, kNameBytes, "?");
  header->magic = kMagic;
  return std::unique_ptr<Recorder>(
      new Recorder(std::move(fd), static_cast<std::byte*>(memory), bytes));
}

// The pages come from the kernel as zeros, which is what empty records and atomics of 0 are.
Recorder::Recorder(Fd fd, std::byte* memory, size_t bytes)
    : fd_(std::move(fd)),
      memory_(memory),
      bytes_(bytes),
      records_(reinterpret_cast<Record*>(memory + kRecordsAt)),
      mask_(header().records - 1),
      current_(&unrecorded_) {}

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

uint64_t Recorder::stamp_end(Record& record) {
  record.end_ns.store(monotonic_ns(), std::memory_order_release);
  return kHasEnd;
}

uint64_t Recorder::queue(Label label) {
  Record& record = records_[(orders_ + 1) & mask_];
  if (is_unfinished(record)) {
    header().missed.fetch_add(1, std::memory_order_relaxed);
    return 0;
  }
  const uint64_t order = ++orders_;
  label.untimed = ~uint64_t{0};  // it has not begun
  write(record, order, label, static_cast<uint64_t>(State::kQueued));
  return order;
}

void Recorder::begin_queued(uint64_t ticket, const Label& label, uint32_t number) {
  current_ = ticket == 0 ? &unrecorded_ : &records_[ticket & mask_];
  uint64_t progress = uint64_t{number} << 32 | static_cast<uint64_t>(State::kRunning);
  if ((ticket & label.untimed) == 0) progress |= stamp_start(*current_);
  current_->what.store(label.what, std::memory_order_release);
  current_->progress.store(progress, std::memory_order_release);
}

void Recorder::waits_for(uint32_t peer, uint32_t lane, uint32_t step) {
  constexpr uint64_t kMillisecond = 1'000'000;
  constexpr int kPeerAt = 44, kLaneAt = 40, kStepAt = 28;
  Record& record = *current_;
  const uint64_t at = uint64_t{peer} << kPeerAt | uint64_t{lane} << kLaneAt |
                      std::min<uint64_t>(step, kMostStep) << kStepAt;
  uint64_t progress = record.progress.load(std::memory_order_relaxed);
  const uint64_t before = record.wait.load(std::memory_order_relaxed);
  if ((progress & kHasWait) != 0 && (before & ~kMostMilliseconds) == at) return;
  if ((progress & kHasStart) == 0) progress |= stamp_start(record);
  const uint64_t since_ns = monotonic_ns() - record.start_ns.load(std::memory_order_relaxed);
  record.wait.store(at | std::min(since_ns / kMillisecond, kMostMilliseconds),
                    std::memory_order_release);
  record.progress.store(progress | kHasWait, std::memory_order_release);
}

}  // namespace tutti::trace
