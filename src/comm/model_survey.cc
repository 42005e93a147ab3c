#include "src/comm/model_survey.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "src/base/wait.h"
#include "src/comm/host_survey.h"
#include "src/comm/link_survey.h"
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

// A rank that has come and stops is waited for this long, as in the other waits of a making.
constexpr uint64_t kSilenceNs = 60 * kNanosecondsPerSecond;

// As CallFrame::timeout_of() takes it.
uint64_t timeout_left(const WaitLimit& wait_limit) {
  const uint64_t now_ns = monotonic_ns(),
                 deadline_ns = wait_limit.at_most(kSilenceNs).deadline_ns();
  return deadline_ns > now_ns ? deadline_ns - now_ns : 1;
}

}  // namespace

// Of a group of one host that is no group of threads: threads share all memory, and ranks of
// several hosts would have to agree over a network on what each host measures.
bool ModelSurvey::measures_host() const {
  const Membership& members = membership_;
  const bool is_one_host = members.domain_size() == members.ranks() && members.ranks() > 1 &&
                           members.ranks() <= HostSurvey::kMostRanks;
  if (!config().measures_host || !is_one_host || members.all_memory()) return false;
  if (model_.is_tuned || options_.model != nullptr) return false;
  return model_.model.crowd_of(members.ranks(), members.least_cores()) == nullptr;
}

// Before there are calls: nothing is planned by what was believed before.
Status ModelSurvey::measure_host(const exec::HostExecutor& executor, const WaitLimit& wait_limit) {
  if (!measures_host()) return {};
  const Membership& members = membership_;
  const SurveyedRanks all{.peers = members.peers(),
                          .rank = members.rank(),
                          .cores = members.least_cores(),
                          .spins = executor.state().options().spins,
                          .reads = members.single_copy(),
                          .ring_bytes = options_.membership.layout.ring_bytes,
                          .name_of = [&](int rank) { return members.name_of(rank); }};
  const WaitLimit silence = wait_limit.at_most(kSilenceNs);
  HostSurvey survey(all, silence);
  Result<select::CrowdTimes> found = survey.measure();
  if (!found.ok()) {
    return Status(found.status().code(),
                  "while ranks of this host measured it: " + std::string(found.status().message()));
  }
  constexpr size_t kMostCrowds = 8;  // a card holds few models, each of a page at most
  std::vector<select::CrowdTimes>& crowds = model_.model.crowds;
  if (crowds.size() >= kMostCrowds) crowds.erase(crowds.begin());
  crowds.push_back(std::move(found).value());
  model_.is_known = true;
  model_.origin = "what its ranks measured when it was made";
  if (survey.was_disturbed()) model_.origin += " beside other work (nothing of single copies)";
  if (members.rank() != 0 || config().cache_folder.empty() || survey.was_disturbed()) return {};
  const Status kept = ModelOffers::keep(config().cache_folder, {model_.hosts, model_.model});
  if (!kept.ok()) {
    options_.membership.env->log->warning(
        "this host is measured again next time, as what was found is not kept: {}", kept.message());
  }
  return {};
}

// The ranks have met, so nobody but who is one of them can tell what the network costs: pairs of
// them measure, and a sum in which each number has one term that is not 0 tells all of them. Then
// the calls of the user are planned by another model than that sum.
Status ModelSurvey::measure_network(const SurveyedCalls& calls, const WaitLimit& wait_limit) {
  if (!config().measures_at_start || model_.is_known || options_.model != nullptr) return {};
  const LinkSurvey survey(*membership_.group());
  if (survey.pairs().empty()) return {};
  std::vector<double> found(survey.numbers(), 0);
  Status status = survey.measure(
      membership_.rank(),
      [&](std::span<const exec::Transfer> transfers) {
        CallRecorder& labels = calls.frame.labels();
        const uint64_t ticket = labels.recorder().queue(labels.label(transfers));
        const uint64_t timeout_ns = timeout_left(wait_limit);
        return drive(calls.transfers, calls.transfers.begin(transfers, timeout_ns, ticket), calls,
                     wait_limit);
      },
      found);
  if (status.ok()) status = add_up(found, calls, wait_limit);
  if (!status.ok()) {
    return Status(status.code(), "while the network was measured (TUTTI_MEASURE=start): " +
                                     std::string(status.message()));
  }
  model_.model.levels = survey.rates(found);
  model_.is_known = true;
  model_.origin = "what was measured when it was made: " + describe(model_.model.levels);
  Logger& log = *options_.membership.env->log;
  log.info("rank {} of id {:016x}: algorithms are chosen by {}", membership_.rank(),
           options_.membership.self.communicator, model_.origin);
  if (!is_first_of_host() || config().cache_folder.empty()) return {};
  const Status kept = ModelOffers::keep(config().cache_folder, {model_.hosts, model_.model});
  if (!kept.ok()) {
    log.warning("the network is measured again next time, as what was found is not kept: {}",
                kept.message());
  }
  return {};
}

// By whatever algorithm would be chosen if nobody forced one: those that a user forces are for
// calls of the user, and may be none for this one.
Status ModelSurvey::add_up(std::span<double> numbers, const SurveyedCalls& calls,
                           const WaitLimit& wait_limit) {
  PlannerOptions planning = planner_options_of(options_, membership_, model_, calls.frame.labels());
  planning.host.forced.clear();
  Collectives collectives(membership_, calls.executor, calls.frame, calls.buffers,
                          std::move(planning));
  Request sum;
  sum.collective = schedule::Collective::kAllReduce;
  sum.type = types::DataType::kFloat64;
  sum.count = numbers.size();
  sum.send = sum.recv = numbers.data();
  Extras extras;
  CallOptions& own = extras.options.emplace();
  own.deterministic = config().deterministic;
  own.timeout_ns = timeout_left(wait_limit);
  sum.extras = &extras;
  CallRecorder& labels = calls.frame.labels();
  const uint64_t ticket = labels.recorder().queue(labels.label(sum));
  return drive(collectives, collectives.begin(sum, ticket), calls, wait_limit);
}

// Drives a work that has begun, or has not, to its end; a making may be taken back meanwhile.
template <class Work>
Status ModelSurvey::drive(Work& work, Status begun, const SurveyedCalls& calls,
                          const WaitLimit& wait_limit) {
  Backoff backoff(calls.executor.state().options().spins);
  while (begun.ok()) {
    const exec::Progress progress = work.advance();
    if (progress == exec::Progress::kDone) break;
    if (progress == exec::Progress::kMoved) {
      backoff.reset();
      continue;
    }
    const bool rare = backoff.pause();
    if (rare) wait_limit.ask_if_due();
    if (rare && calls.failure.check().ok() &&
        (wait_limit.cancelled() || wait_limit.has_lost_purpose())) {
      calls.failure.abort(wait_limit.reason(""));
    }
    calls.idle(rare);
  }
  Status status = begun.ok() ? work.outcome() : std::move(begun);
  calls.frame.conclude(status);
  return status;
}

bool ModelSurvey::is_first_of_host() const {
  const std::vector<int> first = membership_.group()->host_first_ranks();
  return std::find(first.begin(), first.end(), membership_.rank()) != first.end();
}

// Of a group of several hosts the first rank of each host does: ranks of one host cost each other
// what the library knows by itself. A model that a file gave is not measured over.
bool ModelSurvey::is_kept() const {
  const group::GroupView& group = *membership_.group();
  if (config().cache_folder.empty() || group.hosts() < 2 || model_.is_tuned ||
      options_.model != nullptr) {
    return false;
  }
  return is_first_of_host();
}

// By the flight recorder, which has timed the calls anyway. The model of the living group stays as
// it is: all its ranks would have to change it at the same call.
void ModelSurvey::keep(EnginePlans& plans, const trace::Recorder& recorder) const {
  if (!is_kept()) return;
  const Result<trace::Snapshot> recorded = trace::read(recorder.file());
  if (!recorded.ok()) return;
  using Key = std::tuple<std::string, std::string, int, uint64_t>;
  std::map<Key, std::vector<uint64_t>> times;  // collective, algorithm, root and bytes
  for (const trace::CallRecord& call : recorded.value().calls) {
    if (call.series != trace::Series::kCollective || call.state != trace::RecordState::kDone)
      continue;
    if (call.start_ns == 0 || call.end_ns <= call.start_ns) continue;
    times[{call.collective, call.algorithm, call.root, call.bytes}].push_back(call.end_ns -
                                                                              call.start_ns);
  }
  std::vector<select::Measured> all;
  for (auto& [key, durations] : times) {
    const auto& [name, algorithm, root, bytes] = key;
    const std::optional<schedule::Collective> collective = collective_of(name);
    if (!collective || durations.size() < select::kLeastCalls) continue;
    std::optional<select::Measured> measured = plans.measured_of(*collective, algorithm, root);
    if (!measured) continue;
    measured->count_bytes = static_cast<double>(bytes);
    measured->calls = static_cast<uint32_t>(durations.size());
    measured->median_ns = median_of(durations);
    all.push_back(*measured);
  }
  const std::optional<select::Model> better = plans.refit(all);
  if (!better) return;
  const Env& env = *options_.membership.env;
  const Status kept = ModelOffers::keep(config().cache_folder, {model_.hosts, *better});
  if (!kept.ok()) env.log->info("the measured model is not kept: {}", kept.message());
}

}  // namespace tutti::comm
