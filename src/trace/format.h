// The memory layout of a flight recorder: a file that other processes read while it is written.
//
//   page 0            Header
//   kNamesAt          kNames texts of kNameBytes: what the small numbers in records stand for
//   kRecordsAt        Header::records records, a ring: order n lies at n % records
//   lines_at(records) Header::lines lines, a ring: what a record's call exchanges, by peer
//   messages_at(...)  kTimedMessages of them, a ring: when messages of calls on devices passed
//
// The layout is fixed for a version, native byte order: the reader runs on the same host. Names
// make the file readable for a program of another build: records name collectives, types and
// algorithms by number of a text in the file.
//
// Ordering: one writer at a time per record. It sets `order` to 0, writes the other words, and sets
//           `order` to the record's number; a reader that sees one number before and after has a
//           whole record. The fields that change later (state, end, wait, lines) are single words,
//           each valid when its bit in `progress` says so. A line is written like a record; its
//           `order` holds that of the record it belongs to, so one that was overwritten for another
//           call is known, and a revision, because a call writes its lines again and again.
// Threads:  every word that changes is atomic.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tutti::trace {

inline constexpr uint64_t kMagic = 0x4543415254545554;  // "TUTTRACE"
inline constexpr uint32_t kVersion = 3;
/// The memfd's name, as /proc/PID/fd shows it.
inline constexpr const char* kFileLabel = "tutti-trace";

enum class RecordState : uint8_t { kNone = 0, kQueued = 1, kRunning = 2, kDone = 3, kFailed = 4 };

/// The series in which a call is numbered: each kind of call has numbers of its own, rising from 1.
enum class Series : uint8_t { kCollective = 0, kTransfers = 1, kOneSided = 2, kDevice = 3 };

/// Record::progress: call number << 32 | Series << 16 | bits | State.
inline constexpr uint64_t kStateMask = 0xff;
inline constexpr uint64_t kHasStart = 0x100;
inline constexpr uint64_t kHasEnd = 0x200;
inline constexpr uint64_t kHasWait = 0x400;
inline constexpr uint64_t kHasLines = 0x800;
inline constexpr uint32_t kSeriesAt = 16;
inline constexpr uint64_t kSeriesMask = 0xff;

/// Record::wait: peer (20 bits) << 44 | lane (4) << 40 | step (12) << 28 | milliseconds since the
/// start of the call (28) when the wait was first noticed. Larger values are stored as the largest.
inline constexpr uint64_t kMostStep = (1u << 12) - 1;
inline constexpr uint64_t kMostMilliseconds = (1u << 28) - 1;

struct alignas(64) Record {
  std::atomic<uint64_t> order;  // rising from 1; 0: empty, or being written
  std::atomic<uint64_t> what;   // names: collective, type << 8, op << 16, algorithm << 24; then
                                // root or peer << 32 (-1: none)
  std::atomic<uint64_t> bytes;  // of one message: count * element size
  std::atomic<uint64_t> progress;
  std::atomic<uint64_t> start_ns;  // CLOCK_MONOTONIC
  std::atomic<uint64_t> end_ns;
  std::atomic<uint64_t> wait;  // one word, so that it is never half old (kWait...)
  // The first line << 32 | how many << 16 | how many more had no room. Line n lies at n % lines.
  std::atomic<uint64_t> lines;
};
static_assert(sizeof(Record) == 64);

/// The state of a peer with which a call exchanges bytes, as known when its line was written.
enum class PeerState : uint8_t { kUnknown = 0, kElsewhere = 1, kWaits = 2, kGaveUp = 3 };

/// One direction of what a call exchanges with one peer: for a collective all of it, else one
/// transfer.
struct alignas(64) Line {
  std::atomic<uint64_t> order;    // of the record << 16 | revision; 0: empty, or being written
  std::atomic<uint64_t> what;     // peer << 32 | PeerState << 16 | name of the type << 8 | sends
  std::atomic<uint64_t> numbers;  // of the transfer << 32 | the call the peer was last seen in
  std::atomic<uint64_t> bytes;
  std::atomic<uint64_t> moved;     // of the bytes
  std::atomic<uint64_t> messages;  // complete ones << 32 | all
  std::atomic<uint64_t> blame;     // whom the peer waits for, or gave up because of
  std::atomic<uint64_t> reserved;
};
static_assert(sizeof(Line) == 64);
inline constexpr uint64_t kLineSends = 1;
inline constexpr uint32_t kLineOrderAt = 16;
/// Line::order of a record's line, whatever its revision, begins with this.
constexpr uint64_t line_order(uint64_t order) { return order << kLineOrderAt; }
inline constexpr uint64_t kLineRevision = (uint64_t{1} << kLineOrderAt) - 1;
/// A call has no more lines than this, and than half of all.
inline constexpr uint64_t kMostLinesOfCall = 0xffff;

/// When a message of a call on a device went to another host, or came from there. Message n of all
/// lies at n % kTimedMessages. It is written like a line; its end follows later.
struct alignas(64) TimedMessage {
  std::atomic<uint64_t> order;   // of the record; 0: empty, or being written
  std::atomic<uint64_t> number;  // rising from 1
  std::atomic<uint64_t> what;    // peer << 32 | lane << 8 | sends
  std::atomic<uint64_t> slice;
  std::atomic<uint64_t> bytes;
  std::atomic<uint64_t> begin_ns;  // the network has it: it is in the buffer, or there is room
  std::atomic<uint64_t> end_ns;    // it is out, or has come; 0: not yet
  std::atomic<uint64_t> reserved;
};
static_assert(sizeof(TimedMessage) == 64);
inline constexpr uint64_t kTimedMessages = 1024;

inline constexpr size_t kHostBytes = 256;
inline constexpr size_t kNames = 256;
inline constexpr size_t kNameBytes = 32;

struct Header {
  uint64_t magic;
  uint32_t version;
  uint32_t record_bytes;
  uint64_t records;  // a power of two
  uint64_t communicator;
  uint32_t epoch;
  int32_t rank;
  int32_t ranks;
  uint32_t line_bytes;
  uint64_t lines;    // a power of two
  uint64_t process;  // as it sees itself
  // Calls end in order: a record up to here is done, unless it says that it failed.
  std::atomic<uint64_t> ended;
  std::atomic<uint64_t> missed;  // calls that found the ring full of unfinished ones
  char host[kHostBytes];
};

inline constexpr size_t kNamesAt = 4096;
inline constexpr size_t kRecordsAt = kNamesAt + kNames * kNameBytes;
static_assert(sizeof(Header) <= kNamesAt && kRecordsAt % sizeof(Record) == 0);

inline constexpr uint64_t kMostRecords = uint64_t{1} << 20;
inline constexpr uint64_t kMostLines = uint64_t{1} << 13;
constexpr size_t lines_at(uint64_t records) { return kRecordsAt + records * sizeof(Record); }
constexpr size_t messages_at(uint64_t records, uint64_t lines) {
  return lines_at(records) + lines * sizeof(Line);
}
constexpr size_t file_bytes(uint64_t records, uint64_t lines) {
  return messages_at(records, lines) + kTimedMessages * sizeof(TimedMessage);
}

}  // namespace tutti::trace
