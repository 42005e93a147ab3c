// How many contributions does each value hold? The schedules of all ranks run on plain numbers: an
// input block is 1, a fold is a sum.
#include <vector>

#include "src/plan/bind.h"
#include "src/plan/schedule_run.h"

namespace tutti::plan {

namespace {

class TermCounter {
 public:
  using Number = uint32_t;

  explicit TermCounter(Match& match) : match_(match) {
    const size_t steps = match_.schedule.steps.size();
    match_.target_terms.clear();
    match_.target_terms_begin.assign(steps, 0);
    match_.source_terms_begin.assign(steps, 0);
    match_.source_terms.clear();
  }

  static Number input(size_t /*rank*/, uint32_t /*block*/) { return 1; }
  void send(size_t /*rank*/, uint32_t /*index*/, const std::vector<Number>& /*numbers*/) {}
  static Number received(size_t /*source*/, size_t /*target*/, Number number) { return number; }
  void move(size_t rank, uint32_t index, const std::vector<std::vector<Number>>& sources,
            const std::vector<Number>& targets) {
    if (static_cast<int>(rank) != match_.schedule.rank) return;
    match_.source_terms_begin[index] = static_cast<uint32_t>(match_.source_terms.size());
    match_.target_terms_begin[index] = static_cast<uint32_t>(match_.target_terms.size());
    for (size_t i = 0; i < targets.size(); ++i) {
      for (const std::vector<Number>& terms : sources) match_.source_terms.push_back(terms[i]);
      match_.target_terms.push_back(targets[i]);
    }
  }

 private:
  Match& match_;
};

}  // namespace

Status count_terms(Match& match, const schedule::Algorithm& algorithm,
                   const schedule::Parameters& parameters) {
  std::vector<schedule::Schedule> schedules;
  for (int rank = 0; rank < parameters.ranks; ++rank) {
    schedules.push_back(algorithm.schedule(parameters, rank));
  }
  TermCounter counter(match);
  const Status status = ScheduleRun(match.shape, schedules, counter).run();
  match.terms_are_counted = status.ok();
  return status;
}

}  // namespace tutti::plan
