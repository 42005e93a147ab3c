// Memory management by cost model: training_systems 3.16.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "src/runtime/crew_test.h"
#include "tutti/runtime/memory_plan.h"
#include "tutti/runtime/run_timeline.h"

namespace tutti::runtime {
namespace {

MemoryModel random_model(std::mt19937& dice) {
  MemoryModel model;
  model.blocks.resize(1 + dice() % 6);
  int chunks = 0;
  for (MemoryBlock& block : model.blocks) {
    block.chunks = std::min(int(dice() % 3), 6 - chunks);
    chunks += block.chunks;
    block.forward = Nanoseconds(10 + dice() % 20);
    block.backward = Nanoseconds(20 + dice() % 40);
    block.swap = Nanoseconds(dice() % 60);
    block.activations = Bytes(50 + dice() % 50);
    block.input = Bytes(dice() % 20);
    block.transient = Bytes(dice() % 30);
  }
  model.costs = {Bytes(24),
                 Bytes(100),
                 Nanoseconds(dice() % 20),
                 Nanoseconds(dice() % 20),
                 Nanoseconds(dice() % 20),
                 Nanoseconds(dice() % 20),
                 Nanoseconds(1),
                 Nanoseconds(dice() % 40)};
  return model;
}

int chunks_in(const MemoryModel& model) {
  int chunks = 0;
  for (const MemoryBlock& block : model.blocks) chunks += block.chunks;
  return chunks;
}

/// Every plan that is not refused.
std::vector<MemoryPlan> all_plans(const MemoryModel& model) {
  std::vector<MemoryPlan> plans;
  const int chunks = chunks_in(model), blocks = int(model.blocks.size());
  for (int i = 0; i < (chunks + 1) * (chunks + 1) * (blocks + 1) * (blocks + 1); ++i) {
    const MemoryPlan plan{i % (chunks + 1), i / (chunks + 1) % (chunks + 1),
                          i / (chunks + 1) / (chunks + 1) % (blocks + 1),
                          i / (chunks + 1) / (chunks + 1) / (blocks + 1)};
    if (refusal([&] { judge(model, plan); }).empty()) plans.push_back(plan);
  }
  return plans;
}

// 3.16 (e).
TEST(RuntimeMemoryPlan, TheSearchFindsWhatTryingAllPlansFinds) {
  std::mt19937 dice(16);
  for (int i = 0; i < 40; ++i) {
    const MemoryModel model = random_model(dice);
    const std::vector<MemoryPlan> plans = all_plans(model);
    std::optional<Nanoseconds> before;
    for (const int64_t limit : {200, 300, 400, 500, 700, 1000, 2000}) {
      std::optional<Nanoseconds> fastest;
      for (const MemoryPlan& plan : plans) {
        const MemoryVerdict verdict = judge(model, plan);
        if (verdict.peak > Bytes(limit)) continue;
        fastest = fastest ? std::min(*fastest, verdict.time) : verdict.time;
      }
      if (!fastest) {
        EXPECT_INFEASIBLE(search_memory(model, Bytes(limit)), "the least that works");
        continue;
      }
      const MemoryVerdict found = judge(model, search_memory(model, Bytes(limit)));
      EXPECT_EQ(found.time, *fastest);
      EXPECT_LE(found.peak, Bytes(limit));
      EXPECT_TRUE(!before || *fastest <= *before);  // more memory is never slower
      before = fastest;
    }
  }
}

// 3.16 (e): in whole bytes, for every plan.
TEST(RuntimeMemoryPlan, TheSimulatedPeakIsTheOneThatWasWalked) {
  std::mt19937 dice(17);
  int seen = 0;
  for (int i = 0; i < 12; ++i) {
    const MemoryModel model = random_model(dice);
    for (const MemoryPlan& plan : all_plans(model)) {
      const Timeline timeline = chunked_step(model, plan, 2);
      ASSERT_TRUE(check(timeline).empty()) << check(timeline)[0].sentence;
      const Summary summary = summarize(timeline, simulate(timeline));
      ASSERT_EQ(summary.ranks[0].peak, judge(model, plan).peak)
          << plan.persist << " " << plan.buffers << " " << plan.swap << " " << plan.recompute;
      ++seen;
    }
  }
  EXPECT_GT(seen, 200);
}

MemoryModel even_model() {
  MemoryModel model;
  model.blocks.resize(6);
  for (MemoryBlock& block : model.blocks) {
    block = {1, Nanoseconds(12), Nanoseconds(24), Nanoseconds(30), Bytes(100), Bytes(10), Bytes(5)};
  }
  model.costs = {Bytes(24),      Bytes(100),     Nanoseconds(5), Nanoseconds(4),
                 Nanoseconds(4), Nanoseconds(5), Nanoseconds(0), Nanoseconds(1)};
  return model;
}

// 3.16 (e).
TEST(RuntimeMemoryPlan, SwapsLieSoFarApartThatOneEndsUnderTheBlocksBetween) {
  const MemoryModel model = even_model();
  EXPECT_EQ(swap_interval(model), 3);
  const std::vector<ActivationPlace> places = places_of(model, {6, 0, 2, 3});
  using enum ActivationPlace;
  EXPECT_EQ(places, (std::vector<ActivationPlace>{kHost, kRecomputed, kRecomputed, kHost,
                                                  kRecomputed, kDevice}));
  // Forward passes never wait for a swap.
  const Timeline timeline = chunked_step(model, {6, 0, 2, 0}, 1);
  const History history = simulate(timeline);
  for (size_t t = 0; t < timeline.tasks.size(); ++t) {
    const TimelineTask& task = timeline.tasks[t];
    if (task.name[0] != 'F') continue;
    EXPECT_EQ(history.spans[t].begin.value, 12 * task.tag);
  }
}

TEST(RuntimeMemoryPlan, WithoutALimitEverythingStays) {
  EXPECT_EQ(search_memory(even_model(), Bytes(1 << 20)), (MemoryPlan{6, 0, 0, 0}));
}

// A model of 70 billion parameters: every plan is looked at, and there are 80^4 of them.
TEST(RuntimeMemoryPlan, EightyBlocksAreSearchedToTheEnd) {
  MemoryModel model;
  MemoryBlock block;
  block.chunks = 2;
  block.swap = Nanoseconds(1'500'000);
  block.activations = Bytes(600);
  block.input = Bytes(30);
  block.transient = Bytes(100);
  model.blocks.assign(80, block);
  model.costs.parameters = Bytes(100);
  model.costs.states = Bytes(800);
  model.costs.upload = Nanoseconds(400'000);
  model.costs.offload = Nanoseconds(400'000);
  const MemoryPlan plan = search_memory(model, Bytes(30'000));
  EXPECT_LE(judge(model, plan).peak, Bytes(30'000));
  EXPECT_LE(judge(model, plan).time, judge(model, {0, 2, 0, 80}).time);
}

/// The memory of a rank while it runs, with contents by which an early reuse is seen.
class Store {
 public:
  Store(const MemoryModel& model, int rank, int ranks) : model_(model), rank_(rank) {
    share_ = size_t(model.costs.parameters.value) / 4 / size_t(ranks);
    for (int c = 0; c < chunks_in(model); ++c) {
      std::vector<float> own;
      for (size_t i = 0; i < share_; ++i) own.push_back(parameter(c, size_t(rank) * share_ + i));
      host_.push_back(own);
    }
    all_ = share_ * size_t(ranks);
  }

  static float parameter(int chunk, size_t i) { return float(chunk * 1000 + int(i)); }
  const std::vector<float>& host(int chunk) const { return host_[size_t(chunk)]; }

  Payload payload(const TimelineTask& task) {
    float* whole = buffer(task.writes[0]).data();
    float* own = whole + size_t(rank_) * share_;
    if (task.kind == TaskKind::kAllGather) return {own, whole, share_, tuttiFloat32, tuttiSum};
    return {whole, own, share_, tuttiFloat32, tuttiSum};
  }

  void compute(const TimelineTask& task) {
    const auto begins = [&](const char* with) { return task.name.starts_with(with); };
    const auto own = [&](int number) {
      return buffer(number).begin() + long(rank_ * long(share_));
    };
    if (begins("upload")) std::ranges::copy(host_[size_t(task.tag)], own(task.writes[0]));
    if (begins("offload")) std::copy_n(own(task.reads[0]), share_, host_[size_t(task.tag)].begin());
    if (begins("swap")) buffer(task.writes[0]) = buffer(task.reads[0]);
    if (begins("free") || begins("room")) std::ranges::fill(buffer(task.writes[0]), -1);
    if (task.name[0] == 'F') {
      check_chunks(task, task.reads);
      std::ranges::fill(buffer(task.writes[0]), float(task.tag + 7));
    }
    if (task.name[0] != 'B') return;
    std::vector<int> slots = task.reads;
    slots.pop_back();
    check_chunks(task, slots);
    EXPECT_EQ(buffer(task.reads.back()), std::vector<float>(all_, float(task.tag + 7)));
    for (const int slot : slots) {
      for (float& number : buffer(slot)) ++number;
    }
  }

 private:
  std::vector<float>& buffer(int number) {
    const std::lock_guard lock(mutex_);
    std::vector<float>& found = buffers_[number];
    if (found.empty()) found.assign(all_, -1);
    return found;
  }

  /// The slots hold the block's chunks, from its last one on.
  void check_chunks(const TimelineTask& task, const std::vector<int>& slots) {
    int end = 0;
    for (int b = 0; b <= task.tag; ++b) end += model_.blocks[size_t(b)].chunks;
    for (const int slot : slots) {
      --end;
      for (size_t i = 0; i < all_; ++i) ASSERT_EQ(buffer(slot)[i], parameter(end, i)) << task.name;
    }
  }

  const MemoryModel& model_;
  int rank_;
  size_t share_ = 0, all_ = 0;
  std::vector<std::vector<float>> host_;
  std::mutex mutex_;
  std::map<int, std::vector<float>> buffers_;
};

// 3.16 (e): to the host and back, bit by bit, with gradients that are summed on the way.
TEST(RuntimeMemoryPlan, WhatGoesToTheHostComesBackUnchanged) {
  MemoryModel model = even_model();
  model.blocks[1].chunks = 2;
  model.costs.parameters = Bytes(96);
  for (const MemoryPlan& plan : {MemoryPlan{1, 2, 2, 1}, MemoryPlan{0, 7, 0, 6},
                                 MemoryPlan{3, 1, 1, 0}, MemoryPlan{7, 0, 2, 2}}) {
    run_ranks(3, [&](tuttiComm_t comm, int rank) {
      TimelineRunner runner(comm, chunked_step(model, plan, 3));
      Store store(model, rank, 3);
      runner.run({[&](const TimelineTask& task) { store.compute(task); },
                  [&](const TimelineTask& task) { return store.payload(task); }});
      for (int c = 0; c < 7; ++c) {
        for (size_t i = 0; i < 8; ++i) {
          const float before = Store::parameter(c, size_t(rank) * 8 + i);
          EXPECT_EQ(store.host(c)[i], c < plan.persist ? before : 3 * (before + 1));
        }
      }
    });
  }
}

// 3.16 (f).
TEST(RuntimeMemoryPlan, RefusesWhatCannotBe) {
  const MemoryModel model = even_model();
  EXPECT_INFEASIBLE(search_memory(model, Bytes(10)), "the least that works is");
  const std::string least =
      refusal([&] { search_memory(model, Bytes(10)); }, ErrorKind::kInfeasible);
  const int64_t bytes = std::stoll(least.substr(least.find("works is ") + 9));
  EXPECT_EQ(judge(model, search_memory(model, Bytes(bytes))).peak, Bytes(bytes));
  EXPECT_INFEASIBLE(search_memory(model, Bytes(bytes - 1)), "the least that works is");
  EXPECT_REFUSED(judge(model, {3, 0, 0, 0}), "0 buffers for 3 chunks on the host; give 1 to 3");
  EXPECT_REFUSED(judge(model, {7, 0, 0, 0}), "cannot persist");
  EXPECT_REFUSED(judge(model, {6, 0, 2, 5}), "one would be both");
  EXPECT_REFUSED(judge(model, {6, 0, 3, 0}), "swap fewer");
  EXPECT_REFUSED(pack_chunks(std::vector<Bytes>{Bytes(3), Bytes(9)}, Bytes(8)),
                 "make chunks larger");
  EXPECT_EQ(pack_chunks(std::vector<Bytes>{Bytes(3), Bytes(5), Bytes(1), Bytes(8)}, Bytes(8)), 3);
  EXPECT_REFUSED(judge(MemoryModel{}, MemoryPlan{}), "at least one");
  MemoryModel odd = model;
  odd.blocks[2].input = Bytes(101);
  EXPECT_REFUSED(judge(odd, {6, 0, 0, 0}), "count the input among them");
  odd = model;
  odd.blocks[2].forward = Nanoseconds(0);
  EXPECT_REFUSED(swap_interval(odd), "block 2 takes no time");
  EXPECT_REFUSED(chunked_step(model, {0, 1, 0, 0}, 5), "pad it");
}

}  // namespace
}  // namespace tutti::runtime
