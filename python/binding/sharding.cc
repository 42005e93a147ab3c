// Shardings, and reshardings between them.
#include "tutti/runtime/sharding.h"

#include "part.h"
#include "record.h"
#include "tutti/runtime/exchange.h"
#include "tutti/runtime/reshard.h"

namespace tutti::python {

namespace nb = nanobind;
using namespace nb::literals;
using runtime::Parcel;
using runtime::Resharding;
using runtime::Shard;
using runtime::Sharding;

namespace {

void add_values(nb::module_& module) {
  record<Shard>(module, "Shard",
                "A run of a global sequence that one rank holds.\n\n"
                ">>> tutti.Shard(rank=1, begin=4, length=4)\n"
                "Shard(rank=1, begin=4, length=4)",
                field("rank", &Shard::rank, "who holds it"),
                field("begin", &Shard::begin, "the first element, in the whole sequence"),
                field("length", &Shard::length, "elements"));
  record<Sharding>(module, "Sharding",
                   "Who holds which elements of a sequence. A rank's local buffer is its shards "
                   "one behind the other.\n\n"
                   ">>> tutti.zigzag(8, 2).shards[1]\n"
                   "Shard(rank=1, begin=2, length=4)\n"
                   ">>> tutti.even(8, 2).local_size(0)\n4",
                   field("ranks", &Sharding::ranks, "how many ranks there are"),
                   field("size", &Sharding::size, "elements of the whole sequence"),
                   field("block", &Sharding::block, "no cut falls inside of so many elements"),
                   field("copies", &Sharding::copies, "how many ranks hold each element"),
                   field("shards", &Sharding::shards, "Shard objects"))
      .def("local_size", &Sharding::local_size, "rank"_a, "How many elements a rank holds.")
      .def("local_offsets", &Sharding::local_offsets,
           "Where each shard begins in its rank's local buffer.")
      .def(
          "validate", [](const Sharding& self) { runtime::validate(self); },
          "Raises InvalidInput unless exactly `copies` ranks hold each element.");
}

void add_even_cuts(nb::module_& module) {
  module.def("even", &runtime::even, "size"_a, "ranks"_a,
             "Equal contiguous shares; `size` is a multiple of `ranks`.\n\n"
             ">>> [s.begin for s in tutti.even(6, 3).shards]\n[0, 2, 4]");
  module.def("zigzag", &runtime::zigzag, "size"_a, "ranks"_a,
             "Chunks i and 2 ranks - 1 - i go to rank i: equal work under a causal mask.\n\n"
             ">>> [(s.rank, s.begin) for s in tutti.zigzag(8, 2).shards]\n"
             "[(0, 0), (1, 2), (0, 6)]");
  module.def("striped", &runtime::striped, "size"_a, "ranks"_a, "stripe"_a,
             "Stripe b of `stripe` elements goes to rank b mod ranks.\n\n"
             ">>> [(s.rank, s.begin) for s in tutti.striped(8, 2, 2).shards]\n"
             "[(0, 0), (1, 2), (0, 4), (1, 6)]");
  module.def("replicated", &runtime::replicated, "size"_a, "ranks"_a,
             "Every rank holds everything.\n\n"
             ">>> tutti.replicated(5, 3).local_size(2)\n5");
  module.def("single_root", &runtime::single_root, "size"_a, "ranks"_a, "root"_a,
             "One rank holds everything.\n\n"
             ">>> [tutti.single_root(5, 2, 1).local_size(r) for r in range(2)]\n[0, 5]");
}

void add_uneven_cuts(nb::module_& module) {
  module.def(
      "ragged",
      [](int64_t size, const Integers& units, int64_t block) {
        return runtime::ragged(size, units.values, block);
      },
      "size"_a, "units"_a, "block"_a,
      "Contiguous shares in proportion to `units`, one a rank, cut at multiples of `block` "
      "elements "
      "(RaggedShard of veScale-FSDP).\n\n"
      ">>> [s.length for s in tutti.ragged(16, [1, 3], block=2).shards]\n[4, 12]");
  module.def(
      "ragged_in_parts",
      [](int64_t size, int parts, const Integers& units, int64_t block) {
        return runtime::ragged_in_parts(size, parts, units.values, block);
      },
      "size"_a, "parts"_a, "units"_a, "block"_a,
      "ragged() within each of `parts` equal parts; rank u * parts + p holds share u of part p: "
      "Shard(0) of tensor parallelism below a ragged axis.\n\n"
      ">>> [(s.rank, s.length) for s in tutti.ragged_in_parts(16, 2, [1, 3], block=2).shards]\n"
      "[(0, 2), (2, 6), (1, 2), (3, 6)]");
  module.def(
      "blocks",
      [](const Integers& lengths, int64_t block, const Integers& owner, int ranks) {
        return runtime::blocks(lengths.values, block, owner.narrow(), ranks);
      },
      "lengths"_a, "block"_a, "owner"_a, "ranks"_a,
      "Sequences one behind the other, cut into blocks of which the last may be short; owner[i] "
      "holds the i-th block of all.\n\n"
      ">>> [(s.rank, s.length) for s in tutti.blocks([3, 2], 2, [0, 1, 0], 2).shards]\n"
      "[(0, 2), (1, 1), (0, 2)]");
  module.def(
      "zigzag_by_weight",
      [](int64_t size, int64_t block, const Integers& weights, int ranks) {
        return runtime::zigzag_by_weight(size, block, weights.values, ranks);
      },
      "size"_a, "block"_a, "weights"_a, "ranks"_a,
      "Blocks of unequal work: the heaviest go to the ranks in turn, there and back.\n\n"
      ">>> [s.rank for s in tutti.zigzag_by_weight(8, 2, [1, 2, 3, 4], 2).shards]\n[0, 1, 0]");
  module.def(
      "contiguous", [](const Integers& counts) { return runtime::contiguous(counts.values); },
      "counts"_a,
      "Shares of these sizes, one behind the other.\n\n"
      ">>> [s.begin for s in tutti.contiguous([3, 0, 2]).shards]\n[0, 3]");
  module.def(
      "from_counts",
      [](const Integers& counts, int ranks, bool at_target) {
        return runtime::from_counts(
            counts.values, ranks,
            at_target ? runtime::RoutedSide::kTarget : runtime::RoutedSide::kSource);
      },
      "counts"_a, "ranks"_a, "at_target"_a,
      "Routed tokens: counts[s * ranks + t] go from rank s to rank t. The sharding before they "
      "move, or `at_target`, after it.\n\n"
      ">>> [tutti.from_counts([1, 2, 3, 4], 2, at_target=True).local_size(r) for r in (0, 1)]\n"
      "[4, 6]");
}

void add_resharding(nb::module_& module) {
  record<Parcel>(module, "Parcel", "One run of elements that lies in one piece on both sides.",
                 field("source", &Parcel::source, "rank"), field("target", &Parcel::target, "rank"),
                 field("source_offset", &Parcel::source_offset, "in the source's local buffer"),
                 field("target_offset", &Parcel::target_offset, "in the target's local buffer"),
                 field("length", &Parcel::length, "elements"));
  record<Resharding>(
      module, "Resharding", "What moves between two shardings; tutti.Exchange runs it.",
      field("ranks", &Resharding::ranks, "how many ranks there are"),
      field("source_sizes", &Resharding::source_sizes, "of the local buffers"),
      field("target_sizes", &Resharding::target_sizes, "of the local buffers"),
      field("parcels", &Resharding::parcels, "Parcel objects, by target and then target offset"))
      .def_prop_ro(
          "fingerprint", [](const Resharding& self) { return runtime::fingerprint(self); },
          "A number that is equal on all ranks if the plan is.");
  module.def("reshard", &runtime::reshard, "source"_a, "target"_a,
             "What moves from one sharding to another. A rank that holds an element in both keeps "
             "it. Shardings of different numbers of ranks are those of checkpoints.\n\n"
             ">>> plan = tutti.reshard(tutti.even(8, 2), tutti.zigzag(8, 2))\n"
             ">>> [(p.source, p.target, p.length) for p in plan.parcels]\n"
             "[(0, 0, 2), (1, 0, 2), (0, 1, 2), (1, 1, 2)]");
  module.def("reverse", &runtime::reverse, "resharding"_a,
             "The same parcels in the other direction: where gradients go.\n\n"
             ">>> plan = tutti.reshard(tutti.even(4, 2), tutti.single_root(4, 2, 0))\n"
             ">>> tutti.reverse(plan).parcels[-1].target\n1");
  module.def("moved", &runtime::moved, "resharding"_a,
             "How many elements leave their rank.\n\n"
             ">>> tutti.moved(tutti.reshard(tutti.even(4, 2), tutti.single_root(4, 2, 0)))\n2");
  module.def(
      "congestion_free",
      [](const std::vector<Parcel>& parcels, int ranks) {
        return runtime::congestion_free(parcels, ranks);
      },
      "parcels"_a, "ranks"_a,
      "Indices of parcels, round by round: in a round each rank sends at most one and receives at "
      "most one. There are as few rounds as can be.\n\n"
      ">>> plan = tutti.reshard(tutti.even(8, 2), tutti.zigzag(8, 2))\n"
      ">>> tutti.congestion_free(plan.parcels, 2)\n[[2, 1]]");
}

}  // namespace

void add_sharding(nb::module_& module) {
  add_values(module);
  add_even_cuts(module);
  add_uneven_cuts(module);
  add_resharding(module);
}

}  // namespace tutti::python
