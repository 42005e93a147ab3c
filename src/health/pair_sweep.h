// Which hosts are bad, by measuring pairs: two rounds that find them, or all pairs (NodeSweep,
// arXiv 2605.17879).
//
// In the first round neighbours are measured, all pairs at the same time. Hosts of pairs below
// `share` of what is usual, and one that had no partner, are measured again, each with a host of a
// good pair of its own, or, of an odd number, one with a good host after its turn with another. A
// host that is below the usual again is bad. Where at most a quarter of all hosts
// are bad they are all found, by at most n / 2 + 2 * bad measurements (and one for an odd host). A
// pair without a result counts as slow: evidence that is missing clears nobody.
//
// Threads: values. Units: any in which more is better. Errors: kInvalidArgument for fewer than four
// hosts, kUnsupported where there are fewer good hosts than suspects.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/base/status.h"

namespace tutti::health {

struct SweepPair {
  uint32_t one = 0;
  uint32_t other = 0;
  std::optional<double> rate{};  // nothing: it could not be measured
};

struct SweepRules {
  double share = 0.9;  // of the usual rate
};

/// The pairs of the first round: (0, 1), (2, 3) ...
std::vector<SweepPair> first_round(uint32_t hosts);
/// The pairs of the second by the results of the first; each begins with the suspect.
Result<std::vector<SweepPair>> second_round(uint32_t hosts, const std::vector<SweepPair>& first,
                                            const SweepRules& rules = {});
/// Bad hosts, ascending.
std::vector<uint32_t> bad_hosts(const std::vector<SweepPair>& first,
                                const std::vector<SweepPair>& second, const SweepRules& rules = {});

/// The findings of all pairs: hosts most of whose pairs are below the usual, and single pairs of
/// others that are.
struct AllPairsFinding {
  double usual = 0;
  std::vector<uint32_t> hosts;
  std::vector<SweepPair> pairs;
};
AllPairsFinding judge_pairs(uint32_t hosts, const std::vector<SweepPair>& pairs,
                            const SweepRules& rules = {});

}  // namespace tutti::health
