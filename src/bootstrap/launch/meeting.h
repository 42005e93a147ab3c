// How the ranks of a launched job come to one unique id without a program that hands it on.
//
// The ways are tried in a fixed order: TUTTI_ID; the launcher's own exchange (PMIx, PMI2); a file
// that only this user can read, when all ranks are on one host; MASTER_ADDR with a key. All ranks
// see the same environment in what decides, so they take the same way.
//
// Owns: a LaunchMeeting keeps the meeting place open, on rank 0, until it is closed. Errors:
// kInvalidUsage says what to set; kTimeout; kUnsupported from a LaunchWay means that it does not
// apply here. Threads: one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/config.h"
#include "src/base/status.h"
#include "src/base/wait_limit.h"
#include "src/bootstrap/launch/claim.h"
#include "src/bootstrap/launch/launcher.h"
#include "src/bootstrap/launch/starter.h"
#include "src/bootstrap/server.h"
#include "src/bootstrap/unique_id.h"

namespace tutti::bootstrap {

/// All that a way has to work with.
struct Start {
  const Config& config;
  const Variables& variables;
  const Result<Launch>& launch;
  /// How many launched communicators this process has made: equal on all ranks, unless a making
  /// failed on some of them only.
  uint64_t made = 0;
  uint64_t tried = 0;  // and how many it has begun to make
  WaitLimit wait_limit{0};
};

/// Something that must live until all ranks have met: a posted file, the launcher's library.
class Support {
 public:
  virtual ~Support() = default;
};

struct LaunchMeeting {
  Launch launch;
  UniqueId id;
  std::string way;                 // for people: "a file of this host"
  bool insecure = false;           // no secret was shared: the key can be computed by anybody
  std::unique_ptr<Server> server;  // rank 0
  std::unique_ptr<Support> support;
  std::unique_ptr<RankClaim> claim;  // null: its way needs none, or the process has one already

  /// Before the ranks meet. `name` lacks the rank; `twins` as in RankClaim::take.
  Status claim_rank(const Start& start, RankName name, bool* twins);
  bool contested() const { return claim != nullptr && claim->contested(); }
  /// The communicator is made. An error: another process has claimed the same rank meanwhile. The
  /// process keeps the claim from now on.
  Status confirm() { return claim == nullptr ? Status() : claim->confirm(); }

  /// All ranks have met: waits until each has its answer. Or not: as fail() does.
  void close(bool met, const WaitLimit& wait_limit);
  /// The server stays for a while, to tell all ranks why, late ones too.
  void fail(const Status& reason);
};

struct LaunchWay {
  std::string_view name;
  Result<LaunchMeeting> (*meet)(const Start& start);
};
std::span<const LaunchWay> ways();

/// A process remembers this of its launched communicators; as in Start.
struct Launches {
  uint64_t made = 0;
  uint64_t tried = 0;
};

/// By the first way that applies. `variables` are those of the process.
Result<LaunchMeeting> meet_launched(const Config& config, const Variables& variables,
                                    const Launches& launches, const WaitLimit& wait_limit);

// The ways.
Result<LaunchMeeting> meet_by_id(const Start& start);
Result<LaunchMeeting> meet_by_pmix(const Start& start);
Result<LaunchMeeting> meet_by_pmi2(const Start& start);
Result<LaunchMeeting> meet_by_file(const Start& start);
Result<LaunchMeeting> meet_at_master(const Start& start);

// The parts of ways.

/// A new id with new secrets and its server, at the configuration's addresses, or at the loopback
/// address where all ranks are on one host.
Status open_meeting(const Start& start, LaunchMeeting& meeting);

/// Names the job among all of this user, as far as the launcher and TUTTI_JOB do.
std::string job_name(const Start& start, const Launch& launch);
/// For names of files: what launchers call their jobs may hold anything.
std::string digits_of(const std::string& name);

/// The process that started this rank, where the name of its job does not say enough.
Result<Origin> find_origin(const Start& start, const Launch& launch);

}  // namespace tutti::bootstrap
