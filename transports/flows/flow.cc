#include "transports/flows/flow.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include "src/base/io.h"
#include "transports/tcp/socket.h"

namespace tutti::transports::flows {
namespace {

using transport::stream::CarriedFrame;
using transport::stream::MessageExchange;

// So much the kernel may always have that it has not sent. A flow in trouble sits on it, and
// everything that is sent later waits for it.
constexpr int kMostUnsent = 16 * 1024;

Status lost(int error) {
  return Status::remote_error("its process has ended: " + errno_text(error));
}

}  // namespace

Status FlowSocket::prepare(const PollSet& set, uint64_t tag) {
  if (Status status = tcp::make_fast(fd_.get()); !status.ok()) return status;
  constexpr int kLow = kMostUnsent;
  (void)setsockopt(fd_.get(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kLow, sizeof kLow);
  set_ = &set;
  tag_ = tag;
  heard_ = EPOLLIN;
  return fd_.list(set, heard_, tag);
}

// ---- out ----------------------------------------------------------------------------------------

bool FlowSocket::has_room() const {
  int unsent = 0;
  if (is_half_out()) return false;
  if (ioctl(fd_.get(), SIOCOUTQNSD, &unsent) < 0 || unsent < kMostUnsent) return true;
  // A flow that has much on its way needs more at hand.
  return 3 * static_cast<size_t>(unsent) < bytes_on_their_way();
}

size_t FlowSocket::bytes_on_their_way() const { return tcp::unacknowledged_bytes(fd_.get()); }

Result<bool> FlowSocket::write(const CarriedFrame& frame) {
  std::array<iovec, MessageExchange::kMaxPieces + 1> pieces;
  pieces[0] = {const_cast<std::byte*>(frame.header.data()), frame.header.size()};
  size_t count = 1, bytes = frame.header.size();
  for (const iovec& piece : frame.payload) {
    pieces[count++] = piece;
    bytes += piece.iov_len;
  }
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = count;
  const ssize_t sent = sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 && errno != EAGAIN && errno != EINTR) return lost(errno);
  auto done = static_cast<size_t>(sent < 0 ? 0 : sent);
  if (done == bytes) return true;
  rest_done_ = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t skipped = std::min(done, pieces[i].iov_len);
    const auto* const data = static_cast<const std::byte*>(pieces[i].iov_base);
    rest_.insert(rest_.end(), data + skipped, data + pieces[i].iov_len);
    done -= skipped;
  }
  return false;
}

Result<bool> FlowSocket::write_rest() {
  const ssize_t sent = send(fd_.get(), rest_.data() + rest_done_, rest_.size() - rest_done_,
                            MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 && errno != EAGAIN && errno != EINTR) return lost(errno);
  rest_done_ += static_cast<size_t>(sent < 0 ? 0 : sent);
  if (rest_done_ < rest_.size()) return false;
  rest_.clear();
  return true;
}

void FlowSocket::want_room(bool wants) {
  wants_room_ = wants;
  listen();
}

void FlowSocket::end_output() { shutdown(fd_.get(), SHUT_WR); }

// ---- in -----------------------------------------------------------------------------------------

/// Whether so many bytes of the frame are here.
bool FlowSocket::read_up_to(size_t bytes) {
  while (have_ < bytes && !ended_) {
    const ssize_t count = recv(fd_.get(), in_.data() + have_, bytes - have_, MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return false;
    if (count < 0) error_ = lost(errno);
    ended_ = count <= 0;
    if (ended_) return listen(), false;
    have_ += static_cast<size_t>(count);
  }
  return have_ >= bytes;
}

Result<std::optional<uint64_t>> FlowSocket::next_sequence() {
  const bool known = have_ >= kHeader;
  if (!read_up_to(kHeader)) return std::optional<uint64_t>();
  if (!known) {
    FrameHeader header;
    const char* wrong =
        transport::stream::decode_sequenced(std::span(in_).first(kHeader), header, sequence_);
    if (wrong == nullptr && header.length > kMostPayload) wrong = "a frame that is too long";
    if (wrong != nullptr) return Status::remote_error(std::string("it sent ") + wrong);
    length_ = header.length;
  }
  return std::optional(sequence_);
}

std::optional<FlowSocket::ComingFrame> FlowSocket::read_frame() {
  if (!read_up_to(kHeader + length_)) return std::nullopt;
  const std::span<const std::byte> bytes(in_);
  return ComingFrame{sequence_, bytes.first(kHeader), bytes.subspan(kHeader, length_)};
}

void FlowSocket::drop_frame() { have_ = 0; }

void FlowSocket::park(bool parked) {
  parked_ = parked;
  listen();
}

void FlowSocket::listen() {
  const uint32_t wanted =
      (parked_ || ended_ ? 0u : EPOLLIN) | (wants_room_ || is_half_out() ? EPOLLOUT : 0u);
  if (set_ == nullptr || wanted == heard_) return;
  if (fd_.list(*set_, wanted, tag_).ok()) heard_ = wanted;
}

}  // namespace tutti::transports::flows
