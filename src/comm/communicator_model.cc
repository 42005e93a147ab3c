// A communicator leaves to later ones of the same hosts how long its calls have taken.
#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "src/comm/communicator.h"
#include "src/trace/reader.h"

namespace tutti::comm {
namespace {

std::optional<schedule::Collective> collective_of(std::string_view name) {
  for (int i = 0; i < schedule::kCollectives; ++i) {
    const auto collective = static_cast<schedule::Collective>(i);
    if (schedule::name_of(collective) == name) return collective;
  }
  return std::nullopt;
}

double median_of(std::vector<uint64_t>& times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return static_cast<double>(*middle);
}

}  // namespace

// Of a group of several hosts the first rank of each host does: ranks of one host cost each other
// what the library knows by itself. A model that a file gave is not measured over.
bool Communicator::keeps_model() const {
  const group::GroupView& group = *membership_->group();
  if (config().cache_folder.empty() || !complete_ || collectives_ == nullptr || group.hosts() < 2 ||
      membership_->model().is_tuned || options_.model != nullptr) {
    return false;
  }
  const std::vector<int> first = group.host_first_ranks();
  return std::find(first.begin(), first.end(), rank()) != first.end();
}

// By the flight recorder, which has timed the calls anyway. The model of the living group stays as
// it is: all its ranks would have to change it at the same call.
void Communicator::keep_model() {
  if (!keeps_model()) return;
  const Result<trace::Snapshot> recorded = trace::read(calls_->recorder().file());
  if (!recorded.ok()) return;
  using Key = std::tuple<std::string, std::string, int, uint64_t>;
  std::map<Key, std::vector<uint64_t>> times;  // collective, algorithm, root and bytes
  for (const trace::CallRecord& call : recorded.value().calls) {
    if (call.series != trace::Series::kCollective || call.state != trace::State::kDone) continue;
    if (call.start_ns == 0 || call.end_ns <= call.start_ns) continue;
    times[{call.collective, call.algorithm, call.root, call.bytes}].push_back(call.end_ns -
                                                                              call.start_ns);
  }
  std::vector<select::Measured> all;
  for (auto& [key, durations] : times) {
    const auto& [name, algorithm, root, bytes] = key;
    const std::optional<schedule::Collective> collective = collective_of(name);
    if (!collective || durations.size() < select::kLeastCalls) continue;
    std::optional<select::Measured> measured =
        collectives_->planner().measured_of(*collective, algorithm, root);
    if (!measured) continue;
    measured->count_bytes = static_cast<double>(bytes);
    measured->calls = static_cast<uint32_t>(durations.size());
    measured->median_ns = median_of(durations);
    all.push_back(*measured);
  }
  const std::optional<select::Model> better = collectives_->planner().refit(all);
  if (!better) return;
  const Env& env = *options_.membership.env;
  const Status kept =
      ModelOffers::keep(config().cache_folder, {membership_->model().hosts, *better});
  if (!kept.ok()) env.log->info("the measured model is not kept: {}", kept.message());
}

}  // namespace tutti::comm
