// Which pairs of properties the calls of a run had, as a table for people.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "tests/random/job.h"

namespace tutti::random_calls {

class Coverage {
 public:
  void add(const Job& job);
  uint64_t calls() const { return calls_; }
  std::string table() const;

 private:
  void add(const Job& job, const Batch& batch, const Call& call);
  void count(const std::string& collective, const std::string& group, const std::string& value);

  uint64_t calls_ = 0;
  std::map<std::string, uint64_t> collectives_;
  /// group of properties -> value -> collective -> calls
  std::map<std::string, std::map<std::string, std::map<std::string, uint64_t>>> pairs_;
};

}  // namespace tutti::random_calls
