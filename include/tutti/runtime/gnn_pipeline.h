// Graph networks with layers as stages of a pipeline and the graph in chunks (GNNPipe,
// arXiv:2308.10087).
//
// A vertex aggregates its neighbours' embeddings of the layer before. Chunks go through the stages
// one behind the other; what a chunk needs of a chunk that comes after it is the embedding of the
// epoch before: a lag of 1. Without lag chunks must not need each other in a circle.
//
// Known from the paper's abstract: stages, chunks, historical embeddings, graph-parallel stages. A
// reconstruction: all forward passes before all backward ones of an epoch, in reverse; historical
// embeddings get no gradient. Not taken over: what the authors do for convergence.
//
// Units:   vertices, bytes, nanoseconds.
// Errors:  throws Error and says what to change.
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tutti/runtime/reshard.h"
#include "tutti/runtime/timeline.h"

namespace tutti::runtime {

struct GraphEdge {
  int64_t from = 0;
  int64_t to = 0;  // aggregates what `from` has
};

/// For each chunk the other chunks that it needs, in ascending order. chunk_of_vertex has numbers
/// from 0 on, without gaps.
TUTTI_RUNTIME_API std::vector<std::vector<int>> chunk_needs(std::span<const GraphEdge> edges,
                                                            std::span<const int> chunk_of_vertex);

struct GnnSpec {
  int stages = 2;
  int group = 1;  // ranks of a stage, graph-parallel in it; rank = stage * group + place
  int layers = 4;
  int epochs = 2;
  int lag = 1;                          // epochs that a needed embedding may be old: 0 or 1
  std::vector<std::vector<int>> needs;  // of each chunk
  std::vector<int64_t> vertices;        // of each chunk, multiples of the group
  Bytes row{4};                         // of an embedding
  Nanoseconds forward{1'000'000};       // of a chunk in a layer, on each rank of a group
  Nanoseconds backward{2'000'000};
  Nanoseconds transfer{0};  // of a chunk's message between stages
  Nanoseconds exchange{0};  // between the ranks of a group, before each layer
  Bytes boundary{0};        // from each rank to each in it
};

/// The order in which chunks pass a stage: by number or, without lag, each behind those that it
/// needs.
TUTTI_RUNTIME_API std::vector<int> chunk_order(const GnnSpec& spec);
/// Which epoch's embedding of a needed chunk a chunk uses: `epoch` or the one before.
TUTTI_RUNTIME_API int version_of(const GnnSpec& spec, int epoch, int chunk, int needed);
/// Layers begin .. end - 1 are a stage's.
struct LayerRange {
  int begin = 0;
  int end = 0;
};
TUTTI_RUNTIME_API LayerRange layers_of(const GnnSpec& spec, int stage);

/// A pass's tag is (epoch * chunks + chunk) * 2 + (backward ? 1 : 0); its name begins with F or B.
/// A stage of one rank computes all its layers in one task, one of a group a layer in each.
TUTTI_RUNTIME_API Timeline gnn_pipeline(const GnnSpec& spec);

/// The bytes that all stages send each other in one pass over all chunks.
TUTTI_RUNTIME_API Bytes stage_bytes(const GnnSpec& spec);
/// The rows that graph-parallel ranks exchange before a layer, in true sizes. A rank's source
/// buffer has the rows of its own vertices, in ascending number; its target buffer those of others
/// that its vertices aggregate, once each, by rank and then number. In reverse and with a sum the
/// gradients go back.
struct GraphBoundary {
  Resharding rows;
  std::vector<std::vector<int64_t>> halo;  // of each rank: the vertices in its target buffer
};
TUTTI_RUNTIME_API GraphBoundary graph_boundary(std::span<const GraphEdge> edges,
                                               std::span<const int> part_of_vertex, int parts);

/// The bytes that graph parallelism would move instead: in each layer, each vertex goes to every
/// other part that has a neighbour of it.
TUTTI_RUNTIME_API Bytes graph_parallel_bytes(std::span<const GraphEdge> edges,
                                             std::span<const int> part_of_vertex, int layers,
                                             Bytes row);

}  // namespace tutti::runtime
