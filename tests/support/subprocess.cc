#include "tests/support/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "generated/test_paths.h"
#include "tests/support/team.h"

extern char** environ;

namespace tutti::testing_support {
namespace {

pid_t start(std::vector<char*>& argv, int output) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  pid_t pid = -1;
  if (posix_spawn(&pid, argv[0], &actions, &attributes, argv.data(), environ) != 0) pid = -1;
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return pid;
}

// Until the child and everything it started has closed the pipe; false when time is up.
bool collect(int input, uint64_t end_ns, std::string& output) {
  std::array<char, 4096> buffer;
  for (;;) {
    const uint64_t now = now_ns();
    if (now >= end_ns) return false;
    pollfd ready{input, POLLIN, 0};
    if (poll(&ready, 1, static_cast<int>((end_ns - now) / 1'000'000 + 1)) <= 0) continue;
    const ssize_t got = read(input, buffer.data(), buffer.size());
    if (got <= 0) return true;
    output.append(buffer.data(), static_cast<size_t>(got));
  }
}

}  // namespace

Outcome run_program(const std::string& program, const std::vector<std::string>& arguments,
                    uint64_t limit_seconds) {
  Outcome outcome;
  const std::string path = std::string(TUTTI_TEST_BIN_DIR) + "/" + program;
  std::vector<std::string> words = {path};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return outcome;
  const pid_t pid = start(argv, ends[1]);
  close(ends[1]);
  if (pid < 0) {
    close(ends[0]);
    outcome.output = "cannot start " + path + "\n";
    return outcome;
  }
  outcome.timed_out = !collect(ends[0], now_ns() + limit_seconds * 1'000'000'000u, outcome.output);
  if (outcome.timed_out) kill(-pid, SIGKILL);
  close(ends[0]);
  int status = 0;
  waitpid(pid, &status, 0);
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) {
    outcome.output += "(ended by signal " + std::to_string(WTERMSIG(status)) + ")\n";
  }
  return outcome;
}

}  // namespace tutti::testing_support
