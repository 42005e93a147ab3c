// Frames between two ranks as active messages of UCX, and writes into registered memory of the peer
// by its puts: one link's pipe.
//
// UCX's messages may overtake each other, which MessageExchange sorts. A put is told to the peer
// only when a flush behind it has completed: a fence, or another message, may be there before the
// bytes are. Messages and puts have a worker each: puts end at once with the link, while last words
// are still on their way.
//
// The socket on which both ends have proved themselves stays: it tells at once that the peer's
// process has died, which UCX notices late or never.
//
// Owns:    everything but what it shares.
// Threads: one at a time (MessageLink's mutex).
// Errors:  those of poll(): the first one stays.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "src/base/fork.h"
#include "src/base/poll_set.h"
#include "src/base/wait_limit.h"
#include "src/transport/stream/message_link.h"
#include "transports/tcp/peer_socket.h"
#include "transports/ucx/context.h"
#include "transports/ucx/farewells.h"
#include "transports/ucx/hello.h"
#include "transports/ucx/worker.h"

namespace tutti::transports::ucx {

/// Where peers may write: memory that is registered.
class WritableRanges final : public transport::stream::PlacedMemory {
 public:
  explicit WritableRanges(std::shared_ptr<UcxRanges> ranges) : ranges_(std::move(ranges)) {}
  std::optional<transport::stream::KeyedPlace> place_of(const void* memory,
                                                        uint64_t bytes) override;

 private:
  const std::shared_ptr<UcxRanges> ranges_;
};

/// The things that the pipes of a rank share.
struct UcxCommons {
  std::shared_ptr<UcxContext> context;
  std::shared_ptr<UcxRanges> ranges;
  std::shared_ptr<Farewells> farewells;
};

class UcxPipe final : public transport::stream::MessagePipe {
 public:
  /// UCX carries messages of this size by copying them once, on every network.
  static constexpr uint64_t kPayloadBytes = 8 * 1024;
  /// Frames that UCX may have at a time.
  static constexpr size_t kMostFrames = 64;

  /// Both ends call this with the two ends of a socket on which they have proved themselves.
  static Result<std::unique_ptr<UcxPipe>> open(UcxCommons commons, tcp::PeerSocket socket,
                                               const WaitLimit& wait_limit);
  ~UcxPipe() override;

  uint64_t payload_limit() const override { return kPayloadBytes; }
  bool send(const transport::stream::CarriedFrame& frame) override;
  bool copies_frames() const override { return true; }
  bool write(const transport::stream::CarriedWrite& write) override;
  transport::stream::PlacedMemory* memory() override { return &writable_; }
  Status poll(transport::stream::PipeEvents& events) override;
  void end() override;
  bool has_delivered() const override;
  int descriptor() const override { return set_->fd(); }

 private:
  /// A write that is not told yet.
  struct UnflushedWrite {
    size_t puts = 0;  // under way
    bool flushed = false;
  };
  /// How far both ends have come with connecting their workers.
  struct Wiring {
    int hellos = 0;  // of the peer, one by each worker
    int sent = 0;    // this end's, and a flush behind each
  };
  struct UnheardFrame {
    std::vector<std::byte> header;
    std::vector<std::byte> payload;
  };

  UcxPipe(UcxCommons commons, tcp::PeerSocket socket)
      : commons_(std::move(commons)), writable_(commons_.ranges), socket_(std::move(socket)) {}

  Status prepare();
  Status meet(const WaitLimit& wait_limit);
  Status wire_up(const WaitLimit& wait_limit);
  Status sleep(const WaitLimit& wait_limit) const;
  Status move_both(const WaitLimit& wait_limit);
  Status watch_all();
  void send_token(UcxWorker& worker, unsigned kind, std::span<const std::byte> rest, uint64_t name);
  void take(unsigned kind, std::span<const std::byte> header, std::span<const std::byte> payload);
  void look_at_workers();
  bool take_some(transport::stream::PipeEvents& events);
  void report(transport::stream::PipeEvents& events);
  void note_put(uint64_t name, transport::stream::PipeEvents& events);
  void note_flush(transport::stream::PipeEvents& events);
  void flush_if_due();
  void look_around(transport::stream::PipeEvents& events);
  bool has_room();
  Status explain(const Status& said) const;
  bool has_peer_ended() const { return last_word_ && frames_came_ >= *last_word_; }
  void break_off(Status status);

  const UcxCommons commons_;
  WritableRanges writable_;
  tcp::PeerSocket socket_;
  std::unique_ptr<PollSet> set_;
  PolledFd timer_;
  std::unique_ptr<UcxWorker> frames_;
  std::unique_ptr<UcxWorker> writes_;
  uint64_t token_ = 0;       // of messages to this end
  uint64_t peer_token_ = 0;  // of those to the peer

  transport::stream::PipeEvents* events_ = nullptr;  // within poll()
  Wiring wiring_;
  std::vector<UnheardFrame> early_;                 // the peer has its link before this end does
  std::map<uint64_t, UnflushedWrite> open_writes_;  // by name
  std::vector<uint64_t> unflushed_;                 // of them: no flush covers these yet
  std::vector<uint64_t> flushing_;                  // those of the flush that is under way
  uint64_t frames_sent_ = 0;
  uint64_t frames_came_ = 0;
  std::optional<uint64_t> last_word_;  // so many frames the peer has sent in all
  bool has_said_seen_ = false;
  uint64_t writes_lost_ns_ = 0;  // when that was noticed; 0: they are not
  uint32_t idle_polls_ = 0;
  uint32_t unlooked_ = 0;  // frames sent since somebody has looked
  bool ended_ = false;
  Status broken_;
};

}  // namespace tutti::transports::ucx
