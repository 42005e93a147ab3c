// Runs fuzz targets over mutated inputs: `fuzz [--target NAME] [--runs N] [--seed S] [--first I]`.
// Where an input ends the process, the last lines say which one: give its number to --first, with
// --runs 1, and it runs again alone.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "tests/fuzz/mutate.h"
#include "tests/fuzz/target.h"
#include "tests/support/options.h"

// The handler of the signal that ends a run allocates; at worst its line is lost.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_options() {
  return "report_signal_unsafe=0";
}
extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));

namespace tutti::fuzz {
namespace {

struct Options {
  std::string target;
  uint64_t runs = 100'000;
  uint64_t seed = 1;
  uint64_t first = 0;
};

struct Running {
  const Target* target = nullptr;
  uint64_t seed = 0;
  uint64_t number = 0;
  Bytes input;
};

Running& running() {
  // tidy: allow mutable (read by handlers of signals, which get no context)
  static Running running;
  return running;
}

/// As a string literal, for the corpus.
std::string quoted(Bytes bytes) {
  std::string text;
  for (const uint8_t byte : bytes) {
    const bool plain = byte >= ' ' && byte < 0x7f && byte != '"' && byte != '\\';
    char octal[8];
    std::snprintf(octal, sizeof octal, "\\%03o", byte);
    text += plain ? std::string(1, static_cast<char>(byte)) : octal;
  }
  return '"' + text + '"';
}

/// Not quite safe in a handler, but the process is lost anyway.
void tell() {
  const Running& at = running();
  if (at.target == nullptr) return;
  const std::string text = "fuzz: died in --target " + std::string(at.target->name) + " --seed " +
                           std::to_string(at.seed) + " --first " + std::to_string(at.number) +
                           " --runs 1\n" + quoted(at.input) + "\n";
  [[maybe_unused]] const ssize_t count = write(STDERR_FILENO, text.data(), text.size());
}

void tell_and_die(int signal) {
  tell();
  ::signal(signal, SIG_DFL);
  raise(signal);
}

void install_handlers() {
  if (__sanitizer_set_death_callback != nullptr) {
    __sanitizer_set_death_callback(tell);
    signal(SIGABRT, tell_and_die);
    return;
  }
  for (const int number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) signal(number, tell_and_die);
}

void run(const Target& target, const Options& options) {
  const std::vector<std::string> corpus = target.corpus();
  uint64_t valid = 0, accepted = 0;
  for (const std::string& input : corpus) valid += target.run(as_bytes(input)) ? 1 : 0;
  running() = {&target, options.seed, 0, {}};
  for (uint64_t i = 0; i < options.runs; ++i) {
    running().number = options.first + i;
    // A copy of exactly its size, so that a read beyond the end is seen.
    const std::string input = mutate(corpus, options.seed, running().number, target.max_bytes);
    const std::vector<uint8_t> exact(input.begin(), input.end());
    running().input = exact;
    accepted += target.run(exact) ? 1 : 0;
  }
  running() = {};
  std::printf("%s: %zu inputs of the corpus, %llu accepted; %llu mutated, %llu accepted\n",
              std::string(target.name).c_str(), corpus.size(),
              static_cast<unsigned long long>(valid), static_cast<unsigned long long>(options.runs),
              static_cast<unsigned long long>(accepted));
}

int usage() {
  std::fprintf(stderr, "usage: fuzz [--target NAME] [--runs N] [--seed S] [--first I]\ntargets:");
  for (const Target& target : targets()) {
    std::fprintf(stderr, " %s", std::string(target.name).c_str());
  }
  std::fprintf(stderr, "\n");
  return 2;
}

/// A reader that believes a length: the driver's own test.
bool run_defective(Bytes input) {
  require(input.size() < 2 || input[0] <= input.size() - 1, "a length is checked");
  return true;
}
constexpr Target kDefective = {"defective", run_defective,
                               [] { return std::vector<std::string>{"\4four"}; }, 20};

int fuzz_main(int argc, char** argv) {
  Options options;
  using testing_support::into;
  const bool understood = testing_support::read_options(argc, argv,
                                                        {{"--target", into(options.target)},
                                                         {"--runs", into(options.runs)},
                                                         {"--seed", into(options.seed)},
                                                         {"--first", into(options.first)}});
  if (!understood) return usage();
  install_handlers();
  bool any = options.target == kDefective.name;
  if (any) run(kDefective, options);
  for (const Target& target : targets()) {
    if (!options.target.empty() && options.target != target.name) continue;
    any = true;
    run(target, options);
  }
  return any ? 0 : usage();
}

}  // namespace
}  // namespace tutti::fuzz

int main(int argc, char** argv) { return tutti::fuzz::fuzz_main(argc, argv); }
