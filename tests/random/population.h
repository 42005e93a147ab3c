// The communicators of a job while it is drawn: which there are, and what becomes of them.
//
// Threads:  one.
// Lifetime: job and dice outlive it; the job's shape is drawn before.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/random/job.h"
#include "tests/support/dice.h"

namespace tutti::random_calls {

class Population {
 public:
  /// Gives the job its first communicator.
  Population(Job& job, testing_support::Dice& dice, const Limits& limits);

  /// Draws the changes to communicators before a batch.
  std::vector<Change> draw_changes();
  /// One that there is now.
  uint32_t pick(bool with_windows);

 private:
  Change draw_making();
  Change draw_ids();
  Change draw_split();
  Change draw_shrink();
  Change draw_grow();
  /// One of those whose ranks are at least and at most so many; the first one if there is none.
  uint32_t pick_of_size(int least, int most);
  Change make(Origin origin, uint32_t from, std::vector<int> members);
  uint32_t add(Origin origin, std::vector<int> members);
  void shuffle(std::vector<int>& members);

  Job& job_;
  testing_support::Dice& dice_;
  const bool may_be_ordinary_;  // windows
  const bool all_registered_;   // communicators register all memory that ranks allocate
  bool several_ = false;
  std::vector<uint32_t> alive_;
};

}  // namespace tutti::random_calls
