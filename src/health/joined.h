// One communicator's recorders side by side: the steps of analyse().
//
// Threads: values. Errors: none.
#pragma once

#include <map>
#include <vector>

#include "src/health/analysis.h"

namespace tutti::health {

/// One call as some ranks have recorded it.
struct AlignedCall {
  uint32_t number = 0;
  std::map<int, const trace::CallRecord*> by_rank;
};

/// Of one epoch, each rank once.
struct JoinedRecorders {
  uint64_t communicator = 0;
  int ranks = 0;
  std::map<int, const RankRecorder*> by_rank;
  std::vector<AlignedCall> calls;  // collectives, rising
};

JoinedRecorders join(const std::vector<const RankRecorder*>& recorders);

/// "all_reduce float sum of 1024 bytes"
std::string text_of_call(const trace::CallRecord& call);

std::vector<HealthVerdict> find_mismatches(const JoinedRecorders& joined);
std::vector<HealthVerdict> find_missing(const JoinedRecorders& joined);
std::vector<HealthVerdict> find_hangs(const JoinedRecorders& joined, const HealthRules& rules);
std::vector<HealthVerdict> find_slow(const JoinedRecorders& joined, const HealthRules& rules,
                                     CommunicatorHealth& health);

}  // namespace tutti::health
