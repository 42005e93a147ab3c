#include "tutti/runtime/block_context.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"
#include "src/runtime/timeline_builder.h"

namespace tutti::runtime {
namespace {

std::vector<ContextBlock> cut(std::span<const int64_t> lengths, const ContextSpec& spec) {
  require(!lengths.empty(), "there are no sequences; give at least one");
  require(spec.block >= 1 && spec.grain >= 1 && spec.block % spec.grain == 0, "blocks of ",
          spec.block, " tokens are no positive multiple of the kernels' grain ", spec.grain);
  std::vector<ContextBlock> blocks;
  int64_t begin = 0, all = 0, count = 0;
  for (size_t s = 0; s < lengths.size(); ++s) {
    require(lengths[s] >= 1, "sequence ", s, " has ", lengths[s], " tokens; give 1 or more");
    all = checked_sum(all, lengths[s], "the tokens of all sequences");
    count = checked_sum(count, lengths[s] / spec.block + 1, "the number of blocks");
    check_parts(count, "blocks");
    for (int64_t before = 0; before < lengths[s];
         before = lengths[s] - before <= spec.block ? lengths[s] : before + spec.block) {
      const int64_t length = std::min(spec.block, lengths[s] - before);
      blocks.push_back({static_cast<int>(s), begin, length, before, 0});
      begin += length;
    }
  }
  return blocks;
}

void check_rates(const std::vector<KernelRate>& rates) {
  for (size_t i = 0; i < rates.size(); ++i) {
    require(rates[i].rate > 0 && rates[i].rate <= 1, "a kernel's rate is ", rates[i].rate,
            "; give shares of the best, above 0 and at most 1");
    require(rates[i].length >= 1 && (i == 0 || rates[i].length > rates[i - 1].length),
            "the rate of length ", rates[i].length, " does not follow a shorter one; sort them");
  }
}

double rate_of(const std::vector<KernelRate>& rates, int64_t length) {
  if (rates.empty()) return 1;
  const auto above =
      std::ranges::find_if(rates, [&](const KernelRate& one) { return one.length >= length; });
  if (above == rates.begin()) return rates.front().rate;
  if (above == rates.end()) return rates.back().rate;
  const KernelRate& below = *std::prev(above);
  const double part = static_cast<double>(length - below.length) /
                      static_cast<double>(above->length - below.length);
  return below.rate + part * (above->rate - below.rate);
}

int64_t cost_of(const ContextBlock& block, const ContextSpec& spec) {
  const double rate = rate_of(spec.rates, block.length);
  if (rate == 1) return block.work();
  return checked_round(std::ceil(static_cast<double>(block.work()) / rate), "a block's work");
}

WorkProblem problem_of(const std::vector<ContextBlock>& blocks, int ranks,
                       const ContextSpec& spec) {
  check_ranks(ranks);
  check_rates(spec.rates);
  WorkProblem problem;
  problem.bins.resize(at(ranks), {kNoLimit, spec.tokens_per_rank, 0});
  for (const ContextBlock& block : blocks) {
    WorkItem item;
    item.unit_cost = cost_of(block, spec);
    item.unit_memory = block.length;
    problem.items.push_back(item);
  }
  return problem;
}

/// For each block the first one of its pair: of n blocks of a sequence block i is with n - 1 - i.
std::vector<size_t> pairs_of(const std::vector<ContextBlock>& blocks) {
  std::vector<size_t> firsts;
  for (size_t begin = 0; begin < blocks.size();) {
    size_t end = begin;
    while (end < blocks.size() && blocks[end].sequence == blocks[begin].sequence) ++end;
    for (size_t b = begin; b < end; ++b) firsts.push_back(std::min(b, begin + end - 1 - b));
    begin = end;
  }
  return firsts;
}

/// The same problem with pairs of blocks as items, each in the place of its first one.
WorkProblem paired(const WorkProblem& problem, const std::vector<size_t>& firsts,
                   std::vector<size_t>& item_of) {
  WorkProblem pairs;
  pairs.bins = problem.bins;
  item_of.assign(problem.items.size(), 0);
  for (size_t b = 0; b < problem.items.size(); ++b) {
    const WorkItem& own = problem.items[b];
    if (firsts[b] == b) {
      item_of[b] = pairs.items.size();
      pairs.items.push_back(own);
      continue;
    }
    WorkItem& pair = pairs.items[item_of[b] = item_of[firsts[b]]];
    pair.unit_cost = checked_sum(pair.unit_cost, own.unit_cost, "the work of a pair");
    pair.unit_memory = checked_sum(pair.unit_memory, own.unit_memory, "the tokens of a pair");
  }
  return pairs;
}

void place(ContextPlan& plan) {
  Sharding& tokens = plan.placement;
  tokens.ranks = plan.ranks;
  for (const ContextBlock& block : plan.blocks) {
    tokens.shards.push_back({block.owner, block.begin, block.length});
    tokens.size += block.length;
  }
}

/// Every block that a rank needs and does not hold, once.
void add_pulls(ContextPlan& plan) {
  const std::vector<int64_t> local = plan.placement.local_offsets();
  plan.pulls.ranks = plan.ranks;
  for (int rank = 0; rank < plan.ranks; ++rank) {
    std::vector<bool> wanted(plan.blocks.size(), false);
    for (const ContextNeed& need : plan.needs_of(rank)) wanted[at(need.key)] = true;
    int64_t pulled = 0;
    for (size_t b = 0; b < plan.blocks.size(); ++b) {
      const ContextBlock& block = plan.blocks[b];
      if (!wanted[b] || block.owner == rank) continue;
      plan.pulls.parcels.push_back({block.owner, rank, local[b], pulled, block.length});
      plan.pulled_block.push_back(static_cast<int>(b));
      pulled += block.length;
    }
    plan.pulls.source_sizes.push_back(plan.placement.local_size(rank));
    plan.pulls.target_sizes.push_back(pulled);
  }
  plan.rounds = congestion_free(plan.pulls.parcels, plan.ranks);
}

/// One rank's tasks: messages round by round, attention on what is there.
class ContextTimelineMaker {
 public:
  ContextTimelineMaker(const ContextPlan& plan, const ContextTimes& times)
      : plan_(plan), times_(times), builder_(plan.ranks) {
    for (const std::vector<int>& round : plan.rounds) {
      for (const int parcel : round) {
        const Parcel& p = plan.pulls.parcels[at(parcel)];
        const auto [known, is_new] = channels_.emplace(std::pair(p.source, p.target), -1);
        if (is_new) known->second = builder_.channel(RankSet({p.source, p.target}));
      }
    }
  }

  Timeline make() {
    int64_t item = 0;
    for (int rank = 0; rank < plan_.ranks; ++rank) {
      const std::vector<int> unit_of_block = add_messages(rank);
      add_attention(rank, unit_of_block, item);
    }
    builder_.timeline().items = item;
    return builder_.take();
  }

 private:
  /// Returns the unit in which each block can be attended to, 0 for those that the rank holds.
  std::vector<int> add_messages(int rank) {
    std::vector<int> unit_of_block(plan_.blocks.size(), 0);
    arrivals_.clear();
    for (size_t round = 0; round < plan_.rounds.size(); ++round) {
      for (const int parcel : plan_.rounds[round]) {
        const Parcel& p = plan_.pulls.parcels[at(parcel)];
        if (p.source != rank && p.target != rank) continue;
        const int block = plan_.pulled_block[at(parcel)];
        TimelineTask task;
        task.rank = rank;
        task.kind = p.source == rank ? TaskKind::kSend : TaskKind::kRecv;
        task.track = p.source == rank ? Track::kCommHigh : Track::kCommLow;
        task.name = (p.source == rank ? "send " : "pull ") + std::to_string(block);
        task.duration = times_.pull;
        task.bytes = Bytes(p.length);
        task.tag = block;
        task.channel = channels_.at({p.source, p.target});
        const int place = builder_.add(std::move(task));
        if (p.target != rank) continue;
        const int unit = 1 + static_cast<int>(round) / times_.coalesce;
        unit_of_block[at(block)] = unit;
        builder_.task(place).writes = {buffer_of(block)};
        arrivals_[unit].push_back(place);
      }
    }
    return unit_of_block;
  }

  int buffer_of(int block) const { return block; }  // a rank's buffer of a pulled block

  void add_attention(int rank, const std::vector<int>& unit_of_block, int64_t& item) {
    std::map<int, std::vector<ContextNeed>> units;
    for (const ContextNeed& need : plan_.needs_of(rank)) {
      units[unit_of_block[at(need.key)]].push_back(need);
    }
    for (const auto& [unit, needs] : units) {
      TimelineTask task;
      task.rank = rank;
      task.name = "attend " + std::to_string(unit);
      task.item = item++;
      double pairs = 0;
      for (const ContextNeed& need : needs) {
        const ContextBlock &query = plan_.blocks[at(need.query)], &key = plan_.blocks[at(need.key)];
        pairs += static_cast<double>(
            need.query == need.key
                ? causal_work(key.length, key.length)
                : checked_product(query.length, key.length, "the pairs of two blocks"));
        if (unit > 0) task.reads.push_back(buffer_of(need.key));
      }
      std::sort(task.reads.begin(), task.reads.end());
      task.reads.erase(std::unique(task.reads.begin(), task.reads.end()), task.reads.end());
      task.duration =
          Nanoseconds(checked_round(pairs * times_.ns_per_pair, "the time of attention in ns"));
      task.after = arrivals_[unit];
      builder_.add(std::move(task));
    }
  }

  const ContextPlan& plan_;
  const ContextTimes& times_;
  TimelineBuilder builder_;
  std::map<std::pair<int, int>, int> channels_;
  std::map<int, std::vector<int>> arrivals_;  // of the rank at hand, by unit
};

}  // namespace

int64_t ContextBlock::work() const { return causal_work(length, before + length); }

std::vector<ContextNeed> ContextPlan::needs_of(int rank) const {
  std::vector<ContextNeed> needs;
  int first = 0;  // block of the sequence
  for (int b = 0; b < std::ssize(blocks); ++b) {
    if (blocks[at(b)].sequence != blocks[at(first)].sequence) first = b;
    if (blocks[at(b)].owner != rank) continue;
    for (int key = first; key <= b; ++key) needs.push_back({b, key});
  }
  return needs;
}

ContextPlan plan_context_at(std::span<const int64_t> lengths, int ranks, const ContextSpec& spec,
                            std::span<const int> owners) {
  ContextPlan plan;
  plan.ranks = ranks;
  plan.blocks = cut(lengths, spec);
  require(owners.size() == plan.blocks.size(), owners.size(), " owners for ", plan.blocks.size(),
          " blocks; give one a block");
  Assignment assignment;
  for (size_t b = 0; b < plan.blocks.size(); ++b) {
    plan.blocks[b].owner = owners[b];
    assignment.slices.push_back({static_cast<int>(b), 0, 1, owners[b]});
  }
  plan.balance = judge(problem_of(plan.blocks, ranks, spec), assignment);
  place(plan);
  add_pulls(plan);
  return plan;
}

ContextPlan plan_context(std::span<const int64_t> lengths, int ranks, const ContextSpec& spec) {
  const std::vector<ContextBlock> blocks = cut(lengths, spec);
  const WorkProblem problem = problem_of(blocks, ranks, spec);
  std::vector<size_t> item_of(blocks.size());
  std::iota(item_of.begin(), item_of.end(), size_t{0});
  const Assignment placed = lpt(spec.pairs ? paired(problem, pairs_of(blocks), item_of) : problem);
  std::vector<int> owners;
  for (const size_t item : item_of) owners.push_back(placed.slices[item].bin);
  return plan_context_at(lengths, ranks, spec, owners);
}

Timeline context_timeline(const ContextPlan& plan, const ContextTimes& times) {
  require(times.coalesce >= 1, "units of ", times.coalesce, " rounds; give 1 or more");
  require(
      std::isfinite(times.ns_per_pair) && times.ns_per_pair >= 0 && times.pull >= Nanoseconds(0),
      "a time is negative or not finite");
  return ContextTimelineMaker(plan, times).make();
}

double hiding_bandwidth(int64_t block, const AttentionShape& shape, double flops_per_ns) {
  require(block >= 1 && shape.q_heads >= 1 && shape.kv_heads >= 1 && shape.head_dim >= 1,
          "a size is not positive");
  require(shape.q_heads % shape.kv_heads == 0, shape.q_heads, " query heads are not a multiple of ",
          shape.kv_heads, " heads of keys");
  require(std::isfinite(flops_per_ns) && flops_per_ns > 0, "the rate must be positive and finite");
  const double tokens = static_cast<double>(block);
  const double attending = 4 * tokens * tokens * static_cast<double>(shape.q_heads) *
                           static_cast<double>(shape.head_dim);
  const double bytes =
      2 * 2 * tokens * static_cast<double>(shape.kv_heads) * static_cast<double>(shape.head_dim);
  return bytes / (attending / flops_per_ns);
}

Timeline example_block_context(int ranks) {
  const std::vector<int64_t> lengths{4096, 2048, 1000, 512};
  ContextSpec spec;
  spec.block = 512;
  return context_timeline(plan_context(lengths, ranks, spec), {1, Nanoseconds(100'000), 2});
}

}  // namespace tutti::runtime
