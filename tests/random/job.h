// Jobs of calls for the random driver, each a function of a seed and a job number.
//
// Every rank makes the same job for itself, so nothing has to be agreed on and any job can be run
// again alone. Ranks in calls are those of the call's communicator.
// Threads: no state.
// Units:   counts in elements.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/random/communicators.h"
#include "tests/reference/reference.h"
#include "tests/support/team.h"

namespace tutti::random_calls {

/// The kind of values in a call's input.
enum class Values : uint8_t {
  kAny,      // any bits: nothing is rounded because nothing is computed, or integers wrap
  kExact,    // floats of which no order of the reduction rounds anything
  kRounded,  // floats that round
};

struct Transfer {
  int source = 0;
  int target = 0;
  uint64_t count = 0;
  tuttiDataType_t type = tuttiInt8;
};

/// How the target of a put learns that it is there.
enum class Arrival : uint8_t {
  kPutSignal,  // by the signal of the put
  kSignal,     // by a signal behind the put, which may be another window's
  kFlush,      // the origin gets, then there is a barrier
};
const char* name_of(Arrival arrival);

/// An access of one rank to the part of a window of another one, or to its own.
struct Access {
  int origin = 0;
  int target = 0;
  bool is_get = false;      // of what the part held from the beginning; else a put,
  bool reads_back = false;  // which the origin gets again
  uint32_t window = 0;
  uint64_t offset = 0;  // no two puts of a batch meet
  uint64_t bytes = 0;
};

enum class Kind : uint8_t { kCollective, kPairs, kOneSided };

/// Of a scaled sum: when the library reads the scalar.
enum class Scalar : uint8_t { kNone, kImmediate, kDevice };

/// The fields of tuttiOptions_t, for one call or for a communicator.
struct CallOptions {
  std::string algorithm = {};  // empty: chosen
  bool deterministic = false;
  int priority = 0;
  bool deadline = false;  // one that is not reached

  bool operator==(const CallOptions&) const = default;
};

struct Call {
  Kind kind = Kind::kCollective;
  uint32_t communicator = 0;
  reference::Problem problem;  // of a collective
  Scalar scalar = Scalar::kNone;
  Values values = Values::kAny;
  bool in_place = false;
  bool allocated = false;           // its buffers are from tuttiMemAlloc
  bool on_device = false;           // its buffers are in device memory
  CallOptions options;              // not of one-sided calls
  std::vector<Transfer> transfers;  // of pairs: sends and receives
  std::vector<Access> accesses;     // of one-sided calls, with
  Arrival arrival = Arrival::kPutSignal;
  uint32_t signal = 0;  // its number
  uint64_t seed = 0;
};
/// "all_reduce", "send/recv", "put, flush"; `access`: of one-sided calls.
const char* name_of(const Call& call, const Access* access = nullptr);
/// "sum", "scaled device"
std::string op_name(const Call& call);

/// How the calls of a batch are issued.
enum class Way : uint8_t {
  kBlocking,   // one after the other
  kHost,       // on one HOST stream, then synchronized
  kTwoHost,    // on two HOST streams in turn
  kGroup,      // in one group, blocking
  kHostGroup,  // in one group on a HOST stream
};
const char* name_of(Way way);

struct Batch {
  Way way = Way::kBlocking;
  std::vector<Call> calls;
  bool handles = false;  // calls are submitted, with options and a handle each; not one-sided ones
  std::vector<Change> changes = {};  // before it

  bool grouped() const { return way == Way::kGroup || way == Way::kHostGroup; }
  bool of_several() const;  // communicators
};

/// The order in which a rank issues the calls of a batch. Ranks differ in it where they may: what
/// belongs to one communicator, or without a group to one stream, is in one order everywhere.
std::vector<size_t> issue_order(const Batch& batch, int rank);
/// Which of two streams, where there are two.
inline size_t stream_of(size_t call) { return call % 2; }

using testing_support::Network;

struct Job {
  uint64_t seed = 1;
  uint64_t number = 0;
  Network network = Network::kDefault;
  testing_support::TeamShape shape;
  bool devices = false;                    // every rank has one, and streams of it
  bool has_regions = false;                // ranks allocate memory for the buffers of some calls
  bool renews = false;                     // it is registered anew before every third batch
  uint64_t deadline_ns = 300'000'000'000;  // of calls that have one: later than the job's end
  std::vector<Communicator> communicators = {};  // in the order in which they are made
  std::vector<Batch> batches;

  const Communicator& of(const Call& call) const { return communicators[call.communicator]; }
  int ranks() const { return shape.ranks(); }
  size_t calls() const;
};

/// The bytes that a rank allocates for buffers of sends, and again for those of receives.
inline constexpr uint64_t kRegionBytes = 8 << 20;
inline constexpr size_t kMaxBatch = 4;

/// A rank's part of a window: what is only read, then the places of puts, each between guards.
inline constexpr uint64_t kReadBytes = 1 << 20;
inline constexpr uint64_t kWindowBytes = 8 << 20;
inline constexpr uint64_t kPutGuardBytes = 64;
inline constexpr uint32_t kTakenSignal = TUTTI_WINDOW_SIGNALS - 1;  // the target has looked

struct Limits {
  int calls = 50;
  int min_ranks = 1;
  int max_ranks = 9;
  bool large = true;           // a few calls of 64 MiB
  bool deterministic = false;  // every reduction is
  bool one_communicator = false;
  bool single_copies = true;  // the kernel copies between processes
  bool devices = false;       // most calls are on device memory
  bool processes = false;     // each rank has a process
  bool direct = false;        // most calls are long, on device memory that ranks have registered
};

Job make_job(uint64_t seed, uint64_t number, const Limits& limits);

/// Bytes of the largest buffer of any rank.
uint64_t bytes_of(const Call& call);

std::string describe(const Call& call);
/// Position of a call as the watchdog's step; describe_step tells what it is.
uint64_t step_of(size_t batch, size_t call);
/// The changes before a batch.
uint64_t step_of_changes(size_t batch);
std::string describe_step(const Job& job, uint64_t step);
std::string describe(const Job& job);

}  // namespace tutti::random_calls
