#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"
#include "tutti/runtime/nano.h"

namespace tutti::runtime {
namespace {

class CutSearch {
 public:
  CutSearch(const NanoSpec& spec, const NanoSearch& search)
      : search_(search), step_(search.step == 0 ? spec.grain : search.step), best_{spec, {}, 0} {
    // All ranks do the same at the same time.
    best_.spec.ranks = 1;
    for (NanoOperation& operation : best_.spec.operations) operation.cuts.clear();
    best_.makespan = time_of(best_.spec);
  }

  FoundCuts run() {
    const auto operations = static_cast<int64_t>(best_.spec.operations.size());
    int64_t ways = 1;
    for (int64_t o = 0; o < operations && ways <= search_.trials; ++o) ways *= search_.most_parts;
    best_.exhaustive = ways <= search_.trials - best_.trials;
    best_.exhaustive ? try_all(best_.spec, 0) : improve_parts();
    while (move_cuts()) {
    }
    return std::move(best_);
  }

 private:
  Nanoseconds time_of(const NanoSpec& spec) {
    ++best_.trials;
    const Timeline timeline = nano_batches(spec);
    return summarize(timeline, simulate(timeline)).makespan;
  }

  bool may_try() const { return best_.trials < search_.trials; }

  bool take_if_better(const NanoSpec& spec) {
    const Nanoseconds time = time_of(spec);
    if (time >= best_.makespan) return false;
    best_.spec = spec;
    best_.makespan = time;
    return true;
  }

  /// Equal parts as far as the grain allows; false if there are not so many.
  static bool cut(NanoSpec& spec, size_t operation, int parts) {
    std::vector<int64_t>& cuts = spec.operations[operation].cuts;
    cuts.clear();
    for (int part = 1; part < parts; ++part) {
      const auto even = static_cast<int64_t>(static_cast<__int128>(spec.tokens) * part / parts);
      const int64_t place = (even + spec.grain / 2) / spec.grain * spec.grain;
      if (place <= (cuts.empty() ? 0 : cuts.back()) || place >= spec.tokens) return false;
      cuts.push_back(place);
    }
    return true;
  }

  void try_all(NanoSpec spec, size_t operation) {
    if (operation == spec.operations.size()) return (void)take_if_better(spec);
    for (int parts = 1; parts <= search_.most_parts; ++parts) {
      if (cut(spec, operation, parts)) try_all(spec, operation + 1);
    }
  }

  /// Begins with two parts of each, as the paper does.
  void improve_parts() {
    NanoSpec halves = best_.spec;
    for (size_t o = 0; o < halves.operations.size(); ++o) {
      if (!cut(halves, o, std::min(2, search_.most_parts))) halves.operations[o].cuts.clear();
    }
    take_if_better(halves);
    for (bool improved = true; improved;) {
      improved = false;
      for (size_t o = 0; o < best_.spec.operations.size(); ++o) {
        for (int parts = 1; parts <= search_.most_parts && may_try(); ++parts) {
          NanoSpec other = best_.spec;
          if (cut(other, o, parts)) improved = take_if_better(other) || improved;
        }
      }
    }
  }

  /// One round over all cuts; whether one was moved.
  bool move_cuts() {
    bool moved = false;
    for (size_t o = 0; o < best_.spec.operations.size(); ++o) {
      for (size_t c = 0; c < best_.spec.operations[o].cuts.size(); ++c) {
        for (const int64_t by : {-step_, step_}) {
          while (may_try() && try_move(o, c, by)) moved = true;
        }
      }
    }
    return moved;
  }

  bool try_move(size_t operation, size_t place, int64_t by) {
    NanoSpec other = best_.spec;
    std::vector<int64_t>& cuts = other.operations[operation].cuts;
    const int64_t low = place == 0 ? 0 : cuts[place - 1];
    const int64_t high = place + 1 == cuts.size() ? other.tokens : cuts[place + 1];
    cuts[place] += by;
    return cuts[place] > low && cuts[place] < high && take_if_better(other);
  }

  const NanoSearch search_;
  const int64_t step_;
  FoundCuts best_;
};

}  // namespace

FoundCuts search_cuts(const NanoSpec& spec, const NanoSearch& search) {
  require(search.most_parts >= 1 && search.trials >= 1, search.most_parts, " parts in ",
          search.trials, " trials; give 1 or more of each");
  require(search.step >= 0 && search.step <= spec.tokens &&
              (spec.grain < 1 || search.step % spec.grain == 0),
          "cuts move by ", search.step, ", no multiple of the grain ", spec.grain);
  FoundCuts found = CutSearch(spec, search).run();
  found.spec.ranks = spec.ranks;
  return found;
}

}  // namespace tutti::runtime
