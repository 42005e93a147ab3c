// Meeting by a file, where all ranks are on one host.
#include <algorithm>
#include <utility>

#include "src/base/clock.h"
#include "src/base/words.h"
#include "src/bootstrap/group.h"
#include "src/bootstrap/launch/local_file.h"
#include "src/bootstrap/launch/meeting.h"
#include "src/bootstrap/launch/starter.h"
#include "src/bootstrap/rendezvous.h"

namespace tutti::bootstrap {
namespace {

/// The text that rank 0 posts.
struct Notice {
  UniqueId id;
  uint64_t made = 0;  // as in Start
  Origin origin;
};

struct PostedFile final : Support {
  explicit PostedFile(LocalFile posted) : file(std::move(posted)) {}
  LocalFile file;
};

std::string encode(const Notice& notice) {
  const UniqueIdBytes id = notice.id.encode();
  return std::string(reinterpret_cast<const char*>(id.data()), id.size()) + "\n" +
         std::to_string(notice.made) + "\n" + (notice.origin ? notice.origin->encode() : "");
}

Result<Notice> decode(std::string_view bytes) {
  const size_t id_bytes = std::min(bytes.size(), kUniqueIdBytes);
  Result<UniqueId> id =
      UniqueId::decode({reinterpret_cast<const uint8_t*>(bytes.data()), id_bytes});
  if (!id.ok()) return id.status();
  const std::vector<std::string_view> lines = split(bytes.substr(id_bytes), '\n');
  const auto made = lines.size() == 3 ? parse_integer<uint64_t>(lines[1]) : std::nullopt;
  const Origin origin = made ? Starter::decode(lines[2]) : std::nullopt;
  if (!made || (!origin && !lines[2].empty())) {
    return Status::invalid_argument("what rank 0 has posted was not made by this version of Tutti");
  }
  return Notice{std::move(id).value(), *made, origin};
}

/// All that a rank reads of its job and of those that look the same.
struct ObservedFiles {
  std::vector<Notice> own, others;
  bool leftovers = false;
};

Result<ObservedFiles> look(const std::string& folder, const std::string& prefix,
                           const Origin& origin) {
  const Result<LocalFile::Found> found = LocalFile::find(folder, prefix);
  if (!found.ok()) return found.status();
  ObservedFiles observed;
  observed.leftovers = found.value().leftovers;
  for (const LocalFile::FoundFile& file : found.value().posted) {
    Result<Notice> notice = decode(file.bytes);
    if (!notice.ok()) return notice.status();
    auto& where = of_one_job(origin, notice.value().origin) ? observed.own : observed.others;
    where.push_back(std::move(notice).value());
  }
  return observed;
}

/// Another process claims this rank: the ranks that wait with a rank 0 of that name are told.
Status refuse_twins(const LaunchMeeting& meeting, const std::string& folder,
                    const std::string& prefix, const Origin& origin) {
  const Result<ObservedFiles> observed = look(folder, prefix, origin);
  if (!observed.ok()) return observed.status();
  for (const Notice& notice : observed.value().own) {
    JoinOptions join{notice.id, meeting.launch.rank, meeting.launch.ranks, {0}};
    join.twin = true;
    if (meeting.server == nullptr || notice.id.job != meeting.id.job) decline(join);
  }
  return two_jobs();
}

/// One that claims rank 0 at the same time either sees what is posted here, or is seen.
Status post(const Start& start, LaunchMeeting& meeting, const std::string& folder,
            const std::string& prefix) {
  const Result<Origin> origin = find_origin(start, meeting.launch);
  if (!origin.ok()) return origin.status();
  if (Status status = open_meeting(start, meeting); !status.ok()) return status;
  const std::string bytes = encode({meeting.id, start.made, origin.value()});
  Result<LocalFile> file = LocalFile::post(folder, prefix, bytes);
  if (!file.ok()) return file.status();
  meeting.support = std::make_unique<PostedFile>(std::move(file).value());
  if (!meeting.contested()) return {};
  meeting.fail(two_jobs());
  return refuse_twins(meeting, folder, prefix, origin.value());
}

/// Why what lies there is not what this rank waits for.
std::string remark_on(const ObservedFiles& observed, const Origin& origin, uint64_t made) {
  if (!observed.own.empty()) {
    return " (it is at its launched communicator number " +
           std::to_string(observed.own.front().made + 1) + ", this rank at number " +
           std::to_string(made + 1) + ")";
  }
  if (!observed.others.empty() && origin && observed.others.front().origin) {
    return " (a rank 0 that " + observed.others.front().origin->text() +
           " started waits for a job that looks the same, but " + origin->text() +
           " started this rank: if they are of one job, set TUTTI_JOB to one name on all its "
           "ranks)";
  }
  return observed.leftovers ? " (what lies there is left over from a process that ended)" : "";
}

/// A making that failed here has succeeded at rank 0, which does not come back to it.
Status at_different_makings(const Notice& notice, const LaunchMeeting& meeting, uint64_t made) {
  decline(JoinOptions{notice.id, meeting.launch.rank, meeting.launch.ranks, {0}});
  return Status::invalid_usage(
      "the ranks are at different makings: rank 0 makes its launched communicator number " +
      std::to_string(notice.made + 1) + ", this rank number " + std::to_string(made + 1) +
      "; one failed here that did not fail there, so the job must be started again");
}

Status await(const Start& start, LaunchMeeting& meeting, const std::string& folder,
             const std::string& prefix) {
  constexpr uint64_t kFirstPauseNs = 1'000'000, kLongestPauseNs = 20'000'000;
  for (uint64_t pause_ns = kFirstPauseNs;; pause_ns = std::min(2 * pause_ns, kLongestPauseNs)) {
    const Result<Origin> origin = find_origin(start, meeting.launch);  // its starter may end
    if (!origin.ok()) return origin.status();
    const Result<ObservedFiles> looked = look(folder, prefix, origin.value());
    if (!looked.ok()) return looked.status();
    const ObservedFiles& observed = looked.value();
    if (meeting.contested()) return refuse_twins(meeting, folder, prefix, origin.value());
    if (observed.own.size() > 1) return two_jobs();
    if (!observed.own.empty() && observed.own.front().made == start.made) {
      meeting.id = observed.own.front().id;
      return {};
    }
    if (!observed.own.empty() && observed.own.front().made > start.made) {
      return at_different_makings(observed.own.front(), meeting, start.made);
    }
    const std::string remark = remark_on(observed, origin.value(), start.made);
    const std::string place = "'" + folder + "/" + prefix + "'";
    start.wait_limit.waits_for("rank 0 has not posted " + place + remark);
    if (start.wait_limit.over()) {
      LocalFile::leave(folder);
      return start.wait_limit.reason("rank 0 did not post " + place + remark +
                                     ": does it run on this host, as this user?");
    }
    start.wait_limit.pause(pause_ns);
  }
}

Status claim_rank(const Start& start, LaunchMeeting& meeting, const std::string& folder,
                  const std::string& job, const std::string& prefix) {
  const Result<Origin> origin = find_origin(start, meeting.launch);
  if (!origin.ok()) return origin.status();
  bool twins = false;
  Status status = meeting.claim_rank(start, {folder, job, origin.value()}, &twins);
  return twins ? refuse_twins(meeting, folder, prefix, origin.value()) : status;
}

}  // namespace

Result<LaunchMeeting> meet_by_file(const Start& start) {
  if (!start.launch.ok()) return Status::unsupported("no launcher said which rank this is");
  LaunchMeeting meeting;
  meeting.launch = start.launch.value();
  if (!meeting.launch.one_host) {
    return Status::unsupported("the launcher does not say that all ranks are on one host");
  }
  const std::string folder = LocalFile::folder(start.variables);
  const std::string job = digits_of(job_name(start, meeting.launch));
  const std::string prefix = "job-" + job + "-";
  Status status = meeting.launch.ranks == 1 ? open_meeting(start, meeting)
                                            : claim_rank(start, meeting, folder, job, prefix);
  if (status.ok() && meeting.launch.ranks > 1) {
    status = meeting.launch.rank == 0 ? post(start, meeting, folder, prefix)
                                      : await(start, meeting, folder, prefix);
  }
  if (!status.ok()) {
    return Status(status.code(), "rank " + std::to_string(meeting.launch.rank) + " of " +
                                     meeting.launch.how + ": " + std::string(status.message()));
  }
  return meeting;
}

}  // namespace tutti::bootstrap
