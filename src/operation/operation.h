// One call of a communicator, whatever its kind: a collective, sends and receives, an access to a
// window.
//
// It is asked what it is, whether it may run and how long it should take; and it is run in one of
// three ways, which follows from its stream (runner_of): at once, by run(); in pieces, by queue(),
// begin(), advance() and outcome(), in a thread that drives others beside it; or by a stream of a
// device itself, from stream_work(). A new kind of call is a class that derives from OperationOf.
//
// Owns:    all that it needs but the caller's buffers, the communicator and the window. A copy is
//          independent of it.
// Threads: one at a time; those of a communicator run one after the other.
// Errors:  check() and the first error of begin(): nothing has run. Those of outcome() may be of
//          the operation alone or of the communicator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "src/base/status.h"
#include "src/comm/communicator.h"
#include "src/operation/buffers.h"
#include "src/plan/walk.h"

namespace tutti::operation {

/// The thread or stream that runs an operation.
enum class Runner : uint8_t {
  kCallersThread,
  kStreamThread,  // StreamEngine, which also runs what streams of devices send through the host
  kStream,        // of a device: its copies and kernels go from device to device
};

/// The order in which a group's operations begin. Ranks may name operations of different kinds in
/// different orders, and need not all have each kind: with what all ranks call first, then the
/// transfers, then what never waits, nobody waits for what its peer has behind something else.
enum class GroupPhase : uint8_t { kCollective, kTransferOfStreams, kTransfer, kAccess, kWait };

/// An operation as a stream of a device takes it.
using StreamWork = std::variant<exec::StreamedCall, exec::StreamedTransfers>;

/// No operation is larger.
inline constexpr size_t kOperationBytes = 320;

class Operation {
 public:
  virtual ~Operation() = default;

  comm::Communicator& communicator() const { return *communicator_; }
  /// In force for it: its own, or the communicator's.
  const comm::CallOptions& options() const {
    return communicator_->collectives().planner().options_of(&extras_);
  }
  /// Options that the communicator gets from now on are for later calls.
  void keep_options();

  /// Into `room` for kOperationBytes (HeldOperation).
  virtual Operation* copy_to(std::byte* room) const = 0;
  virtual Operation* move_to(std::byte* room) noexcept = 0;
  /// For messages.
  virtual std::string name() const = 0;
  /// `by_streams`: streams do it, or their part of it.
  virtual GroupPhase phase(bool by_streams) const = 0;
  /// Whether join() may take a later one of the same communicator in, so that both progress
  /// together.
  virtual bool can_join(const Operation& later) const;
  /// Where there is no memory this throws, and it is as it was.
  virtual void join(const Operation& later);
  virtual std::vector<CallBuffer> buffers() const = 0;
  /// Of buffers(): it lies there from now on.
  virtual void move_buffer(size_t number, std::byte* memory) = 0;
  /// Where it goes by the host: what its stream copies all the same, before begin(), and the host
  /// never sees. Asked once, when it is put there. An error: it does not run.
  virtual Result<exec::DeviceCopies> stream_copies(bool /*captured*/) {
    return exec::DeviceCopies{};
  }

  /// Whether it may run as it is.
  virtual Status check() const { return {}; }
  /// How long it should take; nothing runs, and no other rank is asked.
  virtual Result<double> predict_ns() = 0;
  /// The way that it would take, for people. Lines.
  virtual std::string explain() = 0;

  /// Blocks until the rank's part is complete.
  virtual Status run() = 0;
  /// When it gets its place in line: takes no memory. Returns the ticket for begin().
  virtual uint64_t queue() = 0;
  virtual Status begin(uint64_t ticket) = 0;
  /// Never waits. kDone also after a failure.
  virtual plan::Progress advance() = 0;
  /// Of one that is done. It may fail though the communicator does not: an access outside a window,
  /// a call that no algorithm can run.
  virtual Status outcome() const = 0;

  /// Why streams of devices send it through the host; OK: they run it. Equal on all ranks.
  virtual Status unsupported_by_streams() const;
  /// Before they do so, though its options may ask for something else: kUnsupported then. The log
  /// is told once for each name.
  virtual Status check_host_way() { return {}; }
  /// Of one that streams do not run by themselves: whether they do what is within the host, while
  /// the host's part has the messages to other hosts. Else it goes by the host as a whole.
  virtual bool crosses() const { return false; }
  /// The bounce buffer of one that crosses(), whose streams are `where`. From then on begin()
  /// begins the host's part. `arrived` as in exec::DeviceRank::cross().
  virtual Result<std::shared_ptr<exec::HostStaging>> cross(std::span<const exec::StreamPlace> where,
                                                           std::function<void()> arrived);
  /// If its options ask for that, peers that would put it into their streams learn of it. An error
  /// has failed the communicator.
  virtual Status announce_host_way() { return {}; }
  /// As its streams, `where`, take it; without who is told of its end. Valid until the next call of
  /// the communicator's.
  virtual Result<StreamWork> stream_work(std::span<const exec::StreamPlace> where);

 protected:
  /// `extras`: null or the call's own.
  Operation(comm::Communicator& communicator, const comm::Extras* extras)
      : communicator_(&communicator) {
    if (extras != nullptr) extras_ = *extras;
  }
  Operation(const Operation&) = default;
  Operation(Operation&&) = default;
  Operation& operator=(const Operation&) = delete;

  comm::Extras extras_;

 private:
  comm::Communicator* communicator_;
};

/// From which each kind of operation derives.
template <class Kind>
class OperationOf : public Operation {
 public:
  Operation* copy_to(std::byte* room) const final {
    static_assert(sizeof(Kind) <= kOperationBytes);
    return new (room) Kind(static_cast<const Kind&>(*this));
  }
  Operation* move_to(std::byte* room) noexcept final {
    return new (room) Kind(std::move(static_cast<Kind&>(*this)));
  }

 protected:
  using Operation::Operation;
};

/// An operation of any kind as a value, in its own memory: a queue in use allocates nothing.
class HeldOperation {
 public:
  HeldOperation() = default;  // holds none
  explicit HeldOperation(const Operation& operation) : held_(operation.copy_to(room_)) {}
  HeldOperation(HeldOperation&& other) noexcept { take(other); }
  HeldOperation& operator=(HeldOperation&& other) noexcept {
    if (this == &other) return *this;
    end();
    take(other);
    return *this;
  }
  ~HeldOperation() { end(); }

  Operation* operator->() const { return held_; }
  Operation& operator*() const { return *held_; }

 private:
  void end() {
    if (held_ != nullptr) held_->~Operation();
    held_ = nullptr;
  }
  void take(HeldOperation& other) {
    if (other.held_ == nullptr) return;
    held_ = other.held_->move_to(room_);
    other.end();
  }

  alignas(std::max_align_t) std::byte room_[kOperationBytes];
  Operation* held_ = nullptr;
};

}  // namespace tutti::operation
