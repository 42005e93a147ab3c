#include "tests/support/algorithm_names.h"

#include <fstream>

#include "generated/test_paths.h"

namespace tutti::testing_support {
namespace {

// "- proved: separate and in place, least credit 1, not canonical, up to 8 lanes"; canonical on one
// level is not canonical for all groups.
void read_proof(const std::string& line, NamedAlgorithm& algorithm) {
  algorithm.canonical = line.find("canonical") != std::string::npos &&
                        line.find("not canonical") == std::string::npos &&
                        line.find("canonical on one level") == std::string::npos;
  algorithm.equal_counts = line.find("equal counts only") != std::string::npos;
  const size_t lanes = line.find("up to ");
  if (lanes != std::string::npos) algorithm.max_lanes = std::stoi(line.substr(lanes + 6));
}

}  // namespace

std::vector<NamedAlgorithm> listed_algorithms() {
  std::vector<NamedAlgorithm> algorithms;
  std::ifstream page(std::string(TUTTI_SOURCE_DIR) + "/docs/algorithms.md");
  std::string collective;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) collective = line.substr(3);
    if (line.starts_with("### ")) algorithms.push_back({collective, line.substr(4)});
    if (line.starts_with("- proved:") && !algorithms.empty()) read_proof(line, algorithms.back());
  }
  return algorithms;
}

}  // namespace tutti::testing_support
