// The communicators of a job: who is in them, how they are made and when they end.
//
// Threads: no state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tutti::random_calls {

/// How a communicator is made.
enum class Origin : uint8_t {
  kId,     // by each of its ranks, with one or two ids
  kAll,    // by one thread for all ranks, which are threads of its process
  kSplit,  // from another one, and so the following
  kShrink,
  kGrow,
};
inline constexpr int kOrigins = 5;
const char* name_of(Origin origin);

/// Whether calls that make and end it block, by its ranks' configuration.
enum class Mode : uint8_t { kUnsaid, kBlocking, kNotBlocking };
inline constexpr int kModes = 3;
const char* name_of(Mode mode);

/// How its ranks end it. Nothing is in flight then, on any rank.
enum class Ending : uint8_t { kDestroy, kFinalize, kRevoke, kAbort };
inline constexpr int kEndings = 4;
const char* name_of(Ending ending);

/// The first one of a job has all ranks in their order, and lasts as long as the job.
struct Communicator {
  Origin origin = Origin::kId;
  std::vector<int> members = {};  // ranks of the job, in the order of their ranks in it
  Mode mode = Mode::kUnsaid;
  Ending ending = Ending::kDestroy;
  bool registered = false;  // what the ranks have allocated is registered with it
  uint32_t windows = 0;
  bool ordinary_windows = false;  // on memory that is not from tuttiMemAlloc

  static Communicator of_all(int ranks);

  int ranks() const { return static_cast<int>(members.size()); }
  /// Of a rank of the job; -1: it is no member.
  int rank_of(int member) const;
};

/// A change that all ranks make to communicators before a batch.
struct Change {
  Origin origin = Origin::kId;
  uint32_t from = 0;                // of a split, shrink or grow
  std::vector<uint32_t> made = {};  // a split makes one for each colour. Nothing: `from` ends
  std::vector<int> keys = {};       // of a split: of each rank of `from`
  int ids = 1;
};
std::string describe(const Change& change, const std::vector<Communicator>& communicators);

}  // namespace tutti::random_calls
