// Streaming DiLoCo, DiLoCo and SparseLoCo over real ranks, against serial references that share no
// code with them but the codecs. Sections are those of the list of systems (18, 19).
#include "tutti/runtime/outer/diloco.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "src/codecs/codecs_test.h"
#include "src/runtime/crew_test.h"
#include "src/runtime/outer/inner_test.h"
#include "tutti/runtime/outer/sparse_loco.h"

namespace tutti::runtime {
namespace {

using codecs::Values;
using outer_test::inner_step;
using outer_test::same;
using outer_test::start;

// ---- references: all ranks in one thread ----

struct StreamingReference {
  std::vector<Fragment> fragments;
  StreamingSpec spec;
  Values outer, momentum;
  std::vector<Values> local;
  int pending = -1;
  int64_t due = 0;
  Values sent;  // the mean that is under way

  StreamingReference(int ranks, std::vector<Fragment> parts, StreamingSpec how, const Values& first)
      : fragments(std::move(parts)),
        spec(how),
        outer(first),
        momentum(first.size(), 0.0f),
        local(static_cast<size_t>(ranks), first) {}

  std::vector<size_t> places(int fragment) const {
    std::vector<size_t> all;
    for (const FragmentPart& part : fragments[static_cast<size_t>(fragment)]) {
      for (int64_t i = part.begin; i < part.end; ++i) all.push_back(static_cast<size_t>(i));
    }
    return all;
  }

  void take_over() {
    const std::vector<size_t> where = places(pending);
    for (size_t k = 0; k < where.size(); ++k) {
      const size_t i = where[k];
      momentum[i] = spec.momentum * momentum[i] + sent[k];
      const float step = sent[k] + spec.momentum * momentum[i];
      outer[i] = outer[i] - spec.rate * step;
      for (Values& own : local) own[i] = spec.mixing * own[i] + (1 - spec.mixing) * outer[i];
    }
    pending = -1;
  }

  void step(int64_t t) {
    for (size_t r = 0; r < local.size(); ++r) inner_step(static_cast<int>(r), t, local[r]);
    if (pending >= 0 && t == due) take_over();
    for (size_t p = 0; p < fragments.size(); ++p) {
      const auto first =
          static_cast<int64_t>(p + 1) * spec.period / static_cast<int64_t>(fragments.size());
      if ((t - first) % spec.period != 0) continue;
      pending = static_cast<int>(p);
      due = t + spec.delay;
      const std::vector<size_t> where = places(pending);
      sent.assign(where.size(), 0.0f);
      const auto codec = codecs::codec_named(spec.codec);
      for (const Values& own : local) {
        Values gone;
        for (const size_t i : where) gone.push_back(outer[i] - own[i]);
        const Values decoded = codecs::round_trip(codec, gone);
        for (size_t k = 0; k < where.size(); ++k) sent[k] += decoded[k];
      }
      for (float& x : sent) x /= static_cast<float>(local.size());
    }
    if (pending >= 0 && t == due) take_over();
  }
};

void expect_streaming(int ranks, int fragments, const StreamingSpec& spec) {
  constexpr int64_t kSteps = 37;
  const std::vector<int64_t> layers = {5, 70, 1, 300, 12, 40};
  const Values first = start(428);
  std::vector<Values> local(static_cast<size_t>(ranks)), outer(static_cast<size_t>(ranks));
  run_ranks(ranks, [&](tuttiComm_t comm, int rank) {
    Values params = first;
    StreamingDiLoCo optimizer({comm, 0}, params, strided_fragments(layers, fragments), spec);
    for (int64_t t = 1; t <= kSteps; ++t) {
      inner_step(rank, t, params);
      optimizer.boundary(t, params);
    }
    optimizer.finish(params);
    local[static_cast<size_t>(rank)] = params;
    outer[static_cast<size_t>(rank)].assign(optimizer.outer().begin(), optimizer.outer().end());
  });
  StreamingReference reference(ranks, strided_fragments(layers, fragments), spec, first);
  for (int64_t t = 1; t <= kSteps; ++t) reference.step(t);
  if (reference.pending >= 0) reference.take_over();
  // A sum over more than two ranks has another order in an all_reduce.
  const float tolerance = spec.codec == "none" && ranks > 2 ? 1e-5f : 0;
  for (int r = 0; r < ranks; ++r) {
    const auto own = static_cast<size_t>(r);
    EXPECT_TRUE(same(outer[own], reference.outer, tolerance)) << "rank " << r;
    EXPECT_TRUE(same(local[own], reference.local[own], tolerance)) << "rank " << r;
    EXPECT_TRUE(codecs::same_bits(outer[own], outer[0])) << "equal on all ranks";
  }
}

TEST(StreamingDiLoCo, DoesWhatASerialReferenceDoes) {
  for (const int ranks : {1, 2, 3, 4}) {
    for (const char* codec : {"none", "e3m0:64", "int8_block:32", "bf16"}) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks, " + codec);
      expect_streaming(ranks, 1, {.period = 6, .codec = codec});
      expect_streaming(ranks, 3, {.period = 12, .delay = 2, .mixing = 0.25f, .codec = codec});
    }
  }
}

// Section 18: P = 2, H = 4, tau = 1, alpha = 0.5, two workers: a table by hand.
TEST(StreamingDiLoCo, Section18TraceByHand) {
  const float table[2][8][2] = {{{1, 1},
                                 {2, 2},
                                 {3.5f, 3},
                                 {4.5f, 4},
                                 {5.5f, 6.5f},
                                 {6.5f, 7.5f},
                                 {9.25f, 8.5f},
                                 {10.25f, 9.5f}},
                                {{3, 3},
                                 {6, 6},
                                 {6.5f, 9},
                                 {9.5f, 12},
                                 {12.5f, 11.5f},
                                 {15.5f, 14.5f},
                                 {14.75f, 17.5f},
                                 {17.75f, 20.5f}}};
  run_ranks(2, [&](tuttiComm_t comm, int rank) {
    Values params = {0, 0};
    StreamingDiLoCo optimizer({comm, 0}, params, {{{0, 1}}, {{1, 2}}},
                              {.period = 4, .delay = 1, .mixing = 0.5f, .rate = 1, .momentum = 0});
    for (int t = 1; t <= 8; ++t) {
      for (float& x : params) x += rank == 0 ? 1.0f : 3.0f;
      const OuterReport report = optimizer.boundary(t, params);
      EXPECT_EQ(report.launched, t % 2 == 1 ? -1 : t / 2 % 2 == 1 ? 0 : 1);
      EXPECT_EQ(report.applied, t % 2 == 0 || t == 1 ? -1 : t / 2 % 2 == 1 ? 0 : 1);
      EXPECT_EQ(params, (Values{table[rank][t - 1][0], table[rank][t - 1][1]})) << t;
    }
    EXPECT_EQ(optimizer.finish(params).applied, 1);
    EXPECT_EQ(params[1], rank == 0 ? 12.25f : 17.75f);
    EXPECT_EQ(optimizer.outer()[1], 15);
  });
}

// Section 18: tau = 0, a = 0, P = 1 and no codec is DiLoCo: here its own few lines.
TEST(DiLoCo, Section18IsTheMeanWithNesterovMomentum) {
  const Values first = start(50);
  Values outer = first, momentum(50, 0.0f);
  std::vector<Values> local(2, first);
  for (int64_t t = 1; t <= 20; ++t) {
    for (int r = 0; r < 2; ++r) inner_step(r, t, local[static_cast<size_t>(r)]);
    if (t % 5 != 0) continue;
    for (size_t i = 0; i < 50; ++i) {
      const float g = ((outer[i] - local[0][i]) + (outer[i] - local[1][i])) / 2;
      momentum[i] = 0.9f * momentum[i] + g;
      outer[i] -= 0.7f * (g + 0.9f * momentum[i]);
      local[0][i] = local[1][i] = 0.0f * local[0][i] + outer[i];
    }
  }
  run_ranks(2, [&](tuttiComm_t comm, int rank) {
    Values params = first;
    DiLoCo optimizer({comm, 0}, params, {.period = 5});
    for (int64_t t = 1; t <= 20; ++t) {
      inner_step(rank, t, params);
      optimizer.boundary(t, params);
    }
    EXPECT_EQ(params, outer);
  });
}

// Section 18: bytes against those of bf16 gradients in every step are 4 * H; a fragment's share of
// a peak is its share of the parameters, and half a byte a parameter.
TEST(StreamingDiLoCo, Section18Bytes) {
  constexpr int64_t kElements = 1 << 18, kPeriod = 100;
  run_ranks(2, [&](tuttiComm_t comm, int) {
    Values params(kElements, 1.0f);
    const std::vector<int64_t> layers(4, kElements / 4);
    StreamingDiLoCo optimizer({comm, 0}, params, strided_fragments(layers, 4),
                              {.period = kPeriod, .delay = 5, .codec = "e3m0:65536"});
    int64_t before = 0, peak = 0;
    for (int64_t t = 1; t <= kPeriod; ++t) {
      optimizer.boundary(t, params);
      peak = std::max(peak, optimizer.bytes_sent() - before);
      before = optimizer.bytes_sent();
    }
    optimizer.finish(params);
    const double whole = static_cast<double>(optimizer.bytes_sent());
    EXPECT_NEAR(kElements * 2.0 * kPeriod / whole, 400, 0.5);
    EXPECT_NEAR(static_cast<double>(peak) / whole, 0.25, 1e-6);
    EXPECT_LE(peak, kElements / 4 / 2 + 1);  // and a byte for the scale
  });
  for (const auto& [dense, streamed, ratio] :
       {std::tuple{441, 1.10, 400.9}, {1767, 4.42, 399.8}, {4418, 11.05, 399.8}}) {
    EXPECT_NEAR(dense / streamed, ratio, 0.05);
  }
}

TEST(StreamingDiLoCo, RefusesWhatTheRulesForbid) {
  run_ranks(1, [](tuttiComm_t comm, int) {
    const Values params(8, 0.0f);
    const std::vector<Fragment> halves = {{{0, 4}}, {{4, 8}}};
    const auto with = [&](std::vector<Fragment> fragments, StreamingSpec spec) {
      StreamingDiLoCo({comm, 0}, params, std::move(fragments), std::move(spec));
    };
    EXPECT_REFUSED(with(halves, {.period = 5}), "2 fragments do not divide a period of 5");
    EXPECT_REFUSED(with(halves, {.period = 4, .delay = 2}), "give 0 to 1");
    EXPECT_REFUSED(with(halves, {.period = 4, .mixing = 1.5f}), "give 0 to 1");
    EXPECT_REFUSED(with(halves, {.period = 4, .mixing = 1}), "set keeps_local");
    EXPECT_REFUSED(with({{{0, 5}}, {{4, 8}}}, {.period = 4}), "overlap at element 4");
    EXPECT_REFUSED(with({{{0, 3}}, {{4, 8}}}, {.period = 4}), "no fragment has element 3");
    EXPECT_REFUSED(with({{{0, 7}}}, {.period = 4}), "end at element 7 of 8");
    EXPECT_REFUSED(with(halves, {.period = 4, .codec = "e9m9"}), "there is no codec 'e9m9'");
    EXPECT_REFUSED(with(halves, {.period = 4, .rate = 0}), "rate is");
    EXPECT_REFUSED(strided_fragments(std::vector<int64_t>{1, 2}, 3), "3 fragments of 2 layers");
    StreamingDiLoCo good({comm, 4}, params, halves, {.period = 4});
    Values values(8, 0.0f), longer(9, 0.0f);
    good.boundary(1, values);
    EXPECT_REFUSED(good.boundary(3, values), "once behind each inner step");
    EXPECT_REFUSED(good.boundary(2, longer), "9 parameters where there were 8");
    EXPECT_REFUSED(good.regroup({comm, 4}), "epoch 4 follows epoch 4");
  });
}

// A fragment that one rank votes against, or whose values are not finite, is taken over by none.
TEST(StreamingDiLoCo, AVoteAgainstSkipsTheFragmentOnAllRanks) {
  for (const char* codec : {"none", "e3m0:8"}) {
    run_ranks(3, [&](tuttiComm_t comm, int rank) {
      Values params(8, 0.0f);
      StreamingDiLoCo optimizer({comm, 7}, params, {{{0, 8}}},
                                {.period = 2, .rate = 1, .momentum = 0, .codec = codec});
      const auto step = [&](int64_t t, bool commit) {
        for (float& x : params) x += 1;
        return optimizer.boundary(t, params, commit);
      };
      step(1, true);
      OuterReport report = step(2, rank != 1);
      EXPECT_EQ(report.applied, -1);
      EXPECT_EQ(report.skipped, "rank 1 voted against fragment 0 of step 2 in epoch 7");
      EXPECT_EQ(params, Values(8, 2.0f));
      step(3, true);
      const float kept = params[3];
      if (rank == 2) params[3] = std::nanf("");
      report = step(4, true);
      EXPECT_NE(report.skipped.find("rank 2 voted against"), std::string::npos);
      if (rank == 2) params[3] = kept + 1;
      step(5, true);
      report = step(6, true);
      EXPECT_EQ(report.applied, 0);
      EXPECT_NEAR(params[0], 6, codec[0] == 'n' ? 0 : 2.1);
    });
  }
}

// An edit in the middle: a result of the older epoch is never taken over; ranks of two epochs find
// out.
TEST(StreamingDiLoCo, ResultsOfAnOlderEpochAreDropped) {
  run_ranks(2, [](tuttiComm_t comm, int) {
    Values params(4, 0.0f);
    StreamingDiLoCo optimizer({comm, 0}, params, {{{0, 4}}},
                              {.period = 4, .delay = 2, .rate = 1, .momentum = 0});
    for (int64_t t = 1; t <= 5; ++t) {
      for (float& x : params) x += 1;
      optimizer.boundary(t, params);
    }
    optimizer.regroup({comm, 1});
    for (int64_t t = 6; t <= 7; ++t) EXPECT_EQ(optimizer.boundary(t, params).applied, -1);
    EXPECT_EQ(params, Values(4, 5.0f));
    EXPECT_EQ(optimizer.outer()[0], 0);
    EXPECT_EQ(optimizer.epoch(), 1);
    EXPECT_EQ(optimizer.boundary(8, params).launched, 0);
    EXPECT_EQ(optimizer.finish(params).applied, 0);
  });
  run_ranks(2, [](tuttiComm_t comm, int rank) {
    Values params(4, 0.0f);
    DiLoCo optimizer({comm, rank}, params, {.period = 1});
    const std::string said =
        refusal([&] { optimizer.boundary(1, params); }, ErrorKind::kRanksDiffer);
    EXPECT_NE(said.find("regroup all ranks to one epoch"), std::string::npos);
  });
  run_ranks(2, [](tuttiComm_t comm, int rank) {
    const Values params(4, 0.0f);
    const std::string said = refusal(
        [&] {
          DiLoCo({comm, 0}, params, {.period = 1 + rank});
        },
        ErrorKind::kRanksDiffer);
    EXPECT_NE(said.find("the plan of Streaming DiLoCo of rank(s) 1"), std::string::npos);
  });
}

// ---- SparseLoCo ----

TEST(SparseLoCo, Section19DoesWhatASerialReferenceDoesAndKeepsTheRest) {
  for (const Normalise normalise : {Normalise::kWorld, Normalise::kContributors}) {
    for (const int ranks : {1, 2, 3, 5}) {
      const Values first = start(200);
      // Ranks keep different numbers of values, which all of them decode.
      const auto codec_of = [](int r) { return "top_k:64:" + std::to_string(4 + 3 * r) + ":4"; };
      std::vector<Values> local(static_cast<size_t>(ranks), first);
      std::vector<Values> errors(local.size(), Values(200, 0.0f));
      Values outer = first;
      for (int64_t t = 1; t <= 12; ++t) {
        for (int r = 0; r < ranks; ++r) inner_step(r, t, local[static_cast<size_t>(r)]);
        if (t % 3 != 0) continue;
        Values sum(200, 0.0f), senders(200, 0.0f);
        for (int r = 0; r < ranks; ++r) {
          Values& error = errors[static_cast<size_t>(r)];
          for (size_t i = 0; i < 200; ++i) {
            const float kept = 0.9f * error[i];
            error[i] = kept + (outer[i] - local[static_cast<size_t>(r)][i]);
          }
          const Values sent = codecs::round_trip(codecs::codec_named(codec_of(r)), error);
          for (size_t i = 0; i < 200; ++i) {
            error[i] -= sent[i];
            sum[i] += sent[i];
            senders[i] += sent[i] != 0;
          }
        }
        for (size_t i = 0; i < 200; ++i) {
          const float divisor = normalise == Normalise::kWorld ? static_cast<float>(ranks)
                                                               : std::max(senders[i], 1.0f);
          outer[i] -= 0.8f * (sum[i] / divisor);
        }
        for (Values& own : local) own = outer;
      }
      run_ranks(ranks, [&](tuttiComm_t comm, int rank) {
        Values params = first;
        SparseLoCo optimizer({comm, 0}, params,
                             {.period = 3,
                              .rate = 0.8f,
                              .beta = 0.9f,
                              .codec = codec_of(rank),
                              .normalise = normalise});
        for (int64_t t = 1; t <= 12; ++t) {
          inner_step(rank, t, params);
          optimizer.boundary(t, params);
        }
        EXPECT_EQ(params, outer);
        EXPECT_TRUE(std::equal(optimizer.error().begin(), optimizer.error().end(),
                               errors[static_cast<size_t>(rank)].begin()));
      });
    }
  }
}

// Section 19: everything kept and not quantised is a dense outer step without momentum.
TEST(SparseLoCo, Section19WithoutACodecIsDense) {
  run_ranks(2, [](tuttiComm_t comm, int rank) {
    Values sparse = start(100), dense = sparse;
    SparseLoCo one({comm, 0}, sparse, {.period = 4, .codec = "none"});
    DiLoCo other({comm, 0}, dense, {.period = 4, .rate = 1, .momentum = 0});
    for (int64_t t = 1; t <= 16; ++t) {
      inner_step(rank, t, sparse);
      inner_step(rank, t, dense);
      one.boundary(t, sparse);
      other.boundary(t, dense);
    }
    EXPECT_EQ(sparse, dense);
  });
}

TEST(SparseLoCo, AVoteAgainstChangesNothing) {
  run_ranks(2, [](tuttiComm_t comm, int rank) {
    Values params = start(64);
    SparseLoCo optimizer({comm, 0}, params, {.period = 1, .codec = "top_k:64:4:8"});
    inner_step(rank, 1, params);
    optimizer.boundary(1, params);
    const Values error(optimizer.error().begin(), optimizer.error().end());
    const Values outer(optimizer.outer().begin(), optimizer.outer().end());
    EXPECT_NE(error, Values(64, 0.0f));
    inner_step(rank, 2, params);
    EXPECT_FALSE(optimizer.boundary(2, params, rank == 0).skipped.empty());
    EXPECT_TRUE(std::equal(error.begin(), error.end(), optimizer.error().begin()));
    EXPECT_TRUE(std::equal(outer.begin(), outer.end(), optimizer.outer().begin()));
  });
}

TEST(SparseLoCo, TilesAreSquaresOfTheLargestDivisors) {
  EXPECT_EQ(tile_order(2, 3), (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
  const std::vector<int64_t> order = tile_order(128, 96);  // sides 64 and 48
  EXPECT_EQ(order[1], 1);
  EXPECT_EQ(order[48], 96);       // the next row of the first square
  EXPECT_EQ(order[64 * 48], 48);  // the square beside it
  EXPECT_EQ(order[2 * 64 * 48], 64 * 96);
  EXPECT_EQ(tile_order(1, 200)[150], 150);
  run_ranks(1, [](tuttiComm_t comm, int) {
    const Values params(4, 0.0f);
    const auto with = [&](SparseLoCoSpec spec) { SparseLoCo({comm, 0}, params, std::move(spec)); };
    EXPECT_REFUSED(with({.order = {0, 1, 1, 2}}), "element 1 is not there or occurs twice");
    EXPECT_REFUSED(with({.order = {0, 1}}), "has 2 of 4 elements");
    EXPECT_REFUSED(with({.beta = 1.5f}), "give 0 to 1");
    EXPECT_REFUSED(with({.codec = "top_k:64:0:2"}), "give 1 to 64");
    EXPECT_REFUSED(with({.codec = "top_k:64:65:2"}), "give 1 to 64");
    SparseLoCo shuffled({comm, 0}, params, {.period = 1, .order = {3, 2, 1, 0}});
    Values moved = {1, 2, 3, 4};
    shuffled.boundary(1, moved);
    EXPECT_EQ(shuffled.outer().size(), 4u);
  });
}

}  // namespace
}  // namespace tutti::runtime
