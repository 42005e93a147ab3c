#include "perf/collectives/hosts.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <utility>

#include "perf/collectives/command.h"
#include "perf/collectives/error.h"
#include "perf/collectives/flags.h"
#include "perf/collectives/host_agent.h"
#include "perf/collectives/timed_loop.h"
#include "src/base/io.h"
#include "src/base/words.h"

namespace tutti::perf {
namespace {

constexpr double kGreetingUs = 60e6;   // for a launcher that has to log in
constexpr double kTogetherUs = 15e6;   // of hosts when one has failed: an agent waits 10 s itself
constexpr double kCalledOffUs = 10e6;  // until launchers are killed
constexpr int kPollMs = 200;

// tidy: allow mutable (a signal handler has no other way to say what came)
volatile sig_atomic_t stop_signal = 0;

void watch_signals() {
  struct sigaction action = {};
  action.sa_handler = [](int number) { stop_signal = number; };
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaction(number, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);  // a host that has ended is noticed otherwise
}

/// A pipe of which this process has one end, and a launcher the other one.
struct Pipe {
  Fd here;
  Fd there;

  explicit Pipe(bool written_here) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw PerfError(std::string("pipe: ") + std::strerror(errno));
    here = Fd(ends[written_here ? 1 : 0]);
    there = Fd(ends[written_here ? 0 : 1]);
    fcntl(here.get(), F_SETFL, O_NONBLOCK);
  }
};

/// One host's launcher, and through it the host's agent.
class Host {
 public:
  Host(HostSlots slots, int first) : slots_(std::move(slots)), first_(first) {}

  const std::string& name() const { return slots_.name; }
  int first() const { return first_; }
  int processes() const { return slots_.slots; }
  bool ended() const { return pid_ == 0; }
  int status() const { return status_; }

  void start(std::vector<std::string> command) {
    std::vector<char*> argv;
    for (std::string& word : command) argv.push_back(word.data());
    argv.push_back(nullptr);
    Pipe input(true), output(false), error(false);
    pid_ = fork();
    if (pid_ < 0) throw PerfError(std::string("fork: ") + std::strerror(errno));
    if (pid_ == 0) {
      setpgid(0, 0);  // ^C is for this program, which ends the hosts in order
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      signal(SIGPIPE, SIG_DFL);
      dup2(input.there.get(), STDIN_FILENO);
      dup2(output.there.get(), STDOUT_FILENO);
      dup2(error.there.get(), STDERR_FILENO);
      execvp(argv[0], argv.data());
      std::fprintf(stderr, "cannot run %s: %s\n", argv[0], std::strerror(errno));
      _exit(126);
    }
    input_ = std::move(input.here);
    output_ = std::move(output.here);
    error_ = std::move(error.here);
  }

  /// An order for the agent. One that cannot be given is no error here: the host has ended.
  void tell(const std::string& order) {
    const std::string line = order + "\n";
    if (input_.valid() && write(input_.get(), line.data(), line.size()) < 0) call_off();
  }
  void call_off() { input_.reset(); }
  void kill_launcher() const {
    if (pid_ > 0) kill(-pid_, SIGKILL);
  }

  void add_to(std::vector<pollfd>& files) const {
    for (const Fd* file : {&output_, &error_}) {
      if (file->valid()) files.push_back({file->get(), POLLIN, 0});
    }
  }

  /// Takes what there is of output, and the launcher's end. `passes_on`: the output is the ranks'.
  void look(bool passes_on) {
    const bool has_ended = pid_ > 0 && waitpid(pid_, &status_, WNOHANG) == pid_;
    drain(output_, said_);
    if (passes_on && !said_.empty()) {
      std::fwrite(said_.data(), 1, said_.size(), stdout);
      std::fflush(stdout);
      said_.clear();
    }
    drain(error_, complaints_);
    for (std::string line; take_line(complaints_, line);) complain(line);
    if (!has_ended) return;
    if (!complaints_.empty()) complain(std::exchange(complaints_, ""));
    pid_ = 0;
    status_ = WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_);
  }

  /// The first line of output from here on that begins so; others, of a shell's start, are left
  /// out. Empty: it has not come yet.
  std::string find_line(std::string_view beginning) {
    for (std::string line; take_line(said_, line);) {
      if (line.starts_with(beginning)) return line;
    }
    return "";
  }

 private:
  static void drain(Fd& file, std::string& text) {
    char piece[4096];
    while (file.valid()) {
      const ssize_t count = read(file.get(), piece, sizeof piece);
      if (count > 0) {
        text.append(piece, static_cast<size_t>(count));
      } else if (count == 0) {
        file.reset();
      } else if (errno != EINTR) {
        return;
      }
    }
  }
  static bool take_line(std::string& text, std::string& line) {
    const size_t end = text.find('\n');
    if (end == std::string::npos) return false;
    line = text.substr(0, end);
    text.erase(0, end + 1);
    return true;
  }
  void complain(const std::string& line) const {
    std::fprintf(stderr, "%s: %s\n", name().c_str(), line.c_str());
  }

  const HostSlots slots_;
  const int first_;
  pid_t pid_ = 0;
  int status_ = 0;
  Fd input_, output_, error_;
  std::string said_, complaints_;
};

/// "tutti" for the shell that the launcher starts there.
std::string in_quotes(const std::string& text) {
  std::string quoted = "'";
  for (const char letter : text) quoted += letter == '\'' ? "'\\''" : std::string(1, letter);
  return quoted + "'";
}

std::vector<std::string> launcher_command(const HostsOptions& options, const std::string& host) {
  std::vector<std::string> command;
  for (const std::string_view word : split(options.launcher, ' ')) {
    if (word.empty()) continue;
    std::string text(word);
    if (const size_t at = text.find("{host}"); at != std::string::npos) text.replace(at, 6, host);
    command.push_back(std::move(text));
  }
  command.push_back("exec " + in_quotes(options.program) + " perf agent");
  return command;
}

/// Settings that mean the same on every host.
bool is_for_all_hosts(std::string_view entry) {
  const std::string_view name = entry.substr(0, entry.find('='));
  // The id that the agents hand on holds the job's secret; a host's identity is its own.
  for (const char* own : {"TUTTI_ID", "NCCL_COMM_ID", "TUTTI_HOST_ID", "NCCL_HOSTID", "TUTTI_KEY",
                          "TUTTI_KEY_FILE"}) {
    if (name == own) return false;
  }
  return name.starts_with("TUTTI_") || name.starts_with("NCCL_");
}

/// All hosts of a run.
class HostJob {
 public:
  HostJob(const PerfOptions& options, std::vector<std::string> words)
      : options_(options), words_(std::move(words)) {
    for (const std::string& word : words_) check_line(word, "the command line");
    int first = 0;
    for (const HostSlots& slots : options.hosts.hosts) {
      hosts_.emplace_back(slots, first);
      first += slots.slots;
    }
    processes_ = first;
  }
  ~HostJob() { end_all(); }
  HostJob(const HostJob&) = delete;
  HostJob& operator=(const HostJob&) = delete;

  int run() {
    for (Host& host : hosts_) host.start(launcher_command(options_.hosts, host.name()));
    for (Host& host : hosts_) check_version(host, answer_of(host, kAgentGreeting));
    for (Host& host : hosts_) give_orders(host);
    hosts_[0].tell("make-id");
    const std::string id = answer_of(hosts_[0], "");
    if (stop_signal == 0 && !id.starts_with("id ")) {
      throw PerfError(hosts_[0].name() + ": the ranks have no place to meet: " + id, kExitLibrary);
    }
    for (Host& host : hosts_) {
      host.tell(id);
      host.tell("run");
    }
    passes_on_ = true;
    wait_for_all();
    return stop_signal != 0 ? 128 + static_cast<int>(stop_signal) : worst();
  }

 private:
  static void check_line(const std::string& text, const std::string& what) {
    if (text.find('\n') == std::string::npos) return;
    throw PerfError(what + " has a line break in it, which --hosts cannot hand on", kExitUsage);
  }

  void give_orders(Host& host) const {
    for (char** entry = environ; *entry != nullptr; ++entry) {
      if (!is_for_all_hosts(*entry)) continue;
      check_line(*entry, "a setting");
      host.tell(std::string("set ") + *entry);
    }
    std::error_code error;
    const std::filesystem::path folder = std::filesystem::current_path(error);
    if (!error) host.tell("folder " + folder.string());
    for (const std::string& word : words_) host.tell("word " + word);
    for (const std::string& word : {std::string("--ranks"), std::to_string(processes_)}) {
      host.tell("word " + word);
    }
    host.tell("ranks " + std::to_string(host.first()) + " " + std::to_string(host.processes()) +
              " " + std::to_string(processes_) + " " + std::to_string(options_.crew.threads));
  }

  void pump() {
    std::vector<pollfd> files;
    for (const Host& host : hosts_) host.add_to(files);
    poll(files.data(), files.size(), files.empty() ? kPollMs / 10 : kPollMs);
    for (Host& host : hosts_) host.look(passes_on_);
  }

  /// Errors: PerfError where the host ends before, or does not answer.
  std::string answer_of(Host& host, std::string_view beginning) {
    const double until_us = now_us() + kGreetingUs;
    while (stop_signal == 0) {
      const bool has_ended = host.ended();
      if (std::string line = host.find_line(beginning); !line.empty()) return line;
      if (has_ended) throw PerfError(host.name() + ": " + why_ended(host));
      if (now_us() > until_us) {
        throw PerfError(host.name() +
                        ": there was no answer for a minute; try: " + try_by_hand(host));
      }
      pump();
    }
    return "";
  }

  std::string try_by_hand(const Host& host) const {
    std::string text;
    for (const std::string& word : launcher_command(options_.hosts, host.name())) {
      const bool is_plain = word.find_first_of(" '\"$") == std::string::npos;
      text += (text.empty() ? "" : " ") + (is_plain ? word : "\"" + word + "\"");
    }
    return text;
  }

  std::string why_ended(const Host& host) const {
    const std::string& program = options_.hosts.program;
    constexpr const char* kInstall =
        "install the same Tutti at the same path on every host, or name its path there by "
        "--remote-program";
    switch (host.status()) {
      case 126:
        return "the launcher, or " + program +
               " there, cannot be executed; try: " + try_by_hand(host);
      case 127:
        return "there is no " + program + " there: " + kInstall;
      case 255:
        return "it cannot be reached by the launcher; try: " + try_by_hand(host);
      case kExitUsage:
        return program + " there is another version of Tutti, which knows no agent: " + kInstall;
      default:
        return "the launcher ended with status " + std::to_string(host.status()) +
               " before Tutti was started; try: " + try_by_hand(host);
    }
  }

  void check_version(const Host& host, const std::string& greeting) const {
    if (stop_signal != 0 || greeting == agent_greeting()) return;
    throw PerfError(host.name() + ": " + options_.hosts.program + " there is another version (\"" +
                    greeting + "\") than this one (\"" + agent_greeting() +
                    "\"): install the same on every host, or name its path there by "
                    "--remote-program");
  }

  /// Waits until all hosts have ended; once one has failed not for ever.
  void wait_for_all() {
    const auto is_ended = [](const Host& host) { return host.ended(); };
    double failed_us = 0;
    while (stop_signal == 0 && !std::all_of(hosts_.begin(), hosts_.end(), is_ended)) {
      pump();
      if (failed_us == 0 && worst() != kExitOk) failed_us = now_us();
      if (failed_us != 0 && now_us() > failed_us + kTogetherUs) return end_all();
    }
  }

  int worst() const {
    int worst = kExitOk;
    for (const Host& host : hosts_) {
      if (host.ended()) worst = std::max(worst, host.status());
    }
    return worst;
  }

  void end_all() {
    for (Host& host : hosts_) host.call_off();
    const auto wait = [&] {
      const double until_us = now_us() + kCalledOffUs;
      const auto runs = [](const Host& host) { return !host.ended(); };
      while (now_us() < until_us && std::any_of(hosts_.begin(), hosts_.end(), runs)) pump();
    };
    wait();
    for (const Host& host : hosts_) {
      if (host.ended()) continue;
      std::fprintf(stderr, "%s: did not end when it was called off: its launcher is killed\n",
                   host.name().c_str());
      host.kill_launcher();
    }
    wait();
  }

  const PerfOptions& options_;
  const std::vector<std::string> words_;
  std::vector<Host> hosts_;
  int processes_ = 0;
  bool passes_on_ = false;
};

}  // namespace

std::vector<std::string> without_hosts(const std::vector<std::string>& arguments) {
  std::vector<std::string> rest;
  for (size_t i = 0; i < arguments.size(); ++i) {
    bool is_one = false;
    for (const Flag& flag : all_flags()) {
      if (!flag.is_of_hosts()) continue;
      is_one = is_one || arguments[i].starts_with(std::string(flag.names) + "=");
      if (arguments[i] != flag.names) continue;
      is_one = true;
      ++i;  // its value
      break;
    }
    if (!is_one) rest.push_back(arguments[i]);
  }
  return rest;
}

int hosts_main(const PerfOptions& options, const std::vector<std::string>& arguments) {
  const std::string program = options.hosts.launcher.substr(0, options.hosts.launcher.find(' '));
  if (!is_runnable(program)) {
    throw PerfError("there is no " + program +
                    " here to start ranks on other hosts: install it (Debian: openssh-client), or "
                    "name another launcher by --launcher");
  }
  watch_signals();
  expect_children();
  return HostJob(options, without_hosts(arguments)).run();
}

}  // namespace tutti::perf
