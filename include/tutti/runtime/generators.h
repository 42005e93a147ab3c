// Timelines of the usual ways to train in parallel. Each generator is a pure function of its
// numbers.
//
// Units:   nanoseconds and bytes. Times of a pipeline are those of a rank's whole share of the
//          model.
// Errors:  throws Error and says which number to change.
// Threads: any.
//
// Sources: 1F1B and interleaved 1F1B, Megatron-LM (arXiv:2104.04473): exact, with the group sizes
//          of its present code; the double buffers of messages are ours. Backward passes in two
//          parts: the schedule ZB-H1 of Zero Bubble (arXiv:2401.10241), exact for one chunk; with
//          more, and with uneven stages, a reconstruction. FSDP prefetch: ZeRO stage
//          3 as in PyTorch FSDP and veScale-FSDP, a reconstruction. Buckets: PyTorch DDP.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/runtime/timeline.h"

namespace tutti::runtime {

struct PipelineSpec {
  int ranks = 4;
  int micro_batches = 8;
  int chunks = 1;  // of each rank; with more than 1 the pipeline is interleaved
  int group = 0;   // micro-batches that run chunk by chunk together; 0: as many as ranks
  int layers = 0;  // if given, ranks * chunks must divide it
  Nanoseconds forward{1'000'000};  // of one micro-batch on one rank, all its chunks
  Nanoseconds backward{2'000'000};
  Nanoseconds transfer{0};  // of one message
  Bytes message{0};
  Bytes activations{1};    // of one micro-batch in one chunk, from its forward to its backward
  Bytes memory{0};         // limit of a rank; 0: none
  Nanoseconds weights{0};  // the part of `backward` that makes the gradients of weights, which no
                           // other rank waits for. More than 0: a pass of its own, later
  std::vector<int> stage_layers = {};  // layers of each stage, whose times are in proportion to
                                       // them (rounded down); empty: all stages are equal
};
/// Items are numbered (micro_batch * stages + stage) * 2 + (backward ? 1 : 0), stage =
/// chunk * ranks + rank; a task's tag is that of the item whose input it carries. Behind them, if
/// there are passes for weights, their items: micro_batches * stages * 2 + micro_batch * stages +
/// stage. Such a pass reads the activations, then the gradient of the stage's output, which the
/// backward pass has written before its message. It fills what would be a bubble: with F, B and W
/// for the times of the three passes, p ranks idle (p - 1) (F + B - W) instead of
/// (p - 1) (F + B + W), and need no more memory than rank 0 did.
TUTTI_RUNTIME_API Timeline pipeline(const PipelineSpec& spec);

/// The numbers into which parallelism divides a model and a batch.
struct BatchShape {
  int64_t batch = 0;        // sequences of a step
  int64_t micro_batch = 1;  // sequences
  int64_t data = 1;         // data-parallel replicas
  int64_t tensor = 1;       // tensor-parallel ranks
  int64_t heads = 1;
  int64_t hidden = 1;
};
/// The number of micro-batches of each replica. Throws Error where something does not divide.
TUTTI_RUNTIME_API int micro_batches_of(const BatchShape& shape);

struct FsdpSpec {
  int ranks = 4;
  int layers = 8;
  int prefetch = 1;                // layers gathered ahead of the one that computes
  Nanoseconds forward{1'000'000};  // of one layer
  Nanoseconds backward{2'000'000};
  Nanoseconds gather{500'000};   // of one layer's parameters
  Nanoseconds scatter{500'000};  // of one layer's gradients
  Bytes layer{1 << 20};          // parameters of one layer, whole
  Bytes memory{0};
};
/// Parameters are gathered on comm high, gradients reduce-scattered on comm low.
TUTTI_RUNTIME_API Timeline fsdp(const FsdpSpec& spec);

struct DdpBucket {
  Nanoseconds backward{1'000'000};  // the work that makes its gradients
  Nanoseconds all_reduce{1'000'000};
  Bytes bytes{1 << 20};
};
struct DdpSpec {
  int ranks = 2;
  Nanoseconds forward{4'000'000};
  Nanoseconds step{100'000};       // the optimizer's
  std::vector<DdpBucket> buckets;  // in the order in which the backward pass makes them
  bool overlap = true;             // false: the first all_reduce waits for the whole backward pass
  Bytes chunk{0};                  // all_reduces of more run in pieces
};
TUTTI_RUNTIME_API Timeline ddp(const DdpSpec& spec);

/// A generator with its name and an example for a number of ranks, for programs and tests that go
/// through all of them.
struct TimelineGenerator {
  const char* name;
  const char* summary;
  Timeline (*example)(int ranks);
};
TUTTI_RUNTIME_API std::span<const TimelineGenerator> timeline_generators();

}  // namespace tutti::runtime
