// Graphs of a rank's calls, for programs that run on a board or on the software device: capture,
// instances, launches; and memory for calls whose data is different in each run.
//
// Owns: all of it. Threads: the one of the seat. Errors: those of the driver end the program.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/device/seat.h"
#include "tests/software_device/client.h"

namespace tutti::device_programs {

/// A graph that can be launched.
class Graph {
 public:
  /// `work` puts into the stream what becomes the graph.
  Graph(const softdev::Client& client, drivers::cuda::CUstream stream,
        const std::function<void()>& work);
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph();
  void launch(drivers::cuda::CUstream stream) const;

 private:
  const softdev::Client& client_;
  softdev::CUgraphExec instance_ = nullptr;
};

/// Device memory and pinned memory from whose fronts blocks are taken.
class Pieces {
 public:
  Pieces(const drivers::cuda::Cuda& cuda, int device, size_t bytes);
  drivers::cuda::CUdeviceptr on_device(size_t words);
  uint64_t* pinned(size_t words);
  /// All is free again.
  void reset() { device_used_ = pinned_used_ = 0; }

 private:
  size_t take(size_t& used, size_t words) const;

  const drivers::cuda::DeviceMemory device_;
  const drivers::cuda::PinnedMemory pinned_;
  size_t device_used_ = 0, pinned_used_ = 0;
};

/// A call, and what its outputs hold when it is done. Counts are of words of 8 bytes.
struct CallSpec {
  enum Kind : int {
    kAllReduce,
    kAllGather,
    kBroadcast,
    kReduceScatter,
    kAllToAll,
    kRing,  // every rank sends to the next one
    kAllGatherV,
    kAllToAllV,
    kKinds
  };
  int kind = kAllReduce;
  size_t count = 1;
  int root = 0;
  int comm = 0;
  uint64_t number = 0;  // in the values
  /// Of a call with a count for each rank: of rank `number`'s block in an all_gather_v, and of what
  /// each rank sends to the one `number` behind it in an all_to_all_v. Some have none.
  size_t share(int number) const {
    return number % 3 == 1 ? 0 : count / static_cast<size_t>(1 + number);
  }
  size_t send_words(int ranks) const;
  size_t recv_words(int ranks) const;
};

/// The word that a rank sends in a run of a call.
uint64_t sent_word(const CallSpec& call, uint64_t run, int rank, size_t place);
/// The word that a rank gets.
uint64_t got_word(const CallSpec& call, uint64_t run, int rank, int ranks, size_t place);

/// A call's buffers on the device.
struct CallBuffers {
  drivers::cuda::CUdeviceptr send = 0, recv = 0;
};
tuttiResult_t put_call(const CallSpec& call, const CallBuffers& at, tuttiComm_t comm,
                       tuttiStream_t stream);

/// A call with memory of its own.
struct PlacedCall {
  CallSpec spec;
  drivers::cuda::DeviceMemory send, recv;

  CallBuffers at() const { return {send.address(), recv.address()}; }
};
/// With room for a group of so many ranks.
PlacedCall place_call(Seat& seat, const CallSpec& spec, int ranks);

/// Which run of a call it is, as its values tell, and whose.
struct RunOfCall {
  uint64_t run = 0;
  int rank = 0, ranks = 0;
};
/// Fills the call's memory, has `work` run the call, and compares what came. `work` returns when
/// the stream is past it: whether that was well. Empty: all is right; else what is wrong.
std::string check_run(Seat& seat, const PlacedCall& call, const RunOfCall& which,
                      const std::function<bool()>& work);

}  // namespace tutti::device_programs
