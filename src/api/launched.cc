// Communicators of ranks that a launcher started.
#include <memory>
#include <string>
#include <utility>

#include "src/api/caught.h"
#include "src/api/create.h"
#include "src/api/events.h"
#include "src/api/hand_out.h"
#include "src/api/pending_init.h"
#include "src/api/submit.h"
#include "src/bootstrap/launch/meeting.h"

namespace tutti::api {
namespace {

/// For people: `tutti explain` shows it.
std::string origin_of(const bootstrap::LaunchMeeting& meeting) {
  const bootstrap::Launch& launch = meeting.launch;
  std::string text = "rank " + std::to_string(launch.rank) + " of " + std::to_string(launch.ranks) +
                     " by " + launch.how + "; met by " + meeting.way;
  if (meeting.insecure) text += kWithoutKey;
  return text;
}

/// The call as its thread saw it; a worker may make the communicator.
struct LaunchedCall {
  Process* process;
  CommConfig config;
  Variables variables;
  std::shared_ptr<Turns::PlaceInLine> place;
};

Result<bootstrap::LaunchMeeting> meet(const LaunchedCall& call, const WaitLimit& wait_limit) {
  const Config& environment = *call.process->env().config;
  const std::string earlier =
      "a launched communicator that was begun before this one is not made yet";
  wait_limit.waits_for(earlier);
  if (!call.place->await(wait_limit)) return wait_limit.reason(earlier);
  const bootstrap::Launches launches{call.process->launched().load(), call.place->number()};
  return bootstrap::meet_launched(environment, call.variables, launches, wait_limit);
}

Result<std::unique_ptr<comm::Communicator>> meet_and_found(const LaunchedCall& call,
                                                           const WaitLimit& wait_limit) {
  Result<bootstrap::LaunchMeeting> met = meet(call, wait_limit);
  if (!met.ok()) return met.status();
  bootstrap::LaunchMeeting meeting = std::move(met).value();
  CreateOptions creation = create_options_of(*call.process->env().config, {meeting.id},
                                             meeting.launch.ranks, meeting.launch.rank);
  creation.origin = origin_of(meeting);
  tell_origin(*call.process, creation, meeting.insecure);
  Result<std::unique_ptr<comm::Communicator>> made =
      create_communicator(*call.process, creation, call.config, wait_limit);
  Status status = made.ok() ? meeting.confirm() : made.status();
  meeting.close(status.ok(), wait_limit);
  if (!status.ok()) return status;
  if (meeting.claim != nullptr) call.process->keep(std::move(meeting.claim));
  return made;
}

Result<std::unique_ptr<comm::Communicator>> make_launched(const LaunchedCall& call,
                                                          const WaitLimit& wait_limit) {
  Result<std::unique_ptr<comm::Communicator>> made = meet_and_found(call, wait_limit);
  if (made.ok()) ++call.process->launched();
  call.place->give_up();
  return made;
}

/// "rank 2 of 3"; empty: it is not known before ranks have met.
std::string rank_of(const Variables& variables) {
  const Result<bootstrap::Launch> launch = bootstrap::find_launch(variables);
  if (!launch.ok()) return "";
  return "rank " + std::to_string(launch.value().rank) + " of " +
         std::to_string(launch.value().ranks);
}

Result<PendingInit> plan_launched(tuttiComm_t* comm, const tuttiConfig_t* config) {
  constexpr const char* kName = "tuttiCommInitLaunched";
  if (comm == nullptr) return Status::invalid_argument(std::string(kName) + ": comm is null");
  hand_out(comm, nullptr);
  const Result<CommConfig> read = read_config(config, {}, kName);
  if (!read.ok()) return read.status();
  Variables variables = process_environment();
  const std::string who = rank_of(variables);
  const Result<Process*> process = Process::current();
  if (!process.ok()) return of_rank(who, process.status());
  Process* at = process.value();
  Initializer initializer =
      [call = LaunchedCall{at, read.value(), std::move(variables), at->launches().take()}](
          const WaitLimit& wait_limit) { return make_launched(call, wait_limit); };
  Result<PendingInit> pending =
      plan_init(comm, read.value(), told(kName, read.value(), std::move(initializer)));
  if (pending.ok()) pending.value().who = who;
  return pending;
}

}  // namespace
}  // namespace tutti::api

extern "C" tuttiResult_t tuttiCommInitLaunched(tuttiComm_t* comm, const tuttiConfig_t* config) {
  return tutti::api::caught(nullptr, [&]() -> tuttiResult_t {
    const tutti::api::ThreadInCall inside;
    tutti::Result<tutti::api::PendingInit> pending = tutti::api::plan_launched(comm, config);
    return pending.ok() ? tutti::api::make_communicator(std::move(pending).value())
                        : tutti::api::refuse(nullptr, pending.status());
  });
}
