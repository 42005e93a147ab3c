// The command line of `tutti plan`.
//
// Errors: PerfError says which argument is wrong, and why.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/arrange/search.h"

namespace tutti::cli {

struct PlanOptions {
  std::string model, topology;
  std::string device = "h100";
  uint32_t places = 0;    // 0: all
  uint32_t batch = 0;     // sequences; 0: the model's
  uint32_t sequence = 0;  // tokens; 0: the model's
  arrange::FixedParts fixed;
  uint32_t seconds = 60;
  uint32_t keep = 10;
  uint64_t ring_bytes = 4 << 20;
  uint64_t message_ns = 2'000, stream_latency_ns = 8'000;
  std::vector<std::string> codecs;
  uint32_t coding_bytes_per_us = 6'700;  // of fp32 values, encoded and decoded
  std::vector<uint32_t> outer_periods;
  bool blocks_messages = false, blocks_gradients = false;
  std::string svg, json;
};

/// On --help and on mistakes says so and gives the exit status.
std::optional<PlanOptions> parse_plan(int argc, const char* const* argv, int& exit_code);

}  // namespace tutti::cli
