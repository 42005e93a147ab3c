#include "src/bootstrap/launch/meeting.h"

#include <utility>

#include "src/bootstrap/interfaces.h"
#include "src/bootstrap/place.h"

namespace tutti::bootstrap {
namespace {

constexpr LaunchWay kWays[] = {
    {"TUTTI_ID", meet_by_id},        {"PMIx", meet_by_pmix},
    {"PMI2", meet_by_pmi2},          {"a file of this host", meet_by_file},
    {"MASTER_ADDR", meet_at_master},
};

}  // namespace

std::span<const LaunchWay> ways() { return kWays; }

void LaunchMeeting::close(bool met, const Patience& patience) {
  support.reset();
  if (server != nullptr && met) server->finish(patience);
  if (!met) fail(Status::remote_error("the rank that opened the rendezvous could not join"));
  server.reset();
}

void LaunchMeeting::fail(const Status& reason) {
  support.reset();
  if (server == nullptr) return;
  server->fail(reason);
  Server::release(std::move(server));
}

Result<LaunchMeeting> meet_launched(const Config& config, const Variables& variables,
                                    const Launches& launches, const Patience& patience) {
  const Result<Launch> launch = find_launch(variables);
  if (!launch.ok() && launch.status().code() != Code::kUnsupported) return launch.status();
  const Start start{config, variables, launch, launches.made, launches.tried, patience};
  std::string reasons;
  for (const LaunchWay& way : kWays) {
    Result<LaunchMeeting> meeting = way.meet(start);
    if (meeting.ok()) {
      meeting.value().way = way.name;
      return meeting;
    }
    if (meeting.status().code() != Code::kUnsupported) return meeting;
    reasons += "; " + std::string(way.name) + ": " + std::string(meeting.status().message());
  }
  if (!launch.ok()) return Status::invalid_usage(std::string(launch.status().message()));
  return Status::invalid_usage("the ranks of " + launch.value().how + " have no way to meet" +
                               reasons);
}

Status open_meeting(const Start& start, LaunchMeeting& meeting) {
  std::vector<Address> addresses = {Address::parse("127.0.0.1").value()};
  if (!meeting.launch.one_host) {
    const auto own = announced_interfaces(
        start.config, [&] { return named_places(start.config, start.variables); });
    if (!own.ok()) return own.status();
    addresses = addresses_of(own.value());
  }
  Result<std::unique_ptr<Server>> server = open_server(std::move(addresses), start.config);
  if (!server.ok()) return server.status();
  meeting.server = std::move(server).value();
  meeting.id = meeting.server->id();
  return {};
}

std::string job_name(const Start& start, const Launch& launch) {
  return launch.job + (start.config.job.empty() ? "" : ":" + start.config.job);
}

}  // namespace tutti::bootstrap
