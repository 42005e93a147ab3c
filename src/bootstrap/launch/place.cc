// Launched ranks that meet at a place that every one was told.
#include "src/bootstrap/place.h"

#include <unistd.h>

#include <array>
#include <string>
#include <utility>

#include "src/bootstrap/launch/claim.h"
#include "src/bootstrap/launch/meeting.h"
#include "src/bootstrap/rendezvous.h"

namespace tutti::bootstrap {
namespace {

/// By which network the place is reached from here: "net:[4026531840]"; empty: not known.
std::string own_network() {
  std::array<char, 64> text{};
  const ssize_t length = readlink("/proc/self/ns/net", text.data(), text.size());
  return length < 0 ? "" : std::string(text.data(), static_cast<size_t>(length));
}

/// Of two jobs that meet at one place in turn, ranks would change places. Where nothing can be
/// claimed the place itself, which one process can hold, is all that tells jobs apart.
Status claim_rank(const Start& start, LaunchMeeting& meeting, const HostPort& place) {
  const Result<Origin> origin = find_origin(start, meeting.launch);
  if (!origin.ok() || meeting.launch.ranks == 1) return {};
  const std::string job = job_name(start, meeting.launch) + "@" + place.host + ":" +
                          std::to_string(place.port) + " " + own_network();
  const std::string folder = LocalFile::folder(start.variables);
  bool twins = false;
  Status status = meeting.claim_rank(start, {folder, digits_of(job), origin.value()}, &twins);
  if (twins) {  // the ranks that wait at the place are told
    JoinOptions join{meeting.id, meeting.launch.rank, meeting.launch.ranks, {0}};
    join.twin = true;
    decline(join);
  }
  return status.code() == Code::kInvalidUsage ? status : Status();
}

Result<LaunchMeeting> meet_at(const Start& start, const HostPort& place) {
  if (!start.launch.ok()) return start.launch.status();
  LaunchMeeting meeting;
  meeting.launch = start.launch.value();
  const std::string name = job_name(start, meeting.launch) + "#" + std::to_string(start.made) +
                           "@" + std::to_string(place.port);
  const std::string who =
      "rank " + std::to_string(meeting.launch.rank) + " of " + std::to_string(meeting.launch.ranks);
  Result<UniqueId> id = id_at(place, start.config, name, {who, start.wait_limit});
  if (!id.ok()) return id.status();
  meeting.id = std::move(id).value();
  meeting.insecure = meeting.id.keyless;
  if (Status status = claim_rank(start, meeting, place); !status.ok()) {
    return Status(status.code(), who + ": " + std::string(status.message()));
  }
  if (meeting.launch.rank != 0) return meeting;
  Result<std::unique_ptr<Server>> server =
      open_place(place, meeting.id, start.config, meeting.launch.one_host);
  if (!server.ok()) return server.status();
  meeting.server = std::move(server).value();
  return meeting;
}

}  // namespace

Result<LaunchMeeting> meet_by_id(const Start& start) {
  const std::string& text = start.config.id;
  if (text.empty()) return Status::unsupported("it is not set");
  if (const std::optional<HostPort> place = parse_place(text)) return meet_at(start, *place);
  if (!start.launch.ok()) return start.launch.status();
  // The process that made these bytes has the server.
  Result<UniqueId> id = UniqueId::from_text(text);
  if (!id.ok()) {
    return Status(id.status().code(), "TUTTI_ID: " + std::string(id.status().message()));
  }
  LaunchMeeting meeting;
  meeting.launch = start.launch.value();
  meeting.id = std::move(id).value();
  return meeting;
}

Result<LaunchMeeting> meet_at_master(const Start& start) {
  if (!start.launch.ok()) return Status::unsupported("no launcher said which rank this is");
  const Launch& launch = start.launch.value();
  if (launch.master_host.empty()) return Status::unsupported("it is not set");
  uint16_t port = start.config.port;
  if (port == 0 && launch.master_port != 0) port = static_cast<uint16_t>(launch.master_port + 1);
  if (port == 0) return Status::invalid_usage("MASTER_ADDR has no port to meet at: set TUTTI_PORT");
  return meet_at(start, {launch.master_host, port});
}

}  // namespace tutti::bootstrap
