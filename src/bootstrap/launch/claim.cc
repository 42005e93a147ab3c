#include "src/bootstrap/launch/claim.h"

#include <unistd.h>

#include <string_view>
#include <utility>
#include <vector>

#include "src/base/clock.h"
#include "src/base/words.h"
#include "src/bootstrap/group.h"

namespace tutti::bootstrap {
namespace {

constexpr std::string_view kClaims = "claim-", kInTheMaking = "claim-making-",
                           kConfirmed = "claim-made-";

std::string prefix_of(std::string_view state, const RankName& name) {
  return std::string(state) + name.job + "-" + std::to_string(name.rank) + "-";
}

std::string encode(const Origin& origin) {
  return std::to_string(getpid()) + "\n" + (origin ? origin->encode() : "");
}

/// The number of the process that has posted this, where it claims the rank of this job.
std::optional<std::string> same_rank(std::string_view bytes, const Origin& origin) {
  const std::vector<std::string_view> lines = split(bytes, '\n');
  if (lines.size() != 2) return {};
  const Origin other = Starter::decode(lines[1]);
  if (!of_one_job(origin, other)) return {};
  return std::string(lines[0]);
}

/// Whether there were others, each of which was contested now or has just been confirmed.
Result<bool> contest_others(const RankName& name, const std::string& own) {
  const Result<LocalFile::Found> found =
      LocalFile::find(name.folder, prefix_of(kInTheMaking, name));
  if (!found.ok()) return found.status();
  bool contested = false;
  for (const LocalFile::FoundFile& other : found.value().posted) {
    if (other.name == own || !same_rank(other.bytes, name.origin)) continue;
    const Result<bool> removed = LocalFile::remove(name.folder, other.name);
    if (!removed.ok()) return removed.status();
    contested = contested || removed.value();
  }
  return contested;
}

/// The process that has confirmed a claim of this rank; none: nobody has.
Result<std::optional<std::string>> holder_of(const RankName& name) {
  const Result<LocalFile::Found> found = LocalFile::find(name.folder, prefix_of(kConfirmed, name));
  if (!found.ok()) return found.status();
  for (const LocalFile::FoundFile& other : found.value().posted) {
    if (auto process = same_rank(other.bytes, name.origin)) return process;
  }
  return std::optional<std::string>();
}

/// A process of the job before this one may be about to end.
Status await_no_holder(const RankName& name, const WaitLimit& wait_limit) {
  constexpr uint64_t kLeavingNs = 2 * kNanosecondsPerSecond, kPauseNs = 20'000'000;
  const WaitLimit shorter = wait_limit.at_most(kLeavingNs);
  for (;;) {
    const auto holder = holder_of(name);
    if (!holder.ok()) return holder.status();
    if (!holder.value()) return {};
    if (shorter.over()) {
      return Status::invalid_usage(
          "process " + *holder.value() + " is rank " + std::to_string(name.rank) +
          " of a job that runs and looks the same as this one; set TUTTI_JOB to one name on all "
          "ranks of a job and to another one for every other job, or wait until that one has ended "
          "(if both were started at the same time, ranks of this one may be in that one: then end "
          "it, too)");
    }
    shorter.pause(kPauseNs);
  }
}

}  // namespace

Result<std::unique_ptr<RankClaim>> RankClaim::take(const RankName& name,
                                                   const WaitLimit& wait_limit, bool* contested) {
  LocalFile::sweep(name.folder, std::string(kClaims));
  Result<LocalFile> file =
      LocalFile::post(name.folder, prefix_of(kInTheMaking, name), encode(name.origin));
  if (!file.ok()) return file.status();
  // Those in the making first: one that is confirmed in between is found by the second look.
  const Result<bool> others = contest_others(name, file.value().name());
  if (!others.ok()) return others.status();
  if (others.value()) {
    if (contested != nullptr) *contested = true;
    return two_jobs();
  }
  if (Status status = await_no_holder(name, wait_limit); !status.ok()) return status;
  return std::unique_ptr<RankClaim>(
      new RankClaim(std::move(file).value(), prefix_of(kConfirmed, name)));
}

bool RankClaim::contested() const { return !file_.posted(); }

Status RankClaim::confirm() {
  const Result<bool> renamed = file_.rename(made_);
  if (!renamed.ok()) return renamed.status();
  return renamed.value() ? Status() : two_jobs();
}

}  // namespace tutti::bootstrap
