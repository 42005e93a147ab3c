// The bounce buffer through which a call on a device sends slices to other hosts, and receives
// them: some pinned memory, which the device copies to and from, and which the host's thread gives
// to the network. It holds the slices that are under way, never the whole call.
//
// The rank's streams and its host's thread do the same plan: the streams do what is within the
// host, the thread the messages between hosts (NetworkMachine). In each lane they tell each other
// by counters, which begin at 0 in each run of the call, rise, and have one writer each:
//   staged   by the streams: so many sends of the lane lie in the buffer
//   drained  by the streams: so many slices of the lane have read what landed
//   arrived  by the host: so many messages of the lane have landed
//   sent     by the host: all sends of so many slices of the lane are out
// A zone of the buffer is written for slice s + 1 of a lane when slice s is out, or drained.
// Another lane has other zones, so its slice crosses meanwhile.
//
// Threads: a layout is a value; words are read and written by any. Errors: none.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "src/exec/arena_map.h"
#include "src/exec/staging.h"
#include "src/plan/plan.h"

namespace tutti::exec {

/// Each in a line of its own.
struct BounceWords {
  struct BounceLaneWords {
    DevicePage::Word staged, drained, arrived, sent;
  };
  std::array<BounceLaneWords, kDeviceLanes> lanes;
};

/// More than any call has messages, or pieces.
inline constexpr uint64_t kBeyondAllMessages = uint64_t{1} << 62;

/// How the memory of a call's bounce buffer is cut: words first.
class BounceShape {
 public:
  virtual ~BounceShape() = default;
  virtual uint64_t bytes() const = 0;
  /// Before a run: its words are 0. Nobody else looks.
  virtual void begin(std::byte* memory) const = 0;
  /// The streams wait for the host no more, though nothing has come.
  virtual void let_go(std::byte* memory) const = 0;
};

/// Where the pieces of a plan's messages lie in the buffer's memory: in bytes from its begin.
class BounceLayout {
 public:
  explicit BounceLayout(const plan::Plan& plan);

  uint64_t bytes() const { return bytes_; }
  /// Where the landing zones of a lane begin.
  uint64_t landing(uint32_t lane) const { return plan::landing_shift(plan_, lane); }
  /// The pieces of a send, one behind the other.
  uint64_t sent(uint32_t lane, uint32_t op) const {
    return sends_ + lane * send_bytes_ + places_[op];
  }
  /// Whether the micro-operation before it sends the same pieces to another rank, so that they lie
  /// in the bounce buffer already.
  bool repeats(uint32_t op) const;

 private:
  const plan::Plan& plan_;
  uint64_t sends_ = 0;       // where the sends of lane 0 begin
  uint64_t send_bytes_ = 0;  // of a lane
  uint64_t bytes_ = 0;
  std::vector<uint64_t> places_;  // by micro-operation, of sends: within the lane's
};

/// A bounce buffer as a call has it. A view.
struct BounceBuffer {
  BounceWords* words = nullptr;
  std::byte* memory = nullptr;
  const BounceLayout* layout = nullptr;  // null: the plan has no messages between hosts
};

/// A plan and its layout. The plan names the ranks of this host by the engine's numbers.
struct NetworkPlan final : BounceShape {
  explicit NetworkPlan(plan::Plan lowered) : plan(std::move(lowered)), layout(plan) {}
  NetworkPlan(const NetworkPlan&) = delete;
  NetworkPlan& operator=(const NetworkPlan&) = delete;

  uint64_t bytes() const override { return kZones + layout.bytes(); }
  void begin(std::byte* memory) const override;
  void let_go(std::byte* memory) const override;
  BounceBuffer in(std::byte* memory) const {
    return {reinterpret_cast<BounceWords*>(memory), memory + kZones, &layout};
  }

  const plan::Plan plan;
  const BounceLayout layout;

 private:
  static constexpr uint64_t kLine = 512;
  static constexpr uint64_t kZones = (sizeof(BounceWords) + kLine - 1) / kLine * kLine;
};

/// Pinned memory that outlives a call, and in which other calls lie later. `owner` keeps it.
struct PinnedRange {
  std::byte* data = nullptr;
  uint64_t bytes = 0;
  std::shared_ptr<const void> owner;
};

/// The points of a stream between which a call on a device has a bounce. Its host's part may begin
/// when the stream has come to the first one.
///
/// From begin() to end() hardware of the network may read and write the bounce buffer. No other
/// call gets that memory before end(), or before this rank has left its group (CallState::left()):
/// a peer's card may still write what belongs to a call that has failed.
class NetworkCrossing : public HostStaging {
 public:
  /// Of the bounce buffer.
  virtual std::byte* memory() const = 0;
  /// The memory that the bounce buffer is part of.
  virtual PinnedRange pinned() const = 0;
  /// Lives as long as this.
  virtual void keep(std::shared_ptr<const void> kept) = 0;
  /// The host's part has begun. The stream does not go on behind the call before: so whatever comes
  /// to the host from behind it, as a run of a graph, finds the call begun. `left`: becomes true
  /// when the network touches no memory of the rank's calls any more, whatever became of them.
  virtual void begin(std::shared_ptr<const std::atomic<bool>> left) = 0;
  /// All messages of the call are over. Not after a failure.
  virtual void end() = 0;
};

/// The host's part of such a call.
struct NetworkCall {
  std::shared_ptr<const NetworkPlan> plan;
  std::weak_ptr<NetworkCrossing> crossing;  // which the call's fence keeps
  /// A rank of this host that the streams wait for, if they wait for one.
  std::function<std::optional<uint32_t>()> find_late;
};

}  // namespace tutti::exec
