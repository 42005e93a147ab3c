// One rank's connection at the rendezvous server, and the bytes that go over it after the
// handshake.
//
// Wire: request {ranks 4, blob bytes 4, patience 8 (milliseconds), first rank 4, stage 2, stages 2}
// and the blob; answer {code 4, 0 4, bytes 8} and, for code 0, everybody's blobs (group.h), else a
// message. Integers little endian. A blob takes memory as it arrives, whatever its announced size.
//
// Owns: the socket, which is non-blocking. Threads: one. Errors: a session whose socket or bytes
// are bad is lost().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "src/base/io.h"
#include "src/base/status.h"
#include "src/bootstrap/group.h"

namespace tutti::bootstrap {

inline constexpr size_t kRequestBytes = 24;
inline constexpr size_t kAnswerBytes = 16;

struct Request {
  Turn turn;
  size_t blob_bytes = 0;
  uint64_t patience_ms = 0;
};
std::array<uint8_t, kRequestBytes> encode_request(const Request& request);
Request decode_request(const uint8_t* bytes);

struct Answer {
  Code code = Code::kOk;
  uint64_t bytes = 0;
};
Answer decode_answer(const uint8_t* bytes);
/// Header and body of an answer: shared, because all ranks of a group get the same bytes.
std::shared_ptr<const std::string> encode_answer(Code code, std::string_view body);

class Session {
 public:
  Session(Fd fd, int rank);

  int fd() const { return fd_.get(); }
  int rank() const { return rank_; }
  /// What to poll for.
  short events() const;

  /// Moves what can be moved without waiting.
  void step();
  /// Only the answer, if there is one.
  void flush();
  /// The whole request has arrived (and no answer was given).
  bool asks() const { return asked_ && answer_ == nullptr; }
  const Request& request() const { return request_; }
  std::string take_blob() { return std::move(blob_); }
  /// When the rank gives up, a little before it does.
  uint64_t expiry_ns() const { return expiry_ns_; }

  /// Sent by flush() and step().
  void answer(std::shared_ptr<const std::string> bytes) { answer_ = std::move(bytes); }
  /// The answer is on its way to the rank.
  bool done() const { return answer_ != nullptr && sent_ == answer_->size(); }
  bool lost() const { return lost_; }

 private:
  void receive();
  void accept_header();
  size_t make_room();
  void check_hang_up();

  Fd fd_;
  const int rank_;
  std::array<uint8_t, kRequestBytes> header_{};
  size_t received_ = 0;  // of header and blob together
  Request request_;
  std::string blob_;
  bool asked_ = false;
  uint64_t expiry_ns_;
  std::shared_ptr<const std::string> answer_;
  size_t sent_ = 0;
  bool lost_ = false;
};

}  // namespace tutti::bootstrap
