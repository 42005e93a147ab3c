// The mean of what ranks encode: every rank gets the bytes of all ranks and adds what they decode
// to, in fp32 and in rank order, its own contribution too. So the result is equal to the bit on all
// ranks, and each contribution is encoded once, however many ranks there are.
//
// Ranks may have different codecs (SparseLoCo, arXiv:2508.15706: another number of kept values on
// another link): they tell each other their codecs when the object is made. If all have `none` and
// the divisor is that of kWorld, the sum is an all_reduce, in the canonical order.
//
// The public code of SparseLoCo's predecessor divides each element by the number of ranks that sent
// it, the paper by that of all ranks: Normalise says which. Here a rank has sent an element if what
// it decodes to is not zero.
//
// Owns:     a stream, encoded bytes, and the exchange under way; the communicator is the caller's,
//           and only this object's while an exchange is under way.
// Ordering: construction is collective; all ranks begin and finish the same exchanges.
// Threads:  one at a time.
// Errors:   throws Error for a codec that there is not, for ranks with different numbers of values
//           (kRanksDiffer), and for votes on different exchanges (kRanksDiffer, on all ranks).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "tutti/codecs.h"
#include "tutti/runtime/error.h"

namespace tutti::runtime {

enum class Normalise { kWorld, kContributors };

/// Which exchange it is, equal on all ranks, and whether this rank wants its result.
struct GatherVote {
  int64_t epoch = 0;
  int64_t step = 0;
  int64_t fragment = 0;
  bool commit = true;
};

struct GatherOutcome {
  bool commit = true;
  std::string why;  // not: which rank voted against it
};

class TUTTI_RUNTIME_API CodedGather {
 public:
  /// `codec` is this rank's, as tuttiCodecParse() takes it; `count` the number of values.
  /// `normalise` is equal on all ranks.
  CodedGather(tuttiComm_t comm, const std::string& codec, int64_t count, Normalise normalise);
  /// Waits for an exchange under way.
  ~CodedGather();

  /// Encodes and begins. A rank whose values its codec cannot carry (NaN, infinity) votes against
  /// the exchange. `feedback`, if not null, is this rank's state of error feedback (codecs.h); its
  /// memory is used until the exchange is finished, and an exchange that is not committed leaves it
  /// as it was before, so that the caller can bring the same values again.
  void begin(const GatherVote& vote, std::span<const float> values,
             const tuttiCodecFeedback_t* feedback = nullptr);
  bool is_pending() const;
  /// Waits. `mean` is left as it was if the outcome is not to commit.
  GatherOutcome finish(std::span<float> mean);
  /// Waits and forgets the result; errors of the exchange, too.
  void drop();

  /// The bytes that one exchange of this rank puts on links to all other ranks.
  int64_t bytes_of_exchange() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::runtime
