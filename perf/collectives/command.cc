#include "perf/collectives/command.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <ranges>
#include <system_error>

#include "perf/collectives/error.h"

namespace tutti::perf {

TemporaryFile::TemporaryFile() {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  if (error) throw PerfError("TMPDIR is no folder for temporary files: " + error.message());
  path_ = (folder / "tutti-perf-XXXXXX").string();
  const int file = mkstemp(path_.data());
  if (file < 0) throw PerfError("cannot create " + path_ + ": " + std::strerror(errno));
  close(file);
}

TemporaryFile::~TemporaryFile() { std::remove(path_.c_str()); }

void check_writable(const std::string& path) {
  if (path.empty()) return;
  int error = 0;
  if (access(path.c_str(), F_OK) == 0) {
    // Not opened: the other end of a pipe would see that it ends.
    if (access(path.c_str(), W_OK) != 0) error = errno;
    if (std::filesystem::is_directory(path)) error = EISDIR;
  } else if (!std::filesystem::is_symlink(path)) {
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0) {
      error = errno;
    } else {
      close(file);
      std::remove(path.c_str());
    }
  }
  if (error != 0) throw PerfError("cannot write " + path + ": " + std::strerror(error));
}

int status_of_output(int status) {
  const bool complete = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (status != kExitOk || complete) return status;
  std::fprintf(stderr, "tutti: not all of the output could be written\n");
  return kExitFailed;
}

std::string program_path() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

std::string program_folder() {
  return std::filesystem::path(program_path()).parent_path().string();
}

bool is_runnable(std::string_view program) {
  const auto may_run = [](const std::string& file) { return access(file.c_str(), X_OK) == 0; };
  if (program.find('/') != std::string_view::npos) return may_run(std::string(program));
  const char* const path = std::getenv("PATH");
  const std::string_view folders = path == nullptr ? "" : path;
  // Programs of MPI have this file too, and nothing of src/base that is not in a header.
  return std::ranges::any_of(std::views::split(folders, ':'), [&](auto folder) {
    return !folder.empty() &&
           may_run(std::string(folder.begin(), folder.end()) + "/" + std::string(program));
  });
}

void expect_children() { signal(SIGCHLD, SIG_DFL); }

int run_command(std::vector<std::string> command, const Variables& environment) {
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::fflush(nullptr);
  expect_children();
  const pid_t child = fork();
  if (child < 0) throw PerfError(std::string("fork: ") + std::strerror(errno));
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    execvp(argv[0], argv.data());
    std::fprintf(stderr, "tutti perf: cannot run %s: %s\n", argv[0], std::strerror(errno));
    _exit(127);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw PerfError(std::string("waitpid: ") + std::strerror(errno));
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace tutti::perf
