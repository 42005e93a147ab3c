// Which pairs of properties were seen together, of all pairs that can be: what one property breaks
// alone, fixed cases find; what two break together, only calls that have both.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/random/job.h"

namespace tutti::random_calls {

/// A property of calls and every value it has; a call without the property has the value "".
struct Axis {
  std::string name;
  std::vector<std::string> values;
};

/// Of the call: collective, type, operation, place, memory, grouped, blocking, with a handle,
/// priority, deadline. Of its communicator: ranks, how it was made. Of the job: transport, threads
/// or processes, how many communicators there are at the time and how many the batch is of.
std::vector<Axis> axes(int max_ranks);

class Pairs {
 public:
  explicit Pairs(int max_ranks);

  void add(const Job& job);
  /// "type int8 with ranks 3", for every pair that can be and was not seen.
  std::vector<std::string> missing() const;
  /// A line for every two axes: how many of their pairs were seen.
  std::string table() const;

 private:
  struct Tally {
    uint64_t seen = 0;
    uint64_t possible = 0;
    std::vector<std::string> missing;
  };
  Tally tally(size_t a, size_t b) const;
  void note(const std::vector<std::string>& values);
  /// Of a value among those of all axes.
  size_t number_of(size_t axis, const std::string& value) const;

  int max_ranks_;
  std::vector<Axis> axes_;
  size_t values_ = 0;       // of all axes
  std::vector<bool> seen_;  // [number * values_ + number]
};

}  // namespace tutti::random_calls
