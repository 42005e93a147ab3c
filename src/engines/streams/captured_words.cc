#include "src/engines/streams/captured_words.h"

namespace tutti::engines::streams {
namespace {

void write(CapturedSteps& steps, CapturedWord word, uint32_t rank, uint64_t value) {
  steps.push_back({false, word, rank, value});
}

void wait_for_others(CapturedSteps& steps, CapturedStep step, uint32_t ranks) {
  const uint32_t self = step.rank;
  for (step.rank = 0; step.rank < ranks; ++step.rank) {
    if (step.rank != self) steps.push_back(step);
  }
}

}  // namespace

CapturedSteps steps_before(uint32_t rank, uint32_t ranks) {
  CapturedSteps steps;
  write(steps, CapturedWord::kProgress, rank, kCapturedArrived);
  wait_for_others(steps, {true, CapturedWord::kProgress, rank, kCapturedArrived}, ranks);
  write(steps, CapturedWord::kReset, rank, 0);
  return steps;
}

CapturedSteps steps_behind(uint32_t rank, uint32_t ranks, size_t lanes) {
  CapturedSteps steps;
  write(steps, CapturedWord::kDone, rank, 1);
  wait_for_others(steps, {true, CapturedWord::kDone, rank, 1}, ranks);
  write(steps, CapturedWord::kProgress, rank, 0);
  if (lanes > 1) write(steps, CapturedWord::kSecondProgress, rank, 0);
  write(steps, CapturedWord::kReset, rank, 1);
  wait_for_others(steps, {true, CapturedWord::kReset, rank, 1}, ranks);
  write(steps, CapturedWord::kDone, rank, 0);
  return steps;
}

}  // namespace tutti::engines::streams
