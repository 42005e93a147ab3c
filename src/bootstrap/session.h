// One rank's connection at the rendezvous server, and the bytes that go over it after the
// handshake.
//
// Wire: request {ranks 4, blob bytes 4, patience 8 (milliseconds), first rank 4, stage 1, meeting
// 1, stages 2, notices 8 (milliseconds), members 8} and the blob; then notices, every so often, and
// at last the answer: both {code 4, 0 4, bytes 8} and bytes. Code 0: everybody's blobs (group.h).
// kInProgress: a notice, which says which ranks are missing. Any other code: an error, with its
// message. A rank that aborts sends one byte, kAborted, and a rank that finds that this group is
// not its own sends kTwin; neither sends anything else after its request. Integers little endian. A
// blob takes memory as it arrives, whatever its announced size.
//
// Owns: the socket, which is non-blocking. Threads: one. Errors: a session whose socket or bytes
// are bad is lost().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "src/base/clock.h"
#include "src/base/fork.h"
#include "src/base/status.h"
#include "src/bootstrap/group.h"

namespace tutti::bootstrap {

inline constexpr size_t kRequestBytes = 40;
inline constexpr size_t kAnswerBytes = 16;
inline constexpr size_t kMaxMessageBytes = 4096;

struct RequestHeader {
  ExchangeKey exchange_key;
  size_t blob_bytes = 0;
  uint64_t patience_ms = 0;
  uint64_t notice_ms = 0;  // 0: the rank wants none
};
std::array<uint8_t, kRequestBytes> encode_request(const RequestHeader& request);
RequestHeader decode_request(const uint8_t* bytes);

/// The word of a rank that will not take part after all.
inline constexpr uint8_t kAborted = '!';
/// The rank is of another job, and nothing tells the ranks of the two jobs apart.
inline constexpr uint8_t kTwin = '2';

struct AnswerHeader {
  Code code = Code::kOk;
  uint64_t bytes = 0;
};
AnswerHeader decode_answer(const uint8_t* bytes);
/// Header and body of an answer: shared, because all ranks of a group get the same bytes.
std::shared_ptr<const std::string> encode_answer(Code code, std::string_view body);

class Session {
 public:
  Session(KeptFd fd, int rank);

  int fd() const { return fd_.get(); }
  int rank() const { return rank_; }
  /// The events to poll for.
  short events() const;

  /// Takes what has arrived; flush() sends what can be sent. Neither waits.
  void hear();
  void flush();
  /// The whole request has arrived (and no answer was given).
  bool asks() const { return asked_ && answer_ == nullptr; }
  const RequestHeader& request() const { return request_; }
  std::string take_blob() { return std::move(blob_); }
  /// The time at which the session ends: shortly before the rank gives up; once there is an answer,
  /// when the rank has taken none of it for too long.
  uint64_t expiry_ns() const { return expiry_ns_; }
  /// The time at which the rank is to be told which ranks are missing.
  uint64_t notice_due_ns() const { return asks() ? notice_due_ns_ : kNoDeadline; }
  bool aborted() const { return farewell_ != 0; }
  /// It aborted because it is of another job.
  bool twin() const { return farewell_ == kTwin; }

  /// Queues a notice, which flush() sends, as it does the answer.
  void tell(std::string_view missing);
  void answer(std::shared_ptr<const std::string> bytes);
  /// There is an answer, of which the rank has not taken all.
  bool answers() const { return answer_ != nullptr && !done() && !lost_; }
  /// The answer is on its way to the rank.
  bool done() const { return answer_ != nullptr && sent_ == answer_->size(); }
  bool lost() const { return lost_; }

 private:
  void receive();
  void accept_header();
  size_t make_room();
  void hear_abort();
  /// True: all of it is on its way.
  bool send(const std::string& bytes, size_t& sent);

  const KeptFd fd_;
  const int rank_;
  std::array<uint8_t, kRequestBytes> header_{};
  size_t received_ = 0;  // of header and blob together
  RequestHeader request_;
  std::string blob_;
  bool asked_ = false;
  uint64_t expiry_ns_;
  uint64_t notice_due_ns_ = kNoDeadline;
  uint8_t farewell_ = 0;  // none
  std::string notice_;    // the notice that is sent before the answer
  size_t notice_sent_ = 0;
  std::shared_ptr<const std::string> answer_;
  size_t sent_ = 0;
  bool lost_ = false;
};

}  // namespace tutti::bootstrap
