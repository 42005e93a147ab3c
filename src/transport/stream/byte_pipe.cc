#include "src/transport/stream/byte_pipe.h"

#include <algorithm>
#include <cstring>

#include "src/base/caught.h"

namespace tutti::transport::stream {
namespace {

void append_header(std::vector<std::byte>& bytes, const FrameHeader& header) {
  bytes.resize(bytes.size() + kHeaderBytes);
  encode(header, bytes.data() + bytes.size() - kHeaderBytes);
}

}  // namespace

// ---- out --------------------------------------------------------------------------------------

std::span<const iovec> BytesOut::gather() {
  if (!batch_left() && !outbound_.closed()) build();
  return {entries_.data() + next_entry_, entries_used_ - next_entry_};
}

bool BytesOut::batch_full() const {
  return frames_used_ == kMaxFrames || entries_used_ + 2 > kMaxEntries ||
         batch_bytes_ >= kBatchBytes;
}

void BytesOut::build() {
  frames_used_ = next_frame_ = entries_used_ = next_entry_ = 0;
  batch_bytes_ = written_ = 0;
  OutFrame frame;
  while (!batch_full()) {
    const std::span<iovec> room(entries_.data() + entries_used_ + 1,
                                kMaxEntries - entries_used_ - 1);
    if (!outbound_.next(frame, room, kMaxFrameBytes)) return;
    std::byte* header = headers_[frames_used_].data();
    encode(frame.header, header);
    entries_[entries_used_] = {header, kHeaderBytes};
    entries_used_ += 1 + frame.pieces;
    batch_bytes_ += kHeaderBytes + frame.header.length;
    const bool note = frame.header.type == FrameType::kNote;
    frames_[frames_used_++] = {batch_bytes_, frame.message, note};
  }
}

void BytesOut::wrote(size_t count) {
  written_ += count;
  while (count > 0) {
    iovec& entry = entries_[next_entry_];
    if (count < entry.iov_len) {
      entry.iov_base = static_cast<std::byte*>(entry.iov_base) + count;
      entry.iov_len -= count;
      break;
    }
    count -= entry.iov_len;
    ++next_entry_;
  }
  finish_frames();
}

void BytesOut::finish_frames() {
  for (; next_frame_ < frames_used_ && frames_[next_frame_].end <= written_; ++next_frame_) {
    outbound_.landed(frames_[next_frame_].message);
  }
}

// The peer counts bytes, so a frame that has begun must be finished, and with the bytes it is made
// of: the peer may take it for what it is before it reads on.
void BytesOut::save_half_frame() {
  const uint64_t begin = next_frame_ == 0 ? 0 : frames_[next_frame_ - 1].end;
  if (!batch_left() || written_ == begin) return;
  uint64_t left = frames_[next_frame_].end - written_;
  for (size_t at = next_entry_; left > 0; ++at) {
    const auto* source = static_cast<const std::byte*>(entries_[at].iov_base);
    const uint64_t here = std::min<uint64_t>(left, entries_[at].iov_len);
    last_words_.insert(last_words_.end(), source, source + here);
    left -= here;
  }
}

// Those of the batch that have not begun, and those that wait.
void BytesOut::save_notes() {
  for (size_t frame = next_frame_; frame < frames_used_; ++frame) {
    const uint64_t begin = frame == 0 ? 0 : frames_[frame - 1].end;
    if (!frames_[frame].note || written_ > begin) continue;
    last_words_.insert(last_words_.end(), headers_[frame].begin(), headers_[frame].end());
  }
  while (const auto note = outbound_.take_note()) append_header(last_words_, *note);
}

// The last words are the one entry of a batch that has no frames.
void BytesOut::close() {
  outbound_.close();
  frames_used_ = next_frame_ = next_entry_ = 0;
  entries_used_ = last_words_.empty() ? 0 : 1;
  entries_[0] = {last_words_.data(), last_words_.size()};
}

void BytesOut::leave() {
  if (outbound_.closed()) return;
  const Status saved = caught_status([this] {
    save_half_frame();
    save_notes();
    return Status();
  });
  // Without memory for what is left the peer sees the stream end within a frame: this rank failed.
  if (!saved.ok()) last_words_.clear();
  close();
}

void BytesOut::farewell(const FrameHeader& last) {
  if (outbound_.closed()) return;
  save_half_frame();
  save_notes();
  append_header(last_words_, last);
  close();
}

// ---- in ---------------------------------------------------------------------------------------

size_t BytesIn::prepare(std::span<iovec> out) {
  direct_bytes_ = 0;
  size_t used = 0;
  size_t room = buffer_.size() - end_;
  const uint64_t left = inbound_.payload_left();
  if (left > 0) used = inbound_.places(out.first(out.size() - 1));
  if (used > 0) {
    // commit() has left nothing in the buffer.
    direct_bytes_ = total_bytes(out.first(used));
    if (direct_bytes_ < left) return used;
    room = kTailBytes;
  }
  out[used++] = {buffer_.data() + end_, room};
  return used;
}

bool BytesIn::commit(size_t count) {
  const uint64_t direct = std::min<uint64_t>(count, direct_bytes_);
  if (direct > 0) inbound_.arrived(direct);
  end_ += count - direct;
  const bool sound = parse();
  if (begin_ == end_) {
    begin_ = end_ = 0;
  } else if (begin_ > 0) {
    // At most a part of one header is left.
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  return sound;
}

bool BytesIn::parse() {
  if (!inbound_.sound()) return false;
  for (;;) {
    if (inbound_.payload_left() > 0) consume_payload();
    if (inbound_.payload_left() > 0 || end_ - begin_ < kHeaderBytes) return true;
    FrameHeader header;
    const char* wrong = decode(buffer_.data() + begin_, header);
    begin_ += kHeaderBytes;
    if (wrong != nullptr) return inbound_.refuse(wrong);
    if (is_placed(header.type)) return inbound_.refuse("a frame that such a link does not carry");
    if (!inbound_.begin(header)) return false;
  }
}

void BytesIn::consume_payload() {
  const auto here = static_cast<size_t>(std::min<uint64_t>(inbound_.payload_left(), end_ - begin_));
  if (here > 0) inbound_.take(buffer_.data() + begin_, here);
  begin_ += here;
}

}  // namespace tutti::transport::stream
