#include "tools/cli/run.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "src/base/io.h"
#include "tools/cli/arguments.h"
#include "tools/cli/executable.h"

namespace tutti::cli {
namespace {

constexpr int kNotLoaded = 125;
constexpr int kNotExecutable = 126;
constexpr int kNotFound = 127;
constexpr int kPatienceMs = 10'000;  // for a loader on a busy machine, before a warning

constexpr char kUsage[] =
    "usage: tutti run [--library FILE] [--] COMMAND [ARGUMENT]...\n"
    "Starts COMMAND with Tutti's libnccl.so.2 preloaded: what it calls of NCCL runs on Tutti, on\n"
    "buffers in the memory of GPUs or of the host (docs/drop_in.md).\n"
    "\n"
    "  --library FILE  preload this file, not the libnccl.so.2 that belongs to this program\n"
    "\n"
    "The exit status is COMMAND's; a signal that ends COMMAND ends this program too, and signals\n"
    "sent to this program go to COMMAND. 125: COMMAND did not load the library, or cannot because "
    "it\n"
    "is statically linked or runs as another user. This is found out for COMMAND itself, not for\n"
    "what it starts. Libraries in LD_PRELOAD stay in front, so interposers of ncclX see the "
    "calls.\n";

struct Options {
  std::string library;
  char** command = nullptr;
};

/// 0: go on; else the exit status plus 1.
int parse(int argc, char** argv, Options& options) {
  int i = 1;
  for (; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (asks_for_help(word)) {
      std::fputs(kUsage, stdout);
      return 1;
    }
    if (word == "--library" && i + 1 < argc) {
      // The command may look for it elsewhere.
      options.library = std::filesystem::absolute(argv[++i]).lexically_normal();
    } else if (word == "--") {
      ++i;
      break;
    } else if (word.starts_with("-")) {
      std::fprintf(stderr, "tutti run: unknown option '%s'\n%s", argv[i], kUsage);
      return 3;
    } else {
      break;
    }
  }
  options.command = argv + i;
  if (i < argc) return 0;
  std::fprintf(stderr, "tutti run: no command\n%s", kUsage);
  return 3;
}

std::string folder_of_this_program() {
  std::array<char, 4096> path;
  const ssize_t size = readlink("/proc/self/exe", path.data(), path.size());
  if (size <= 0) return ".";
  const std::string_view text(path.data(), static_cast<size_t>(size));
  return std::string(text.substr(0, text.rfind('/')));
}

/// Beside this program in a build, or where `cmake --install` puts it.
std::string find_library() {
  const std::string folder = folder_of_this_program();
  for (const char* place :
       {"/../lib/nccl/libnccl.so.2", "/../" TUTTI_INSTALL_LIBDIR "/tutti/nccl/libnccl.so.2"}) {
    const std::string path = folder + place;
    char* real = realpath(path.c_str(), nullptr);
    if (real == nullptr) continue;
    std::string found(real);
    std::free(real);
    return found;
  }
  return "";
}

int complain(int status, const std::string& what) {
  std::fprintf(stderr, "tutti run: %s\n", what.c_str());
  return status;
}

/// 0 if the library can be preloaded into the command, else the exit status.
int check(const std::string& library, const char* command) {
  if (library.empty()) {
    return complain(kNotLoaded,
                    "libnccl.so.2 was not found beside this program; name it by "
                    "--library");
  }
  if (access(library.c_str(), R_OK) != 0) {
    return complain(kNotLoaded, library + ": " + std::strerror(errno));
  }
  if (library.find_first_of(" :") != std::string::npos) {
    return complain(kNotLoaded,
                    "LD_PRELOAD cannot hold a path with a space or a colon: " + library);
  }
  const std::string path = find_command(command);
  if (path.empty()) return complain(kNotFound, std::string(command) + ": not found");
  switch (preloading_of(path)) {
    case Preloading::kStatic:
      return complain(kNotLoaded, path + " is statically linked: nothing can be preloaded into it");
    case Preloading::kPrivileged:
      return complain(kNotLoaded, path + " runs as another user: the loader ignores LD_PRELOAD");
    default:
      return 0;
  }
}

bool names_libnccl(std::string_view path) {
  const size_t slash = path.rfind('/');
  const std::string_view file = slash == std::string_view::npos ? path : path.substr(slash + 1);
  return file.starts_with("libnccl.so");
}

/// False if another libnccl would come first.
bool preload(const std::string& library) {
  const char* before = std::getenv("LD_PRELOAD");
  const std::string earlier = before != nullptr ? before : "";
  for (size_t begin = 0; begin < earlier.size();) {
    const size_t end = std::min(earlier.find_first_of(" :", begin), earlier.size());
    const std::string_view entry = std::string_view(earlier).substr(begin, end - begin);
    if (names_libnccl(entry) && entry != library) {
      complain(0, "LD_PRELOAD already names " + std::string(entry) + "; unset it");
      return false;
    }
    begin = end + 1;
  }
  setenv("LD_PRELOAD", (earlier.empty() ? library : earlier + ":" + library).c_str(), 1);
  return true;
}

/// The pipe on which the library answers (plugins/nccl/loaded.cc). The child's end has a number
/// that programs do not expect to be free, and goes through exec.
struct Answer {
  Fd read_end;
  Fd write_end;

  bool open() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    read_end = Fd(ends[0]);
    const Fd low(ends[1]);
    constexpr int kOutOfTheWay = 200;
    int number = fcntl(low.get(), F_DUPFD, kOutOfTheWay);
    if (number < 0) number = fcntl(low.get(), F_DUPFD, 3);
    write_end = Fd(number);
    struct stat found = {};
    if (number < 0 || fstat(number, &found) != 0) return false;
    const std::string text = std::to_string(number) + ":" + std::to_string(found.st_ino);
    return setenv("_TUTTI_RUN_PIPE", text.c_str(), 1) == 0;
  }

  /// Whether the library has been loaded; waits up to `timeout_ms` for it.
  bool loaded(int timeout_ms) const {
    pollfd ready{read_end.get(), POLLIN, 0};
    if (poll(&ready, 1, timeout_ms) <= 0) return false;
    if ((ready.revents & POLLIN) != 0) return true;
    poll(nullptr, 0, timeout_ms);  // the child has closed its end: there is nothing to wake up for
    return false;
  }
};

// tidy: allow mutable (a signal handler has no other way to the child's number)
volatile sig_atomic_t child = 0;

/// Passes a signal on to the child, unless the terminal sent it, which reaches the child by itself.
void forward(int number, siginfo_t* info, void*) {
  if (info->si_code != SI_KERNEL && child > 0) kill(child, number);
}

constexpr int kForwarded[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM,  SIGUSR1,
                              SIGUSR2, SIGALRM, SIGCONT, SIGWINCH, SIGURG};

void forward_signals() {
  struct sigaction action = {};
  action.sa_sigaction = forward;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  for (const int number : kForwarded) {
    struct sigaction before = {};
    // Signals that this program was told to ignore (nohup) the child ignores too.
    if (sigaction(number, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) continue;
    sigaction(number, &action, nullptr);
  }
}

/// The state that a fork must not change for the command.
struct Inherited {
  sigset_t mask;
  struct sigaction on_child;
};

[[noreturn]] void become(char** command, const Inherited& inherited) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigaction(SIGCHLD, &inherited.on_child, nullptr);
  sigprocmask(SIG_SETMASK, &inherited.mask, nullptr);
  execvp(command[0], command);
  const int status = errno == ENOENT ? kNotFound : kNotExecutable;
  std::fprintf(stderr, "tutti run: %s: %s\n", command[0], std::strerror(errno));
  _exit(status);
}

/// Nothing if nobody can say how the child ended.
std::optional<int> wait_for_child() {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return std::nullopt;
  }
  return status;
}

/// Ends as the child ended, without a second core file.
[[noreturn]] void end_by(int signal_number) {
  const rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  signal(signal_number, SIG_DFL);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signal_number);
  sigprocmask(SIG_UNBLOCK, &only, nullptr);
  raise(signal_number);
  _exit(128 + signal_number);
}

/// The child's status once it has ended; says early that the library is missing.
std::optional<int> watch(const Answer& answer, bool& loaded) {
  constexpr int kStepMs = 50;
  loaded = false;
  for (int waited_ms = 0; waited_ms < kPatienceMs && !loaded; waited_ms += kStepMs) {
    loaded = answer.loaded(kStepMs);
    siginfo_t ended = {};
    waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT);
    if (ended.si_pid != 0) break;
  }
  siginfo_t ended = {};
  waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT);
  if (!loaded && ended.si_pid == 0) {
    complain(0, "after " + std::to_string(kPatienceMs / 1000) +
                    " s the program has not loaded libnccl.so.2: it is not running on Tutti");
  }
  const std::optional<int> status = wait_for_child();
  loaded = loaded || answer.loaded(0);
  return status;
}

int start(char** command) {
  Answer answer;
  if (!answer.open()) return complain(kNotLoaded, std::string("pipe: ") + std::strerror(errno));
  // A signal that comes before the child exists waits until it does.
  sigset_t all;
  Inherited inherited = {};
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &inherited.mask);
  // A process that ignores SIGCHLD, as a starter may have left it, never learns how its child
  // ended.
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &standard, &inherited.on_child);
  child = fork();
  if (child < 0) return complain(kNotLoaded, std::string("fork: ") + std::strerror(errno));
  if (child == 0) become(command, inherited);
  forward_signals();
  sigprocmask(SIG_SETMASK, &inherited.mask, nullptr);
  answer.write_end = Fd();
  bool loaded = false;
  const std::optional<int> ended = watch(answer, loaded);
  if (!ended) return complain(kNotLoaded, std::string("waitpid: ") + std::strerror(errno));
  const int status = *ended;
  const bool was_started = !WIFEXITED(status) || (WEXITSTATUS(status) != kNotFound &&
                                                  WEXITSTATUS(status) != kNotExecutable);
  if (!loaded && was_started) {
    return complain(kNotLoaded, std::string(command[0]) +
                                    " did not load libnccl.so.2: it did not run on Tutti (is "
                                    "LD_PRELOAD taken out of its environment?)");
  }
  if (WIFSIGNALED(status)) end_by(WTERMSIG(status));
  return WEXITSTATUS(status);
}

}  // namespace

int run_main(int argc, char** argv) {
  Options options;
  if (const int ended = parse(argc, argv, options); ended != 0) return ended - 1;
  const std::string library = options.library.empty() ? find_library() : options.library;
  if (const int status = check(library, options.command[0]); status != 0) return status;
  if (!preload(library)) return kNotLoaded;
  return start(options.command);
}

}  // namespace tutti::cli
