// Element types and reductions as the command line names them, and exact conversion of numbers.
//
// Deliberately independent of the library's own conversions and kernels: results are judged by
// this.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "tutti/tutti.h"

namespace tutti::perf {

struct DataType {
  tuttiDataType_t id;
  const char* name;  // nccl-tests' name
  size_t bytes;
  bool is_float;
  bool is_signed;
  int significand_bits;  // integers up to 2^significand_bits are exact, and so are their sums
  int exponent_budget;   // 2^k is representable for |k| <= budget (integers: 0 <= k <= budget)
};

const std::vector<DataType>& all_data_types();
const DataType& data_type(tuttiDataType_t id);

/// A sum of what each rank has multiplied by a scalar of its own. Stands in, in options and tables,
/// for the operation that a rank makes for it (ReadyOperation).
inline constexpr tuttiRedOp_t kMulSum = tuttiMaxRedOp;

/// The scalar of a rank: nccl-tests' 1, 2, 1, 2 ...
inline double mulsum_scalar(int rank) { return rank % 2 == 0 ? 1 : 2; }

struct ReduceOp {
  tuttiRedOp_t id;
  const char* name;
};

const std::vector<ReduceOp>& all_reduce_ops();
/// Whether the operation is defined for the type.
bool is_defined(const DataType& type, tuttiRedOp_t op);

/// How values are combined bit by bit: by bitwise operations, and by every operation on bools.
enum class Logic { kNone, kAnd, kOr, kXor };
Logic logic_of(const DataType& type, tuttiRedOp_t op);
/// Of whole numbers that are not negative. Requires: not Logic::kNone.
double combined(Logic logic, double a, double b);

const char* reduce_op_name(tuttiRedOp_t id);

/// One name, or "all". Errors: PerfError that lists the names.
std::vector<tuttiDataType_t> parse_data_types(std::string_view name);
std::vector<tuttiRedOp_t> parse_reduce_ops(std::string_view name);

/// Writes `value` as one element. Requires: `value` is representable in the type.
void encode(const DataType& type, double value, std::byte* element);
double decode(const DataType& type, const std::byte* element);

}  // namespace tutti::perf
