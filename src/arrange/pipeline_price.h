// How long a pipeline takes for a step, by the times of its stages and of the messages between
// them.
//
// 1F1B (Megatron-LM, arXiv 2104.04473): a stage begins a forward pass for each backward pass that
// has come back. Stage j of p has p - j micro-batches under way, so what a micro-batch needs from
// there to the last stage and back is spread over as many: where messages are slow, every turn is
// that much longer. Interleaved, each rank has several chunks, the bubble is as much shorter, and
// more micro-batches are under way.
//
// Threads: pure. Units: nanoseconds. Errors: none.
#pragma once

#include <cstdint>
#include <vector>

namespace tutti::arrange {

struct PipelineTimes {
  double turn = 0;             // forward and backward of a micro-batch in the slowest rank
  std::vector<double> hops{};  // of a message from each stage to the next
  double wrap = 0;             // from the last rank to the first, where chunks follow
  uint32_t chunks = 1;
  uint32_t micro_batches = 1;
  bool overlaps = true;  // messages move while a stage computes; else each is waited for
};

struct PipelineStep {
  double ns = 0;
  double bubble = 0;   // of it, while the pipeline fills and empties
  double exposed = 0;  // of it, for messages
};
PipelineStep pipeline_step(const PipelineTimes& times);

}  // namespace tutti::arrange
