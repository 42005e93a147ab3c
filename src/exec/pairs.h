// Send and receive: one fixed channel per ordered pair of ranks.
//
// Within a domain the channel is a small ring in the sender's arena: a header with the message's
// size, then its bytes, copied in and out piece by piece. Between domains it is a lane of the
// stream. Transfers of one direction between two ranks pair in order, across calls and groups.
//
// Threads and errors: as HostExecutor, whose status, health and failure mark it shares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/exec/host_executor.h"

namespace tutti::exec {

struct Transfer {
  uint32_t peer = 0;
  bool is_send = false;
  std::byte* data = nullptr;  // a send only reads it
  uint64_t bytes = 0;
  types::DataType type = types::DataType::kInt8;  // for the flight recorder
};

class PairExecutor final : public ProgressSource {
 public:
  explicit PairExecutor(HostExecutor& executor);

  /// Bytes of one pair's ring with its counters.
  static constexpr uint64_t kPairBytes = 68 << 10;

  /// All transfers of one group progress together; the memory stays the caller's.
  void start(std::span<const Transfer> transfers);
  Progress advance();
  Status run(std::span<const Transfer> transfers);
  void tell_progress(trace::Recorder& recorder, const Stall& stall) const override;

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};
  struct Active {
    Transfer transfer;
    uint64_t moved = 0;
    uint32_t number = 0;     // how many have begun with this peer, in this direction
    bool announced = false;  // header written or read, or the stream asked
    bool done = false;
    uint32_t next = kNone;  // first in, first out: what waits behind this one
    transport::Stream::Ticket ticket = 0;
  };
  struct Ring;

  void pair_with_myself();
  void line_up();
  bool step(Active& active);
  bool step_ring(Active& active);
  bool step_stream(Active& active);
  bool announce(Active& active, Ring& ring, uint64_t& at);
  uint64_t copy(Active& active, Ring& ring, uint64_t at, uint64_t room);
  Ring ring_of(const Active& active) const;
  void number_all();
  void tell_lines(trace::Recorder& recorder, const Stall* stall) const;
  // Of a direction with a peer.
  static size_t way(const Transfer& transfer) {
    return 2 * size_t{transfer.peer} + (transfer.is_send ? 1 : 0);
  }

  HostExecutor& executor_;
  std::vector<Active> active_;
  std::vector<uint32_t> open_;       // of active_, in its order: what may move now
  std::vector<uint32_t> tails_;      // by peer and direction, the last in line; kNone between calls
  std::vector<uint32_t> begun_;      // by peer and direction
  std::vector<uint8_t> type_names_;  // in the flight recorder
  std::vector<uint64_t> sent_, received_;  // bytes of every pair's ring ever produced, consumed
};

}  // namespace tutti::exec
