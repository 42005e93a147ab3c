#include "perf/collectives/traffic.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

#include "perf/collectives/error.h"
#include "perf/command_line.h"

namespace tutti::perf {
namespace {

/// How far `to` is behind `from`, round the end.
int distance(int from, int to, int ranks) { return (to - from + ranks) % ranks; }

constexpr double kMostBytes = 0x1p60;

/// A number of which `what` says where it stands.
double number_at(const std::string& what, const std::string& text, double most) {
  try {
    return real_number(text, 0, most);
  } catch (const PerfError& error) {
    throw PerfError(what + ": " + error.what(), kExitUsage);
  }
}

/// A variable's number; `standard` where it is not set.
double number_of(const char* name, double standard, double most) {
  const char* text = std::getenv(name);
  return text == nullptr ? standard : number_at(name, text, most);
}

}  // namespace

size_t uneven_block(size_t total, int weight, int ranks) {
  if (ranks == 1) return total;
  const size_t all_weights = static_cast<size_t>(ranks) * static_cast<size_t>(ranks - 1) / 2;
  return total / all_weights * static_cast<size_t>(weight) +
         total % all_weights * static_cast<size_t>(weight) / all_weights;
}

TrafficMatrix parse_traffic_matrix(const std::string& text, double scale, const std::string& name) {
  TrafficMatrix matrix;
  std::istringstream lines(text);
  size_t columns = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    const size_t before = matrix.bytes.size();
    const std::string where = name + ", row " + std::to_string(matrix.ranks + 1);
    for (std::string word; words >> word;) {
      const double most = kMostBytes / std::max(scale, 1.0);
      matrix.bytes.push_back(static_cast<size_t>(number_at(where, word, most) * scale));
    }
    const size_t found = matrix.bytes.size() - before;
    if (found == 0) continue;
    if (matrix.ranks++ == 0) columns = found;
    if (found != columns) {
      throw PerfError(where + " has " + std::to_string(found) + " numbers, the first one has " +
                          std::to_string(columns),
                      kExitUsage);
    }
  }
  if (matrix.ranks == 0 || static_cast<size_t>(matrix.ranks) != columns) {
    throw PerfError(name + " has " + std::to_string(matrix.ranks) + " rows of " +
                        std::to_string(columns) + " numbers; as many rows as columns are needed",
                    kExitUsage);
  }
  return matrix;
}

Traffic Traffic::of_elements(size_t bytes) const {
  Traffic counted = *this;
  counted.element_bytes_ = bytes;
  return counted;
}

size_t Traffic::between(size_t total, int from, int to, int ranks) const {
  if (matrix_) return matrix_->at(from, to) / element_bytes_;
  const size_t by_distance = uneven_block(total, distance(from, to, ranks), ranks);
  if (spread_ == 1) return by_distance;
  const double equal = static_cast<double>(total) / ranks;
  return static_cast<size_t>((1 - spread_) * equal + spread_ * static_cast<double>(by_distance));
}

size_t Traffic::largest(size_t total, int ranks) const {
  size_t largest = 0;
  // Without a matrix all ranks have the same blocks, in another order.
  for (int rank = 0; rank < (matrix_ ? ranks : 1); ++rank) {
    size_t sent = 0;
    size_t received = 0;
    for (int peer = 0; peer < ranks; ++peer) {
      sent += between(total, rank, peer, ranks);
      received += between(total, peer, rank, ranks);
    }
    largest = std::max({largest, sent, received});
  }
  return largest;
}

Traffic traffic_asked_for() {
  const double spread = number_of("NCCL_TESTS_ALLTOALLV_SPREAD", 1, 1);
  const double scale = number_of("NCCL_TESTS_ALLTOALLV_MATRIX_SCALE", 1, kMostBytes);
  const char* path = std::getenv("NCCL_TESTS_ALLTOALLV_MATRIX_FILE");
  if (path == nullptr) return Traffic(spread);
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::string name = "NCCL_TESTS_ALLTOALLV_MATRIX_FILE=" + std::string(path);
  if (!file) throw PerfError(name + " cannot be read", kExitUsage);
  return Traffic(parse_traffic_matrix(text, scale, name));
}

bool traffic_summary_asked_for() {
  return number_of("NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY", 0, kMostBytes) != 0;
}

}  // namespace tutti::perf
