// The command lines of test programs: "--name value" pairs, and switches, which have no value.
//
// Errors: what is not understood is printed. Threads: no state.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "tests/support/team.h"

namespace tutti::testing_support {

bool read_value(const std::string& text, std::string& value);
bool read_value(const std::string& text, bool& value);  // 0 or 1
bool read_value(const std::string& text, Network& value);
bool read_value(const std::string& text, uint64_t& value);
bool read_value(const std::string& text, int& value);

/// Takes a value; false if it is none.
using Taker = std::function<bool(const std::string& text)>;

template <class Value>
Taker into(Value& target) {
  return [&target](const std::string& text) { return read_value(text, target); };
}
inline Taker into(int& target, int least, int most = 1 << 30) {
  return [&target, least, most](const std::string& text) {
    return read_value(text, target) && target >= least && target <= most;
  };
}

bool read_options(int argc, char** argv, const std::map<std::string, Taker>& known,
                  const std::map<std::string, bool*>& switches = {});

/// The whole of a program that runs one team: reads --network, --threads, --ranks and its own
/// options, prints the report. Its exit status is 0: all was right, 1: it was not, 2: the command
/// line is wrong.
struct TeamProgram {
  int ranks = 3;  // unless the command line says otherwise
  uint64_t limit_ns = 0;
  Body body;
  StepName name;
  std::map<std::string, Taker> own{};

  int run(int argc, char** argv) const;
};

}  // namespace tutti::testing_support
