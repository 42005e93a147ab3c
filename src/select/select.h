// Which algorithm runs a call: every registered candidate, ranked by predicted time, with the
// reason why each of the others lost. Pure: the same query gives the same ranking on every rank.
//
// Threads: pure but for the prices, which remember what they counted. Errors: say why each
// candidate was rejected.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "src/schedule/algorithm.h"
#include "src/select/level_prices.h"
#include "src/select/shared_use.h"

namespace tutti::select {

/// The bounds of what lowering can hold, equal on all ranks. By default there are none.
struct Limits {
  uint32_t sources = ~0u;  // of one MOVE
  // A rank stages about slice_bytes for a slice if it can, and never more than frame_bytes.
  uint64_t slice_bytes = uint64_t{1} << 62;
  uint64_t frame_bytes = ~uint64_t{0};
};

struct Candidate {
  const schedule::Algorithm* algorithm = nullptr;
  schedule::Parameters parameters;
  double predicted_ns = 0;
  std::string rejected;  // why it may not run; empty: it may
  // Its slices have so many blocks that, padded to cache lines, they hardly fit a frame. It runs
  // only where no other can. Messages between hosts and direct ones are not staged, so some would
  // have fitted; but how they travel is an affair of each host, and all ranks must choose alike.
  bool overflows = false;
  uint64_t far_slices = 0;  // Price
  bool encodes = false;
  // Its plans have shared places (plan/shared_places.h). `other_ns`: the prediction of the other
  // way, where it could go either way; else 0.
  bool shares = false;
  double other_ns = 0;
};

struct Query {
  schedule::Collective collective = schedule::Collective::kAllReduce;
  // But for the lanes, which are the candidate's: as many as are forced, else one, or as many
  // phases apart as cost the least.
  schedule::Parameters parameters;
  uint64_t count = 0;
  uint32_t element_bytes = 1;
  bool in_place = false;
  bool deterministic = false;
  bool vectors = false;           // a v-collective; then `count` is its longest share
  std::string_view forced;        // "ring", "ring:2" (lanes); empty: choose
  std::string_view forced_by;     // for messages: "TUTTI_ALGORITHM"
  LevelPrices* prices = nullptr;  // of the group
  // By level of the prices, where the messages of some may be encoded. A candidate is priced both
  // ways and takes the cheaper one, unless it must encode.
  std::vector<WirePrice> wires = {};
  bool must_encode = false;
  // Where the call may have shared places; else null. A candidate whose plans can is priced both
  // ways, too.
  const Sharing* sharing = nullptr;
  Limits limits;
  // Whether its frames fit, exactly; equal on all ranks. It is asked of candidates that overflow,
  // and where nothing else may run. Empty: nobody knows.
  std::function<bool(const Candidate&)> fits{};
};

/// Best first; those that may not run last.
std::vector<Candidate> rank_candidates(std::span<const schedule::Algorithm> algorithms,
                                       const Query& query);

/// The winner, or an error that says why every candidate was rejected. Of those that overflow the
/// best that fits; where none does the best, since who calls may know that it is not staged.
Result<Candidate> choose(std::span<const schedule::Algorithm> algorithms, const Query& query);

}  // namespace tutti::select
