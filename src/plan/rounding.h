// Which values of a call are rounded, and what a rank must know to round alike: the analysis of a
// match whose group has levels that encode.
//
// A value is what has been folded of the same contributions, whoever did it. It is rounded if any
// message of a level that encodes carries it, and has the encoding of the outermost such level.
// The rank that makes it encodes it at once and goes on with the decoded elements; a rank that
// receives it encoded passes on the same bytes.
//
// Threads: values. Errors: schedules that do not match themselves are kInternalError.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/status.h"
#include "src/plan/wire.h"
#include "src/schedule/algorithm.h"

namespace tutti::plan {

/// Of one rank; encodings are numbers of LevelEncodings::codecs, 0 of a value that is not rounded.
struct Rounding {
  std::vector<uint8_t> inputs;  // by input block
  // From `begin` of a MOVE: for every block that of the target, and for every block those of its
  // sources, in order.
  std::vector<uint8_t> targets, sources;
  std::vector<uint32_t> targets_begin, sources_begin;
  // By target, as above: whether this rank reads the elements, or returns them.
  std::vector<bool> reads;
  // Some rank of the group encodes what came to it decoded, by an exact level. That changes no bit
  // where elements hold every decoded value.
  bool encodes_again = false;

  bool rounds() const { return !inputs.empty() || !targets.empty(); }
};

/// `schedules`: of all ranks.
Result<Rounding> round_values(const schedule::Shape& shape,
                              const std::vector<schedule::Schedule>& schedules,
                              const group::GroupView& group, const LevelEncodings& wire, int rank);

}  // namespace tutti::plan
