// Attention over parts of the keys, merged: the reduction that ring attention, disaggregated
// attention and shared prefixes need (the merge of Hydragen, arXiv:2402.05099, and FlashAttention:
// exact).
//
// A partial result of one row is its output over some keys and the log of the sum of exponentials
// over them (lse). Merging is associative and commutative up to rounding; for equal bits merge in
// one order, as Exchange does.
//
// Units:   an element of the reduction is one row: `width` outputs, then the lse.
// Errors:  throws Error for an lse that is NaN; rows without any key have lse -infinity and output
// 0. Threads: any.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "tutti/runtime/exchange.h"

namespace tutti::runtime {

/// acc becomes the merge of both; lse and outputs of equal shape, outputs row by row.
TUTTI_RUNTIME_API void merge_partials(std::span<double> acc_output, std::span<double> acc_lse,
                                      std::span<const double> output, std::span<const double> lse);

/// For Exchange: elements of (width + 1) * sizeof(type) bytes, float or double.
TUTTI_RUNTIME_API std::unique_ptr<Reduction> merge_rows(tuttiDataType_t type, int width);

}  // namespace tutti::runtime
