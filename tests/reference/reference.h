// The serial reference: what every rank must find in its output, one element at a time.
//
// Nothing is stored: inputs are a function, so 64 MiB on nine ranks cost no memory. Shares no code
// with the library.
// Threads: no state.
// Units:   counts and indices in elements.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/reference/number.h"

namespace tutti::reference {

enum class Collective : uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kReduce,
  kGather,
  kScatter,
  kAllToAll,
  kAllGatherV,
  kReduceScatterV,
  kAllToAllV,
  kBarrier,  // the last one: the only one without data
};
inline constexpr int kCollectives = 12;
const char* name_of(Collective collective);
bool reduces(Collective collective);
/// The call names a root.
bool is_rooted(Collective collective);
/// In place, the output is a part of the input.
bool output_is_part(Collective collective);
/// A v-collective: the shares of a buffer differ in size.
bool has_counts(Collective collective);
/// Its callers may say where in a buffer the shares begin.
bool has_offsets(Collective collective);

struct Problem {
  Collective collective = Collective::kAllReduce;
  tuttiDataType_t type = tuttiFloat32;
  tuttiRedOp_t op = tuttiSum;
  int ranks = 1;
  int root = 0;
  uint64_t count = 0;  // of a v-collective nothing
  /// Of a v-collective: the share of each rank, or [from * ranks + to] of an all_to_all_v.
  std::vector<uint64_t> counts = {};
  /// Elements before and behind every share, where there are offsets: nobody touches them.
  uint64_t gap = 0;
  /// Of a scaled sum: what each rank multiplies its input by, as bits; `op` is then a sum.
  std::vector<uint64_t> scalars = {};
  /// The inputs are such that no order of the reduction rounds anything.
  bool exact = false;
  /// The value must be that of the canonical tree, bit by bit.
  bool canonical = false;
};

/// Gives a v-collective shares of 0, of `count` and in between. Symmetric: two ranks have equally
/// much for each other, as in place they must.
void spread_counts(Problem& problem, bool symmetric);

/// The number of elements that go from a rank to another one.
uint64_t share(const Problem& problem, int from, int to);
/// Where the share of `peer` begins in a buffer of `rank` that has one for each.
uint64_t offset(const Problem& problem, bool output, int rank, int peer);

uint64_t input_elements(const Problem& problem, int rank);
uint64_t output_elements(const Problem& problem, int rank);
/// Only the root may have one.
bool has_input(const Problem& problem, int rank);
bool has_output(const Problem& problem, int rank);
/// Where a rank's input lies in its output when the call is in place, or its output in its input,
/// in elements.
uint64_t place_of(const Problem& problem, int rank);

/// The element `index` of the input of `rank`, as bits.
using Input = std::function<uint64_t(int rank, uint64_t index)>;

struct Expected {
  bool bitwise = true;
  uint64_t bits = 0;
  long double value = 0;      // if not bitwise: what it is,
  long double tolerance = 0;  // and how far from it a result may be
};

/// Where the contributions to element `index` of the output of `rank` lie in the inputs. For
/// collectives that reduce it is the same index on every rank; for others `rank` has it.
struct Place {
  int rank = 0;  // negative: the element lies between shares
  uint64_t index = 0;
};
Place source_of(const Problem& problem, int rank, uint64_t index);

/// The reduction of the ranks' elements `index`.
Expected reduce(const Problem& problem, const Input& input, uint64_t index);
/// Element `index` of the output of `rank`.
Expected expected(const Problem& problem, const Input& input, int rank, uint64_t index);

bool matches(tuttiDataType_t type, const Expected& expected, uint64_t got);
std::string show(tuttiDataType_t type, const Expected& expected);
std::string show(tuttiDataType_t type, uint64_t bits);

}  // namespace tutti::reference
