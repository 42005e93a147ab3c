// Runs a timeline, the same value that was checked and simulated, with real work and communication.
//
// Each rank runs its own tasks: the compute track in the thread that calls, every other track that
// has tasks in a thread of its own, communication in HOST streams, where comm high goes before comm
// low whenever both could advance. Channels of messages share communicators of all ranks (trunks),
// channels of collectives have one for their rank set; a runner keeps all that it made, so that
// timelines which change with each batch cost none (change()).
//
// Memory:   of the host, or for a track with a stream of a device memory of that device. A task of
//           communication has ended when its stream has passed it, and a callback must not return
//           before what it has put into streams of its own has completed: what is `after` it begins
//           then.
//
// Owns:     the communicators of its channels and its streams. Buffers are the caller's.
// Ordering: construction, change(), run() and gather() are collective over the communicator, which
// must live
//           as long and takes no other call meanwhile.
// Threads:  one at a time. Callbacks of different tracks run at the same time.
// Errors:   the constructor refuses a timeline that check() finds fault with, or that differs
//           between ranks. An exception of a callback ends the run on every rank: run() throws
//           it on this rank and kCommunication on the others. Afterwards the runner can only be
//           destroyed.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>

#include "tutti/runtime/timeline.h"

namespace tutti::runtime {

/// The buffers of a communication task; count and buffers as the call of tutti.h has them. In bytes
/// the count is the task's `bytes`, else the run fails.
struct Payload {
  const void* send = nullptr;
  void* recv = nullptr;
  size_t count = 0;
  tuttiDataType_t type = tuttiUint8;
  tuttiRedOp_t op = tuttiSum;
};

struct TimelineWork {
  std::function<void(const TimelineTask&)> compute;     // of compute and copy tasks
  std::function<Payload(const TimelineTask&)> payload;  // asked when the task's turn has come
};

struct RunOptions {
  bool deterministic = false;  // collectives reduce in the canonical order
  /// Of each track's communication; the BLOCKING one stands for a HOST stream of the runner's own.
  std::array<tuttiStream_t, kTracks> streams{};
  /// The most thread blocks of a kernel that folds device memory for this runner's collectives:
  /// what is computed keeps the rest of the device (blocks_of() of nano.h has them of a share). 0:
  /// as the process says.
  int most_ctas = 0;
};

class TUTTI_RUNTIME_API TimelineRunner {
 public:
  TimelineRunner(tuttiComm_t comm, Timeline timeline, RunOptions options = {});
  ~TimelineRunner();

  /// Returns when this rank's tasks have ended. Times are from the begin of this run; the spans of
  /// other ranks' tasks are 0.
  History run(const TimelineWork& work);
  /// Another timeline of the same ranks takes the place of this one, checked and compared between
  /// ranks as in the constructor. New communicators are made only where it needs more trunks, or
  /// has collectives of rank sets that none before it had.
  void change(Timeline timeline);
  /// How many times ranks have met to make communicators of channels.
  int communicators() const;
  /// The spans of all ranks in the last run, on every rank, from the begin of the first rank on.
  /// Ranks on several hosts have several clocks; then only spans of one host compare.
  History gather();

  const Timeline& timeline() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::runtime
