// Send and receive: one fixed channel per ordered pair of ranks.
//
// Within a domain the channel lies in the sender's arena (pair_channel.h); between domains it is a
// lane of the stream. Transfers of one direction between two ranks pair in order, across calls and
// groups.
//
// Of transfers on device memory between hosts it does the host's part (start() of
// BouncedTransfers): each piece is a message of that lane. One of a single piece is a message as
// any other, so its peer may have its memory on the host; longer ones carry their length in the
// signature, since both ends must cut them.
//
// Threads and errors: those of CallState, which it shares with the plans.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "src/exec/bounce_pairs.h"
#include "src/exec/host_executor.h"
#include "src/exec/pair_channel.h"
#include "src/exec/transfer.h"

namespace tutti::exec {

/// Whether the k-th send of `rank` to itself meets an equal k-th receive, and none is left: the two
/// are one copy within one call. An error otherwise, before anything is begun.
Status check_own_transfers(std::span<const Transfer> transfers, int rank);

class PairExecutor final : public ProgressSource {
 public:
  explicit PairExecutor(HostExecutor& executor);

  static constexpr uint64_t kPairBytes = PairChannel::kBytes;

  /// All transfers of one group progress together; the memory stays the caller's. They have passed
  /// check_own_transfers().
  void start(std::span<const Transfer> transfers);
  /// The host's part of transfers on a device. Their crossing has begun when this returns.
  void start(const BouncedTransfers& bounced);
  Progress advance();
  /// Before a call is begun: the lines that a send will probably store to are in the caches of
  /// whoever read there a lap ago, and come back meanwhile.
  void claim(const Transfer& transfer) const;
  Status run(std::span<const Transfer> transfers);
  void tell_progress(trace::Recorder& recorder, const Stall& stall) const override;

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};
  static constexpr uint32_t kPairLane = kLanes;  // the stream lane behind those of plans
  /// A direction with a peer.
  struct PairDirection {
    std::byte* channel = nullptr;  // null: a stream
    uint32_t begun = 0;            // so many transfers
    uint32_t last = 0;             // in line, in `call`
    uint64_t call = 0;
    // How far this end of the channel has come, and how far it knows the other to have come.
    uint64_t heads = 0, bytes = 0;
    uint64_t others_heads = 0, others_bytes = 0;
  };
  struct Active {
    Active(const Transfer& transfer, PairDirection& direction)
        : transfer(transfer), direction(&direction), number(++direction.begun) {}

    Transfer transfer;
    PairDirection* direction;
    uint32_t number;        // both ends of a transfer give it the same, as transfers pair in order
    uint32_t next = kNone;  // what waits behind this one
    uint64_t moved = 0;
    bool begun = false;  // the head is written or read, or the stream asked
    bool done = false;
    transport::Stream::Ticket ticket = 0;
  };
  /// How far a transfer has come whose pieces lie in a bounce buffer.
  struct BouncedPieces {
    uint64_t before = 0;  // of the direction, in this call: pieces of the transfers before it
    uint64_t pieces = 0;  // at least one: a transfer without bytes is an empty message
    uint64_t given = 0;   // to the network: sent, or their receives posted
    uint64_t over = 0;    // out, or here
    std::array<transport::Stream::Ticket, BouncePairs::kSlots> tickets{};  // by number
    std::array<uint64_t, BouncePairs::kSlots> timed{};  // by the flight recorder, likewise
  };

  void pair_with_myself();
  bool line_up(std::span<const Transfer> transfers);
  bool step(Active& active);
  bool step_send(Active& active);
  bool step_receive(Active& active);
  bool step_stream(Active& active);
  bool step_bounced(Active& active);
  void end_bounced();
  bool has_come(const BounceDirectionWords& words, uint64_t pieces);
  bool give_piece(const Active& active, BouncedPieces& state, const BounceDirection& direction);
  uint32_t bounced_signature(const Transfer& transfer, const BounceDirection& direction) const;
  bool begin_receive(Active& active, const PairChannel& channel);
  void take_next_head(const Active& active) const;
  template <class Move>
  static void in_ring(const Active& active, const PairChannel& channel, uint64_t at, uint64_t bytes,
                      Move move);
  void write_piece(const Active& active, const PairChannel& channel, uint64_t at, uint64_t bytes);
  void read_piece(const Active& active, const PairChannel& channel, uint64_t at, uint64_t bytes);
  transport::ChannelId pair_channel() const {
    return {state_.options().communicator, state_.options().epoch, kPairLane};
  }
  trace::ExchangeState exchange_of(const Active& active) const;
  void tell_lines() const;
  static size_t place_of(const Transfer& transfer) {
    return 2 * size_t{transfer.peer} + (transfer.is_send ? 1 : 0);
  }

  CallState& state_;
  StagingWriter& writer_;
  StagingReader& reader_;
  std::vector<PairDirection> directions_;  // by peer and direction
  std::vector<Active> active_;
  std::vector<uint32_t> open_;  // of active_, in its order: what may move now
  uint64_t calls_ = 0;
  std::vector<uint8_t> type_names_;            // in the flight recorder
  std::shared_ptr<const BouncePairs> bounce_;  // null: the transfers' memory is the host's
  std::shared_ptr<NetworkCrossing> crossing_;
  std::function<std::optional<uint32_t>()> find_late_;
  std::vector<BouncedPieces> bounced_;  // by active_
  uint32_t looks_ = 0;                  // at words of streams that had not come
};

}  // namespace tutti::exec
