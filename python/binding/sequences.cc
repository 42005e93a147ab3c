// Plans for sequences of unequal length: groups, blocks, servers, nodes.
#include <nanobind/stl/pair.h>

#include "part.h"
#include "record.h"
#include "tutti/runtime/attention_servers.h"
#include "tutti/runtime/block_context.h"
#include "tutti/runtime/group_choice.h"
#include "tutti/runtime/ring.h"
#include "tutti/runtime/routed.h"

namespace tutti::python {

namespace nb = nanobind;
using namespace nb::literals;
using namespace runtime;

namespace {

void add_group_choice(nb::module_& module) {
  record<FitCost>(module, "FitCost", "Fitted costs of sequence-parallel groups (FlexSP).",
                  field("square", &FitCost::square, "ms for a token pair"),
                  field("linear", &FitCost::linear, "ms for a token"),
                  field("constant", &FitCost::constant, "ms for a group that works"),
                  field("layers", &FitCost::layers, "of the model"),
                  field("hidden", &FitCost::hidden, "its width"),
                  field("bandwidth", &FitCost::bandwidth, "GB/s of groups of 2, 4, 8 ... ranks"),
                  field("tokens_per_rank", &FitCost::tokens_per_rank, "that fit into memory"));
  record<SequenceGroup>(module, "SequenceGroup", "Ranks, and the sequences that they compute.",
                        field("ranks", &SequenceGroup::ranks, "a RankSet"),
                        field("sequences", &SequenceGroup::sequences, "their numbers"),
                        field("ms", &SequenceGroup::ms, "that it takes"));
  record<GroupPlan>(module, "GroupPlan", "Groups that cover all ranks.",
                    field("groups", &GroupPlan::groups, "SequenceGroup objects"),
                    field("ms", &GroupPlan::ms, "of the slowest"));
  module.def(
      "group_choice",
      [](const Integers& lengths, int ranks, const FitCost& cost) {
        return group_choice(lengths.values, ranks, cost);
      },
      "lengths"_a, "ranks"_a, "cost"_a,
      "Sequence-parallel groups of different sizes for one step (FlexSP). `ranks` is a power of "
      "two, at most 64.\n\n"
      ">>> cost = tutti.FitCost(linear=1, tokens_per_rank=10, bandwidth=[1, 1], layers=1, "
      "hidden=1)\n"
      ">>> [list(g.ranks) for g in tutti.group_choice([20, 5, 5], 4, cost).groups]\n"
      "[[0, 1, 2, 3]]");
  record<BatchPlan>(module, "BatchPlan", "Micro-batches that fit, one after the other.",
                    field("micro_batches", &BatchPlan::micro_batches, "GroupPlan objects"),
                    field("ms", &BatchPlan::ms, "of all of them"));
  module.def(
      "split_batch",
      [](const Integers& lengths, int ranks, const FitCost& cost, int least) {
        return split_batch(lengths.values, ranks, cost, least);
      },
      "lengths"_a, "ranks"_a, "cost"_a, "least"_a = 1,
      "The fewest micro-batches, at least `least`, into which a batch fits: sorted by length, cut "
      "where the largest number of tokens is least (FlexSP).\n\n"
      ">>> cost = tutti.FitCost(linear=1, tokens_per_rank=10, bandwidth=[1, 1], layers=1, "
      "hidden=1)\n"
      ">>> batch = tutti.split_batch([20, 5, 5, 30], 4, cost)\n"
      ">>> [[g.sequences for g in m.groups if g.sequences] for m in batch.micro_batches]\n"
      "[[[0, 1, 2]], [[3]]]");
  module.def(
      "bucket_lengths",
      [](const Integers& lengths, int buckets) {
        const LengthBuckets found = bucket_lengths(lengths.values, buckets);
        return std::pair(found.bounds, found.error);
      },
      "lengths"_a, "buckets"_a,
      "(bounds, error): the cut of the lengths into so many buckets with the least padding.\n\n"
      ">>> tutti.bucket_lengths([1, 2, 9, 10], 2)\n([2, 10], 2)");
}

void add_context(nb::module_& module) {
  record<ContextBlock>(module, "ContextBlock", "A block of a sequence, and who holds it.",
                       field("sequence", &ContextBlock::sequence, "its number"),
                       field("begin", &ContextBlock::begin, "in all sequences"),
                       field("length", &ContextBlock::length, "tokens"),
                       field("before", &ContextBlock::before, "tokens of the sequence before it"),
                       field("owner", &ContextBlock::owner, "a rank"));
  record<ContextPlan>(module, "ContextPlan", "Context parallelism by blocks (FCP).",
                      field("ranks", &ContextPlan::ranks, "how many ranks there are"),
                      field("blocks", &ContextPlan::blocks, "ContextBlock objects"),
                      field("placement", &ContextPlan::placement, "a Sharding of tokens"),
                      field("pulls", &ContextPlan::pulls, "a Resharding of keys and values"),
                      field("pulled_block", &ContextPlan::pulled_block, "of each parcel of pulls"),
                      field("rounds", &ContextPlan::rounds, "parcels, round by round"),
                      field("balance", &ContextPlan::balance, "a Judgement, in pairs"))
      .def(
          "needs_of",
          [](const ContextPlan& self, int rank) {
            std::vector<std::pair<int, int>> pairs;
            for (const ContextNeed& need : self.needs_of(rank)) {
              pairs.emplace_back(need.query, need.key);
            }
            return pairs;
          },
          "rank"_a, "Pairs of a query block and a key block that the rank computes, in order.");
  module.def(
      "plan_context",
      [](const Integers& lengths, int ranks, int64_t block, int64_t grain, int64_t tokens_per_rank,
         bool pairs, const std::vector<std::pair<int64_t, double>>& rates) {
        ContextSpec spec{block, grain, tokens_per_rank, pairs, {}};
        for (const auto& [length, rate] : rates) spec.rates.push_back({length, rate});
        return plan_context(lengths.values, ranks, spec);
      },
      "lengths"_a, "ranks"_a, "block"_a = 4096, "grain"_a = 128, "tokens_per_rank"_a = kNoLimit,
      "pairs"_a = false, "rates"_a = std::vector<std::pair<int64_t, double>>(),
      "Sequences cut into blocks that are placed by their work; keys and values are pulled in "
      "congestion-free rounds. `pairs`: the first block of a sequence goes where its last one "
      "does, "
      "and so on inwards. `rates`: (length, rate) of kernels, by which work is divided.\n\n"
      ">>> plan = tutti.plan_context([8, 4], 2, block=4, grain=4)\n"
      ">>> [(b.sequence, b.owner) for b in plan.blocks], len(plan.rounds)\n"
      "([(0, 1), (0, 0), (1, 1)], 1)");
  module.def(
      "context_timeline",
      [](const ContextPlan& plan, double ns_per_pair, Nanoseconds pull, int coalesce) {
        return context_timeline(plan, {ns_per_pair, pull, coalesce});
      },
      "plan"_a, "ns_per_pair"_a = 1.0, "pull"_a = Nanoseconds(0), "coalesce"_a = 1,
      "A context plan as a Timeline; `pull` is ns of one block.\n\n"
      ">>> tutti.context_timeline(tutti.plan_context([8, 4], 2, block=4, grain=4)).check()\n[]");
  module.def(
      "ring_balance",
      [](const Sharding& blocks, const Integers& offsets) {
        const RingBalance found = ring_balance(blocks, offsets.values);
        return std::pair(found.worker, found.time);
      },
      "blocks"_a, "offsets"_a,
      "(worker, time) of ring attention with a sparse mask: query block i needs key block i - d "
      "for "
      "each offset d. 1 is perfect.\n\n"
      ">>> tutti.ring_balance(tutti.striped(8, 2, 1), range(8))\n"
      "(1.1111111111111112, 1.1111111111111112)");
}

void add_servers(nb::module_& module) {
  record<AttentionDocument>(module, "AttentionDocument", "A document, and the rank that holds it.",
                            field("tokens", &AttentionDocument::tokens, "of it"),
                            field("home", &AttentionDocument::home, "a rank"));
  record<AttentionRun>(module, "AttentionRun", "Query rows that a rank attends for.",
                       field("document", &AttentionRun::document, "its number"),
                       field("first", &AttentionRun::first, "row of the document"),
                       field("rows", &AttentionRun::rows, "how many"),
                       field("is_remote", &AttentionRun::is_remote, "rows have arrived"),
                       field("query_offset", &AttentionRun::query_offset, "of the first row"),
                       field("key_offset", &AttentionRun::key_offset, "of the first key"));
  record<AttentionPlan>(module, "AttentionPlan", "Core attention on other ranks (DistCA).",
                        field("runs", &AttentionPlan::runs, "AttentionRun objects of each rank"),
                        field("queries", &AttentionPlan::queries, "a Resharding, in tokens"),
                        field("keys", &AttentionPlan::keys, "a Resharding, in tokens"),
                        field("balance", &AttentionPlan::balance, "a Judgement, in pairs"),
                        field("sent", &AttentionPlan::sent, "bytes of a forward pass"));
  module.def(
      "plan_attention",
      [](const std::vector<AttentionDocument>& documents, int servers, double epsilon,
         int64_t grain, Bytes query, Bytes key_value) {
        AttentionServerSpec spec;
        spec.servers = servers;
        spec.epsilon = epsilon;
        spec.grain = grain;
        spec.query = query;
        spec.key_value = key_value;
        return plan_attention(documents, spec);
      },
      "documents"_a, "servers"_a, "epsilon"_a = 0.1, "grain"_a = 128, "query"_a = Bytes(2),
      "key_value"_a = Bytes(4),
      "Slices of long documents move, with the keys that they attend to, to ranks with less work. "
      "`epsilon`: of the mean work, that a rank may lack. `query`, `key_value`: bytes of a row.\n\n"
      ">>> documents = [tutti.AttentionDocument(tokens=64, home=0),\n"
      "...              tutti.AttentionDocument(tokens=16, home=1)]\n"
      ">>> tutti.plan_attention(documents, servers=2, grain=4).balance.loads\n[1040, 1176]");
}

void add_nodes(nb::module_& module) {
  record<RoutedResharding>(module, "RoutedResharding", "A resharding in steps over several cards.",
                           field("direct", &RoutedResharding::direct, "a Resharding"),
                           field("dispatch", &RoutedResharding::dispatch, "to proxies"),
                           field("cross", &RoutedResharding::cross, "between nodes"),
                           field("combine", &RoutedResharding::combine, "from proxies"));
  module.def(
      "routed",
      [](const Resharding& resharding, int ranks_per_node, int nics_per_node, int proxies) {
        return routed(resharding, {ranks_per_node, nics_per_node}, proxies);
      },
      "resharding"_a, "ranks_per_node"_a, "nics_per_node"_a, "proxies"_a,
      "Messages between nodes in pieces, each over another card (Zeppelin).\n\n"
      ">>> plan = tutti.reshard(tutti.single_root(8, 4, 0), tutti.single_root(8, 4, 3))\n"
      ">>> [(p.source, p.target) for p in tutti.routed(plan, 2, 2, 2).cross.parcels]\n"
      "[(0, 3), (1, 2)]");
  record<ZoneCost>(module, "ZoneCost", "What decides where a sequence is computed (Zeppelin).",
                   field("pair_ns", &ZoneCost::pair_ns, "computing of a pair of tokens"),
                   field("keys_and_values", &ZoneCost::keys_and_values, "bytes of a token"),
                   field("intra", &ZoneCost::intra, "a LinkClass: within a node"),
                   field("nic", &ZoneCost::nic, "a LinkClass: between nodes"),
                   field("ranks_per_node", &ZoneCost::ranks_per_node, "of each"),
                   field("nodes", &ZoneCost::nodes, "how many there are"));
  module.def(
      "zones",
      [](const Integers& lengths, const ZoneCost& cost) {
        static constexpr const char* kNames[] = {"local", "node", "between"};
        const ZoneBounds bounds = zone_bounds(cost);
        std::vector<std::pair<int, std::string>> order;
        for (const int sequence : zone_order(lengths.values, bounds)) {
          const Zone zone = zone_of(lengths.values[static_cast<size_t>(sequence)], bounds);
          order.emplace_back(sequence, kNames[static_cast<int>(zone)]);
        }
        return order;
      },
      "lengths"_a, "cost"_a,
      "(sequence, zone) in the order in which ranks take them: \"between\" nodes, by the ring of a "
      "\"node\", \"local\" (Zeppelin).\n\n"
      ">>> cost = tutti.ZoneCost(pair_ns=1, keys_and_values=100, ranks_per_node=2, nodes=2,\n"
      "...                       intra=tutti.LinkClass(bytes_per_ns=10),\n"
      "...                       nic=tutti.LinkClass(bytes_per_ns=1))\n"
      ">>> tutti.zones([10, 20, 400], cost)\n"
      "[(2, 'between'), (1, 'node'), (0, 'local')]");
  module.def(
      "remap",
      [](const Integers& have, const Integers& want, int ranks_per_node) {
        return remap(have.values, want.values, ranks_per_node);
      },
      "have"_a, "want"_a, "ranks_per_node"_a,
      "Tokens from have[r] to want[r] on each rank, with as few as can be between nodes.\n\n"
      ">>> tutti.moved(tutti.remap([4, 0, 2, 2], [2, 2, 2, 2], 2))\n2");
}

}  // namespace

void add_sequences(nb::module_& module) {
  add_group_choice(module);
  add_context(module);
  add_servers(module);
  add_nodes(module);
}

}  // namespace tutti::python
