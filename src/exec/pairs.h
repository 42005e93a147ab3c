// Send and receive: one fixed channel per ordered pair of ranks.
//
// Within a domain the channel lies in the sender's arena (pair_channel.h); between domains it is a
// lane of the stream. Transfers of one direction between two ranks pair in order, across calls and
// groups.
//
// Threads and errors: those of CallState, which it shares with the plans.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

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
  Progress advance();
  /// Before a call is begun: the lines that a send will probably store to are in the caches of
  /// whoever read there a lap ago, and come back meanwhile.
  void claim(const Transfer& transfer) const;
  Status run(std::span<const Transfer> transfers);
  void tell_progress(trace::Recorder& recorder, const Stall& stall) const override;

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};
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

  void pair_with_myself();
  bool line_up(std::span<const Transfer> transfers);
  bool step(Active& active);
  bool step_send(Active& active);
  bool step_receive(Active& active);
  bool step_stream(Active& active);
  bool begin_receive(Active& active, const PairChannel& channel);
  void take_next_head(const Active& active) const;
  template <class Move>
  static void in_ring(const Active& active, const PairChannel& channel, uint64_t at, uint64_t bytes,
                      Move move);
  void write_piece(const Active& active, const PairChannel& channel, uint64_t at, uint64_t bytes);
  void read_piece(const Active& active, const PairChannel& channel, uint64_t at, uint64_t bytes);
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
  std::vector<uint8_t> type_names_;  // in the flight recorder
};

}  // namespace tutti::exec
