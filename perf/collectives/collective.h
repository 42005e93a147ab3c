// The data of each collective: buffer sizes, the blocks of its result, and nccl-tests' bandwidth
// rules. One row per collective; everything else in perf/ reads the row.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "perf/collectives/traffic.h"

namespace tutti::perf {

enum class Collective {
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
  kBarrier,
  kSendRecv,
  kHypercube,
};

/// The number of elements in a buffer of a call.
enum class Extent {
  kNothing,
  kCount,    // `count` elements
  kPerRank,  // a block for each rank: of `count` elements, or uneven ones
};

/// Bus bandwidth / algorithm bandwidth.
enum class BusRule {
  kOnce,         // 1
  kOthers,       // (n - 1) / n
  kTwiceOthers,  // 2 (n - 1) / n
};

enum class Trait {
  kReduces,  // -o applies
  kHasRoot,  // -r applies
  kInPlace,  // has an in-place form
  kOfPairs,  // the library has no such call: it is built of sends and receives
  kUneven,   // blocks per rank have different sizes: those of uneven_block()
};

/// Written as kReduces | kInPlace.
class TraitSet {
 public:
  constexpr TraitSet() = default;
  constexpr TraitSet(Trait trait) : bits_(1U << static_cast<unsigned>(trait)) {}
  constexpr bool has(Trait trait) const { return (bits_ & TraitSet(trait).bits_) != 0; }
  friend constexpr TraitSet operator|(TraitSet a, TraitSet b) {
    a.bits_ |= b.bits_;
    return a;
  }

 private:
  unsigned bits_ = 0;
};
/// Of two traits neither is a set yet.
constexpr TraitSet operator|(Trait a, Trait b) { return TraitSet(a) | TraitSet(b); }

struct CollectiveTraits {
  Collective id;
  const char* name;     // tutti perf NAME
  const char* program;  // the program of nccl-tests
  Extent send;
  Extent recv;
  BusRule bus;
  TraitSet traits;

  bool has(Trait trait) const { return traits.has(trait); }
};

const std::vector<CollectiveTraits>& all_collectives();
const CollectiveTraits& traits_of(Collective id);
/// By name ("all_to_all", "alltoall", "alltoall_perf" ...); nullptr if there is none.
const CollectiveTraits* find_collective(std::string_view name);

/// One rank of a group, and the root of the call.
struct Place {
  int rank;
  int ranks;
  int root;
};

/// Element counts of one call on one rank.
struct Shape {
  size_t count = 0;  // the argument of the call; of an uneven one, the mean block
  size_t send_count = 0;
  size_t recv_count = 0;
  std::vector<size_t> send_blocks;  // by rank, where the buffer has a block for each
  std::vector<size_t> recv_blocks;
  size_t largest_count = 0;  // the largest buffer of any rank
};

/// The call whose larger buffer has at most `elements` elements. Where the buffer holds one block
/// per rank the count is rounded down; unlike nccl-tests, not further down to a multiple of 16
/// bytes. `traffic` is that of an all_to_all_v.
Shape shape_of(Collective id, size_t elements, const Place& place,
               const Traffic& traffic = Traffic());

/// Where the input and the output lie in one shared buffer for the in-place form, in elements.
struct InPlaceOffsets {
  size_t send = 0;
  size_t recv = 0;
};
InPlaceOffsets in_place_offsets(Collective id, const Shape& shape, int rank);

/// Whether the call reads the input of this rank.
bool reads_input(Collective id, const Place& place);

/// Algorithm bandwidth = this / time, in elements; bus bandwidth = algorithm bandwidth * factor.
/// Both as nccl-tests defines them.
double algorithm_elements(Collective id, const Shape& shape, int ranks);
double bus_factor(Collective id, int ranks);

/// A piece of a rank's output: elements [first, first + count) of a rank's input, or of the
/// reduction of all inputs.
struct Block {
  static constexpr int kEveryRank = -1;
  static constexpr int kUntouched = -2;  // what was there before the call
  int source = kEveryRank;
  size_t first = 0;
  size_t count = 0;
};

/// The blocks that make up the output of one rank, in order. Of the call that shape_of() gives.
std::vector<Block> expected_blocks(Collective id, size_t elements, const Place& place,
                                   const Traffic& traffic = Traffic());

}  // namespace tutti::perf
