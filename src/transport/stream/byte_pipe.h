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

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "src/base/readable_copy.h"
#include "src/transport/stream/inbound.h"
#include "src/transport/stream/outbound.h"

namespace tutti::transport::stream {

/// Frames that are written together.
class FrameBatch {
 public:
  bool has_left() const { return next_entry_ < entries_used_; }
  /// The first frame that is not wholly written has begun.
  bool is_within_frame() const;
  /// Replaces what it had by frames that are ready; `urgent`: as long as there are urgent ones.
  void build(Outbound& outbound, bool urgent);
  std::span<const iovec> left() const {
    return {entries_.data() + next_entry_, entries_used_ - next_entry_};
  }
  /// The same of the first frame only.
  std::span<const iovec> left_of_frame() const;
  void wrote(Outbound& outbound, size_t count);

  /// Reads no source any more for whose channel or region `which` is true: copies what is left.
  /// False: a source is no memory.
  template <class Which>
  bool keep(Outbound& outbound, Which which);
  /// Takes along what the peer must still get: the rest of a frame that has begun, and notes.
  /// False: a source of that frame is no memory.
  bool save_half_frame(std::vector<std::byte>& words) const;
  void save_notes(std::vector<std::byte>& words) const;
  void clear();

 private:
  static constexpr size_t kMaxFrames = 32;
  static constexpr size_t kMaxEntries = 256;
  static constexpr uint64_t kBatchBytes = 1024 * 1024;

  struct BatchFrame {
    uint64_t end = 0;  // of this frame, counted from the start of the batch
    Message* message = nullptr;
    transport::ChannelId channel;
    size_t first_piece = 0;  // of the payload, in the entries
    size_t pieces = 0;
    bool note = false;
  };

  bool is_full() const;
  uint64_t begin_of(size_t frame) const { return frame == 0 ? 0 : frames_[frame - 1].end; }

  std::array<std::array<std::byte, kHeaderBytes>, kMaxFrames> headers_;
  std::array<BatchFrame, kMaxFrames> frames_;
  std::array<iovec, kMaxEntries> entries_;
  size_t frames_used_ = 0;
  size_t next_frame_ = 0;  // the first that is not wholly written
  size_t entries_used_ = 0;
  size_t next_entry_ = 0;
  uint64_t batch_bytes_ = 0;
  uint64_t written_ = 0;
  std::vector<std::unique_ptr<std::byte[]>> copies_;  // of payloads
};

/// A frame of high priority waits for at most one of normal priority, which has begun: then a batch
/// of its own goes between two frames of the other one.
class BytesOut {
 public:
  explicit BytesOut(Outbound& outbound) : outbound_(outbound) {}

  /// The bytes to write next; empty when there are none.
  std::span<const iovec> gather();
  /// That many bytes of it were written.
  void wrote(size_t count);
  bool idle() const;

  // Where pipes share what carries them.
  /// Frames of high priority are ready.
  bool is_urgent() const { return !outbound_.closed() && outbound_.is_urgent(); }
  /// A frame has begun: no other pipe's bytes may follow before its end.
  bool is_within_frame() const;
  /// As gather(), but no more than the rest of that frame.
  std::span<const iovec> gather_frame();

  /// FrameBatch::keep() of all that is not written yet.
  template <class Which>
  bool keep(Which which) {
    const bool kept = batch_.keep(outbound_, which);
    return kept && (urgent_ == nullptr || urgent_->keep(outbound_, which));
  }
  /// Nothing new from here on: finishes the frame that is half on the wire, drops all others but
  /// notes. Sources are read for the last time, so those of unfinished messages must still be
  /// there.
  void leave();

 private:
  Outbound& outbound_;
  FrameBatch batch_;
  std::unique_ptr<FrameBatch> urgent_;  // made when first there is use for it
  FrameBatch* current_ = &batch_;       // of the last gather()
  std::vector<std::byte> last_words_;
  size_t last_written_ = 0;
  iovec last_entry_{};
};

// The peer counts bytes, so a frame that has begun must be finished. It may take the bytes for what
// they are before it reads on, so they are the true ones.
template <class Which>
bool FrameBatch::keep(Outbound& outbound, Which which) {
  for (size_t at = next_frame_; at < frames_used_; ++at) {
    BatchFrame& frame = frames_[at];
    if (frame.message == nullptr || !which(frame.channel)) continue;
    const size_t end = frame.first_piece + frame.pieces;
    for (size_t i = std::max(frame.first_piece, next_entry_); i < end; ++i) {
      auto copy = std::make_unique_for_overwrite<std::byte[]>(entries_[i].iov_len);
      if (!copy_if_readable(copy.get(), entries_[i].iov_base, entries_[i].iov_len)) return false;
      entries_[i].iov_base = copy.get();
      copies_.push_back(std::move(copy));
    }
    outbound.landed(std::exchange(frame.message, nullptr));
  }
  return true;
}

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
