// That this process is one rank of a launched job, said to every other process of this user on this
// host: of two jobs that look the same at the same time, ranks would change places and nobody would
// notice.
//
// A claim is a file (local_file.h) with two states. While the job is in the making its rank can be
// contested: another process that claims the same rank removes the file, and both ranks are
// refused, since nothing says which of them is right. Once the communicator is made the claim is
// confirmed, and the process keeps it until it ends: another process that claims the rank then is
// refused, and the job that runs goes on. Both steps are one system call on one name, so of a
// contest and a confirmation one comes first.
//
// Owns: the file. Errors: kInvalidUsage names the rank and the process that has it, and says to set
// TUTTI_JOB; others say what is wrong with the folder. Threads: one at a time.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "src/base/status.h"
#include "src/base/wait_limit.h"
#include "src/bootstrap/launch/local_file.h"
#include "src/bootstrap/launch/starter.h"

namespace tutti::bootstrap {

/// The rank that a process says it is. Two are the same if job and rank are equal and one process
/// started both.
struct RankName {
  std::string folder;  // as LocalFile::folder
  std::string job;     // hexadecimal digits that stand for the name of the job
  Origin origin;
  int rank = 0;
};

class RankClaim {
 public:
  /// `contested` (may be null) is set where another process claims the same rank in the making:
  /// then the ranks of both jobs had better be told.
  static Result<std::unique_ptr<RankClaim>> take(const RankName& name, const WaitLimit& wait_limit,
                                                 bool* contested);

  /// Somebody has claimed the same rank since.
  bool contested() const;
  /// Nobody can contest it from now on, or somebody has.
  Status confirm();

 private:
  RankClaim(LocalFile file, std::string made) : file_(std::move(file)), made_(std::move(made)) {}

  LocalFile file_;
  std::string made_;  // the prefix of its name once it is confirmed
};

}  // namespace tutti::bootstrap
