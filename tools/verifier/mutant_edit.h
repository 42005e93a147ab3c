// A schedule as lists that can be edited, and back.
#pragma once

#include <cstdint>
#include <vector>

#include "src/schedule/schedule.h"

namespace tutti::schedule {

struct EditSource {
  int peer = -1;  // >= 0: a message
  std::vector<Block> blocks;
};

struct EditStep {
  StepKind kind = StepKind::kSend;
  Fold fold = Fold::kList;
  uint16_t lane = 0;
  std::vector<Block> blocks;
  std::vector<int> peers;           // SEND
  std::vector<EditSource> sources;  // MOVE
  std::vector<uint32_t> afters;
};

struct EditSchedule {
  int rank = 0;
  uint16_t lanes = 1;
  std::vector<EditStep> steps;
  std::vector<Block> scratch;

  static EditSchedule of(const Schedule& schedule);  // well formed
  Schedule finish() const;

  /// These keep every `after` naming the step it named.
  void drop(uint32_t step);
  void repeat(uint32_t step);
  void swap(uint32_t a, uint32_t b);
};

}  // namespace tutti::schedule
