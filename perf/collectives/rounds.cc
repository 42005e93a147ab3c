#include "perf/collectives/rounds.h"

#include <charconv>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "perf/collectives/error.h"

namespace tutti::perf {
namespace {

constexpr const char* kColumns = "config,mode,ranks,collective,bytes,round,variant,us";
constexpr size_t kColumnCount = 8;

template <class Number>
bool parse_number(const std::string& text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

bool parse_round(const std::string& line, Round& round) {
  std::vector<std::string> cells;
  std::istringstream text(line);
  for (std::string cell; std::getline(text, cell, ',');) cells.push_back(cell);
  if (cells.size() != kColumnCount) return false;
  round.configuration = cells[0];
  round.mode = cells[1];
  round.collective = cells[3];
  round.variant = cells[6];
  return parse_number(cells[2], round.ranks) && parse_number(cells[4], round.bytes) &&
         parse_number(cells[5], round.round) && parse_number(cells[7], round.us);
}

}  // namespace

void write_rounds(const std::string& path, const std::vector<Round>& rounds) {
  std::ofstream file(path);
  file << kColumns << "\n";
  for (const Round& round : rounds) {
    char us[32];
    std::snprintf(us, sizeof us, "%.5f", round.us);
    file << round.configuration << ',' << round.mode << ',' << round.ranks << ','
         << round.collective << ',' << round.bytes << ',' << round.round << ',' << round.variant
         << ',' << us << "\n";
  }
  if (!file.flush()) throw PerfError("cannot write " + path);
}

std::vector<Round> read_rounds(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) throw PerfError("cannot read " + path);
  if (line != kColumns) throw PerfError(path + " does not begin with '" + kColumns + "'");
  std::vector<Round> rounds;
  for (size_t number = 2; std::getline(file, line); ++number) {
    Round round;
    if (!parse_round(line, round)) {
      throw PerfError(path + ":" + std::to_string(number) + " is not a round: " + line);
    }
    rounds.push_back(round);
  }
  return rounds;
}

}  // namespace tutti::perf
