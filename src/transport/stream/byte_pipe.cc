#include "src/transport/stream/byte_pipe.h"

#include <algorithm>
#include <cstring>

#include "src/base/caught.h"
#include "src/base/readable_copy.h"

namespace tutti::transport::stream {
// ---- a batch ----------------------------------------------------------------------------------

bool FrameBatch::is_within_frame() const { return has_left() && written_ > begin_of(next_frame_); }

bool FrameBatch::is_full() const {
  return frames_used_ == kMaxFrames || entries_used_ + 2 > kMaxEntries ||
         batch_bytes_ >= kBatchBytes;
}

void FrameBatch::clear() {
  frames_used_ = next_frame_ = entries_used_ = next_entry_ = 0;
  batch_bytes_ = written_ = 0;
  copies_.clear();
}

void FrameBatch::build(Outbound& outbound, bool urgent) {
  clear();
  OutFrame frame;
  while (!is_full() && (!urgent || outbound.is_urgent())) {
    const std::span<iovec> room(entries_.data() + entries_used_ + 1,
                                kMaxEntries - entries_used_ - 1);
    if (!outbound.next(frame, room, kMaxFrameBytes)) return;
    std::byte* header = headers_[frames_used_].data();
    encode(frame.header, header);
    entries_[entries_used_] = {header, kHeaderBytes};
    const size_t first_piece = entries_used_ + 1;
    entries_used_ = first_piece + frame.pieces;
    batch_bytes_ += kHeaderBytes + frame.header.length;
    const bool note = frame.header.type == FrameType::kNote;
    frames_[frames_used_++] = {batch_bytes_, frame.message, frame.header.channel,
                               first_piece,  frame.pieces,  note};
  }
}

std::span<const iovec> FrameBatch::left_of_frame() const {
  const BatchFrame& frame = frames_[next_frame_];
  return {entries_.data() + next_entry_, frame.first_piece + frame.pieces - next_entry_};
}

void FrameBatch::wrote(Outbound& outbound, size_t count) {
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
  for (; next_frame_ < frames_used_ && frames_[next_frame_].end <= written_; ++next_frame_) {
    outbound.landed(frames_[next_frame_].message);
  }
}

bool FrameBatch::save_half_frame(std::vector<std::byte>& words) const {
  if (!is_within_frame()) return true;
  for (const iovec& entry : left_of_frame()) {
    const size_t at = words.size();
    words.resize(at + entry.iov_len);
    if (!copy_if_readable(words.data() + at, entry.iov_base, entry.iov_len)) return false;
  }
  return true;
}

void FrameBatch::save_notes(std::vector<std::byte>& words) const {
  for (size_t frame = next_frame_; frame < frames_used_; ++frame) {
    if (!frames_[frame].note || written_ > begin_of(frame)) continue;
    words.insert(words.end(), headers_[frame].begin(), headers_[frame].end());
  }
}

// ---- out --------------------------------------------------------------------------------------

std::span<const iovec> BytesOut::gather() {
  if (outbound_.closed()) {
    if (last_written_ == last_words_.size()) return {};
    last_entry_ = {last_words_.data() + last_written_, last_words_.size() - last_written_};
    return {&last_entry_, 1};
  }
  const bool has_urgent = urgent_ != nullptr && urgent_->has_left();
  if (!has_urgent && outbound_.is_urgent() && batch_.has_left()) {
    current_ = &batch_;
    if (batch_.is_within_frame()) return batch_.left_of_frame();
    if (urgent_ == nullptr) urgent_ = std::make_unique<FrameBatch>();
    urgent_->build(outbound_, true);
  }
  current_ = urgent_ != nullptr && urgent_->has_left() ? urgent_.get() : &batch_;
  if (!current_->has_left()) current_->build(outbound_, false);
  return current_->left();
}

bool BytesOut::is_within_frame() const {
  if (outbound_.closed()) return last_written_ != last_words_.size();
  return batch_.is_within_frame() || (urgent_ != nullptr && urgent_->is_within_frame());
}

std::span<const iovec> BytesOut::gather_frame() {
  if (outbound_.closed()) return gather();
  const bool is_in_urgent = urgent_ != nullptr && urgent_->is_within_frame();
  current_ = is_in_urgent ? urgent_.get() : &batch_;
  return current_->is_within_frame() ? current_->left_of_frame() : std::span<const iovec>();
}

void BytesOut::wrote(size_t count) {
  if (outbound_.closed()) {
    last_written_ += count;
  } else {
    current_->wrote(outbound_, count);
  }
}

bool BytesOut::idle() const {
  if (outbound_.closed()) return last_written_ == last_words_.size();
  const bool has_urgent = urgent_ != nullptr && urgent_->has_left();
  return !has_urgent && !batch_.has_left() && outbound_.idle();
}

void BytesOut::leave() {
  if (outbound_.closed()) return;
  const Status saved = caught_status([this] {
    // At most one of the two has begun a frame.
    const bool whole = batch_.save_half_frame(last_words_) &&
                       (urgent_ == nullptr || urgent_->save_half_frame(last_words_));
    if (!whole) return unreadable_source();
    batch_.save_notes(last_words_);
    if (urgent_ != nullptr) urgent_->save_notes(last_words_);
    while (const auto note = outbound_.take_note()) {
      last_words_.resize(last_words_.size() + kHeaderBytes);
      encode(*note, last_words_.data() + last_words_.size() - kHeaderBytes);
    }
    return Status();
  });
  // Without memory for what is left, or of the caller's, the peer sees the stream end within a
  // frame: this rank failed.
  if (!saved.ok()) last_words_.clear();
  outbound_.close();
  batch_.clear();
  if (urgent_ != nullptr) urgent_->clear();
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
