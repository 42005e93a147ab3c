#include "src/bootstrap/launch/meeting.h"

#include <sodium.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "src/base/words.h"
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

Status LaunchMeeting::claim_rank(const Start& start, RankName name, bool* twins) {
  if (start.made > 0) return {};  // the process has claimed it for its first communicator
  name.rank = launch.rank;
  Result<std::unique_ptr<RankClaim>> taken = RankClaim::take(name, start.wait_limit, twins);
  if (!taken.ok()) return taken.status();
  claim = std::move(taken).value();
  return {};
}

void LaunchMeeting::close(bool met, const WaitLimit& wait_limit) {
  support.reset();
  if (server != nullptr && met) server->finish(wait_limit);
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
                                    const Launches& launches, const WaitLimit& wait_limit) {
  const Result<Launch> launch = find_launch(variables);
  if (!launch.ok() && launch.status().code() != Code::kUnsupported) return launch.status();
  const Start start{config, variables, launch, launches.made, launches.tried, wait_limit};
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

std::string digits_of(const std::string& name) {
  std::array<uint8_t, crypto_generichash_BYTES_MIN> hash{};
  crypto_generichash(hash.data(), hash.size(), reinterpret_cast<const uint8_t*>(name.data()),
                     name.size(), nullptr, 0);
  return to_hex({reinterpret_cast<const char*>(hash.data()), hash.size()});
}

Result<Origin> find_origin(const Start& start, const Launch& launch) {
  if (launch.named || !start.config.job.empty()) return Origin();
  const Starter starter = launch.place.empty() ? Starter() : starter_of(getpid(), launch.place);
  if (starter.known()) return Origin(starter);
  return Status::invalid_usage(
      "nothing tells the ranks of this job from those of another one that looks the same: its "
      "launcher gives it no name, and which process started this rank is not known; set TUTTI_JOB, "
      "to one name on all its ranks and to another one for every other job");
}

}  // namespace tutti::bootstrap
