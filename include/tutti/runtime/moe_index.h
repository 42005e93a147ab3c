// Which token goes to which expert, as index lists: rows are read and reduced through them and
// never materialised in expert order by the sender (MoEBlaze; exact, but for the drop rule of MoE
// Parallel Folding, which is ours to combine).
//
// The lists are built by counting, without sorting and without atomics: equal inputs give equal
// lists, stable in token order.
//
// Units:   tokens, slots (a token's choice: slot t * k + j), rows.
// Errors:  throws Error: ids out of range, an expert twice for one token, more than 2^31 - 1 slots.
// Threads: values.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tutti/runtime/error.h"

namespace tutti::runtime {

struct DispatchIndex {
  int64_t tokens = 0;
  int k = 0;
  int experts = 0;
  std::vector<int32_t> token_of_row;    // rows grouped by expert
  std::vector<int32_t> expert_offsets;  // experts + 1: where each one's rows begin
  std::vector<int32_t> expert_of_slot;
  std::vector<int32_t> row_of_slot;  // -1: dropped

  int64_t rows() const { return std::ssize(token_of_row); }
  int64_t count_of(int expert) const {
    const size_t e = static_cast<size_t>(expert);
    return expert_offsets[e + 1] - expert_offsets[e];
  }
};

inline constexpr int64_t kDropless = -1;

/// Builds the lists. topk[t * k + j] is the j-th expert of token t. Each expert gets at most
/// `capacity` rows, those of its first tokens; with kDropless it gets all.
TUTTI_RUNTIME_API DispatchIndex build_index(std::span<const int32_t> topk, int k, int experts,
                                            int64_t capacity = kDropless);
/// Rows of an expert that a factor of at least 1 leaves room for: factor * tokens * k / experts,
/// rounded up.
TUTTI_RUNTIME_API int64_t expert_capacity(double factor, int64_t tokens, int k, int experts);

/// out[t] = sum over j of weights[t * k + j] * rows[row_of_slot[t * k + j]], in the order of j;
/// dropped slots add nothing. Rows of `width` floats.
TUTTI_RUNTIME_API void reduce_rows(const DispatchIndex& index, std::span<const float> rows,
                                   std::span<const float> weights, int width, std::span<float> out);

}  // namespace tutti::runtime
