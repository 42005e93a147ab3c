// Numbers at the ends of their types go through every planner: each answers or refuses with an
// Error, and does nothing that the sanitizers would report.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "src/runtime/crew_test.h"
#include "tutti/runtime/attention_servers.h"
#include "tutti/runtime/attention_timelines.h"
#include "tutti/runtime/block_context.h"
#include "tutti/runtime/counters.h"
#include "tutti/runtime/expert_moves.h"
#include "tutti/runtime/generators.h"
#include "tutti/runtime/gnn_pipeline.h"
#include "tutti/runtime/group_choice.h"
#include "tutti/runtime/layouts.h"
#include "tutti/runtime/memory_plan.h"
#include "tutti/runtime/moe_index.h"
#include "tutti/runtime/nano.h"
#include "tutti/runtime/narrow.h"
#include "tutti/runtime/ragged_fsdp.h"
#include "tutti/runtime/ring.h"
#include "tutti/runtime/routed.h"

namespace tutti::runtime {
namespace {

using Numbers = std::vector<int64_t>;
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();

/// Mostly numbers that make sense, so that the others get past the first check.
class Dice {
 public:
  explicit Dice(unsigned seed) : random_(seed) {}

  int64_t any() {
    constexpr int64_t kEnds[] = {0,
                                 -1,
                                 kMost,
                                 kLeast,
                                 int64_t{1} << 62,
                                 kMost - 1,
                                 kMost / 2,
                                 int64_t{1} << 31,
                                 int64_t{1} << 53,
                                 kMost / 3};
    if (one_in(6)) return kEnds[random_() % std::size(kEnds)];
    return 1 + int64_t(random_() % 9);
  }
  int count() {
    constexpr int kEnds[] = {0, -1, std::numeric_limits<int>::max(),
                             std::numeric_limits<int>::min(), 1 << 30};
    if (one_in(8)) return kEnds[random_() % std::size(kEnds)];
    return 1 + int(random_() % 8);
  }
  double real() {
    constexpr double kEnds[] = {0,
                                -1,
                                1e300,
                                -1e300,
                                1e-300,
                                1e18,
                                std::numeric_limits<double>::infinity(),
                                std::numeric_limits<double>::quiet_NaN()};
    if (one_in(6)) return kEnds[random_() % std::size(kEnds)];
    return 0.25 * double(1 + random_() % 8);
  }
  Nanoseconds time() { return Nanoseconds(any()); }
  Bytes bytes() { return Bytes(any()); }
  bool one_in(unsigned n) { return random_() % n == 0; }
  Numbers numbers() {
    Numbers list(random_() % 6);
    for (int64_t& number : list) number = any();
    return list;
  }

 private:
  std::mt19937 random_;
};

/// Runs many cases of a planner; an exception that is no Error fails the test.
void try_often(const std::function<void(Dice&)>& planner, int cases = 3000) {
  int answered = 0;
  for (int i = 0; i < cases; ++i) {
    Dice dice(static_cast<unsigned>(i));
    try {
      planner(dice);
      ++answered;
    } catch (const Error&) {
    }
  }
  EXPECT_GT(answered, 0) << "every case was refused: nothing was tried";
}

void look_at(const Timeline& timeline) {
  if (timeline.tasks.size() > 4000) return;
  if (!check(timeline).empty()) return;
  summarize(timeline, simulate(timeline));
  fingerprint(timeline);
}

TEST(RuntimeExtremes, Shardings) {
  try_often([](Dice& dice) {
    const std::function<Sharding()> makers[] = {
        [&] { return even(dice.any(), dice.count()); },
        [&] { return ragged(dice.any(), dice.numbers(), dice.any()); },
        [&] { return zigzag(dice.any(), dice.count()); },
        [&] { return striped(dice.any(), dice.count(), 1 + (dice.any() & 7)); },
        [&] { return contiguous(dice.numbers()); },
        [&] { return replicated(dice.any(), dice.count()); },
        [&] { return single_root(dice.any(), dice.count(), dice.count()); },
        [&] { return zigzag_by_weight(dice.any(), dice.any(), dice.numbers(), dice.count()); },
        [&] {
          return blocks(dice.numbers(), dice.any(), std::vector<int>{0, 1, 0}, dice.count());
        },
        [&] {
          return from_counts(Numbers{dice.any(), 2, dice.any(), 1}, 2, RoutedSide::kTarget);
        }};
    const Sharding sharding = makers[size_t(dice.any()) % std::size(makers)]();
    validate(sharding);
    if (sharding.ranks > 64 || sharding.shards.size() > 1000) return;
    const Resharding moves = reshard(sharding, replicated(sharding.size, sharding.ranks));
    moved(reverse(moves));
    congestion_free(moves.parcels, moves.ranks);
  });
  try_often([](Dice& dice) {
    const Parcel parcel{dice.count(), dice.count(), dice.any(), dice.any(), dice.any()};
    validate(Resharding{2, {dice.any(), 4}, {dice.any(), 9}, {parcel}});
  });
}

TEST(RuntimeExtremes, Buckets) {
  try_often([](Dice& dice) {
    std::vector<BucketTensor> tensors(size_t(dice.any() & 3));
    for (BucketTensor& tensor : tensors) {
      tensor.block = dice.any();
      tensor.elements = dice.one_in(2) ? tensor.block : dice.any();
    }
    const BucketPlan plan = plan_bucket(tensors, dice.count(), dice.any());
    EXPECT_GE(plan.padding(), 0);
    if (plan.ranks < 64) tensor_sharding(plan, 0);
  });
  try_often([](Dice& dice) { choose_roots(dice.numbers(), dice.count()); });
  try_often([](Dice& dice) { ragged_block(dice.numbers(), std::vector<int>{0}, dice.any()); });
}

WorkProblem problem_of(Dice& dice) {
  WorkProblem problem;
  problem.items.resize(size_t(dice.any() & 7));
  problem.bins.resize(1 + size_t(dice.any() & 3));
  for (WorkItem& item : problem.items) {
    item.home = int(dice.any() & 1);
    item.units = dice.any();
    if (dice.one_in(2)) item.grain = dice.any();
    if (dice.one_in(2)) item.unit_cost = dice.any();
    if (dice.one_in(4)) item.unit_memory = dice.any();
    if (dice.one_in(4)) item.move_fixed = dice.bytes();
    if (dice.one_in(4)) item.move_per_unit = dice.bytes();
  }
  for (WorkBin& bin : problem.bins) {
    if (dice.one_in(4)) bin.capacity = dice.any();
    if (dice.one_in(4)) bin.memory = dice.any();
    bin.node = dice.count();
  }
  return problem;
}

TEST(RuntimeExtremes, Assignments) {
  try_often([](Dice& dice) { lpt(problem_of(dice)); });
  try_often([](Dice& dice) { two_level(problem_of(dice)); });
  try_often([](Dice& dice) { exact(problem_of(dice)); }, 500);
  try_often([](Dice& dice) { deficit_fill(problem_of(dice), dice.real()); });
  try_often([](Dice& dice) {
    WorkProblem problem = problem_of(dice);
    for (WorkItem& item : problem.items) item.grain = item.unit_cost = 1;
    least_loaded_spill(problem, {dice.real(), dice.any()});
  });
  try_often([](Dice& dice) {
    judge(problem_of(dice), Assignment{{{dice.count(), dice.any(), dice.any(), 0}}});
    judge(WorkProblem{{}, {{}}}, {});
  });
}

TEST(RuntimeExtremes, ExpertsAndIndexes) {
  try_often([](Dice& dice) {
    const Numbers loads{dice.any(), dice.any(), dice.any(), dice.any()};
    const ExpertPlan plan = plan_experts(loads, dice.count(), {dice.real(), dice.any()}, 1.0);
    push_weights(plan, dice.any());
    pull_gradients(plan, dice.any());
    Numbers counts(size_t(plan.ranks) * 4, 0);
    std::copy(loads.begin(), loads.end(), counts.begin());
    route_tokens(plan, counts);
    for (int64_t& count : counts) count = dice.any();
    if (dice.one_in(2)) route_tokens(plan, counts);
  });
  try_often(
      [](Dice& dice) { expert_capacity(dice.real(), dice.any(), dice.count(), dice.count()); });
  try_often([](Dice& dice) {
    const std::vector<int32_t> topk{dice.count(), 1, 2, dice.count()};
    build_index(topk, dice.count(), dice.count() & 0xffff, dice.any());
  });
  try_often([](Dice& dice) {
    load_balance_loss(Numbers{dice.any(), dice.any()}, std::vector<double>{dice.real(), 0.5});
  });
}

TEST(RuntimeExtremes, AttentionAndSequences) {
  try_often([](Dice& dice) {
    std::vector<AttentionDocument> documents(1 + size_t(dice.any() & 3));
    for (AttentionDocument& document : documents) {
      document = {dice.one_in(2) ? 256 * (dice.any() & 15) : dice.any(), int(dice.any() & 1)};
    }
    AttentionServerSpec spec;
    spec.servers = dice.count();
    if (dice.one_in(2)) spec.epsilon = dice.real();
    if (dice.one_in(2)) spec.grain = dice.any();
    if (dice.one_in(3)) spec.query = dice.bytes();
    if (dice.one_in(3)) spec.key_value = dice.bytes();
    plan_attention(documents, spec);
  });
  try_often([](Dice& dice) {
    ContextSpec spec{dice.any(), dice.any(), dice.any()};
    if (dice.one_in(2)) spec = {128, 128, kNoLimit};
    const ContextPlan plan = plan_context(dice.numbers(), dice.count(), spec);
    if (plan.blocks.size() > 200 || plan.ranks > 64) return;
    look_at(context_timeline(plan, {dice.real(), dice.time(), dice.count()}));
  });
  try_often([](Dice& dice) {
    FitCost cost;
    cost.square = dice.real();
    cost.linear = dice.real();
    cost.layers = dice.any();
    cost.hidden = dice.any();
    cost.bandwidth = {4, 3, 2};
    cost.tokens_per_rank = dice.any();
    group_choice(dice.numbers(), 1 << (dice.any() & 3), cost);
    cost.sequence_ms(dice.any(), dice.count());
  });
  try_often([](Dice& dice) { bucket_lengths(dice.numbers(), dice.count()); });
  try_often([](Dice& dice) {
    const AttentionShape shape{dice.any(), dice.any(), dice.any()};
    row_bytes(shape, dice.bytes());
    hiding_bandwidth(dice.any(), shape, dice.real());
    most_hidden_slices(dice.real(), dice.real(), {dice.bytes(), dice.bytes()});
  });
}

TEST(RuntimeExtremes, Costs) {
  try_often([](Dice& dice) {
    const Machine machine({{2, {dice.time(), dice.real()}}, {4, {Nanoseconds(1), 1}}}, 8);
    const RankSet group({int(dice.any() & 7), dice.count()});
    machine.span_of(group);
    machine.places_touched(group, dice.count());
  });
  try_often([](Dice& dice) {
    const Machine machine({{2, {dice.time(), dice.real()}}, {4, {dice.time(), dice.real()}}}, 8);
    collective_time(machine, RankSet::range(0, 1 + int(dice.any() & 7)), TaskKind::kAllReduce,
                    dice.bytes());
    message_time({dice.time(), dice.real()}, dice.bytes());
    causal_work(dice.any(), dice.any());
    WorkGrid({1, 8}, {2, 4}, {dice.time(), dice.time(), dice.time(), dice.time()})
        .time(dice.any(), dice.any());
  });
  try_often([](Dice& dice) {
    const ModelShape model{dice.any(), dice.any(), 1, dice.any(), dice.any(), dice.one_in(2)};
    const Machine machine({{4, {Nanoseconds(1), dice.real()}}}, 4);
    const Bytes memory = dice.one_in(2) ? dice.bytes() : Bytes(kMost);
    search_layouts(model, {dice.any(), dice.real(), 0.5, memory}, machine);
  });
  try_often([](Dice& dice) { narrow_width(dice.any(), dice.any(), dice.any(), dice.any()); });
  try_often([](Dice& dice) {
    dispatch_volume({dice.any(), dice.any(), 1, dice.any(), 1, dice.any()});
    block_volumes({dice.any(), dice.any(), dice.any(), dice.any(), 1}, 1);
  });
}

TEST(RuntimeExtremes, Memory) {
  try_often([](Dice& dice) {
    MemoryModel model;
    model.blocks.resize(1 + size_t(dice.any() & 3));
    for (MemoryBlock& block : model.blocks) {
      block.chunks = dice.one_in(9) ? dice.count() : 1;
      if (dice.one_in(3)) block.forward = dice.time();
      if (dice.one_in(3)) block.backward = dice.time();
      if (dice.one_in(3)) block.swap = dice.time();
      if (dice.one_in(3)) block.activations = dice.bytes();
      if (dice.one_in(3)) block.transient = dice.bytes();
    }
    if (dice.one_in(2)) model.costs.states = model.costs.parameters = dice.bytes();
    if (dice.one_in(3)) model.costs.upload = dice.time();
    if (dice.one_in(3)) model.costs.host_update = dice.time();
    swap_interval(model);
    if (model.blocks.front().chunks > 100) return;
    const MemoryPlan plan = search_memory(model, dice.bytes());
    judge(model, plan);
    look_at(chunked_step(model, plan, dice.count()));
  });
  try_often([](Dice& dice) {
    pack_chunks(std::vector<Bytes>{dice.bytes(), dice.bytes(), dice.bytes()}, dice.bytes());
  });
}

TEST(RuntimeExtremes, Timelines) {
  try_often(
      [](Dice& dice) {
        PipelineSpec spec{dice.count(), dice.count(), dice.count(), dice.count(), dice.count()};
        if (dice.one_in(2)) spec.chunks = 1, spec.layers = 0;
        if (dice.one_in(2)) spec.group = 0;
        if (dice.one_in(3)) spec.forward = dice.time();
        if (dice.one_in(3)) spec.transfer = dice.time();
        if (dice.one_in(3)) spec.weights = dice.one_in(2) ? dice.time() : spec.backward / 2;
        if (dice.one_in(3)) spec.stage_layers = {dice.count(), dice.count(), dice.count(), 1};
        if (dice.one_in(3)) spec.activations = dice.bytes();
        if (dice.one_in(3)) spec.memory = dice.bytes();
        look_at(pipeline(spec));
      },
      1000);
  try_often(
      [](Dice& dice) {
        FsdpSpec spec{dice.count(), dice.count(), dice.count(),
                      dice.time(),  dice.time(),  dice.time()};
        if (dice.one_in(2)) spec.layer = dice.bytes();
        if (dice.one_in(2)) spec.memory = dice.bytes();
        look_at(fsdp(spec));
        DdpSpec buckets{
            dice.count(), dice.time(), dice.time(), {{dice.time(), dice.time(), dice.bytes()}}};
        look_at(ddp(buckets));
      },
      1000);
  try_often(
      [](Dice& dice) {
        RingSpec spec{dice.count(), dice.count(), dice.time(),
                      dice.time(),  dice.time(),  dice.time()};
        look_at(ring(spec));
        look_at(two_level_ring(spec));
      },
      500);
}

TEST(RuntimeExtremes, TimelinesOfSystems) {
  try_often(
      [](Dice& dice) {
        AttentionLayer layer{dice.time(), dice.time(), dice.time(), dice.time(), dice.time()};
        look_at(ping_pong({dice.count(), dice.count(), dice.count(), layer}));
        AttentionPipelineSpec spec;
        spec.stages = dice.count();
        spec.layers = dice.count();
        spec.attention = {dice.time(), dice.time(), dice.time()};
        spec.layer = layer;
        spec.backward = dice.any();
        look_at(attention_pipeline(spec));
      },
      1000);
  try_often(
      [](Dice& dice) {
        NanoSpec spec = layered(dice.count(), dice.time(), dice.time(), dice.count());
        spec.ranks = dice.count();
        if (dice.one_in(3)) spec.tokens = dice.any();
        if (dice.one_in(3)) spec.token_bytes = dice.bytes();
        look_at(nano_batches(spec));
      },
      1000);
  try_often([](Dice& dice) {
    const std::vector<SharePoint> table{{0.25, 0.5}, {0.5, dice.real()}};
    admit(table, dice.time(), dice.time(), dice.real());
  });
  try_often(
      [](Dice& dice) {
        GnnSpec spec;
        spec.stages = dice.count();
        spec.group = dice.count();
        spec.layers = dice.count();
        spec.epochs = dice.count();
        spec.needs = {{1}, {0}};
        spec.vertices = {dice.any(), dice.any()};
        spec.row = dice.bytes();
        spec.forward = dice.time();
        spec.boundary = dice.bytes();
        look_at(gnn_pipeline(spec));
        stage_bytes(spec);
      },
      1000);
}

TEST(RuntimeExtremes, Routes) {
  try_often([](Dice& dice) {
    const Resharding moves{4,
                           {dice.any(), 9, 9, 9},
                           {9, 9, dice.any(), 9},
                           {{0, 2, 0, 0, dice.any()}, {1, 3, 0, 0, 9}, {dice.count(), 3, 0, 0, 9}}};
    NodeShape shape{2, dice.count()};
    if (dice.one_in(3)) shape.card_of = {0, dice.count()};
    routed(moves, shape, dice.count());
  });
  try_often([](Dice& dice) {
    routed_time(dice.bytes(), dice.count(), {dice.time(), dice.real()}, {dice.time(), 1});
  });
  try_often([](Dice& dice) {
    const Numbers have{dice.any(), dice.any(), dice.any()};
    remap(have, dice.one_in(2) ? have : Numbers{have[1], have[2], have[0]}, 1);
  });
}

// Each of these used to be accepted, or answered with a number that wrapped.
TEST(RuntimeExtremes, NumbersThatOverflowAreRefusedOrMeanNoLimit) {
  FitCost cost;
  cost.linear = 1;
  cost.bandwidth = {100, 90, 80};
  cost.tokens_per_rank = kMost;
  EXPECT_EQ(group_choice(Numbers{4096}, 8, cost).groups.size(),
            group_choice(Numbers{4096}, 8,
                         [&] {
                           FitCost enough = cost;
                           enough.tokens_per_rank = 1 << 20;
                           return enough;
                         }())
                .groups.size());
  for (const double alpha : {1e6, 1e18, 1e300}) {
    for (const WorkSlice& s :
         plan_experts(Numbers{1000, 10, 20, 30}, 4, {alpha, 1}, 1.0).assignment.slices) {
      EXPECT_EQ(s.bin, s.item) << alpha;
    }
  }
  EXPECT_REFUSED(expert_capacity(1e300, 4, 1, 2), "beyond 2^63 - 1");
  EXPECT_REFUSED(remap(Numbers{kMost, kMost, 2}, Numbers{0, 0, 0}, 1), "beyond 2^63 - 1");
  EXPECT_REFUSED(message_time({Nanoseconds(0), 1e-9}, Bytes(kMost)), "beyond 2^63 - 1");
  EXPECT_REFUSED(load_balance_loss(Numbers{1, 3}, std::vector<double>{std::nan(""), 0.5}),
                 "finite numbers");
  EXPECT_REFUSED(zigzag_by_weight(2, 1, Numbers{-5, 3}, 2), "weight -5");
  EXPECT_REFUSED(Machine({{2, {}}, {4, {}}}, 8).places_touched(RankSet({100}), 0), "rank 100");
  EXPECT_REFUSED((ModelShape{4, int64_t{1} << 31, 8, 1, 1, true}.parameters()), "parameters");
  FsdpSpec layers;
  layers.forward = Nanoseconds(-5);
  EXPECT_REFUSED(fsdp(layers), "-5 ns");
  DdpSpec buckets;
  buckets.buckets = {{Nanoseconds(-5), Nanoseconds(1), Bytes(1)}};
  EXPECT_REFUSED(ddp(buckets), "a bucket has a negative time");
  MemoryModel model;
  model.blocks.assign(3, {});
  for (MemoryBlock& block : model.blocks) block.activations = Bytes(int64_t{1} << 62);
  EXPECT_REFUSED(judge(model, {3, 0, 0, 0}), "beyond 2^63 - 1");
}

}  // namespace
}  // namespace tutti::runtime
