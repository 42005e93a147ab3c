// Running another program, and files that go when they are no longer needed.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti::perf {

using Variables = std::vector<std::pair<std::string, std::string>>;

/// A program that ignores SIGCHLD (by inheritance, too) never learns how its children ended: from
/// now on this one learns it. Before fork.
void expect_children();

/// Runs a command with more environment and waits for it. Returns its exit code, or 128 + its
/// signal; 127 if there is no such program, which has been said on stderr.
int run_command(std::vector<std::string> command, const Variables& environment);

/// Whether there is such a program, in PATH where the name has no folder.
bool is_runnable(std::string_view program);

/// Looks whether a file can be written; leaves things as they are. "" is no file. Errors:
/// PerfError.
void check_writable(const std::string& path);

/// The exit status of a process that is done with its output: `status`, or kExitFailed in place of
/// kExitOk where not all of it could be written; that is said on stderr.
int status_of_output(int status);

/// Where the running program lies, with symbolic links followed.
std::string program_path();
std::string program_folder();

/// A file that goes with its owner.
/// Errors: PerfError.
class TemporaryFile {
 public:
  TemporaryFile();
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace tutti::perf
