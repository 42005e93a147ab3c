// Observes the facts of conformance/ on whatever libcuda.so.1 there is, and prints each beside what
// was expected.
//
//   device_conformance [--patience=SECONDS] [--parallel=N] [--only=TEXT]
//
// A fact that is not observed within the wait limit is a hang. One that differs is observed again
// with ten times the wait limit, so that a busy machine makes no difference.
//
// A line for each fact: "ok" or "DIFFERS", name, observed, expected ("recorded": anything), and
// whether that is documented or assumed.
// Exit status: 0, all as expected; 1, some differ; 2, wrong arguments; 77, there is no device.
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/software_device/conformance/facts.h"

namespace softdev {
namespace {

struct Options {
  unsigned wait_limit = 3;
  size_t parallel = 1;
  std::string only;
  int export_to = -1;  // for the fact whose exporter is killed
};

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t equals = argument.find('=');
    if (equals == argument.npos) return false;
    const std::string name = argument.substr(0, equals);
    const std::string value = argument.substr(equals + 1);
    const long number = std::strtol(value.c_str(), nullptr, 10);
    if (name == "--patience" && number > 0) {
      options.wait_limit = static_cast<unsigned>(number);
    } else if (name == "--parallel" && number > 0) {
      options.parallel = static_cast<size_t>(number);
    } else if (name == "--only") {
      options.only = value;
    } else if (name == "--export") {
      options.export_to = static_cast<int>(number);
    } else {
      return false;
    }
  }
  return true;
}

/// A process that observes one fact and writes it to a pipe.
struct Observer {
  pid_t process = -1;
  int output = -1;
};

Observer start(const Fact& fact, unsigned wait_limit) {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  std::fflush(stdout);
  const pid_t process = fork();
  if (process == 0) {
    close(ends[0]);
    alarm(wait_limit);
    Result<Client> opened = Client::open();
    if (!opened.ok()) _exit(77);
    const Bench bench(std::move(opened).value(), wait_limit);
    const std::string observed = fact.observe(bench);
    const auto written = write(ends[1], observed.data(), observed.size());
    _exit(written == static_cast<ssize_t>(observed.size()) ? 0 : 1);
  }
  close(ends[1]);
  return {process, ends[0]};
}

std::string result_of(const Observer& observer) {
  std::string observed;
  char piece[256];
  for (ssize_t got = 0; (got = read(observer.output, piece, sizeof piece)) > 0;) {
    observed.append(piece, static_cast<size_t>(got));
  }
  close(observer.output);
  int status = 0;
  waitpid(observer.process, &status, 0);
  if (WIFSIGNALED(status)) {
    return WTERMSIG(status) == SIGALRM ? "hang" : "signal " + std::to_string(WTERMSIG(status));
  }
  return WEXITSTATUS(status) == 0 ? observed : "exit " + std::to_string(WEXITSTATUS(status));
}

bool is_expected(const Fact& fact, const std::string& observed) {
  const std::string expected = fact.expected;
  if (expected.empty()) return true;
  for (size_t begin = 0; begin <= expected.size();) {
    const size_t end = std::min(expected.find(" | ", begin), expected.size());
    if (expected.compare(begin, end - begin, observed) == 0) return true;
    begin = end + 3;
  }
  return false;
}

std::vector<Fact> all_facts(const std::string& only) {
  std::vector<Fact> facts;
  for (const auto& some : {release_facts(), blocking_facts(), copy_facts(), memory_facts(),
                           capture_facts(), graph_facts(), attribute_facts()}) {
    for (const Fact& fact : some) {
      if (std::strstr(fact.name, only.c_str()) != nullptr) facts.push_back(fact);
    }
  }
  return facts;
}

/// Which driver this is. False: there is none, or no device.
bool print_driver(unsigned wait_limit) {
  const Fact fact{"the driver", "", Source::kDocumented, [](const Bench& bench) {
                    return std::string(bench.client.on_software_device() ? "software device"
                                                                         : "a driver of boards") +
                           ", CUDA " + std::to_string(bench.client.cuda().version());
                  }};
  const std::string observed = result_of(start(fact, wait_limit));
  const bool found = observed != "exit 77";
  std::printf("%s\n", found ? observed.c_str() : "SKIPPED: there is no device that can be used");
  return found;
}

int observe_all(const Options& options) {
  if (!print_driver(options.wait_limit)) return 77;
  const std::vector<Fact> facts = all_facts(options.only);
  std::vector<Observer> observers(facts.size());
  size_t started = 0, differing = 0;
  for (size_t i = 0; i < facts.size(); ++i) {
    for (; started < std::min(facts.size(), i + options.parallel); ++started) {
      observers[started] = start(facts[started], options.wait_limit);
    }
    std::string observed = result_of(observers[i]);
    if (!is_expected(facts[i], observed)) {
      observed = result_of(start(facts[i], 10 * options.wait_limit));
    }
    const bool expected = is_expected(facts[i], observed);
    if (!expected) ++differing;
    std::printf("%-8s %-62s %-38s %s, %s\n", expected ? "ok" : "DIFFERS", facts[i].name,
                observed.c_str(), *facts[i].expected == '\0' ? "recorded" : facts[i].expected,
                facts[i].source == Source::kDocumented ? "documented" : "assumed");
    std::fflush(stdout);
  }
  std::printf("%zu facts, %zu differ\n", facts.size(), differing);
  return differing == 0 ? 0 : 1;
}

int run(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fputs("usage: device_conformance [--patience=SECONDS] [--parallel=N] [--only=TEXT]\n",
               stderr);
    return 2;
  }
  if (options.export_to < 0) return observe_all(options);
  Result<Client> opened = Client::open();
  if (!opened.ok()) return 77;
  export_and_wait(Bench(std::move(opened).value(), options.wait_limit), options.export_to);
}

}  // namespace
}  // namespace softdev

int main(int argc, char** argv) { return softdev::run(argc, argv); }
