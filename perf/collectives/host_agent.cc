#include "perf/collectives/host_agent.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "perf/collectives/children.h"
#include "perf/collectives/crew.h"
#include "perf/collectives/error.h"
#include "perf/collectives/perf.h"
#include "src/base/words.h"
#include "tutti/tutti.h"

namespace tutti::perf {
namespace {

constexpr int kProtocol = 1;

/// Lines of a descriptor, of which nothing behind the last line that was asked for is lost.
class LineReader {
 public:
  explicit LineReader(int file) : file_(file) {}

  /// Waits; nothing at the end.
  std::optional<std::string> next() {
    while (true) {
      const size_t end = text_.find('\n');
      if (end != std::string::npos) {
        std::string line = text_.substr(0, end);
        text_.erase(0, end + 1);
        return line;
      }
      char piece[4096];
      const ssize_t count = read(file_, piece, sizeof piece);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return std::nullopt;
      text_.append(piece, static_cast<size_t>(count));
    }
  }

 private:
  const int file_;
  std::string text_;
};

/// Of this host's processes in the job.
struct Part {
  int first = 0;
  int count = 0;
  int all = 0;
  int threads = 1;
};

/// A process that makes the id at which the ranks meet: the meeting place is open while it lives.
class MeetingPlace {
 public:
  ~MeetingPlace() {
    if (child_ > 0) kill(child_, SIGKILL);
  }

  /// The answer to "make-id".
  std::string open() {
    int ends[2];
    if (pipe(ends) != 0) return std::string("failed pipe: ") + std::strerror(errno);
    child_ = fork();
    if (child_ == 0) serve(ends[1]);
    close(ends[1]);
    const std::optional<std::string> answer = LineReader(ends[0]).next();
    close(ends[0]);
    return answer.value_or("failed the process that makes the id has ended");
  }

 private:
  [[noreturn]] static void serve(int answer) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    tuttiUniqueId id{};
    std::string line;
    if (tuttiGetUniqueId(&id) == tuttiSuccess) {
      line = "id " + to_hex({reinterpret_cast<const char*>(&id), sizeof id}) + "\n";
    } else {
      line = std::string("failed ") + tuttiGetLastError(nullptr) + "\n";
    }
    if (write(answer, line.data(), line.size()) < 0) _exit(kExitFailed);
    close(answer);
    close(STDOUT_FILENO);  // or the agent's would not end with it
    while (true) pause();
  }

  pid_t child_ = -1;
};

class Agent {
 public:
  int run() {
    // A job on other hosts has nothing to do with one that this environment may be about.
    for (const char* name : {"TUTTI_ID", "NCCL_COMM_ID", "MASTER_ADDR", "MASTER_PORT"}) {
      unsetenv(name);
    }
    say(agent_greeting());
    LineReader orders(STDIN_FILENO);
    while (const std::optional<std::string> line = orders.next()) {
      const size_t blank = line->find(' ');
      const std::string verb = line->substr(0, blank);
      if (verb == "run") return run_ranks();
      take(verb, blank == std::string::npos ? "" : line->substr(blank + 1));
    }
    return kExitFailed;  // it was called off
  }

 private:
  static void say(const std::string& line) {
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  }

  void take(const std::string& verb, const std::string& text) {
    if (verb == "make-id") return say(place_.open());
    if (verb == "word") words_.push_back(text);
    if (verb == "id") setenv("TUTTI_ID", text.c_str(), 1);
    // Where there is no such folder, relative paths mean those of the folder this began in.
    if (verb == "folder" && chdir(text.c_str()) != 0) return;
    if (verb == "ranks") {
      std::istringstream(text) >> part_.first >> part_.count >> part_.all >> part_.threads;
    }
    const size_t equal = text.find('=');
    if (verb == "set" && equal != std::string::npos) {
      setenv(text.substr(0, equal).c_str(), text.c_str() + equal + 1, 1);
    }
  }

  int run_ranks() const {
    Children children;
    children.count = part_.count;
    children.run = [&](int local) {
      const auto set = [](const char* name, int value) {
        setenv(name, std::to_string(value).c_str(), 1);
      };
      set("RANK", part_.first + local);
      set("WORLD_SIZE", part_.all);
      set("LOCAL_RANK", local);
      set("LOCAL_WORLD_SIZE", part_.count);
      return launched_main(words_);
    };
    children.name = [&](int local) { return ranks_text(part_.first + local, part_.threads); };
    children.is_called_off = [](std::chrono::milliseconds wait) {
      pollfd input{STDIN_FILENO, POLLIN, 0};
      return poll(&input, 1, static_cast<int>(wait.count())) > 0;  // there are no more orders
    };
    return run_children(children);
  }

  MeetingPlace place_;
  Part part_;
  std::vector<std::string> words_;
};

}  // namespace

std::string agent_greeting() {
  int version = 0;
  tuttiGetVersion(&version);
  return kAgentGreeting + std::to_string(kProtocol) + " of version " + std::to_string(version);
}

int agent_main() { return Agent().run(); }

}  // namespace tutti::perf
