#include "src/health/pair_sweep.h"

#include <algorithm>
#include <set>
#include <string>

namespace tutti::health {
namespace {

// The larger of the two in the middle, so that half of the pairs may be slow.
double usual_rate(const std::vector<SweepPair>& pairs) {
  std::vector<double> rates;
  for (const SweepPair& pair : pairs) rates.push_back(pair.rate.value_or(0));
  if (rates.empty()) return 0;
  std::sort(rates.begin(), rates.end());
  return rates[rates.size() / 2];
}

bool is_slow(const SweepPair& pair, double usual, const SweepRules& rules) {
  return !pair.rate || !(*pair.rate >= rules.share * usual) || usual <= 0;
}

}  // namespace

std::vector<SweepPair> first_round(uint32_t hosts) {
  std::vector<SweepPair> pairs;
  for (uint32_t host = 0; host + 1 < hosts; host += 2) pairs.push_back({host, host + 1});
  return pairs;
}

Result<std::vector<SweepPair>> second_round(uint32_t hosts, const std::vector<SweepPair>& first,
                                            const SweepRules& rules) {
  constexpr uint32_t kFewest = 4;
  if (hosts < kFewest) {
    return Status::invalid_argument(std::to_string(hosts) +
                                    " hosts: a sweep by pairs takes four at the least");
  }
  const double usual = usual_rate(first);
  std::vector<uint32_t> suspects, good;
  for (const SweepPair& pair : first) {
    std::vector<uint32_t>& where = is_slow(pair, usual, rules) ? suspects : good;
    where.push_back(pair.one);
    where.push_back(pair.other);
  }
  if (hosts % 2 == 1) suspects.push_back(hosts - 1);
  if (good.size() + 1 < suspects.size()) {
    return Status::unsupported(std::to_string(suspects.size()) + " of " + std::to_string(hosts) +
                               " hosts are suspected, and there are not as many good ones to "
                               "measure them with: measure all pairs");
  }
  std::vector<SweepPair> second;
  for (size_t i = 0; i < suspects.size(); ++i)
    second.push_back({suspects[i], good[i % good.size()]});
  return second;
}

std::vector<uint32_t> bad_hosts(const std::vector<SweepPair>& first,
                                const std::vector<SweepPair>& second, const SweepRules& rules) {
  const double usual = usual_rate(first);
  std::vector<uint32_t> bad;
  for (const SweepPair& pair : second) {
    if (is_slow(pair, usual, rules)) bad.push_back(pair.one);
  }
  std::sort(bad.begin(), bad.end());
  return bad;
}

AllPairsFinding judge_pairs(uint32_t hosts, const std::vector<SweepPair>& pairs,
                            const SweepRules& rules) {
  AllPairsFinding finding;
  finding.usual = usual_rate(pairs);
  std::vector<uint32_t> slow(hosts, 0), all(hosts, 0);
  for (const SweepPair& pair : pairs) {
    for (const uint32_t host : {pair.one, pair.other}) {
      ++all[host];
      slow[host] += is_slow(pair, finding.usual, rules) ? 1 : 0;
    }
  }
  std::set<uint32_t> bad;
  for (uint32_t host = 0; host < hosts; ++host) {
    if (2 * slow[host] > all[host]) bad.insert(host);
  }
  for (const SweepPair& pair : pairs) {
    if (bad.contains(pair.one) || bad.contains(pair.other)) continue;
    if (is_slow(pair, finding.usual, rules)) finding.pairs.push_back(pair);
  }
  finding.hosts.assign(bad.begin(), bad.end());
  return finding;
}

}  // namespace tutti::health
