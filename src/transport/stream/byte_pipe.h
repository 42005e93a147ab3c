// The pipe that keeps bytes in order, such as a TCP connection: turns frames into gather lists, and
// finds the frames in the bytes that come.
//
// A batch of frames is fixed once and written in as many calls as the kernel needs. Payloads are
// read straight into the targets of receives where possible.
//
// Owns:    the batch and its headers; a small buffer for headers and small frames that come.
// Threads: under the stream's mutex.
// Units:   bytes.
// Errors:  those of Inbound.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/transport/stream/inbound.h"
#include "src/transport/stream/outbound.h"

namespace tutti::transport::stream {

class BytesOut {
 public:
  explicit BytesOut(Outbound& outbound) : outbound_(outbound) {}

  /// The bytes to write next; empty when there are none.
  std::span<const iovec> gather();
  /// That many bytes of it were written.
  void wrote(size_t count);
  bool idle() const { return !batch_left() && outbound_.idle(); }

  /// Nothing new from here on: finishes the frame that is half on the wire, drops all others but
  /// notes. Sources are read for the last time, so those of unfinished messages must still be
  /// there.
  void leave();
  /// The same, with this as the last word.
  void farewell(const FrameHeader& last);

 private:
  static constexpr size_t kMaxFrames = 32;
  static constexpr size_t kMaxEntries = 256;
  static constexpr uint64_t kBatchBytes = 1024 * 1024;

  struct BatchFrame {
    uint64_t end = 0;  // of this frame, counted from the start of the batch
    Message* message = nullptr;
    bool note = false;
  };

  bool batch_left() const { return next_entry_ < entries_used_; }
  bool batch_full() const;
  void build();
  void save_half_frame();
  void save_notes();
  void close();
  void finish_frames();

  Outbound& outbound_;
  std::array<std::array<std::byte, kHeaderBytes>, kMaxFrames> headers_;
  std::array<BatchFrame, kMaxFrames> frames_;
  std::array<iovec, kMaxEntries> entries_;
  size_t frames_used_ = 0;
  size_t next_frame_ = 0;  // the first that is not wholly written
  size_t entries_used_ = 0;
  size_t next_entry_ = 0;
  uint64_t batch_bytes_ = 0;
  uint64_t written_ = 0;
  std::vector<std::byte> last_words_;
};

class BytesIn {
 public:
  static constexpr size_t kMaxEntries = 64;

  explicit BytesIn(Inbound& inbound) : inbound_(inbound) {}

  /// Where to read to: number of entries used, never zero.
  size_t prepare(std::span<iovec> out);
  /// That many bytes were read there. False: see Inbound::fault().
  bool commit(size_t count);

 private:
  static constexpr size_t kBufferBytes = 16 * 1024;
  // Behind the rest of a large frame: the next header, and small frames, but little of a large one,
  // because what comes here is copied once more.
  static constexpr size_t kTailBytes = 2 * 1024;

  bool parse();
  void consume_payload();

  Inbound& inbound_;
  std::array<std::byte, kBufferBytes> buffer_;
  size_t begin_ = 0;  // [begin, end) was read and not yet looked at
  size_t end_ = 0;
  uint64_t direct_bytes_ = 0;  // of the last prepare(): what goes past the buffer
};

}  // namespace tutti::transport::stream
