// Merges attention over parts of the keys. It is the reduction that ring attention, disaggregated
// attention and shared prefixes need (exactly the merge of Hydragen, arXiv:2402.05099, and of
// FlashAttention).
//
// A partial result of one row is its output over some keys and the log of the sum of exponentials
// over them (lse). Merging is associative and commutative up to rounding; for equal bits merge in
// one order, as Exchange does.
//
// Units:   an element of the reduction is one row: `width` outputs, then the lse. Outputs of 16
// bits
//          are merged in float and rounded once; their lse is a float, and the width is even.
// Errors:  throws Error for an lse that is NaN or +infinity. A row without any key has lse
//          -infinity; whatever its output holds, NaN too, counts as 0.
// Threads: any.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "tutti/runtime/exchange.h"

namespace tutti::runtime {

/// Merges `output` and `lse` into `acc_output` and `acc_lse`. Both have the same shape: rows of
/// outputs one behind the other, and one lse for each row.
TUTTI_RUNTIME_API void merge_partials(std::span<double> acc_output, std::span<double> acc_lse,
                                      std::span<const double> output, std::span<const double> lse);

/// For Exchange: elements of (width + 1) * sizeof(type) bytes, of bfloat16 and float16 of
/// width * 2 + 4.
TUTTI_RUNTIME_API std::unique_ptr<Reduction> merge_rows(tuttiDataType_t type, int width);

}  // namespace tutti::runtime
