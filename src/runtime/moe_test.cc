// Mixture of experts: training_systems 3.2 (M1), 3.3, 3.4, 3.5.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "src/runtime/crew_test.h"
#include "src/runtime/halves.h"
#include "tutti/runtime/communicators.h"
#include "tutti/runtime/exchange.h"
#include "tutti/runtime/expert_moves.h"
#include "tutti/runtime/row_dispatch.h"
#include "tutti/runtime/token_dispatcher.h"

namespace tutti::runtime {
namespace {

using Ids = std::vector<int32_t>;

Ids random_topk(std::mt19937& dice, int tokens, int k, int experts) {
  Ids topk, all(static_cast<size_t>(experts));
  std::iota(all.begin(), all.end(), 0);
  for (int t = 0; t < tokens; ++t) {
    std::shuffle(all.begin(), all.end(), dice);
    topk.insert(topk.end(), all.begin(), all.begin() + k);
  }
  return topk;
}

// 3.2 (e), M1.
TEST(RuntimeMoeIndex, SixTokensOnFourExperts) {
  const DispatchIndex index = build_index(Ids{0, 2, 1, 2, 0, 3, 2, 3, 0, 1, 1, 3}, 2, 4);
  EXPECT_EQ(index.token_of_row, (Ids{0, 2, 4, 1, 4, 5, 0, 1, 3, 2, 3, 5}));
  EXPECT_EQ(index.expert_offsets, (Ids{0, 3, 6, 9, 12}));
  EXPECT_EQ(index.expert_of_slot, (Ids{0, 2, 1, 2, 0, 3, 2, 3, 0, 1, 1, 3}));
  EXPECT_EQ(index.row_of_slot, (Ids{0, 6, 3, 7, 1, 9, 8, 10, 2, 4, 5, 11}));
  const size_t words = index.token_of_row.size() + index.expert_offsets.size() +
                       index.expert_of_slot.size() + index.row_of_slot.size();
  EXPECT_EQ(words, 3u * 6 * 2 + 4 + 1);
}

TEST(RuntimeMoeIndex, TheMapIsAPermutationAndMappingBackIsTheIdentity) {
  std::mt19937 dice(1);
  for (int i = 0; i < 200; ++i) {
    const int experts = 1 + int(dice() % 12), k = 1 + int(dice() % unsigned(experts));
    const Ids topk = random_topk(dice, int(dice() % 40), k, experts);
    const DispatchIndex index = build_index(topk, k, experts);
    Ids sorted = index.row_of_slot;
    std::sort(sorted.begin(), sorted.end());
    for (size_t row = 0; row < sorted.size(); ++row) EXPECT_EQ(sorted[row], int(row));
    for (size_t slot = 0; slot < topk.size(); ++slot) {
      const int row = index.row_of_slot[slot];
      EXPECT_EQ(index.token_of_row[size_t(row)], int(slot) / k);
      EXPECT_GE(row, index.expert_offsets[size_t(topk[slot])]);
      EXPECT_LT(row, index.expert_offsets[size_t(topk[slot]) + 1]);
    }
    EXPECT_TRUE(index.token_of_row.empty() ||
                build_index(topk, k, experts).token_of_row == index.token_of_row);
  }
}

// 3.5 (e): what is kept are the first tokens of each expert.
TEST(RuntimeMoeIndex, DroppingKeepsTheFirstTokens) {
  const Ids topk{0, 1, 0, 0, 1, 0};
  const int64_t capacity = expert_capacity(1.0, 6, 1, 2);
  EXPECT_EQ(capacity, 3);
  const DispatchIndex index = build_index(topk, 1, 2, capacity);
  EXPECT_EQ(index.token_of_row, (Ids{0, 2, 3, 1, 4}));
  EXPECT_EQ(index.row_of_slot, (Ids{0, 3, 1, 2, 4, -1}));
  std::vector<float> out(6);
  reduce_rows(index, std::vector<float>{1, 2, 3, 4, 5}, std::vector<float>(6, 2), 1, out);
  EXPECT_EQ(out, (std::vector<float>{2, 8, 4, 6, 10, 0}));
}

TEST(RuntimeMoeIndex, RefusesChoicesThatCannotBe) {
  EXPECT_REFUSED(build_index(Ids{0, 4}, 2, 4), "token 0 goes to expert 4");
  EXPECT_REFUSED(build_index(Ids{0, -1}, 2, 4), "expert -1");
  EXPECT_REFUSED(build_index(Ids{0, 1, 2, 2}, 2, 4), "token 1 goes to expert 2 twice");
  EXPECT_REFUSED(build_index(Ids{0}, 0, 4), "1 expert or more");
  EXPECT_REFUSED(build_index(Ids{0}, 5, 4), "distinct experts");
  EXPECT_REFUSED(build_index(Ids{0, 1, 2}, 2, 4), "multiple of k");
  EXPECT_REFUSED(
      build_index(std::span<const int32_t>(static_cast<const int32_t*>(nullptr), size_t{1} << 31),
                  1, 4),
      "beyond 2^31 - 1");
  EXPECT_REFUSED(expert_capacity(0.5, 4, 1, 2), "give 1 or more");
  std::vector<float> out(3);
  EXPECT_REFUSED(reduce_rows(build_index(Ids{0}, 1, 1), out, out, 1, out), "do not fit");
}

/// The tokens of a rank: small integers, so that every sum is exact.
std::vector<float> tokens_of(int rank, int tokens, int width) {
  std::vector<float> x;
  for (int i = 0; i < tokens * width; ++i) x.push_back(float((rank * 31 + i * 7) % 23 - 11));
  return x;
}

/// The layer in one process: expert e multiplies by e + 1, slots weigh 1, 2, 4 ...
std::vector<float> dense(const std::vector<float>& x, const DispatchIndex& index, int width) {
  std::vector<float> out(x.size(), 0);
  for (size_t slot = 0; slot < index.row_of_slot.size(); ++slot) {
    if (index.row_of_slot[slot] < 0) continue;
    const size_t token = slot / size_t(index.k);
    const float weight = float(1 << (slot % size_t(index.k)));
    for (size_t w = 0; w < size_t(width); ++w) {
      out[token * size_t(width) + w] +=
          weight * float(index.expert_of_slot[slot] + 1) * x[token * size_t(width) + w];
    }
  }
  return out;
}

std::vector<float> slot_weights(const DispatchIndex& index) {
  std::vector<float> weights;
  for (size_t slot = 0; slot < index.row_of_slot.size(); ++slot) {
    weights.push_back(float(1 << (slot % size_t(index.k))));
  }
  return weights;
}

// 3.2 (e), W4: rows go straight to their places, twice over one window; nothing is staged.
TEST(RuntimeRowDispatch, EqualsOneProcessAndStagesNothing) {
  constexpr int kExperts = 8, kWidth = 5, kK = 3;
  for (const int ranks : {1, 2, 4}) {
    run_ranks(ranks, [&](tuttiComm_t comm, int rank) {
      const RankSet all[] = {RankSet::range(0, ranks)};
      Communicators groups(comm);
      CounterSync counters(groups.make_own(all), kExperts);
      RowDispatch rows(comm, kExperts, 400, Bytes(kWidth * 4));
      std::mt19937 dice(unsigned(rank) + 5);
      for (int step = 0; step < 3; ++step) {
        const int tokens = 20 + 5 * rank + step;
        const DispatchIndex index =
            build_index(random_topk(dice, tokens, kK, kExperts), kK, kExperts);
        std::vector<int64_t> own;
        for (int e = 0; e < kExperts; ++e) own.push_back(index.count_of(e));
        const Counts counts = counters.wait(counters.post(0, own, int64_t{tokens} * kK));
        const std::vector<float> x = tokens_of(rank, tokens, kWidth);
        rows.dispatch(index, counts, x.data());
        auto* mine = static_cast<float*>(rows.rows());
        for (int e = 0; e < kExperts / ranks; ++e) {
          const float scale = float(rank * (kExperts / ranks) + e + 1);
          for (int64_t i = rows.offsets()[size_t(e)] * kWidth;
               i < rows.offsets()[size_t(e) + 1] * kWidth; ++i) {
            mine[i] *= scale;
          }
        }
        std::vector<float> results(size_t(index.rows()) * kWidth), out(x.size());
        rows.combine(index, results.data());
        reduce_rows(index, results, slot_weights(index), kWidth, out);
        EXPECT_EQ(out, dense(x, index, kWidth));
      }
      EXPECT_EQ(rows.counters().staged, Bytes(0));
      EXPECT_EQ(rows.counters().sent, rows.counters().fetched);
      EXPECT_LE(rows.counters().gets, 3 * (kExperts - kExperts / ranks));
    });
  }
}

// 3.4 (e): with rows of a quarter of the width, a quarter of the bytes goes over the wire.
TEST(RuntimeRowDispatch, NarrowRowsSendExactlyTheirShareOfBytes) {
  run_ranks(2, [](tuttiComm_t comm, int rank) {
    const RankSet all[] = {RankSet::range(0, 2)};
    Communicators groups(comm);
    CounterSync counters(groups.make_own(all), 4);
    std::mt19937 dice(unsigned(rank) + 1);
    const DispatchIndex index = build_index(random_topk(dice, 64, 2, 4), 2, 4);
    std::vector<int64_t> own;
    for (int e = 0; e < 4; ++e) own.push_back(index.count_of(e));
    const Counts counts = counters.wait(counters.post(0, own));
    Bytes sent[2];
    for (int i = 0; i < 2; ++i) {
      const int width = i == 0 ? 64 : 16;
      RowDispatch rows(comm, 4, 256, Bytes(width * 4));
      const std::vector<float> x = tokens_of(rank, 64, width);
      std::vector<float> results(size_t(index.rows() * width));
      rows.dispatch(index, counts, x.data());
      rows.combine(index, results.data());
      sent[i] = rows.counters().sent + rows.counters().fetched;
    }
    EXPECT_GT(sent[1], Bytes(0));
    EXPECT_EQ(sent[0], sent[1] * 4);
  });
}

TEST(RuntimeRowDispatch, RefusesTogetherWhatDoesNotFit) {
  run_ranks(2, [](tuttiComm_t comm, int rank) {
    EXPECT_REFUSED(RowDispatch(comm, 3, 8, Bytes(4)), "not a multiple of 2");
    EXPECT_REFUSED(RowDispatch(comm, 4, 0, Bytes(4)), "1 or more");
    RowDispatch rows(comm, 2, 3, Bytes(4));
    const DispatchIndex index = build_index(Ids{0, 0}, 1, 2);
    Counts counts{2, {2, 0, 2, 0}, {4, 0}};
    const float x[2] = {1, 2};
    EXPECT_REFUSED(rows.dispatch(index, counts, x), "rank 0 gets 4 rows and has room for 3");
    float out[2];
    EXPECT_REFUSED(rows.combine(index, out), "nothing to combine");
    counts.values[size_t(rank) * 2] = 1;
    EXPECT_REFUSED(rows.dispatch(index, counts, x), "exchange the counts of this index");
    const DispatchIndex one = build_index(Ids{rank}, 1, 2);
    const Counts fits{2, {1, 0, 0, 1}, {1, 1}};
    rows.dispatch(one, fits, x);
    EXPECT_REFUSED(rows.dispatch(one, fits, x), "combine() first");
    rows.combine(one, out);
    EXPECT_EQ(out[0], x[0]);
  });
}

// As a backward pass does: rows are copied out, and later results come without having been sent.
TEST(RuntimeRowDispatch, FetchesResultsThatWerePreparedFor) {
  run_ranks(2, [](tuttiComm_t comm, int rank) {
    RowDispatch rows(comm, 2, 4, Bytes(4));
    const DispatchIndex index = build_index(Ids{0, 1}, 1, 2), other = build_index(Ids{1, 0}, 1, 2);
    const Counts counts{2, {1, 1, 1, 1}, {2, 2}};
    const float x[2] = {1, 2};
    float out[2] = {};
    for (int i = 0; i < 3; ++i) {
      rows.dispatch(i % 2 == 0 ? index : other, counts, x);
      rows.release();
      EXPECT_REFUSED(rows.combine(index, out), "prepare() first");
    }
    rows.prepare(index, counts);
    EXPECT_REFUSED(rows.combine(other, out), "not the one whose rows");
    static_cast<float*>(rows.rows())[0] = float(10 * rank);
    static_cast<float*>(rows.rows())[1] = float(10 * rank + 1);
    rows.combine(index, out);
    EXPECT_EQ(out[0], float(rank));       // of rank 0, from its rows by source
    EXPECT_EQ(out[1], float(10 + rank));  // of rank 1
  });
}

void expect_layer_equals_one_process(int etp, int ep, int64_t capacity) {
  constexpr int kExperts = 8, kWidth = 3, kK = 2;
  const int ranks = etp * ep;
  const Mesh mesh({{"etp", etp}, {"ep", ep}});
  run_ranks(ranks, [&](tuttiComm_t comm, int rank) {
    using Names = std::vector<std::string>;
    Communicators cache(comm);
    TokenDispatcher layer({cache.of(mesh, Names{"etp", "ep"}), cache.of(mesh, Names{"ep"}),
                           cache.of(mesh, Names{"etp"})},
                          kExperts, kWidth);
    std::mt19937 dice(unsigned(rank) + 3);
    for (int step = 0; step < 2; ++step) {
      const int tokens = 16 + 3 * rank;
      const Ids topk = random_topk(dice, tokens, kK, kExperts);
      const DispatchIndex index = layer.prepare(topk, kK, capacity);
      const std::vector<float> x = tokens_of(rank, tokens, kWidth);
      const std::span<float> rows = layer.dispatch(x);
      const int place = rank / etp, each = kExperts / ep;
      for (int e = 0; e < each; ++e) {
        // The parts of a split expert add up to its factor.
        const int whole = place * each + e + 1;
        const float part = float(rank % etp == 0 ? whole - (etp - 1) * 100 : 100);
        for (int64_t i = layer.offsets()[size_t(e)] * kWidth;
             i < layer.offsets()[size_t(e) + 1] * kWidth; ++i) {
          rows[size_t(i)] *= part;
        }
      }
      std::vector<float> out(x.size());
      layer.combine(slot_weights(index), out);
      EXPECT_EQ(out, dense(x, index, kWidth));
    }
  });
}

// 3.5 (e): every (etp, ep) with at most eight ranks, dropless and dropping.
TEST(RuntimeTokenDispatcher, EqualsOneProcessForEveryFolding) {
  for (const int etp : {1, 2, 4}) {
    for (const int ep : {1, 2, 4}) {
      if (etp * ep > 8) continue;
      SCOPED_TRACE("etp " + std::to_string(etp) + " ep " + std::to_string(ep));
      expect_layer_equals_one_process(etp, ep, kDropless);
      if (etp * ep <= 4) expect_layer_equals_one_process(etp, ep, 4);
    }
  }
}

// The gradients by hand: y = sum over slots of w * f * x, with a factor f for each expert.
TEST(RuntimeTokenDispatcher, GradientsGoTheSameWaysWithoutAnExchangeOfCounts) {
  constexpr int kExperts = 4, kWidth = 3, kK = 2;
  for (const auto& [etp, ep] : {std::pair(1, 2), std::pair(2, 2), std::pair(1, 1)}) {
    run_ranks(etp * ep, [&](tuttiComm_t comm, int rank) {
      Communicators cache(comm);
      const Mesh mesh({{"etp", etp}, {"ep", ep}});
      using Names = std::vector<std::string>;
      TokenDispatcher layer({cache.of(mesh, Names{"etp", "ep"}), cache.of(mesh, Names{"ep"}),
                             cache.of(mesh, Names{"etp"})},
                            kExperts, kWidth);
      std::mt19937 dice(unsigned(rank) + 3);
      const int tokens = 6 + rank, each = kExperts / ep;
      const Ids topk = random_topk(dice, tokens, kK, kExperts);
      const DispatchIndex index = layer.prepare(topk, kK);
      // Each part of a split expert has an etp-th of its factor.
      const auto scale = [&](std::span<float> rows) {
        for (int e = 0; e < each; ++e) {
          for (int64_t i = layer.offsets()[size_t(e)] * kWidth;
               i < layer.offsets()[size_t(e) + 1] * kWidth; ++i) {
            rows[size_t(i)] *= float(rank / etp * each + e + 1) / float(etp);
          }
        }
      };
      const std::vector<float> x = tokens_of(rank, tokens, kWidth), weights = slot_weights(index);
      std::vector<float> out(x.size()), gradients(x.size()), of_weights(weights.size());
      for (int step = 0; step < 2; ++step) {
        EXPECT_REFUSED(layer.combine_gradients(gradients), "dispatch_gradients() comes before");
        scale(layer.dispatch(x));
        EXPECT_REFUSED(layer.dispatch_gradients(x, weights, of_weights), "combine() comes before");
        layer.combine(weights, out);
        EXPECT_EQ(out, dense(x, index, kWidth));
        const std::vector<float> of_out = tokens_of(rank + 9, tokens, kWidth);
        scale(layer.dispatch_gradients(of_out, weights, of_weights));
        layer.combine_gradients(gradients);
        EXPECT_EQ(gradients, dense(of_out, index, kWidth));
        for (size_t slot = 0; slot < weights.size(); ++slot) {
          float expected = 0;
          for (size_t w = 0; w < kWidth; ++w) {
            const size_t at = slot / kK * kWidth + w;
            expected += of_out[at] * x[at] * float(topk[slot] + 1);
          }
          EXPECT_EQ(of_weights[slot], expected);
        }
      }
    });
  }
}

/// Small whole numbers, which both types of 16 bits have exactly.
std::vector<std::byte> halves_of(tuttiDataType_t type, const std::vector<float>& values) {
  std::vector<std::byte> bytes(2 * values.size());
  Halves(type).write(values, bytes.data());
  return bytes;
}

// Rows of 16 bits, there and back and back again: with small whole numbers those of float.
TEST(RuntimeTokenDispatcher, RowsOf16BitsGoTheSameWays) {
  constexpr int kExperts = 4, kWidth = 3, kK = 2, kTokens = 5;
  for (const tuttiDataType_t type : {tuttiBfloat16, tuttiFloat16}) {
    for (const auto& [etp, ep] : {std::pair(1, 2), std::pair(2, 2)}) {
      run_ranks(etp * ep, [&](tuttiComm_t comm, int rank) {
        Communicators cache(comm);
        const Mesh mesh({{"etp", etp}, {"ep", ep}});
        using Names = std::vector<std::string>;
        TokenDispatcher layer({cache.of(mesh, Names{"etp", "ep"}), cache.of(mesh, Names{"ep"}),
                               cache.of(mesh, Names{"etp"})},
                              kExperts, kWidth, type);
        std::mt19937 dice(unsigned(rank) + 3);
        layer.prepare(random_topk(dice, kTokens, kK, kExperts), kK);
        std::vector<float> x(kTokens * kWidth), weights(kTokens * kK, 2), of_weights(kTokens * kK);
        for (size_t i = 0; i < x.size(); ++i) x[i] = float(i % 7) - 3;
        std::vector<std::byte> out(2 * x.size()), gradients(2 * x.size());
        const std::vector<std::byte> halves = halves_of(type, x);
        // Every expert gives its rows back, so that each part of it adds them once.
        layer.dispatch(halves);
        layer.combine(weights, out);
        std::vector<float> expected(x);
        for (float& v : expected) v *= float(2 * kK * etp);
        EXPECT_EQ(out, halves_of(type, expected));
        layer.dispatch_gradients(halves, weights, of_weights);
        layer.combine_gradients(gradients);
        EXPECT_EQ(gradients, halves_of(type, expected));
        for (size_t slot = 0; slot < weights.size(); ++slot) {
          float dot = 0;
          for (size_t w = 0; w < kWidth; ++w) {
            const float value = x[slot / kK * kWidth + w];
            dot += value * value * float(etp);
          }
          EXPECT_EQ(of_weights[slot], dot);
        }
      });
    }
  }
}

TEST(RuntimeRowDispatch, RefusesTheIndexOfAnotherMicroBatch) {
  run_ranks(2, [](tuttiComm_t comm, int) {
    const RankSet all[] = {RankSet::range(0, 2)};
    Communicators groups(comm);
    CounterSync counters(groups.make_own(all), 2);
    RowDispatch rows(comm, 2, 8, Bytes(4));
    const DispatchIndex index = build_index(Ids{0, 1, 0, 1}, 1, 2);
    const DispatchIndex other = build_index(Ids{0, 0, 1, 1}, 1, 2);  // with equal counts
    const std::vector<int64_t> own{2, 2};
    const std::vector<float> x{1, 2, 3, 4};
    std::vector<float> results(4);
    rows.dispatch(index, counters.wait(counters.post(0, own)), x.data());
    EXPECT_REFUSED(rows.combine(other, results.data()), "not the one whose rows were dispatched");
    rows.combine(index, results.data());
    EXPECT_EQ(results, (std::vector<float>{1, 3, 2, 4}));
  });
}

TEST(RuntimeTokenDispatcher, RefusesGroupsAndSizesThatDoNotFit) {
  run_ranks(2, [](tuttiComm_t comm, int) {
    EXPECT_REFUSED(TokenDispatcher({comm, comm, comm}, 4, 1), "they must multiply");
    Communicators cache(comm);
    const std::vector<RankSet> alone{RankSet({0}), RankSet({1})};
    const tuttiComm_t self = cache.of(alone);
    EXPECT_REFUSED(TokenDispatcher({comm, comm, self}, 3, 1), "not a multiple of the 2 ranks");
    TokenDispatcher layer({comm, comm, self}, 4, 2);
    std::vector<float> x(4);
    EXPECT_REFUSED(layer.dispatch(x), "prepare() comes before");
    EXPECT_REFUSED(layer.dispatch_gradients(x, x, x), "combine() comes before");
    EXPECT_REFUSED(layer.combine(x, x), "dispatch() comes before");
    layer.prepare(Ids{0, 1}, 1);
    EXPECT_REFUSED(layer.dispatch(std::span(x).first(3)), "12 bytes for 2 tokens");
    EXPECT_REFUSED(TokenDispatcher({comm, comm, self}, 4, 2, tuttiInt32), "not as type");
    TokenDispatcher halves({comm, comm, self}, 4, 2, tuttiBfloat16);
    EXPECT_REFUSED(halves.dispatch(x), "pass their bytes");
  });
}

// 3.3: the gate, the routes and the weights.
TEST(RuntimeExpertMoves, TheGateKeepsBalancedExpertsAtHome) {
  EXPECT_TRUE(plan_experts(std::vector<int64_t>{30, 10, 20, 20}, 2, {1, 1}, 1.3).balanced);
  EXPECT_FALSE(plan_experts(std::vector<int64_t>{40, 30, 5, 5}, 2, {1, 1}, 1.3).balanced);
  EXPECT_REFUSED(plan_experts(std::vector<int64_t>{1, 2, 3}, 2, {1, 1}, 1.3),
                 "not a multiple of 2");
  EXPECT_REFUSED(plan_experts(std::vector<int64_t>{1, 2}, 2, {1, 1}, 0.9), "give 1 or more");
  EXPECT_REFUSED(plan_experts(std::vector<int64_t>{1, 2}, 2, {0.5, 1}, 1.3), "alpha");
  EXPECT_REFUSED(push_weights(plan_experts(std::vector<int64_t>{1, 2}, 2, {1, 1}, 1), 0),
                 "1 or more");
}

TEST(RuntimeExpertMoves, EveryTokenHasOneRouteAndRanksAreBalanced) {
  std::mt19937 dice(8);
  for (int i = 0; i < 200; ++i) {
    const int ranks = 1 + int(dice() % 6), experts = ranks * (1 + int(dice() % 3));
    std::vector<int64_t> counts(size_t(ranks * experts)), loads(size_t(experts), 0);
    for (int s = 0; s < ranks; ++s) {
      for (int e = 0; e < experts; ++e) {
        loads[size_t(e)] += counts[size_t(s * experts + e)] = e == 0 ? dice() % 300 : dice() % 20;
      }
    }
    const ExpertPlan plan = plan_experts(loads, ranks, {1, 1}, 1);
    std::vector<int64_t> work(size_t(ranks), 0), covered(counts.size(), 0);
    for (const TokenRun& run : route_tokens(plan, counts)) {
      int64_t& done = covered[size_t(run.source * experts + run.expert)];
      EXPECT_EQ(run.begin, done);
      done += run.length;
      work[size_t(run.target)] += run.length;
    }
    EXPECT_EQ(covered, counts);
    const int64_t all = std::accumulate(loads.begin(), loads.end(), int64_t{0});
    EXPECT_LE(*std::max_element(work.begin(), work.end()), (all + ranks - 1) / ranks);
    if (counts[0] == 0) continue;
    counts[0] -= 1;
    EXPECT_REFUSED(route_tokens(plan, counts), "plan with the counts that are routed");
  }
}

// 3.3 (e): weights reach helpers and gradients come home, bit for bit as one process adds them.
TEST(RuntimeExpertMoves, HelpersGetWeightsAndOwnersAllGradients) {
  constexpr int kRanks = 4, kElements = 6;
  const std::vector<int64_t> loads{700, 100, 60, 40, 50, 30, 15, 5};
  const ExpertPlan plan = plan_experts(loads, kRanks, {1, 1}, 1.3);
  const auto slots = helper_slots(plan);
  EXPECT_EQ(slots, (std::vector<std::vector<int>>{{}, {0}, {0}, {0}}));
  const auto sum = sum_of(tuttiFloat32);
  run_ranks(kRanks, [&](tuttiComm_t comm, int rank) {
    std::vector<float> own(2 * kElements), copies(slots[size_t(rank)].size() * kElements);
    for (size_t i = 0; i < own.size(); ++i) own[i] = float(rank * 100 + int(i));
    Exchange push(push_weights(plan, kElements), Bytes(4));
    push.run(comm, own.data(), copies.data());
    for (size_t i = 0; i < copies.size(); ++i) EXPECT_EQ(copies[i], float(i));  // expert 0's
    EXPECT_EQ(push.counters().copied, Bytes(0));
    // Gradients: own experts first, the slots' behind them.
    std::vector<float> gradients(own.size() + copies.size()), total(own.size());
    for (size_t i = 0; i < gradients.size(); ++i) gradients[i] = float(rank + 1) / 3;
    Exchange pull(pull_gradients(plan, kElements), Bytes(4), sum.get());
    pull.run(comm, gradients.data(), total.data());
    for (size_t i = 0; i < total.size(); ++i) {
      float expected = 0;
      for (int r = 0; r < kRanks; ++r) {
        if (r == rank || (rank == 0 && i < kElements)) expected += float(r + 1) / 3;
      }
      EXPECT_EQ(total[i], expected);
    }
  });
}

}  // namespace
}  // namespace tutti::runtime
