// Timelines of disaggregated attention (attention_servers.h): it runs under the communication of
// another nano-batch, and in a pipeline.
//
// Ping-pong, exact: each layer computes the attention (CA) of each nano-batch in turn, and then the
// fused work between this attention and that of the next layer (CI). One communication track
// carries, layer by layer and for each nano-batch, the data that enters attention and then the data
// that leaves it.
//
// Pipeline ticks, a reconstruction: all stages run forward or all run backward in a tick, and
// stages without a micro-batch serve attention; the ticks are as many as those of 1F1B, but a stage
// keeps activations of up to twice as many micro-batches. Attention is shared equally by all ranks,
// and exchanges are all_to_alls of equal blocks; the true sizes are those of an AttentionPlan.
//
// Units:   nanoseconds, bytes.
// Errors:  throws Error and says which number to change.
// Threads: pure functions.
#pragma once

#include <vector>

#include "tutti/runtime/timeline.h"

namespace tutti::runtime {

/// The times and messages of one nano-batch in one layer.
struct AttentionLayer {
  Nanoseconds before{500'000};  // the layer's attention: norm, projections
  Nanoseconds attention{1'000'000};
  Nanoseconds after{500'000};  // output projection, feed-forward network
  Nanoseconds enter{500'000};  // queries, keys and values go to where attention is computed
  Nanoseconds exit{500'000};   // outputs go back
  Bytes enter_bytes{1 << 20};  // from each rank to each
  Bytes exit_bytes{1 << 20};
};

struct PingPongSpec {
  int ranks = 2;
  int layers = 4;
  int nano_batches = 2;  // at least 2: one has nothing to hide under
  AttentionLayer layer;  // times of one nano-batch
};
TUTTI_RUNTIME_API Timeline ping_pong(const PingPongSpec& spec);

/// The work of all stages at one time: they all run forward passes, or all backward ones.
struct AttentionTick {
  bool backward = false;
  std::vector<int> micro_batch;  // of each stage; -1: it only serves attention
};
/// The ticks of one step: 2 * (micro_batches + stages - 1), as many as 1F1B has.
TUTTI_RUNTIME_API std::vector<AttentionTick> attention_ticks(int stages, int micro_batches);

struct AttentionPipelineSpec {
  int stages = 4;
  int layers = 1;                      // of a stage
  std::vector<Nanoseconds> attention;  // of each micro-batch in one layer, forward
  AttentionLayer layer;                // its attention is not used
  int64_t backward = 2;                // computing of a backward pass, times that of a forward one
  Nanoseconds transfer{0};             // of a message between stages
  Bytes message{0};
  Bytes activations{1};  // of a micro-batch in a stage, from its forward to its backward
  Bytes memory{0};       // limit of a rank; 0: none
};
/// Items are numbered (micro_batch * stages + stage) * 2 + (backward ? 1 : 0).
TUTTI_RUNTIME_API Timeline attention_pipeline(const AttentionPipelineSpec& spec);

}  // namespace tutti::runtime
