#include "tools/cli/verify_sweep.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <functional>
#include <mutex>
#include <thread>

#include "tools/verifier/trees.h"

namespace tutti::cli {
namespace {

using namespace schedule;

constexpr int kHazardRanks = 64;         // beyond, lanes are the same pattern again
constexpr int kTreeRanks = 32;           // up to so many are looked at on a tree of nodes
constexpr int kMostLevels = 5;           // of that tree
constexpr int kLogarithmicRanks = 4000;  // from here on only where a rank has O(log ranks) steps
// Words and steps of all ranks together.
constexpr uint64_t kAffordableWords = 1u << 22;
constexpr uint64_t kBearableWords = 1u << 25;  // some gigabytes of memory for each thread

struct Case {
  Findings* findings = nullptr;
  Parameters parameters;
  bool sample = false;
};

std::vector<int> roots_of(const Algorithm& algorithm, int ranks) {
  if (!traits_of(algorithm.collective).rooted()) return {0};
  std::set<int> roots;
  for (int root = 0; root < ranks && ranks <= 16; ++root) roots.insert(root);
  for (int root : {0, 1, ranks / 2, ranks - 1}) roots.insert(std::min(root, ranks - 1));
  return {roots.begin(), roots.end()};
}

std::vector<uint16_t> lanes_of(const Algorithm& algorithm, bool all) {
  std::set<uint16_t> lanes = {1, std::min<uint16_t>(2, algorithm.max_lanes), algorithm.max_lanes};
  for (uint16_t lane = 1; all && lane < algorithm.max_lanes; ++lane) lanes.insert(lane);
  return {lanes.begin(), lanes.end()};
}

// None, and of an algorithm that crosses levels one of the ranks, another for every number of them.
// Schedules on uneven trees cost much to make, and larger ones are more of the same.
std::vector<NodeTreePointer> trees_of(const Algorithm& algorithm, int ranks) {
  if (algorithm.loads == nullptr || ranks == 1 || ranks > kTreeRanks) return {nullptr};
  return {nullptr, RandomTrees(static_cast<uint64_t>(ranks)).make(ranks, ranks, kMostLevels)};
}

bool folds_differ(const Algorithm& algorithm, Parameters p) {
  if (!reduces(algorithm.collective)) return false;
  p.fold = Fold::kList;
  const Schedule list = algorithm.schedule(p, 0);
  p.fold = Fold::kTree;
  return !same_program(list, algorithm.schedule(p, 0));
}

bool has_few_steps(const Schedule& schedule, const Parameters& p) {
  uint64_t steps = schedule.steps.size();
  for (const Step& step : schedule.steps) steps += step.operand_count;
  return steps <= 8u * p.lanes * std::bit_width(static_cast<unsigned>(p.ranks));
}

uint64_t words_of(const Schedule& of_a_rank, int ranks) {
  return (of_a_rank.words.size() + of_a_rank.steps.size()) * static_cast<uint64_t>(ranks);
}

std::vector<Placement> placements_of(const Algorithm& algorithm) {
  if (!algorithm.in_place) return {Placement::kSeparate};
  return {Placement::kSeparate, Placement::kInPlace};
}

bool bearable(const Case& c) {
  const Parameters& p = c.parameters;
  return words_of(c.findings->algorithm->schedule(p, 0), p.ranks) <= kBearableWords;
}

// Of a large number of ranks one lane with tree folds stands for the others. Of a very large one
// only what has few steps is looked at, and where these name many blocks, one root in place.
bool affordable(const Case& c, Placement placement) {
  const Algorithm& algorithm = *c.findings->algorithm;
  const Parameters& p = c.parameters;
  const Schedule first = algorithm.schedule(p, 0);
  if (words_of(first, p.ranks) <= kAffordableWords) {
    return p.ranks < kLogarithmicRanks || has_few_steps(first, p);
  }
  if (p.lanes > 1 || p.fold != Fold::kTree) return false;
  if (p.ranks < kLogarithmicRanks) return true;
  const bool hardest = placement == Placement::kInPlace || !algorithm.in_place;
  return hardest && p.root == 0 && has_few_steps(first, p);
}

class Sweep {
 public:
  explicit Sweep(const SweepOptions& options) : options_(options) {}

  std::vector<Findings> run(std::span<const Algorithm* const> algorithms) {
    std::vector<Findings> findings(algorithms.size());
    for (size_t i = 0; i < algorithms.size(); ++i) {
      findings[i].algorithm = algorithms[i];
      add_cases(findings[i]);
    }
    // The large ones first, so that no thread is left alone with one at the end.
    std::ranges::stable_sort(cases_, std::greater(),
                             [](const Case& c) { return c.parameters.ranks * c.parameters.lanes; });
    std::vector<std::thread> threads;
    for (unsigned i = 1; i < options_.threads; ++i) threads.emplace_back([this] { work(); });
    work();
    for (std::thread& thread : threads) thread.join();
    return findings;
  }

 private:
  void add_cases(Findings& findings) {
    for (int ranks : options_.ranks) add_cases(findings, ranks, false);
    for (int ranks : options_.samples) add_cases(findings, ranks, true);
  }

  void add_cases(Findings& findings, int ranks, bool sample) {
    const Algorithm& algorithm = *findings.algorithm;
    for (const Parameters& p : parameters_of(algorithm, ranks, options_.deep && !sample)) {
      cases_.push_back({&findings, p, sample});
    }
  }

  void work() {
    while (true) {
      const size_t next = next_++;
      if (next >= cases_.size()) return;
      const Case& c = cases_[next];
      const Algorithm& algorithm = *c.findings->algorithm;
      std::vector<Placement> placements = placements_of(algorithm);
      const size_t skipped = std::erase_if(placements, [&](Placement placement) {
        return c.sample && !(options_.deep ? bearable(c) : affordable(c, placement));
      });
      std::vector<Result<Verdict>> verdicts;
      if (!placements.empty()) verdicts = verify_case(c, placements);
      const std::lock_guard lock(mutex_);
      c.findings->skipped += skipped;
      for (size_t i = 0; i < placements.size(); ++i) record(c, placements[i], verdicts[i]);
    }
  }

  static std::vector<Result<Verdict>> verify_case(const Case& c,
                                                  std::span<const Placement> placements) {
    const Algorithm& algorithm = *c.findings->algorithm;
    const ScheduleSet set = generate(algorithm, c.parameters);
    const Cost declared = algorithm.cost(c.parameters);
    VerifyOptions options;
    options.declared = &declared;
    LevelLoads loads;
    if (c.parameters.tree != nullptr) {
      loads = algorithm.loads(c.parameters);
      options.tree = c.parameters.tree.get();
      options.declared_loads = &loads;
    }
    options.hazards = c.parameters.ranks <= kHazardRanks;
    return verify(set.shape, set.schedules, placements, options);
  }

  static void record(const Case& c, Placement placement, const Result<Verdict>& result) {
    Findings& f = *c.findings;
    const int ranks = c.parameters.ranks;
    const auto least = [ranks](int& known) { known = known == 0 ? ranks : std::min(known, ranks); };
    // The verifier has its own limit of work, which is no fault of a schedule.
    if (c.sample && result.status().code() == Code::kUnsupported) {
      ++f.skipped;
      return;
    }
    ++f.cases;
    if (!result.ok()) return refuse(c, placement, result.status().message());
    const Verdict& verdict = result.value();
    if (!verdict.canonical && c.parameters.fold == Fold::kTree) {
      if (c.parameters.tree == nullptr) least(f.first_not_canonical);
      if (f.algorithm->canonical(c.parameters)) {
        refuse(c, placement, "it is declared to be canonical, and is not");
      }
    }
    f.ranks[static_cast<int>(placement)].insert(ranks);
    f.least_credit = std::max(f.least_credit, verdict.least_credit);
    f.agrees &= verdict.agrees;
    f.forwards |= verdict.forwards;
    f.needs_equal_counts |= verdict.needs_equal_counts;
  }

  static void refuse(const Case& c, Placement placement, std::string_view reason) {
    Findings& f = *c.findings;
    const int ranks = c.parameters.ranks;
    if (f.failed_ranks != 0 && f.failed_ranks <= ranks) return;
    f.failed_ranks = ranks;
    f.failure = describe(*f.algorithm, c.parameters) +
                (placement == Placement::kInPlace ? ", in place" : "") + ":\n  " +
                std::string(reason);
  }

  const SweepOptions& options_;
  std::vector<Case> cases_;
  std::atomic<size_t> next_ = 0;
  std::mutex mutex_;  // guards the findings
};

}  // namespace

std::vector<Findings> sweep(std::span<const Algorithm* const> algorithms,
                            const SweepOptions& options) {
  return Sweep(options).run(algorithms);
}

ScheduleSet generate(const Algorithm& algorithm, const Parameters& parameters) {
  ScheduleSet set;
  set.shape = algorithm.shape(parameters);
  for (int rank = 0; rank < parameters.ranks; ++rank) {
    set.schedules.push_back(algorithm.schedule(parameters, rank));
  }
  return set;
}

std::string describe(const Algorithm& algorithm, const Parameters& parameters) {
  std::string text = std::string(name_of(algorithm.collective)) + '/' +
                     std::string(algorithm.name) + ", " + std::to_string(parameters.ranks) +
                     " ranks";
  if (traits_of(algorithm.collective).rooted()) {
    text += ", root " + std::to_string(parameters.root);
  }
  text += ", " + std::to_string(parameters.lanes) + " lanes";
  if (parameters.fold == Fold::kTree) text += ", tree folds";
  if (parameters.tree != nullptr) text += ", " + print(*parameters.tree);
  return text;
}

std::vector<Parameters> parameters_of(const Algorithm& algorithm, int ranks, bool all_lanes) {
  std::vector<Parameters> all;
  for (const NodeTreePointer& tree : trees_of(algorithm, ranks)) {
    for (uint16_t lanes : lanes_of(algorithm, all_lanes)) {
      for (int root : roots_of(algorithm, ranks)) {
        Parameters p;
        p.ranks = ranks;
        p.root = root;
        p.lanes = lanes;
        p.fold = Fold::kTree;
        p.tree = tree;
        all.push_back(p);
        if (!folds_differ(algorithm, p)) continue;
        p.fold = Fold::kList;
        all.push_back(p);
      }
    }
  }
  return all;
}

}  // namespace tutti::cli
