// Timelines that run, with threads as ranks: what was simulated is what happens.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <map>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "src/runtime/crew_test.h"
#include "tests/support/sanitizer.h"
#include "tutti/runtime/generators.h"
#include "tutti/runtime/run_timeline.h"

namespace tutti::runtime {
namespace {

/// Buffers of its own for every task, filled so that a wrong message shows.
class Crate {
 public:
  Crate(const Timeline& timeline, int rank) : timeline_(timeline), rank_(rank) {}

  Payload payload(const TimelineTask& task) {
    const std::lock_guard lock(mutex_);
    const size_t count = size_t(task.bytes.value) / 4;
    const size_t ranks = members(task).size();
    const bool all = task.kind == TaskKind::kAllGather || task.kind == TaskKind::kReduceScatter ||
                     task.kind == TaskKind::kAllToAll;
    auto& [send, recv] = buffers_[&task];
    send.assign(all ? count * ranks : count, value(task, rank_));
    recv.assign(all ? count * ranks : count, -1);
    return {send.data(), recv.data(), count, tuttiInt32, tuttiSum};
  }

  /// After the run: what each task of this rank received.
  void check() {
    for (const auto& [task, buffers] : buffers_) {
      const std::vector<int32_t>& got = buffers.second;
      const size_t count = size_t(task->bytes.value) / 4;
      int32_t sum = 0;
      for (const int r : members(*task)) sum += value(*task, r);
      for (size_t i = 0; i < got.size(); ++i) {
        int32_t expected = sum;
        if (task->kind == TaskKind::kSend) expected = -1;
        if (task->kind == TaskKind::kRecv) expected = value(*task, peer(*task));
        if (task->kind == TaskKind::kAllGather || task->kind == TaskKind::kAllToAll)
          expected = value(*task, members(*task)[i / count]);
        if (task->kind == TaskKind::kReduceScatter && i >= count) expected = -1;
        ASSERT_EQ(got[i], expected) << task->name << " on rank " << rank_;
      }
    }
  }

 private:
  int32_t value(const TimelineTask& task, int rank) const { return task.tag * 100 + rank; }
  std::span<const int> members(const TimelineTask& task) const {
    return timeline_.channels[size_t(task.channel)].ranks();
  }
  int peer(const TimelineTask& task) const { return members(task)[0]; }

  const Timeline& timeline_;
  int rank_;
  std::mutex mutex_;
  std::map<const TimelineTask*, std::pair<std::vector<int32_t>, std::vector<int32_t>>> buffers_;
};

/// Tasks of a track by when they began.
std::map<std::pair<int, Track>, std::vector<std::string>> order_of(const Timeline& timeline,
                                                                   const History& history) {
  std::vector<size_t> tasks(timeline.tasks.size());
  for (size_t t = 0; t < tasks.size(); ++t) tasks[t] = t;
  std::stable_sort(tasks.begin(), tasks.end(), [&](size_t a, size_t b) {
    return history.spans[a].begin < history.spans[b].begin;
  });
  std::map<std::pair<int, Track>, std::vector<std::string>> order;
  for (const size_t t : tasks) {
    order[{timeline.tasks[t].rank, timeline.tasks[t].track}].push_back(timeline.tasks[t].name);
  }
  return order;
}

// W2.
TEST(RuntimeRun, EveryGeneratorRunsInTheOrderThatWasSimulated) {
  for (const TimelineGenerator& generator : timeline_generators()) {
    for (const int ranks : {2, 3, 8}) {
      if (testing_support::kSanitized && ranks > 3) continue;
      SCOPED_TRACE(generator.name + std::string(" ") + std::to_string(ranks));
      const Timeline timeline = generator.example(ranks);
      History all;
      run_ranks(ranks, [&](tuttiComm_t comm, int rank) {
        TimelineRunner runner(comm, timeline);
        Crate crate(runner.timeline(), rank);
        std::atomic<int> computed{0};
        runner.run({[&](const TimelineTask&) { ++computed; },
                    [&](const TimelineTask& task) { return crate.payload(task); }});
        crate.check();
        EXPECT_GT(computed.load(), 0);
        const History gathered = runner.gather();
        if (rank == 0) all = gathered;
      });
      if (HasFailure()) return;
      EXPECT_EQ(order_of(timeline, all), order_of(timeline, simulate(timeline)));
      for (size_t t = 0; t < timeline.tasks.size(); ++t) {
        for (const int before : timeline.tasks[t].after) {
          EXPECT_LE(all.spans[size_t(before)].end, all.spans[t].begin) << timeline.tasks[t].name;
        }
      }
    }
  }
}

/// Every rank sends to every other one, on one track, and receives on another.
Timeline all_pairs(int ranks, int turn) {
  Timeline timeline;
  timeline.ranks = ranks;
  for (int step = 1; step < ranks; ++step) {
    for (int from = 0; from < ranks; ++from) {
      const int to = (from + (step + turn) % (ranks - 1) + 1) % ranks;
      for (const bool sends : {true, false}) {
        TimelineTask task;
        task.rank = sends ? from : to;
        task.kind = sends ? TaskKind::kSend : TaskKind::kRecv;
        task.track = sends ? Track::kCommHigh : Track::kCommLow;
        task.channel = int(timeline.channels.size());
        task.bytes = Bytes(64);
        task.tag = from * ranks + to;
        timeline.tasks.push_back(task);
      }
      timeline.channels.push_back(RankSet({from, to}));
    }
  }
  return timeline;
}

// Plans that change with each batch: a runner makes communicators for the first of them alone.
TEST(RuntimeRun, ChannelsAreKeptWhenTheTimelineChanges) {
  for (const int ranks : {3, 8}) {
    run_ranks(ranks, [&](tuttiComm_t comm, int rank) {
      TimelineRunner runner(comm, all_pairs(ranks, 0));
      const int made = runner.communicators();
      EXPECT_LE(made, ranks == 3 ? 4 : 6);  // 2 log2(ranks)
      for (int turn = 0; turn < 3; ++turn) {
        if (turn > 0) runner.change(all_pairs(ranks, turn));
        Crate crate(runner.timeline(), rank);
        runner.run({[](const TimelineTask&) {},
                    [&](const TimelineTask& task) { return crate.payload(task); }});
        crate.check();
      }
      EXPECT_EQ(runner.communicators(), made);
      // Collectives of a rank set have a communicator of their own, and two channels have two.
      FsdpSpec layers;
      layers.ranks = ranks;
      layers.layer = Bytes(4096 * ranks);
      runner.change(fsdp(layers));
      EXPECT_EQ(runner.communicators(), made + 2);
      runner.change(fsdp(layers));
      EXPECT_EQ(runner.communicators(), made + 2);
      EXPECT_REFUSED(runner.gather(), "no finished run");
    });
  }
}

TEST(RuntimeRun, RefusesTimelinesThatAreFaultyOrDifferBetweenRanks) {
  run_ranks(2, [](tuttiComm_t comm, int rank) {
    Timeline timeline = ddp({.buckets = {DdpBucket{}}});
    timeline.tasks[0].item = -1;
    EXPECT_REFUSED(TimelineRunner(comm, timeline), "rule 1");
    EXPECT_REFUSED(TimelineRunner(comm, ddp({.ranks = 3, .buckets = {DdpBucket{}}})),
                   "for 3 ranks");
    timeline.tasks[0].item = 0;
    timeline.tasks[0].name = rank == 0 ? "this" : "that";
    EXPECT_NE(refusal([&] { TimelineRunner(comm, timeline); }, ErrorKind::kRanksDiffer), "");
    TimelineRunner good(comm, ddp({.buckets = {DdpBucket{}}}));
    EXPECT_REFUSED(good.gather(), "no finished run");
    EXPECT_REFUSED(good.run({}), "both callbacks");
  });
}

TEST(RuntimeRun, WhatACallbackThrowsEndsTheRunOnEveryRank) {
  run_ranks(3, [](tuttiComm_t comm, int rank) {
    TimelineRunner runner(comm, ddp({.ranks = 3, .buckets = {{}, {}, {}}}));
    std::vector<float> buffer(1 << 18);
    const TimelineWork work{
        [&](const TimelineTask& task) {
          if (rank == 1 && task.name == "B1") throw std::runtime_error("planted");
        },
        [&](const TimelineTask&) {
          return Payload{buffer.data(), buffer.data(), buffer.size(), tuttiFloat32, tuttiSum};
        }};
    try {
      runner.run(work);
      ADD_FAILURE() << "rank " << rank << " ended well";
    } catch (const Error& error) {
      EXPECT_NE(rank, 1);
      EXPECT_EQ(error.kind(), ErrorKind::kCommunication);
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(rank, 1);
      EXPECT_STREQ(error.what(), "planted");
    }
    EXPECT_REFUSED(runner.run(work), "make a new runner");
  });
}

TEST(RuntimeRun, APayloadOfAnotherSizeIsRefusedByName) {
  run_ranks(1, [](tuttiComm_t comm, int) {
    TimelineRunner runner(comm, ddp({.ranks = 1, .buckets = {DdpBucket{}}}));
    float small[4];
    EXPECT_REFUSED(runner.run({[](const TimelineTask&) {},
                               [&](const TimelineTask&) {
                                 return Payload{small, small, 4, tuttiFloat32, tuttiSum};
                               }}),
                   "task 'AR0' has 16 bytes and the timeline says 1048576");
  });
}

/// Two all_reduces of each rank at once: a long one in chunks on comm low, and a short one on comm
/// high that is ready when the long one's first chunk is under way.
Timeline crossing(Bytes chunk) {
  Timeline timeline;
  timeline.ranks = 2;
  timeline.channels = {RankSet({0, 1}), RankSet({0, 1})};
  for (int r = 0; r < 2; ++r) {
    TimelineTask task;
    task.rank = r;
    task.kind = TaskKind::kAllReduce;
    task.track = Track::kCommLow;
    task.name = "long";
    task.channel = 0;
    task.bytes = Bytes(8 << 20);
    task.chunk = chunk;
    timeline.tasks.push_back(task);
    task.track = Track::kCommHigh;
    task.name = "short";
    task.channel = 1;
    task.bytes = Bytes(64 << 10);
    timeline.tasks.push_back(task);
  }
  return timeline;
}

// W3. A run in which a thread is scheduled late may miss it, but if the short transfer came behind
// the whole long one, it would never end first.
TEST(RuntimeRun, AHighPriorityTransferPassesALongOneBetweenItsChunks) {
  bool passed = false;
  run_ranks(2, [&](tuttiComm_t comm, int rank) {
    TimelineRunner runner(comm, crossing(Bytes(256 << 10)));
    std::vector<float> low(2 << 20), high(16 << 10);
    const TimelineWork work{
        [](const TimelineTask&) {},
        [&](const TimelineTask& task) {
          auto& buffer = task.name == "long" ? low : high;
          return Payload{buffer.data(), buffer.data(), buffer.size(), tuttiFloat32, tuttiSum};
        }};
    for (int tries = 0; tries < 20; ++tries) {
      runner.run(work);
      const History history = runner.gather();
      const auto took = [&](int task) {
        return history.spans[size_t(task)].end - history.spans[size_t(task)].begin;
      };
      // The same on all ranks, so that all of them stop together.
      const bool first = history.spans[1].end < history.spans[0].end;
      if (!first || tries == 0) continue;  // a communicator's first call is slower
      if (rank == 0) {
        passed = true;
        std::printf(
            "W3 64 KiB of high priority beside 8 MiB in chunks of 256 KiB: %.3f ms of %.3f\n",
            milliseconds(took(1)), milliseconds(took(0)));
      }
      return;
    }
  });
  EXPECT_TRUE(passed);
}

}  // namespace
}  // namespace tutti::runtime
