// What a flight recorder looks like in memory: a file that other processes read while it is
// written.
//
//   page 0            Header
//   kNamesAt          kNames texts of kNameBytes: what the small numbers in records stand for
//   kRecordsAt        Header::records records, a ring: order n lies at n % records
//
// The layout is fixed for a version, native byte order: the reader runs on the same host. Names
// make the file readable for a program of another build: records name collectives, types and
// algorithms by number of a text in the file.
//
// Ordering: one writer at a time per record. It sets `order` to 0, writes the other words, and sets
// `order` to the record's number; a reader that sees one number before and after has a whole
// record. What changes later (state, end, wait) are single words, each valid when its bit in
// `progress` says so. Threads: every word that changes is atomic.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tutti::trace {

inline constexpr uint64_t kMagic = 0x4543415254545554;  // "TUTTRACE"
inline constexpr uint32_t kVersion = 1;
/// The memfd's name, as /proc/PID/fd shows it.
inline constexpr const char* kFileLabel = "tutti-trace";

enum class State : uint8_t { kNone = 0, kQueued = 1, kRunning = 2, kDone = 3, kFailed = 4 };

/// Record::progress: call number << 32 | bits | State.
inline constexpr uint64_t kStateMask = 0xff;
inline constexpr uint64_t kHasStart = 0x100;
inline constexpr uint64_t kHasEnd = 0x200;
inline constexpr uint64_t kHasWait = 0x400;

/// Record::wait: peer (20 bits) << 44 | lane (4) << 40 | step (12) << 28 | milliseconds since the
/// start of the call (28) when the wait was first noticed. What is larger is shown as the largest.
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
  std::atomic<uint64_t> reserved;
};
static_assert(sizeof(Record) == 64);

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
  uint32_t reserved;
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
constexpr size_t file_bytes(uint64_t records) { return kRecordsAt + records * sizeof(Record); }

}  // namespace tutti::trace
