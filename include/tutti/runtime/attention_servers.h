// Attention can run on other ranks than those that hold the tokens (core attention disaggregation,
// DistCA, arXiv:2510.18121). Core attention has no weights and no state, so slices of long
// documents can move, with the keys and values that they attend to, to ranks with less work. Every
// rank serves.
//
// Exact: slices of a document are pairs of a token of its head and one of its tail, of equal work
// each; ranks in decreasing deficit take what gives most work for its bytes (deficit_fill). Ours:
// where a long document's length is no multiple of two grains, the rows between are a slice. The
// plan counts bytes as the authors do, with all keys of a document, although only the needed ones
// are sent; it also counts the output rows that go back. Not taken over: query ranges cut by the
// closed form, and the search for tasks' times; for weights of your own call deficit_fill().
//
// Each query row is attended to in one place with all its keys, so that outputs equal those of one
// process bit by bit. Two Reshardings, in tokens, say what goes over the network: that of queries,
// which in reverse moves outputs and the queries' gradients, and that of keys, which in reverse and
// with a sum moves the keys' gradients. The keys and values that move are never more than an
// all_gather would move; together with query rows they may be.
//
// Units:   tokens, query-key pairs, bytes. One causal mask a document.
// Errors:  throws Error and says what to change; kInfeasible where documents do not fit.
// Threads: values.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tutti/runtime/assign.h"
#include "tutti/runtime/cost.h"
#include "tutti/runtime/reshard.h"

namespace tutti::runtime {

struct AttentionDocument {
  int64_t tokens = 0;
  int home = 0;  // the rank whose buffers hold it, its documents one behind the other
};

struct AttentionServerSpec {
  int servers = 1;
  double epsilon = 0.1;                  // of the mean work, that a rank may lack
  int64_t grain = 128;                   // tokens; the head and the tail of a slice are multiples
  int64_t tokens_per_server = kNoLimit;  // of queries, that fit into a rank's memory
  Bytes query{2};                        // of a row; an output row has as many
  Bytes key_value{4};                    // of a row of keys and one of values
};

/// The sizes of rows with grouped-query attention, where the number of query heads is a multiple of
/// the number of heads of keys. `element` is the size of one number.
struct AttentionRowBytes {
  Bytes query{0};
  Bytes key_value{0};
};
TUTTI_RUNTIME_API AttentionRowBytes row_bytes(const AttentionShape& shape, Bytes element);

/// Query rows `first` .. `first + rows - 1` of a document, each with the document's keys up to it.
struct AttentionRun {
  int document = 0;
  int64_t first = 0;
  int64_t rows = 0;
  bool is_remote = false;    // rows lie in the buffers of what arrived, else in the rank's own
  int64_t query_offset = 0;  // of the first row
  int64_t key_offset = 0;    // of the document's first key
  int64_t pairs() const { return causal_work(rows, first + rows); }
};

struct TUTTI_RUNTIME_API AttentionPlan {
  std::vector<std::vector<AttentionRun>> runs;  // of each rank
  Resharding queries;                           // from homes to buffers of rows that arrived
  Resharding keys;
  Judgement balance;  // in pairs; its moved bytes are those planned with
  Bytes sent{0};      // queries, keys and values, outputs of a forward pass
};
TUTTI_RUNTIME_API AttentionPlan plan_attention(std::span<const AttentionDocument> documents,
                                               const AttentionServerSpec& spec);

/// The number of slices into which a long document may be cut so that its traffic stays hidden
/// under the other work of its tokens: 2 (t B - q) / kv - 1, with t ns_per_token and B
/// bytes_per_ns.
TUTTI_RUNTIME_API double most_hidden_slices(double ns_per_token, double bytes_per_ns,
                                            const AttentionRowBytes& bytes);

}  // namespace tutti::runtime
