#include "tests/support/options.h"

#include <charconv>
#include <cstdio>

namespace tutti::testing_support {
namespace {

template <class Number>
bool parse(const std::string& text, Number& number) {
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stopped == end;
}

}  // namespace

bool read_value(const std::string& text, std::string& value) {
  value = text;
  return true;
}

bool read_value(const std::string& text, bool& value) {
  value = text == "1";
  return value || text == "0";
}

bool read_value(const std::string& text, Network& value) {
  for (const Network network : {Network::kDefault, Network::kTcp, Network::kMixed}) {
    if (text == name_of(network)) value = network;
  }
  return text == name_of(value);
}

bool read_value(const std::string& text, uint64_t& value) { return parse(text, value); }
bool read_value(const std::string& text, int& value) { return parse(text, value); }

bool read_options(int argc, char** argv, const std::map<std::string, Taker>& known,
                  const std::map<std::string, bool*>& switches) {
  for (int i = 1; i < argc; ++i) {
    if (const auto found = switches.find(argv[i]); found != switches.end()) {
      *found->second = true;
      continue;
    }
    const auto found = known.find(argv[i]);
    if (found != known.end() && i + 1 < argc && found->second(argv[++i])) continue;
    std::fprintf(stderr, "%s: '%s' is not understood; see the head of its source\n", argv[0],
                 argv[i]);
    return false;
  }
  return true;
}

int TeamProgram::run(int argc, char** argv) const {
  int count = ranks;
  bool threads = false;
  Network network = Network::kDefault;
  std::map<std::string, Taker> known = own;
  known["--ranks"] = into(count, 1, kMaxRanks);
  known["--threads"] = into(threads);
  known["--network"] = into(network);
  if (!read_options(argc, argv, known)) return 2;
  const TeamResult result = run_team(TeamShape::of(count, threads, network), body, name, limit_ns);
  std::printf("%s", result.report.c_str());
  return result.ok ? 0 : 1;
}

}  // namespace tutti::testing_support
