// Runs a resharding over a communicator, the cheapest way that fits its shape.
//
// The way is a pure function of the resharding and the reduction, so all ranks take the same one:
//   kAllGather       every rank gets the shares of all ranks, in rank order, by tuttiAllGather
//                    where they are equal, else by tuttiAllGatherV. One buffer is enough: pass it
//                    as source and target.
//   kReduceScatter   the reverse of kAllGather with a sum; it may be in place, too
//   kAllToAll        one run of elements for each pair of ranks; at least half of the pairs
//                    have one
//   kRounds          sends and receives, in one group for each congestion-free round
// Payloads are never staged here: each parcel goes from the source buffer to the target buffer in
// one call. A parcel that stays on its rank is a message to itself, unless it stays in place;
// counters() has both numbers of bytes.
//
// Memory:   of the host, or on a stream of a device memory of that device. Folds of the runtime's
//           own (a reduction in rounds) compute on the host: they take host memory on the BLOCKING
//           stream. A kReduceScatter is the library's and runs on every stream.
// Owns:     nothing but scratch for reductions; buffers are the caller's.
// Threads:  one at a time, as the communicator.
// Ordering: every rank of the communicator runs the same exchange. The first run on a communicator
//           compares fingerprints of all ranks before the first byte moves, and for that waits for
//           them on the host; make it before a graph is captured. Otherwise a run waits as calls
//           on its stream do: on the BLOCKING stream until it is complete.
// Errors:   throws Error; a resharding that was refused leaves the communicator usable. Ranks whose
//           exchanges differ get kRanksDiffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tutti/runtime/reshard.h"
#include "tutti/runtime/units.h"

namespace tutti::runtime {

/// Combines elements that arrive at one place from several ranks, in accumulators: those of the
/// target itself, or wider ones, which are rounded once at the end. Implementations are the only
/// code here that looks at the contents of elements.
class TUTTI_RUNTIME_API Reduction {
 public:
  virtual ~Reduction() = default;
  /// accumulators[i] becomes accumulators[i] (x) arrived[i]. Arrivals are folded in ascending
  /// source rank.
  virtual void fold(void* accumulators, const void* arrived, int64_t elements) const = 0;
  /// The size of an element; it must be that of the exchange.
  virtual Bytes element() const = 0;
  /// The size of an accumulator; that of an element if the target has them.
  virtual Bytes accumulator() const { return element(); }
  /// Makes the accumulators the identity of the fold.
  virtual void clear(void* accumulators, int64_t elements) const = 0;
  /// Where accumulators are wider: target[i] becomes accumulators[i], rounded.
  virtual void round(void* /*target*/, const void* /*accumulators*/, int64_t /*elements*/) const {}
  /// The type whose sum this fold is, if the library can fold it itself; else null.
  virtual const tuttiDataType_t* summed_type() const { return nullptr; }
};

/// The sum of elements of a floating type: float, double, or bfloat16 and float16, which are added
/// in float and rounded once, to the nearest even. The library's own collectives round such sums
/// whenever they pass them on, so these are always added here, in rounds.
TUTTI_RUNTIME_API std::unique_ptr<Reduction> sum_of(tuttiDataType_t type);

enum class ExchangeWay { kAllGather, kReduceScatter, kAllToAll, kRounds };

struct ExchangeCounters {
  int64_t runs = 0;
  int64_t calls = 0;           // collectives, and groups of sends and receives
  Bytes sent{0};               // from this rank to others, by parcels
  Bytes copied{0};             // stays on this rank: memory to memory by the runtime
  Bytes reduction_scratch{0};  // for arrivals from others, and accumulators that are no target's
};

class TUTTI_RUNTIME_API Exchange {
 public:
  /// `element` is the size of an element. With a null `reduction` no element of a target may arrive
  /// twice; any other one must outlive the exchange.
  Exchange(Resharding resharding, Bytes element, const Reduction* reduction = nullptr);

  ExchangeWay way() const { return way_; }
  const Resharding& resharding() const { return resharding_; }
  const Rounds& rounds() const { return rounds_; }

  /// Buffers of source_sizes[rank] and target_sizes[rank] elements. They may be one buffer only
  /// where the way is a collective in place; other overlaps are refused. With a reduction the
  /// target holds the folded arrivals afterwards, and nothing of what it held before. On a HOST
  /// stream or one of a device, buffers stay as they are until the stream has passed the run.
  void run(tuttiComm_t comm, const void* source, void* target,
           tuttiStream_t stream = tuttiBlocking());

  const ExchangeCounters& counters() const { return counters_; }

 private:
  struct Place {  // where a run takes place
    tuttiComm_t comm = nullptr;
    tuttiStream_t stream = tuttiBlocking();
    int rank = 0;
  };
  void agree_once(tuttiComm_t comm);
  void run_gather(const Place& place, const void* source, void* target);
  void run_scatter(const Place& place, const void* source, void* target);
  void run_all_to_all(const Place& place, const void* source, void* target);
  void run_rounds(const Place& place, const std::byte* source, std::byte* target);
  void run_round(const Place& place, std::span<const int> round, const std::byte* source,
                 std::byte* target);
  std::vector<int> staying(int rank) const;
  void place_arrivals(int rank);
  void check_buffers(int rank, const void* source, const void* target) const;
  void fold_arrivals(int rank, std::byte* target);
  size_t bytes(int64_t elements) const { return static_cast<size_t>(elements * element_.value); }

  Resharding resharding_;
  Bytes element_;
  const Reduction* reduction_;
  ExchangeWay way_ = ExchangeWay::kRounds;
  Rounds rounds_;
  ExchangeCounters counters_;
  tuttiComm_t agreed_ = nullptr;         // on which all ranks have the same exchange
  uint32_t agreed_epoch_ = 0;            // its
  std::vector<std::byte> scratch_;       // arrivals of this rank, in the order of its parcels
  std::vector<int64_t> scratch_offset_;  // of each parcel; -1: it is not this rank's
  std::vector<std::byte> accumulators_;  // empty: the target's elements are
};

/// Throws kRanksDiffer, with a sentence that names the ranks, if ranks pass different fingerprints
/// of their plans. Collective; call it before anything is sent. `what` names the plan in the
/// message.
TUTTI_RUNTIME_API void agree(tuttiComm_t comm, uint64_t fingerprint, const char* what);
TUTTI_RUNTIME_API uint64_t fingerprint(const Resharding& resharding);

}  // namespace tutti::runtime
