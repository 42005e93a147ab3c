// The serial reference: what every rank must find in its output, one element at a time.
//
// Nothing is stored: inputs are a function, so 64 MiB on nine ranks cost no memory. Shares no code
// with the library. Threads: no state. Units: counts and indices in elements.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

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
  kBarrier,  // the last one: the only one without data
};
inline constexpr int kCollectives = 9;
const char* name_of(Collective collective);
bool reduces(Collective collective);
/// The call names a root.
bool is_rooted(Collective collective);
/// In place, the output is a part of the input.
bool output_is_part(Collective collective);

struct Problem {
  Collective collective = Collective::kAllReduce;
  tuttiDataType_t type = tuttiFloat32;
  tuttiRedOp_t op = tuttiSum;
  int ranks = 1;
  int root = 0;
  uint64_t count = 0;
  /// The inputs are such that no order of the reduction rounds anything.
  bool exact = false;
  /// The value must be that of the canonical tree, bit by bit.
  bool canonical = false;
};

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
  int rank = 0;
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
