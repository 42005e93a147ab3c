// A link over a pipe that carries whole frames: whoever writes a transport of messages writes the
// pipe (MessagePipe), and has a Link, a Stream and one-sided access.
//
// It is connected from the beginning: who calls whom, and the proof that the peer is the one it
// says, are behind it (src/transport/door).
//
// Owns:    the pipe.
// Threads: any; one mutex, which progress() only tries, so that threads that poll the same link do
//          not queue up behind each other. The pipe is called under it.
// Errors:  the first one stays in status().
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "src/base/mutex.h"
#include "src/base/status.h"
#include "src/transport/stream/message_pipe.h"
#include "src/transport/transport.h"

namespace tutti::transport::stream {

/// The object that a pipe reports to, from within poll().
class PipeEvents {
 public:
  virtual ~PipeEvents() = default;
  /// A frame of the peer.
  virtual void came(std::span<const std::byte> header, std::span<const std::byte> payload) = 0;
  /// MessageExchange::carried(), written() and arrived().
  virtual void carried(uint64_t name) = 0;
  virtual void written(uint64_t name, uint32_t segments) = 0;
  virtual void arrived(uint32_t number, uint32_t segments) = 0;
};

/// Carries frames to and from one peer, each whole or not at all. Never waits.
class MessagePipe {
 public:
  virtual ~MessagePipe() = default;
  /// The most payload that a frame may have; at least kMaxControlPayload.
  virtual uint64_t payload_limit() const = 0;
  /// False: there is no room now, and the same frame comes again. carried() says that it has been
  /// read, from within a later poll().
  virtual bool send(const CarriedFrame& frame) = 0;
  /// A frame has been copied when send() returns; carried() says that it has left, with which the
  /// pipe needs no help any more.
  virtual bool copies_frames() const { return false; }
  /// Where the pipe writes into the peer's memory by itself: as send(), until written().
  virtual bool write(const CarriedWrite&) { return false; }
  /// Whether write() also takes reads of the peer's memory (PlacedWrite::is_read).
  virtual bool reads_memory() const { return false; }
  /// The most bytes that such a write has, up to kMaxPlacedBytes.
  virtual uint64_t write_limit() const { return kMaxFrameBytes; }
  /// The same of a put or a get. The peer is told of each, and may be doing something else.
  virtual uint64_t one_sided_limit() const { return write_limit(); }
  /// This rank's memory, for such a pipe of the peer's.
  virtual PlacedMemory* memory() { return nullptr; }
  /// Reports what has happened. An error: the pipe is broken, in words that follow "because".
  virtual Status poll(PipeEvents& events) = 0;
  /// Nothing is sent after what was sent: the peer sees the end. Its memory is not written to any
  /// more when this returns, nor is this rank's once the peer has done the same.
  virtual void end() = 0;
  /// Everything that was sent has reached the peer's process or its kernel.
  virtual bool has_delivered() const = 0;
  /// Readable when poll() has something to report.
  virtual int descriptor() const = 0;
};

class MessageLink final : public Link, public Stream, public OneSided, private PipeEvents {
 public:
  using Ticket = Stream::Ticket;

  /// `where` is the peer's address for messages.
  MessageLink(int rank, int peer, std::string where, std::unique_ptr<MessagePipe> pipe);
  ~MessageLink() override;

  const Capabilities& capabilities() const override { return capabilities_; }
  Stream* stream() override { return this; }
  OneSided* one_sided() override { return this; }
  Status status() const override;
  bool hang_up() override;
  void sever(const std::string& why) override;
  bool linger() override;
  int liveness_fd() const override { return pipe_->descriptor(); }

  Ticket send(ChannelId channel, uint32_t signature, std::span<const ConstBuffer> pieces) override;
  Ticket receive(ChannelId channel, uint32_t signature, std::span<const Buffer> pieces) override;
  bool can_place(ConstBuffer memory) const override;
  Ticket send_placed(ChannelId channel, uint32_t signature,
                     std::span<const ConstBuffer> pieces) override;
  Ticket receive_placed(ChannelId channel, uint32_t signature,
                        std::span<const Buffer> pieces) override;
  bool sent(Ticket ticket) const override { return done(exchange_.sent(), ticket); }
  bool received(Ticket ticket) const override { return done(exchange_.received(), ticket); }
  void tell(ChannelId channel, const Note& note) override;
  uint64_t heard(ChannelId channel, Note& note) const override;
  void on_note(std::function<void(ChannelId)> hook) override;
  bool progress() override;
  Status epoch_status(EpochId epoch) const override;
  void prioritize(EpochId epoch, Priority priority) override;
  void end_epoch(EpochId epoch) override;
  bool has_let_go(EpochId epoch) override;

  void expose(ChannelId id, const Region& region) override;
  bool withdraw(ChannelId id) override;
  bool cut_off(ChannelId id) override;
  Ticket put(ChannelId region, uint64_t offset, ConstBuffer source, uint32_t signal) override;
  Ticket get(ChannelId region, uint64_t offset, Buffer target) override;
  bool refused(ChannelId region) const override;
  int descriptor() const override { return pipe_->descriptor(); }
  bool has_output() const override { return output_pending_.load(std::memory_order_seq_cst); }
  uint64_t moves() const override { return moves_.load(std::memory_order_relaxed); }
  void on_answers(std::function<void()> wake) override;

 private:
  void came(std::span<const std::byte> header, std::span<const std::byte> payload) override;
  void carried(uint64_t name) override;
  void written(uint64_t name, uint32_t segments) override;
  void arrived(uint32_t number, uint32_t segments) override;

  bool done(const TicketWindow& window, Ticket ticket) const;
  template <class Work>
  void move(const Work& work) TUTTI_REQUIRES(mutex_);
  void after_call() TUTTI_REQUIRES(mutex_);
  bool send_some() TUTTI_REQUIRES(mutex_);
  bool poll_pipe() TUTTI_REQUIRES(mutex_);
  void leave() TUTTI_REQUIRES(mutex_);
  bool has_said_all() const TUTTI_REQUIRES(mutex_) { return !held_ && exchange_.idle(); }
  void note_fault() TUTTI_REQUIRES(mutex_);
  void fail(Status status) TUTTI_REQUIRES(mutex_);
  void fail_lost(const Status& why) TUTTI_REQUIRES(mutex_);

  const int rank_;
  const int peer_;
  const std::string where_;
  const std::unique_ptr<MessagePipe> pipe_;
  Capabilities capabilities_;

  mutable Mutex mutex_;
  // Only with the mutex held, but for its ticket windows, which anybody may ask.
  MessageExchange exchange_;
  std::optional<CarriedFrame> held_ TUTTI_GUARDED_BY(mutex_);  // that the pipe had no room for
  std::optional<CarriedWrite> held_write_ TUTTI_GUARDED_BY(mutex_);  // likewise
  uint64_t reported_ TUTTI_GUARDED_BY(mutex_) = 0;                   // by the pipe
  uint64_t linger_until_ns_ TUTTI_GUARDED_BY(mutex_) = 0;            // from the first linger() on
  bool leaving_ TUTTI_GUARDED_BY(mutex_) = false;
  bool ended_ TUTTI_GUARDED_BY(mutex_) = false;  // the pipe
  std::atomic<bool> failed_{false};
  std::atomic<bool> output_pending_{false};
  std::atomic<uint64_t> moves_{0};  // written under mutex_
  std::function<void()> wake_;      // of on_answers()
  Status status_;                   // constant once failed_ is set
};

}  // namespace tutti::transport::stream
