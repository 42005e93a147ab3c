#include "src/bootstrap/session.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "src/base/clock.h"
#include "src/base/little.h"
#include "src/bootstrap/group.h"

namespace tutti::bootstrap {
namespace {

constexpr uint64_t kRequestPatienceNs = 10 * kNanosecondsPerSecond;
// A rank that has asked, and takes nothing of its answer for so long, is stopped.
constexpr uint64_t kAnswerPatienceNs = 60 * kNanosecondsPerSecond;
constexpr uint64_t kLongestPatienceMs = uint64_t{1} << 40;

uint64_t notice_every_ns(const RequestHeader& request) {
  if (request.notice_ms == 0 || request.notice_ms > kLongestPatienceMs) return kNoDeadline;
  return request.notice_ms * kNanosecondsPerMillisecond;
}

bool try_again(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

std::array<uint8_t, kRequestBytes> encode_request(const RequestHeader& request) {
  std::array<uint8_t, kRequestBytes> bytes{};
  put_little(&bytes[0], static_cast<uint32_t>(request.exchange_key.ranks), 4);
  put_little(&bytes[4], request.blob_bytes, 4);
  put_little(&bytes[8], request.patience_ms, 8);
  put_little(&bytes[16], static_cast<uint32_t>(request.exchange_key.first), 4);
  put_little(&bytes[20], static_cast<uint32_t>(request.exchange_key.stage), 1);
  put_little(&bytes[21], static_cast<uint32_t>(request.exchange_key.meeting_number), 1);
  put_little(&bytes[22], static_cast<uint32_t>(request.exchange_key.stages), 2);
  put_little(&bytes[24], request.notice_ms, 8);
  put_little(&bytes[32], request.exchange_key.members, 8);
  return bytes;
}

RequestHeader decode_request(const uint8_t* bytes) {
  const auto number = [&](size_t at, size_t size) {
    return static_cast<int>(static_cast<int32_t>(get_little(bytes + at, size)));
  };
  return {{number(0, 4), number(16, 4), number(20, 1), number(22, 2), get_little(bytes + 32, 8),
           number(21, 1)},
          get_little(bytes + 4, 4),
          get_little(bytes + 8, 8),
          get_little(bytes + 24, 8)};
}

AnswerHeader decode_answer(const uint8_t* bytes) {
  return {static_cast<Code>(get_little(bytes, 4)), get_little(bytes + 8, 8)};
}

std::shared_ptr<const std::string> encode_answer(Code code, std::string_view body) {
  std::string bytes(kAnswerBytes, '\0');
  auto* header = reinterpret_cast<uint8_t*>(bytes.data());
  put_little(header, static_cast<uint32_t>(code), 4);
  put_little(header + 8, body.size(), 8);
  bytes += body;
  return std::make_shared<const std::string>(std::move(bytes));
}

Session::Session(KeptFd fd, int rank)
    : fd_(std::move(fd)), rank_(rank), expiry_ns_(monotonic_ns() + kRequestPatienceNs) {}

short Session::events() const {
  if (answer_ != nullptr) return sent_ < answer_->size() ? POLLOUT : POLLIN;
  return notice_sent_ < notice_.size() ? POLLIN | POLLOUT : POLLIN;
}

void Session::hear() {
  if (!asked_) receive();
  if (asked_ && answer_ == nullptr && !aborted()) hear_abort();
}

void Session::receive() {
  while (!lost_ && !asked_) {
    const bool in_header = received_ < kRequestBytes;
    const size_t wanted = in_header ? kRequestBytes - received_ : make_room();
    void* const next =
        in_header ? static_cast<void*>(&header_[received_]) : &blob_[received_ - kRequestBytes];
    const ssize_t count = recv(fd_.get(), next, wanted, MSG_DONTWAIT);
    if (count < 0 && try_again(errno)) return;
    if (count <= 0) {
      lost_ = true;
      return;
    }
    received_ += static_cast<size_t>(count);
    if (received_ == kRequestBytes) accept_header();
    asked_ =
        !lost_ && received_ >= kRequestBytes && received_ == kRequestBytes + request_.blob_bytes;
  }
}

/// Behind what has arrived of the blob: at most as much again, so that a rank cannot take much by
/// announcing much.
size_t Session::make_room() {
  const size_t arrived = received_ - kRequestBytes;
  if (blob_.size() == arrived) {
    const size_t step = std::max(arrived, kMaxBlobBytes);
    blob_.resize(arrived + std::min(step, request_.blob_bytes - arrived));
  }
  return blob_.size() - arrived;
}

void Session::accept_header() {
  request_ = decode_request(header_.data());
  if (request_.blob_bytes > request_.exchange_key.most_bytes()) {
    lost_ = true;
    return;
  }
  // A quarter second before the rank gives up, so that it still hears which ranks were missing.
  const uint64_t patience_ms = std::min(request_.patience_ms, kLongestPatienceMs);
  const uint64_t margin_ms = std::min<uint64_t>(patience_ms / 4, 250);
  notice_due_ns_ = deadline_after(notice_every_ns(request_));
  expiry_ns_ = monotonic_ns() + (patience_ms - margin_ms) * kNanosecondsPerMillisecond;
}

// A rank that says anything else, or hangs up, is lost.
void Session::hear_abort() {
  uint8_t byte = 0;
  const ssize_t count = recv(fd_.get(), &byte, 1, MSG_DONTWAIT);
  if (count < 0 && try_again(errno)) return;
  if (count == 1 && (byte == kAborted || byte == kTwin)) farewell_ = byte;
  lost_ = !aborted();
}

void Session::tell(std::string_view missing) {
  notice_due_ns_ = deadline_after(notice_every_ns(request_));
  if (notice_sent_ < notice_.size()) return;  // it does not even read the last ones
  notice_ = *encode_answer(Code::kInProgress, missing.substr(0, kMaxMessageBytes));
  notice_sent_ = 0;
}

void Session::answer(std::shared_ptr<const std::string> bytes) {
  answer_ = std::move(bytes);
  expiry_ns_ = monotonic_ns() + kAnswerPatienceNs;
}

void Session::flush() {
  if (send(notice_, notice_sent_) && answer_ != nullptr) (void)send(*answer_, sent_);
}

bool Session::send(const std::string& bytes, size_t& sent) {
  while (!lost_ && sent < bytes.size()) {
    const ssize_t count =
        ::send(fd_.get(), bytes.data() + sent, bytes.size() - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count < 0 && try_again(errno)) return false;
    if (count < 0) {
      lost_ = true;
      return false;
    }
    sent += static_cast<size_t>(count);
    if (answer_ != nullptr) expiry_ns_ = monotonic_ns() + kAnswerPatienceNs;
  }
  return !lost_;
}

}  // namespace tutti::bootstrap
