// Disaggregated attention: training_systems 3.8 (C1, C2).
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "src/runtime/crew_test.h"
#include "tutti/runtime/attention_servers.h"
#include "tutti/runtime/attention_timelines.h"
#include "tutti/runtime/exchange.h"
#include "tutti/runtime/generators.h"

namespace tutti::runtime {
namespace {

using Documents = std::vector<AttentionDocument>;

AttentionServerSpec spec_of(int servers, double epsilon, int64_t grain) {
  AttentionServerSpec spec;
  spec.servers = servers;
  spec.epsilon = epsilon;
  spec.grain = grain;
  spec.query = Bytes(16384);
  spec.key_value = Bytes(4096);
  return spec;
}

/// Homes 16K | 2x8K | 4x4K | 8x2K.
Documents halves() {
  Documents documents;
  for (int home = 0; home < 4; ++home) {
    for (int d = 0; d < 1 << home; ++d) documents.push_back({(16 << 10) >> home, home});
  }
  return documents;
}

int64_t pairs_of(const AttentionPlan& plan) {
  int64_t sum = 0;
  for (const auto& runs : plan.runs) {
    for (const AttentionRun& run : runs) sum += run.pairs();
  }
  return sum;
}

// 3.8 (e), C1.
TEST(RuntimeAttentionServers, ThreeMovesBalanceFourServers) {
  const AttentionPlan plan = plan_attention(halves(), spec_of(4, 0.05, 1));
  EXPECT_EQ(plan.balance.moves, 3);
  int64_t sum = 0;
  for (const AttentionDocument& d : halves()) sum += causal_work(d.tokens, d.tokens);
  EXPECT_EQ(pairs_of(plan), sum);
  for (size_t s = 0; s < 4; ++s) {
    int64_t own = 0;
    for (const AttentionRun& run : plan.runs[s]) own += run.pairs();
    EXPECT_EQ(own, plan.balance.loads[s]);
    EXPECT_NEAR(double(own) / (double(sum) / 4), 1, 0.0002);
  }
  // An all_gather of keys and values brings every token's to the three other ranks.
  EXPECT_LT(plan.sent, Bytes(4096) * 3 * (64 << 10));
  EXPECT_LE(plan.sent, plan.balance.moved);
}

Documents random_documents(std::mt19937& dice, int servers, int64_t grain) {
  Documents documents(1 + dice() % 12);
  for (AttentionDocument& d : documents) {
    d = {2 * grain * int64_t(1 + dice() % (32 / grain)), int(dice() % unsigned(servers))};
  }
  return documents;
}

// 3.8 (e): every query with every key up to it, once.
TEST(RuntimeAttentionServers, EveryPairOfTheMaskIsAttendedToOnce) {
  std::mt19937 dice(8);
  for (int i = 0; i < 300; ++i) {
    const int servers = 1 + int(dice() % 6);
    const int64_t grain = 1 << dice() % 3;
    Documents documents = random_documents(dice, servers, grain);
    if (i % 2 == 0) documents.push_back({int64_t(1 + dice() % 3), 0});  // odd ones stay whole
    if (i % 2 == 0) documents.push_back({64, 0});
    if (i % 3 == 0) documents.push_back({int64_t(200 + dice() % 7), 0});  // long ones are cut
    const AttentionPlan plan = plan_attention(documents, spec_of(servers, 0.5, grain));
    std::set<std::pair<int, int64_t>> rows;
    int64_t pairs = 0;
    for (size_t s = 0; s < plan.runs.size(); ++s) {
      for (const AttentionRun& run : plan.runs[s]) {
        EXPECT_EQ(run.is_remote, documents[size_t(run.document)].home != int(s));
        for (int64_t row = run.first; row < run.first + run.rows; ++row) {
          ASSERT_TRUE(rows.emplace(run.document, row).second);
          pairs += row + 1;
        }
      }
    }
    int64_t tokens = 0;
    for (const AttentionDocument& d : documents) tokens += d.tokens;
    EXPECT_EQ(std::ssize(rows), tokens);
    EXPECT_EQ(pairs, pairs_of(plan));
    EXPECT_LE(moved(plan.keys), tokens * (servers - 1));
  }
}

// The rows between the pairs of a document stay together, wherever they are attended to.
TEST(RuntimeAttentionServers, DocumentsOfAnyLengthAreCut) {
  for (const int64_t tokens : {4097, 4099, 5003}) {
    const AttentionPlan plan = plan_attention(Documents{{tokens, 0}}, spec_of(4, 0.05, 16));
    EXPECT_LT(plan.balance.max_over_mean, 1.06) << tokens;
    EXPECT_EQ(pairs_of(plan), causal_work(tokens, tokens));
  }
}

constexpr int kWidth = 3;

/// Numbers that tell rows apart; keys and values one behind the other.
std::vector<double> rows_of(const AttentionDocument& document, int d, int width) {
  std::vector<double> rows(size_t(document.tokens * width));
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = std::sin(double(i + 1) * (d + width));
  return rows;
}

void attend(const double* query, const double* keys, int64_t row, double* output) {
  std::vector<double> weights;
  double sum = 0;
  for (int64_t k = 0; k <= row; ++k) {
    const double* key = keys + k * 2 * kWidth;
    weights.push_back(std::exp(std::inner_product(query, query + kWidth, key, 0.0)));
    sum += weights.back();
  }
  std::fill_n(output, kWidth, 0.0);
  for (int64_t k = 0; k <= row; ++k) {
    const double* value = keys + k * 2 * kWidth + kWidth;
    for (int i = 0; i < kWidth; ++i) output[i] += weights[size_t(k)] / sum * value[i];
  }
}

/// The values of a home's documents, one behind the other.
std::vector<double> held(const Documents& documents, int home, int width) {
  std::vector<double> all;
  for (int d = 0; d < std::ssize(documents); ++d) {
    if (documents[size_t(d)].home != home) continue;
    const std::vector<double> rows = rows_of(documents[size_t(d)], d, width);
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

std::vector<double> attended_at_home(const Documents& documents, int home) {
  std::vector<double> outputs;
  for (int d = 0; d < std::ssize(documents); ++d) {
    if (documents[size_t(d)].home != home) continue;
    const std::vector<double> queries = rows_of(documents[size_t(d)], d, kWidth);
    const std::vector<double> keys = rows_of(documents[size_t(d)], d, 2 * kWidth);
    for (int64_t row = 0; row < documents[size_t(d)].tokens; ++row) {
      outputs.resize(outputs.size() + kWidth);
      attend(&queries[size_t(row * kWidth)], keys.data(), row, &outputs[outputs.size() - kWidth]);
    }
  }
  return outputs;
}

/// Room for `tokens` rows, never empty, so that it has an address.
std::vector<double> room(int64_t tokens, int width) {
  return std::vector<double>(size_t(tokens * width) + 1, 0);
}

// 3.8 (e): remote slices, brought back, equal local attention to the bit.
TEST(RuntimeAttentionServers, WhatOtherRanksAttendToComesBackAsIfAttendedToAtHome) {
  const Documents documents{{96, 0}, {32, 1}, {16, 2}, {8, 3}, {7, 3}, {47, 0}, {131, 0}};
  const AttentionPlan plan = plan_attention(documents, spec_of(4, 0.05, 4));
  EXPECT_GE(plan.balance.moves, 3);
  run_ranks(4, [&](tuttiComm_t comm, int rank) {
    agree(comm, fingerprint(plan.queries), "the queries");
    const size_t r = size_t(rank);
    std::vector<double> queries = held(documents, rank, kWidth);
    std::vector<double> keys = held(documents, rank, 2 * kWidth);
    queries.push_back(0), keys.push_back(0);
    std::vector<double> far_queries = room(plan.queries.target_sizes[r], kWidth);
    std::vector<double> far_keys = room(plan.keys.target_sizes[r], 2 * kWidth);
    Exchange(plan.queries, Bytes(8 * kWidth)).run(comm, queries.data(), far_queries.data());
    Exchange(plan.keys, Bytes(16 * kWidth)).run(comm, keys.data(), far_keys.data());
    std::vector<double> outputs = room(plan.queries.source_sizes[r], kWidth);
    std::vector<double> far_outputs = room(plan.queries.target_sizes[r], kWidth);
    for (const AttentionRun& run : plan.runs[r]) {
      for (int64_t i = 0; i < run.rows; ++i) {
        const size_t place = size_t((run.query_offset + i) * kWidth);
        attend(&(run.is_remote ? far_queries : queries)[place],
               &(run.is_remote ? far_keys : keys)[size_t(run.key_offset * 2 * kWidth)],
               run.first + i, &(run.is_remote ? far_outputs : outputs)[place]);
      }
    }
    std::vector<double> back = room(plan.queries.source_sizes[r], kWidth);
    Exchange(reverse(plan.queries), Bytes(8 * kWidth)).run(comm, far_outputs.data(), back.data());
    for (const Parcel& p : plan.queries.parcels) {
      if (p.source != rank) continue;
      std::copy_n(&back[size_t(p.source_offset * kWidth)], p.length * kWidth,
                  &outputs[size_t(p.source_offset * kWidth)]);
    }
    outputs.pop_back();
    EXPECT_EQ(outputs, attended_at_home(documents, rank));
  });
}

// The gradient of a key is a sum over all query rows from it on, wherever they were attended to.
TEST(RuntimeAttentionServers, GradientsOfKeysAreSummedAtHome) {
  const Documents documents{{96, 0}, {32, 1}, {16, 2}, {8, 3}};
  const AttentionPlan plan = plan_attention(documents, spec_of(4, 0, 4));
  run_ranks(4, [&](tuttiComm_t comm, int rank) {
    const size_t r = size_t(rank);
    std::vector<double> own = room(plan.keys.source_sizes[r], 1), home = own;
    std::vector<double> far = room(plan.keys.target_sizes[r], 1);
    for (const AttentionRun& run : plan.runs[r]) {
      for (int64_t row = run.first; row < run.first + run.rows; ++row) {
        for (int64_t k = 0; k <= row; ++k) {
          ++(run.is_remote ? far : own)[size_t(run.key_offset + k)];
        }
      }
    }
    const auto sum = sum_of(tuttiFloat64);
    Exchange(reverse(plan.keys), Bytes(8), sum.get()).run(comm, far.data(), home.data());
    const int64_t tokens = documents[r].tokens;  // each rank holds one document
    for (int64_t k = 0; k < tokens; ++k) {
      EXPECT_EQ(own[size_t(k)] + home[size_t(k)], double(tokens - k));
    }
  });
}

// 3.8 (b): the formula, with the paper's numbers; the 31 that it prints is (t B - q) / kv.
TEST(RuntimeAttentionServers, TheHidingBoundIsWhatTheFormulaSays) {
  const AttentionRowBytes bytes = row_bytes({64, 8, 128}, Bytes(2));
  EXPECT_EQ(bytes.query, Bytes(16384));
  EXPECT_EQ(bytes.key_value, Bytes(4096));
  EXPECT_EQ(std::floor(most_hidden_slices(2796, 50, bytes)), 59);
}

TEST(RuntimeAttentionServers, PlansQuicklyAtThePapersSize) {
  std::mt19937 dice(9);
  Documents documents;
  for (int d = 0; d < 512; ++d) documents.push_back({256 << dice() % 10, d % 64});
  const auto begin = std::chrono::steady_clock::now();
  const AttentionPlan plan = plan_attention(documents, spec_of(64, 0.1, 128));
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  std::printf("W5 plan_attention, 512 documents, 64 servers: %.3f ms, %d moves, max/mean %.3f\n",
              took.count(), plan.balance.moves, plan.balance.max_over_mean);
  EXPECT_LT(plan.balance.max_over_mean, 1.2);
}

// 3.8 (f).
TEST(RuntimeAttentionServers, RefusesDocumentsAndServersThatCannotBe) {
  const Documents one{{4096, 0}};
  EXPECT_REFUSED(plan_attention(one, spec_of(0, 0.1, 128)), "0 servers; give 1 or more");
  EXPECT_REFUSED(plan_attention({}, spec_of(2, 0.1, 128)), "at least one");
  EXPECT_REFUSED(plan_attention(one, spec_of(2, -0.1, 128)), "epsilon");
  EXPECT_REFUSED(plan_attention(one, spec_of(2, 0.1, 0)), "the grain is 0");
  EXPECT_REFUSED(plan_attention(one, spec_of(2, 0.1, 3000)), "a grain of at most 2048");
  EXPECT_EQ(plan_attention(Documents{{4097, 0}}, spec_of(1, 0, 1)).balance.moves, 0);
  EXPECT_REFUSED(plan_attention(Documents{{0, 0}}, spec_of(2, 0.1, 1)), "give 1 or more");
  EXPECT_REFUSED(plan_attention(Documents{{64, 2}}, spec_of(2, 0.1, 1)), "has home 2");
  AttentionServerSpec tight = spec_of(2, 0.1, 128);
  tight.tokens_per_server = 2047;
  EXPECT_INFEASIBLE(plan_attention(one, tight), "give more servers or memory");
  tight.query = Bytes(0);
  EXPECT_REFUSED(plan_attention(one, tight), "no bytes");
  EXPECT_REFUSED(row_bytes({10, 4, 128}, Bytes(2)), "10 query heads are not a multiple of 4");
  EXPECT_REFUSED(most_hidden_slices(0, 50, {Bytes(2), Bytes(2)}), "positive");
}

// ------------------------------------------------------------------------------ timelines

constexpr int64_t kUnit = 1000;

/// In units: what one more layer takes.
double per_layer(int linear, int attention, int enter, int exit, int nano_batches = 2) {
  const auto whole = [&](int layers) {
    PingPongSpec spec;
    spec.layers = layers;
    spec.nano_batches = nano_batches;
    spec.layer.before = spec.layer.after = Nanoseconds(linear * kUnit / 2);
    spec.layer.attention = Nanoseconds(attention * kUnit);
    spec.layer.enter = Nanoseconds(enter * kUnit);
    spec.layer.exit = Nanoseconds(exit * kUnit);
    const Timeline timeline = ping_pong(spec);
    EXPECT_TRUE(check(timeline).empty());
    return double(summarize(timeline, simulate(timeline)).makespan.value) / kUnit;
  };
  return whole(9) - whole(8);
}

// 3.8 (e), C2.
TEST(RuntimePingPong, CommunicationIsFreeUpToTheTimeOfWhatItIsUnder) {
  EXPECT_EQ(per_layer(2, 2, 1, 1), 8);
  EXPECT_EQ(per_layer(2, 2, 2, 2), 8);
  EXPECT_EQ(per_layer(2, 2, 3, 3), 12);
  EXPECT_EQ(per_layer(2, 2, 2, 2, 3), 12);
  for (int point = 0; point < 256; ++point) {
    const int linear = 1 + point % 4, attention = 1 + point / 4 % 4, enter = 1 + point / 16 % 4,
              exit = 1 + point / 64;
    const bool is_free = per_layer(linear, attention, enter, exit) == 2 * (linear + attention);
    EXPECT_EQ(is_free, std::max(enter, exit) <= std::min(linear, attention))
        << linear << attention << enter << exit;
  }
}

// 3.8 (f).
TEST(RuntimePingPong, RefusesWhatHasNothingToHideUnder) {
  PingPongSpec spec;
  spec.nano_batches = 1;
  EXPECT_REFUSED(ping_pong(spec), "give 2 or more");
  spec.nano_batches = 2;
  spec.layers = 0;
  EXPECT_REFUSED(ping_pong(spec), "1 or more of each");
  spec.layers = 1;
  spec.layer.enter = Nanoseconds(-1);
  EXPECT_REFUSED(ping_pong(spec), "negative");
}

// 3.8 (e): the ticks of 1F1B, where a forward and a backward pass take one tick each.
TEST(RuntimeAttentionTicks, AreAsManyAsThoseOfOneForwardOneBackward) {
  for (int stages = 1; stages <= 8; ++stages) {
    for (int micro_batches = 1; micro_batches <= 12; ++micro_batches) {
      PipelineSpec plain;
      plain.ranks = stages;
      plain.micro_batches = micro_batches;
      plain.forward = plain.backward = Nanoseconds(1);
      const Timeline timeline = pipeline(plain);
      const auto ticks = attention_ticks(stages, micro_batches);
      EXPECT_EQ(std::ssize(ticks), summarize(timeline, simulate(timeline)).makespan.value);
      std::vector<int> passes(2 * size_t(stages), 0);  // each stage in order, none left out
      for (const AttentionTick& tick : ticks) {
        for (size_t s = 0; s < size_t(stages); ++s) {
          if (tick.micro_batch[s] < 0) continue;
          EXPECT_EQ(tick.micro_batch[s], passes[2 * s + tick.backward]++);
        }
      }
      EXPECT_EQ(passes, std::vector<int>(2 * size_t(stages), micro_batches));
    }
  }
}

AttentionPipelineSpec uneven(int stages, int layers) {
  AttentionPipelineSpec spec;
  spec.stages = stages;
  spec.layers = layers;
  for (const int units : {8, 1, 4, 2, 1, 8}) spec.attention.emplace_back(units * 840 * kUnit);
  spec.layer = {Nanoseconds(kUnit), {}, Nanoseconds(0), {}, {}, {}, {}};
  spec.layer.enter = spec.layer.exit = Nanoseconds(0);
  return spec;
}

TEST(RuntimeAttentionPipeline, EveryStageHasAnEqualShareOfAllAttention) {
  for (int stages = 1; stages <= 8; ++stages) {
    for (int layers = 1; layers <= 3; ++layers) {
      const AttentionPipelineSpec spec = uneven(stages, layers);
      const Timeline timeline = attention_pipeline(spec);
      EXPECT_TRUE(check(timeline).empty());
      const Summary summary = summarize(timeline, simulate(timeline));
      // Forward and backward, on every stage and layer: 24 units * 3, shared by the stages.
      const int64_t attention = 24 * 840 * kUnit * 3 * layers;
      const int64_t linear = int64_t{stages + 5} * kUnit * 3 * layers;
      EXPECT_EQ(summary.makespan.value, attention + linear);
      for (int s = 0; s < stages; ++s) {
        const RankSummary& own = summary.ranks[size_t(s)];
        EXPECT_EQ(own.computing.value, attention + 6 * kUnit * 3 * layers);
        EXPECT_EQ(own.peak.value, std::min(6, 2 * (stages - 1 - s) + 1));
      }
    }
  }
}

TEST(RuntimeAttentionPipeline, RefusesWhatCannotBeScheduled) {
  AttentionPipelineSpec spec;
  EXPECT_REFUSED(attention_pipeline(spec), "0 micro-batches");
  spec = uneven(0, 1);
  EXPECT_REFUSED(attention_pipeline(spec), "0 stages");
  EXPECT_REFUSED(attention_pipeline(uneven(2, 0)), "0 layers");
  spec = uneven(2, 1);
  spec.attention[1] = Nanoseconds(-1);
  EXPECT_REFUSED(attention_pipeline(spec), "micro-batch 1 takes negative time");
  spec = uneven(4, 1);
  spec.memory = Bytes(5);
  const std::vector<Finding> findings = check(attention_pipeline(spec));
  EXPECT_TRUE(std::any_of(findings.begin(), findings.end(),
                          [](const Finding& finding) { return finding.rule == 6; }));
}

}  // namespace
}  // namespace tutti::runtime
