#include "src/trace/reader.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "src/base/clock.h"
#include "src/base/io.h"
#include "src/base/words.h"

namespace tutti::trace {
namespace {

/// Read once, whatever becomes of it: the file may change after a number was found good.
template <class Number>
Number once(const Number& number) {
  return *static_cast<const volatile Number*>(&number);
}

class Reading {
 public:
  /// Of a file that is long enough for so many.
  Reading(std::string_view file, uint64_t records, uint64_t lines)
      : file_(file), records_(records), lines_(lines) {}

  const Record& record(uint64_t index) const {
    return reinterpret_cast<const Record*>(file_.data() + kRecordsAt)[index];
  }
  const Line& line(uint64_t number) const {
    const size_t at = lines_at(records_) + number % lines_ * sizeof(Line);
    return *reinterpret_cast<const Line*>(file_.data() + at);
  }
  const TimedMessage& message(uint64_t index) const {
    const size_t at = messages_at(records_, lines_) + index * sizeof(TimedMessage);
    return *reinterpret_cast<const TimedMessage*>(file_.data() + at);
  }
  /// Bounded, whatever is in the file.
  std::string name(uint64_t number) const {
    const std::string_view room = file_.substr(kNamesAt + (number & 0xff) * kNameBytes, kNameBytes);
    return clean(room.substr(0, room.find('\0')));
  }
  static std::string clean(std::string_view text) {
    std::string cleaned(text);
    std::replace_if(
        cleaned.begin(), cleaned.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
    return cleaned;
  }

 private:
  std::string_view file_;
  uint64_t records_;
  uint64_t lines_;
};

std::string optional_name(const Reading& reading, uint64_t number) {
  return (number & 0xff) == 0 ? std::string() : reading.name(number);
}

void unpack_wait(uint64_t wait, CallRecord& call) {
  call.waits_for = static_cast<int>(wait >> 44);
  call.lane = static_cast<uint32_t>(wait >> 40 & 0xf);
  call.step = static_cast<uint32_t>(wait >> 28 & kMostStep);
  call.wait_ns = call.start_ns + (wait & kMostMilliseconds) * kNanosecondsPerMillisecond;
}

// A writer that is always faster than this reader would be a very short ring.
constexpr int kTries = 1000;

template <class Enum>
Enum known(uint64_t value, Enum last, Enum otherwise) {
  return value <= static_cast<uint64_t>(last) ? static_cast<Enum>(value) : otherwise;
}

std::optional<ExchangeRecord> read_line(const Reading& reading, const Line& line, uint64_t order) {
  for (int i = 0; i < kTries; ++i) {
    const uint64_t before = line.order.load(std::memory_order_acquire);
    if (before == 0) continue;
    if ((before & ~kLineRevision) != line_order(order)) return std::nullopt;
    const uint64_t what = line.what.load(std::memory_order_acquire);
    const uint64_t numbers = line.numbers.load(std::memory_order_acquire);
    ExchangeRecord exchange;
    exchange.bytes = line.bytes.load(std::memory_order_acquire);
    exchange.moved = line.moved.load(std::memory_order_acquire);
    const uint64_t messages = line.messages.load(std::memory_order_acquire);
    exchange.blame = static_cast<uint32_t>(line.blame.load(std::memory_order_acquire));
    if (line.order.load(std::memory_order_relaxed) != before) continue;
    exchange.peer = static_cast<uint32_t>(what >> 32);
    exchange.sends = (what & kLineSends) != 0;
    exchange.type = optional_name(reading, what >> 8);
    exchange.state = known(what >> 16 & 0xff, PeerState::kGaveUp, PeerState::kUnknown);
    exchange.messages = static_cast<uint32_t>(messages);
    exchange.complete = static_cast<uint32_t>(messages >> 32);
    exchange.number = static_cast<uint32_t>(numbers >> 32);
    exchange.call = static_cast<uint32_t>(numbers);
    return exchange;
  }
  return std::nullopt;
}

// Lines are overwritten in the order in which they were given out, so where the last of a record is
// not its own, none is. `budget`: how many may be looked at, since a file may say anything.
void read_lines(const Reading& reading, uint64_t word, CallRecord& call, uint64_t& budget) {
  const uint64_t first = word >> 32;
  const uint64_t count = word >> 16 & 0xffff;
  call.left_out = static_cast<uint32_t>(word & 0xffff);
  if (count == 0 || !read_line(reading, reading.line(first + count - 1), call.order)) return;
  for (uint64_t i = 0; i < count && budget > 0; ++i, --budget) {
    if (auto exchange = read_line(reading, reading.line(first + i), call.order)) {
      call.exchanges.push_back(std::move(*exchange));
    }
  }
}

// A call that is done has exchanged everything, whenever its lines were written last.
void settle(CallRecord& call, uint64_t ended) {
  if (call.state == RecordState::kRunning && call.order <= ended) call.state = RecordState::kDone;
  if (call.state != RecordState::kDone) return;
  if (call.series == Series::kCollective) {
    call.exchanges.clear();
    call.left_out = 0;
  }
  for (ExchangeRecord& exchange : call.exchanges) {
    exchange.moved = exchange.bytes;
    exchange.complete = exchange.messages;
    exchange.state = PeerState::kUnknown;
  }
}

std::optional<CallRecord> read_record(const Reading& reading, const Record& record,
                                      uint64_t& budget) {
  for (int i = 0; i < kTries; ++i) {
    const uint64_t order = record.order.load(std::memory_order_acquire);
    if (order == 0) continue;
    const uint64_t what = record.what.load(std::memory_order_acquire);
    const uint64_t progress = record.progress.load(std::memory_order_acquire);
    CallRecord call;
    call.bytes = record.bytes.load(std::memory_order_acquire);
    call.start_ns = record.start_ns.load(std::memory_order_acquire);
    call.end_ns = record.end_ns.load(std::memory_order_acquire);
    const uint64_t wait = record.wait.load(std::memory_order_acquire);
    const uint64_t lines = record.lines.load(std::memory_order_acquire);
    if (record.order.load(std::memory_order_relaxed) != order) continue;
    call.order = order;
    call.number = static_cast<uint32_t>(progress >> 32);
    call.series = known(progress >> kSeriesAt & kSeriesMask, Series::kDevice, Series::kCollective);
    call.state = known(progress & kStateMask, RecordState::kFailed, RecordState::kNone);
    call.collective = reading.name(what);
    call.type = optional_name(reading, what >> 8);
    call.op = optional_name(reading, what >> 16);
    call.algorithm = optional_name(reading, what >> 24);
    call.root = static_cast<int>(static_cast<uint32_t>(what >> 32));
    if ((progress & kHasStart) == 0) call.start_ns = 0;
    if ((progress & kHasEnd) == 0) call.end_ns = 0;
    if ((progress & kHasWait) != 0) unpack_wait(wait, call);
    if ((progress & kHasLines) != 0) read_lines(reading, lines, call, budget);
    return call;
  }
  return std::nullopt;
}

std::optional<MessageRecord> read_message(const TimedMessage& message, uint64_t& order) {
  for (int i = 0; i < kTries; ++i) {
    order = message.order.load(std::memory_order_acquire);
    if (order == 0) return std::nullopt;
    MessageRecord read;
    read.number = message.number.load(std::memory_order_acquire);
    const uint64_t what = message.what.load(std::memory_order_acquire);
    read.slice = message.slice.load(std::memory_order_acquire);
    read.bytes = message.bytes.load(std::memory_order_acquire);
    read.begin_ns = message.begin_ns.load(std::memory_order_acquire);
    read.end_ns = message.end_ns.load(std::memory_order_acquire);
    if (message.order.load(std::memory_order_relaxed) != order) continue;
    read.peer = static_cast<uint32_t>(what >> 32);
    read.lane = static_cast<uint32_t>(what >> 8 & 0xffffff);
    read.sends = (what & kLineSends) != 0;
    return read;
  }
  return std::nullopt;
}

/// Of calls that are in order.
void read_messages(const Reading& reading, std::vector<CallRecord>& calls) {
  const auto by_order = [](const CallRecord& call, uint64_t order) { return call.order < order; };
  for (uint64_t i = 0; i < kTimedMessages; ++i) {
    uint64_t order = 0;
    const std::optional<MessageRecord> message = read_message(reading.message(i), order);
    if (!message) continue;
    const auto call = std::lower_bound(calls.begin(), calls.end(), order, by_order);
    if (call != calls.end() && call->order == order) call->messages.push_back(*message);
  }
  for (CallRecord& call : calls) {
    std::sort(call.messages.begin(), call.messages.end(),
              [](const MessageRecord& a, const MessageRecord& b) { return a.number < b.number; });
  }
}

Result<Snapshot> read_aligned(std::string_view file) {
  const auto refuse = [](const std::string& why) {
    return Status::remote_error("this is no flight recorder that this program can read: " + why);
  };
  if (file.size() < kRecordsAt) return refuse("it is too short");
  const Header& header = *reinterpret_cast<const Header*>(file.data());
  if (header.magic != kMagic) return refuse("its first bytes are others");
  const bool known_layout = header.version == kVersion && header.record_bytes == sizeof(Record) &&
                            header.line_bytes == sizeof(Line);
  if (!known_layout) {
    return refuse("it has version " + std::to_string(header.version) + ", known is " +
                  std::to_string(kVersion));
  }
  const uint64_t records = once(header.records);
  const uint64_t lines = once(header.lines);
  if (records > kMostRecords || lines > kMostLines || file.size() < file_bytes(records, lines)) {
    return refuse("it is cut off");
  }
  if (lines == 0) return refuse("it has no lines");
  const Reading reading(file, records, lines);
  Snapshot snapshot;
  snapshot.communicator = header.communicator;
  snapshot.epoch = header.epoch;
  snapshot.rank = header.rank;
  snapshot.ranks = header.ranks;
  snapshot.process = header.process;
  const std::string_view host(header.host, kHostBytes);
  snapshot.host = Reading::clean(host.substr(0, host.find('\0')));
  const uint64_t ended = header.ended.load(std::memory_order_acquire);
  snapshot.missed = header.missed.load(std::memory_order_relaxed);
  uint64_t budget = 2 * lines;
  for (uint64_t i = 0; i < records; ++i) {
    const Record& record = reading.record(i);
    if (record.progress.load(std::memory_order_relaxed) == 0) continue;
    if (std::optional<CallRecord> call = read_record(reading, record, budget)) {
      settle(*call, ended);
      snapshot.calls.push_back(std::move(*call));
    }
  }
  std::sort(snapshot.calls.begin(), snapshot.calls.end(),
            [](const CallRecord& a, const CallRecord& b) { return a.order < b.order; });
  read_messages(reading, snapshot.calls);
  return snapshot;
}

/// Closes the folder when it goes.
struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};
using Folder = std::unique_ptr<DIR, CloseFolder>;

std::vector<std::string> names_in(const std::string& path) {
  std::vector<std::string> names;
  const Folder folder(opendir(path.c_str()));
  if (folder == nullptr) return names;
  for (const dirent* entry = readdir(folder.get()); entry != nullptr;
       entry = readdir(folder.get())) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  return names;
}

bool is_recorder(const std::string& path) {
  std::array<char, 256> target{};
  const ssize_t length = readlink(path.c_str(), target.data(), target.size());
  if (length <= 0) return false;
  const std::string_view text(target.data(), static_cast<size_t>(length));
  return text.starts_with("/memfd:" + std::string(kFileLabel) + " ");
}

Result<Snapshot> read_file(const Fd& fd, const struct stat& file) {
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return Status::remote_error("its size could change while it is read");
  }
  const auto bytes = static_cast<size_t>(file.st_size);
  if (bytes < kRecordsAt || bytes > file_bytes(kMostRecords, kMostLines)) {
    return Status::remote_error("it has not the size of a flight recorder");
  }
  void* memory = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return errno_status("mmap");
  Result<Snapshot> snapshot = read({static_cast<const char*>(memory), bytes});
  munmap(memory, bytes);
  return snapshot;
}

}  // namespace

// A copy of a file may lie anywhere; a mapping is aligned.
Result<Snapshot> read(std::string_view file) {
  if (reinterpret_cast<uintptr_t>(file.data()) % alignof(Record) == 0) return read_aligned(file);
  std::vector<std::byte> room(file.size() + alignof(Record));
  void* place = room.data();
  size_t space = room.size();
  std::align(alignof(Record), file.size(), place, space);
  std::memcpy(place, file.data(), file.size());
  return read_aligned({static_cast<const char*>(place), file.size()});
}

Result<Recorders> read_process(pid_t process) {
  const std::string folder = "/proc/" + std::to_string(process) + "/fd";
  const Folder readable(opendir(folder.c_str()));
  if (readable == nullptr) {
    return errno_status("cannot look into process " + std::to_string(process) +
                        " (it must run, and belong to this user)");
  }
  Recorders found;
  std::set<ino_t> seen;  // a descriptor may be duplicated
  for (const std::string& name : names_in(folder)) {
    const std::string path = folder + "/" + name;
    if (!is_recorder(path)) continue;
    const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    struct stat file {};
    if (!fd.valid() || fstat(fd.get(), &file) < 0) {
      // A communicator may go away meanwhile.
      if (errno != ENOENT && errno != ESRCH) found.refused.push_back(errno_status("open " + path));
      continue;
    }
    if (!seen.insert(file.st_ino).second) continue;
    Result<Snapshot> snapshot = read_file(fd, file);
    if (snapshot.ok()) {
      found.snapshots.push_back(std::move(snapshot).value());
    } else {
      found.refused.push_back(
          Status(snapshot.status().code(), path + ": " + std::string(snapshot.status().message())));
    }
  }
  std::sort(found.snapshots.begin(), found.snapshots.end(),
            [](const Snapshot& a, const Snapshot& b) {
              return std::pair(a.communicator, a.rank) < std::pair(b.communicator, b.rank);
            });
  return found;
}

std::vector<pid_t> find_processes() {
  std::vector<pid_t> found;
  for (const std::string& name : names_in("/proc")) {
    const std::optional<pid_t> process = parse_integer<pid_t>(name);
    if (!process) continue;
    const std::string folder = "/proc/" + name + "/fd";
    const std::vector<std::string> descriptors = names_in(folder);
    const bool has = std::any_of(descriptors.begin(), descriptors.end(),
                                 [&](const auto& fd) { return is_recorder(folder + "/" + fd); });
    if (has) found.push_back(*process);
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace tutti::trace
