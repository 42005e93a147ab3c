// Timelines as values: training_systems 3.13 (V1, V2), the checker and its mutants.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "src/runtime/crew_test.h"
#include "src/runtime/timeline_graph.h"
#include "tutti/runtime/generators.h"

namespace tutti::runtime {
namespace {

constexpr int64_t kUnit = 1000;

PipelineSpec spec_of(int ranks, int micro_batches, int chunks = 1) {
  PipelineSpec spec;
  spec.ranks = ranks;
  spec.micro_batches = micro_batches;
  spec.chunks = chunks;
  spec.forward = Nanoseconds(kUnit);
  spec.backward = Nanoseconds(2 * kUnit);
  return spec;
}

double makespan(const Timeline& timeline) {
  return double(summarize(timeline, simulate(timeline)).makespan.value) / kUnit;
}

std::vector<int64_t> peaks(const Timeline& timeline) {
  std::vector<int64_t> peaks;
  for (const RankSummary& own : summarize(timeline, simulate(timeline)).ranks) {
    peaks.push_back(own.peak.value);
  }
  return peaks;
}

std::string said(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    text += "rule " + std::to_string(finding.rule) + ": " + finding.sentence + "\n";
  }
  return text;
}

// 3.13 (e), V1.
TEST(RuntimePipeline, OneForwardOneBackwardTakesWhatTheFormulaSays) {
  EXPECT_EQ(makespan(pipeline(spec_of(4, 8))), 33);
  EXPECT_EQ(makespan(pipeline(spec_of(4, 4))), 21);
  EXPECT_EQ(makespan(pipeline(spec_of(8, 16))), 69);
  EXPECT_EQ(peaks(pipeline(spec_of(4, 8))), (std::vector<int64_t>{4, 3, 2, 1}));
  for (int p = 1; p <= 8; ++p) {
    for (int m = 1; m <= 12; ++m) EXPECT_EQ(makespan(pipeline(spec_of(p, m))), (m + p - 1) * 3);
  }
}

// 3.13 (e), V2.
TEST(RuntimePipeline, InterleavingTakesWhatTheFormulaSays) {
  EXPECT_EQ(makespan(pipeline(spec_of(4, 8, 2))), 28.5);
  EXPECT_EQ(peaks(pipeline(spec_of(4, 8, 2))), (std::vector<int64_t>{11, 9, 7, 5}));
  EXPECT_EQ(makespan(pipeline(spec_of(4, 8, 4))), 26.25);
  EXPECT_EQ(makespan(pipeline(spec_of(8, 16, 2))), 58.5);
  EXPECT_EQ(makespan(pipeline(spec_of(2, 4, 2))), 13.5);
}

// Zero Bubble, ZB-H1: (p - 1) (F + B - W) of bubble, and on no rank more memory than 1F1B has on
// the first one.
TEST(RuntimePipeline, PassesForWeightsFillTheBubblesAsTheFormulaSays) {
  for (int p = 1; p <= 8; ++p) {
    for (int m = p; m <= 16; ++m) {
      PipelineSpec spec = spec_of(p, m);
      spec.weights = Nanoseconds(kUnit);
      const Timeline timeline = pipeline(spec);
      EXPECT_EQ(said(check(timeline)), "") << p << " " << m;
      EXPECT_EQ(makespan(timeline), 3 * m + (p - 1)) << p << " " << m;
      for (const int64_t peak : peaks(timeline)) EXPECT_LE(peak, p) << p << " " << m;
    }
  }
  PipelineSpec spec = spec_of(4, 8, 2);
  spec.weights = Nanoseconds(kUnit);
  EXPECT_EQ(said(check(pipeline(spec))), "");
  EXPECT_LT(makespan(pipeline(spec)), 28.5);
}

TEST(RuntimePipeline, StagesTakeTimeInProportionToTheirLayers) {
  PipelineSpec spec = spec_of(4, 8);
  spec.stage_layers = {2, 2, 2, 2};
  EXPECT_EQ(makespan(pipeline(spec)), 33);
  spec.stage_layers = {1, 3, 2, 2};  // every micro-batch waits for the slowest stage
  const Timeline timeline = pipeline(spec);
  EXPECT_EQ(said(check(timeline)), "");
  EXPECT_GE(makespan(timeline), 8 * 4.5);
  EXPECT_EQ(timeline.tasks[0].duration, Nanoseconds(kUnit / 2));
  spec.stage_layers = {1, 3, 2};
  EXPECT_REFUSED(pipeline(spec), "layers for 3 stages; the pipeline has 4");
  spec.stage_layers = {1, 3, 0, 2};
  EXPECT_REFUSED(pipeline(spec), "a stage has 0 layers");
  spec.stage_layers = {1, 3, 2, 2};
  spec.layers = 9;
  EXPECT_REFUSED(pipeline(spec), "have 8 layers, not 9");
  spec = spec_of(4, 8);
  spec.weights = Nanoseconds(2 * kUnit + 1);
  EXPECT_REFUSED(pipeline(spec), "not within the 2000 ns");
}

TEST(RuntimePipeline, RefusesWhatCannotBeScheduled) {
  EXPECT_REFUSED(pipeline(spec_of(4, 0)), "give 1 or more");
  EXPECT_REFUSED(pipeline(spec_of(1, 4, 2)), "nothing to interleave");
  PipelineSpec spec = spec_of(4, 8, 2);
  spec.group = 3;
  EXPECT_REFUSED(pipeline(spec), "outside of [4 ranks, 8 micro-batches]");
  spec.group = 9;
  EXPECT_REFUSED(pipeline(spec), "choose one between");
  spec.group = 6;
  EXPECT_REFUSED(pipeline(spec), "a last group of 2");
  EXPECT_REFUSED(pipeline(spec_of(6, 3, 2)), "3 micro-batches for 6 ranks with 2 chunks each");
  spec.group = -1;
  EXPECT_REFUSED(pipeline(spec), "groups of -1");
  spec.group = 0;
  spec.layers = 12;
  EXPECT_REFUSED(pipeline(spec), "12 layers are not a multiple");
  spec.layers = 16;
  spec.forward = Nanoseconds(999);
  EXPECT_REFUSED(pipeline(spec), "multiples of the 2 chunks");
}

// 3.13 (f).
TEST(RuntimePipeline, RefusesBatchesAndModelsThatDoNotDivide) {
  EXPECT_EQ(micro_batches_of({64, 2, 4, 8, 64, 8192}), 8);
  EXPECT_REFUSED(micro_batches_of({60, 2, 4, 8, 64, 8192}), "a batch of 60 is not a multiple");
  EXPECT_REFUSED(micro_batches_of({64, 2, 4, 8, 52, 8192}), "52 heads are not a multiple of 8");
  EXPECT_REFUSED(micro_batches_of({64, 2, 4, 8, 64, 100}), "the hidden size 100");
  EXPECT_REFUSED(micro_batches_of({64, 0, 4, 8, 64, 8192}), "1 or more");
}

TEST(RuntimeTimeline, EveryGeneratorIsSoundForOneToEightRanks) {
  for (const TimelineGenerator& generator : timeline_generators()) {
    for (int ranks = 1; ranks <= 8; ++ranks) {
      const Timeline timeline = generator.example(ranks);
      EXPECT_EQ(said(check(timeline)), "") << generator.name << " " << ranks;
      EXPECT_EQ(fingerprint(timeline), fingerprint(generator.example(ranks)));
    }
  }
}

TEST(RuntimePipeline, EveryGroupSizeIsSoundAndLosesNothing) {
  for (int p = 2; p <= 4; ++p) {
    for (int m = p; m <= 10; ++m) {
      for (int group = p; group <= m; ++group) {
        if (m % group != 0 && m % group < p) continue;
        PipelineSpec spec = spec_of(p, m, 2);
        spec.group = group;
        EXPECT_EQ(said(check(pipeline(spec))), "") << p << " " << m << " " << group;
        if (m % p != 0 || group != p) continue;
        EXPECT_EQ(makespan(pipeline(spec)), 3 * m + 1.5 * (p - 1));
      }
    }
  }
}

/// The rules that the checker says a timeline breaks.
std::set<int> rules(const Timeline& timeline) {
  std::set<int> broken;
  for (const Finding& finding : check(timeline)) broken.insert(finding.rule);
  return broken;
}

TEST(RuntimeTimeline, ADroppedDependencyIsFoundUnlessAnotherOneImpliesIt) {
  for (const TimelineGenerator& generator : timeline_generators()) {
    for (const int ranks : {2, 4}) {
      const Timeline good = generator.example(ranks);
      int found = 0;
      for (size_t t = 0; t < good.tasks.size(); ++t) {
        for (size_t i = 0; i < good.tasks[t].after.size(); ++i) {
          Timeline mutant = good;
          mutant.tasks[t].after.erase(mutant.tasks[t].after.begin() + std::ptrdiff_t(i));
          const HappensBefore order(mutant, graph_of(mutant));
          const bool implied = order.ends_before(good.tasks[t].after[i], int(t));
          EXPECT_EQ(rules(mutant).contains(7), !implied)
              << generator.name << ": " << good.tasks[t].name;
          found += !implied;
        }
      }
      EXPECT_GT(found, 2) << generator.name;
    }
  }
}

/// Swaps what two neighbours on a track of one rank are, wherever both are of this kind.
int swapped(const Timeline& good, TaskKind kind, const std::function<void(const Timeline&)>& see) {
  int mutants = 0;
  for (size_t a = 0; a < good.tasks.size(); ++a) {
    for (size_t b = a + 1; b < good.tasks.size(); ++b) {
      const TimelineTask &x = good.tasks[a], &y = good.tasks[b];
      if (x.rank != y.rank || x.track != y.track || x.kind != kind) continue;
      if (y.kind == kind && x.channel == y.channel) {
        Timeline mutant = good;
        std::swap(mutant.tasks[a].tag, mutant.tasks[b].tag);
        std::swap(mutant.tasks[a].name, mutant.tasks[b].name);
        see(mutant);
        ++mutants;
      }
      break;
    }
  }
  return mutants;
}

TEST(RuntimeTimeline, SwappedMessagesAndCollectivesAreFound) {
  for (const TimelineGenerator& generator : timeline_generators()) {
    const Timeline good = generator.example(4);
    int mutants = 0;
    for (const TaskKind kind :
         {TaskKind::kSend, TaskKind::kRecv, TaskKind::kAllGather, TaskKind::kReduceScatter,
          TaskKind::kAllReduce, TaskKind::kAllToAll}) {
      mutants += swapped(good, kind, [&](const Timeline& mutant) {
        const std::set<int> broken = rules(mutant);
        EXPECT_TRUE(broken.contains(3) || broken.contains(4)) << generator.name;
      });
    }
    EXPECT_GT(mutants, 2) << generator.name;
  }
}

/// Whether some user of the buffer, other than the task, is neither before nor after it.
bool is_contended(const Timeline& timeline, const HappensBefore& order, int task, int buffer) {
  for (int t = 0; t < std::ssize(timeline.tasks); ++t) {
    const TimelineTask& user = timeline.tasks[size_t(t)];
    if (t == task || user.rank != timeline.tasks[size_t(task)].rank) continue;
    const auto has = [&](const std::vector<int>& list) {
      return std::find(list.begin(), list.end(), buffer) != list.end();
    };
    if (!has(user.reads) && !has(user.writes)) continue;
    if (!order.ends_before(t, task) && !order.ends_before(task, t)) return true;
  }
  return false;
}

TEST(RuntimeTimeline, ABufferThatIsReusedEarlyIsFound) {
  for (const TimelineGenerator& generator : timeline_generators()) {
    const Timeline good = generator.example(2);
    const HappensBefore order(good, graph_of(good));
    int found = 0;
    for (int t = 0; t < std::ssize(good.tasks); ++t) {
      if (good.tasks[size_t(t)].writes.empty()) continue;
      for (const TimelineTask& other : good.tasks) {
        if (other.rank != good.tasks[size_t(t)].rank || other.writes.empty()) continue;
        Timeline mutant = good;
        mutant.tasks[size_t(t)].writes = {other.writes.front()};
        const bool contended = is_contended(good, order, t, other.writes.front());
        found += contended;
        EXPECT_TRUE(!contended || rules(mutant).contains(7)) << generator.name;
      }
    }
    EXPECT_GT(found, 2) << generator.name;
  }
}

TEST(RuntimeTimeline, EveryOtherFaultIsFound) {
  const Timeline good = pipeline(spec_of(3, 4));
  const auto first = [&](TaskKind kind) {
    size_t t = 0;
    while (good.tasks[t].kind != kind) ++t;
    return t;
  };
  const auto with = [&](const std::function<void(Timeline&)>& change) {
    Timeline mutant = good;
    change(mutant);
    return rules(mutant);
  };
  const size_t recv = first(TaskKind::kRecv), send = first(TaskKind::kSend), work = 0;
  EXPECT_TRUE(with([](Timeline& t) { t.memory = Bytes(2); }).contains(6));
  EXPECT_TRUE(with([](Timeline& t) { t.memory = Bytes(3); }).empty());
  EXPECT_TRUE(with([&](Timeline& t) { t.tasks[work].item = 1; }).contains(1));
  EXPECT_TRUE(with([&](Timeline& t) { t.tasks[work].item = 1 << 20; }).contains(1));
  EXPECT_TRUE(with([&](Timeline& t) { t.tasks[recv].bytes = Bytes(7); }).contains(3));
  EXPECT_TRUE(with([&](Timeline& t) { t.tasks[recv].kind = TaskKind::kCopy; }).contains(3));
  EXPECT_TRUE(with([&](Timeline& t) { t.tasks[send].rank = 2; }).contains(2));
  EXPECT_TRUE(with([&](Timeline& t) { t.tasks[send].channel = 99; }).contains(2));
  EXPECT_TRUE(
      with([&](Timeline& t) { t.tasks[work].after = {int(t.tasks.size()) - 1}; }).contains(2));
  EXPECT_TRUE(with([&](Timeline& t) { t.tasks[work].after = {-5}; }).contains(2));
  EXPECT_TRUE(with([&](Timeline& t) { t.tasks[work].duration = Nanoseconds(-1); }).contains(2));
  // A receive before any sender could have sent: the first forward pass waits for a gradient.
  EXPECT_TRUE(with([&](Timeline& t) {
                size_t gradient = 0;
                while (t.tasks[gradient].kind != TaskKind::kRecv || t.tasks[gradient].rank != 0)
                  ++gradient;
                t.tasks[work].after.push_back(int(gradient));
              }).contains(5));
  // One channel on two tracks: nothing fixes its order.
  EXPECT_TRUE(with([&](Timeline& t) { t.tasks[send].track = Track::kCopy; }).contains(4));
  EXPECT_REFUSED(simulate([&] {
                   Timeline t = good;
                   t.tasks[recv].bytes = Bytes(7);
                   return t;
                 }()),
                 "meets");
  EXPECT_REFUSED(expect_sound([&] {
                   Timeline t = good;
                   t.memory = Bytes(2);
                   return t;
                 }()),
                 "rule 6");
}

TEST(RuntimeTimeline, ACollectiveThatOneRankLacksIsFound) {
  Timeline timeline;
  timeline.ranks = 3;
  timeline.channels = {RankSet({0, 1, 2})};
  for (int r = 0; r < 3; ++r) {
    TimelineTask task;
    task.rank = r;
    task.kind = r == 1 ? TaskKind::kAllGather : TaskKind::kAllReduce;
    task.channel = 0;
    timeline.tasks.push_back(task);
  }
  EXPECT_EQ(rules(timeline), (std::set<int>{4}));
  timeline.tasks.erase(timeline.tasks.begin());
  timeline.tasks[0].kind = TaskKind::kAllReduce;
  EXPECT_EQ(rules(timeline), (std::set<int>{4}));
}

TEST(RuntimeTimeline, PicturesHaveARowForEachTrackAndSurviveAnyName) {
  Timeline timeline = pipeline(spec_of(2, 2));
  timeline.tasks[0].name = "a<b>&\"c\\\n";
  const NamedHistory both[] = {{"simulated", simulate(timeline)}, {"measured", simulate(timeline)}};
  const std::string svg = draw_svg(timeline, both);
  EXPECT_NE(svg.find("a&lt;b>&amp;&quot;c\\ "), std::string::npos);
  EXPECT_NE(svg.find("rank 1 comm low"), std::string::npos);
  EXPECT_NE(svg.find("measured: "), std::string::npos);
  const std::string json = perfetto_json(timeline, both);
  EXPECT_NE(json.find("a<b>&\\\"c\\\\ "), std::string::npos);
  EXPECT_NE(json.find("\"measured, rank 1\""), std::string::npos);
  const NamedHistory foreign[] = {{"other", {}}};
  EXPECT_REFUSED(draw_svg(timeline, foreign), "do not belong together");
  EXPECT_REFUSED(perfetto_json(timeline, foreign), "does not belong");
}

TEST(RuntimeFsdp, PrefetchHidesGathersThatAreShorterThanTheWork) {
  FsdpSpec spec;
  spec.ranks = 2;
  spec.layers = 4;
  spec.forward = Nanoseconds(3 * kUnit);
  spec.backward = Nanoseconds(6 * kUnit);
  spec.gather = Nanoseconds(2 * kUnit);
  spec.scatter = Nanoseconds(2 * kUnit);
  // The first gather and the last scatter have nothing to hide behind.
  EXPECT_EQ(makespan(fsdp(spec)), 2 + 4 * 3 + 4 * 6 + 2);
  // Without prefetch every gather is exposed, but the last layer's second one, which there is not.
  // In the backward pass each shares the link with the scatter of the layer before.
  spec.prefetch = 0;
  EXPECT_EQ(makespan(fsdp(spec)), 4 * (2 + 3) + 6 + 3 * (2 + 2 + 6) + 2);
  spec.prefetch = 1;
  spec.memory = Bytes(4 * spec.layer.value);  // two gathered, two gradients
  EXPECT_EQ(said(check(fsdp(spec))), "");
  spec.memory = Bytes(3 * spec.layer.value);
  EXPECT_NE(said(check(fsdp(spec))).find("rule 6"), std::string::npos);
  spec.layer = Bytes(7);
  EXPECT_REFUSED(fsdp(spec), "pad it");
  spec.prefetch = -1;
  EXPECT_REFUSED(fsdp(spec), "gathers nothing ahead");
}

// Gathers and scatters are on two tracks and one link: together they take the time of both.
TEST(RuntimeFsdp, GathersAndScattersShareTheLink) {
  FsdpSpec spec;
  spec.ranks = 2;
  spec.layers = 16;
  spec.forward = Nanoseconds(1);
  spec.backward = Nanoseconds(2);
  spec.gather = spec.scatter = Nanoseconds(1500 * kUnit);
  EXPECT_NEAR(makespan(fsdp(spec)), (31 + 16) * 1500, 1);
}

/// Two messages from rank 0 to rank 1 and one back, all at once, on links of the ranks.
Timeline three_messages(int link) {
  Timeline timeline;
  timeline.ranks = 2;
  timeline.channels = {RankSet({0, 1}), RankSet({0, 1}), RankSet({1, 0})};
  const Track tracks[] = {Track::kCommHigh, Track::kCommLow, Track::kCopy};
  for (int c = 0; c < 3; ++c) {
    for (const bool sends : {true, false}) {
      TimelineTask task;
      task.rank = (c == 2) != sends ? 0 : 1;
      task.track = tracks[c];
      task.kind = sends ? TaskKind::kSend : TaskKind::kRecv;
      task.channel = c;
      task.duration = Nanoseconds(c == 0 ? 30 : 10);
      task.link = link;
      timeline.tasks.push_back(task);
    }
  }
  return timeline;
}

TEST(RuntimeTimeline, WhatSharesADirectionOfALinkSharesItsRate) {
  const auto ends = [](const Timeline& timeline) {
    const History history = simulate(timeline);
    std::vector<int64_t> ends;
    for (const size_t t : {0, 2, 4}) ends.push_back(history.spans[t].end.value);
    return ends;
  };
  EXPECT_EQ(said(check(three_messages(0))), "");
  EXPECT_EQ(ends(three_messages(-1)), (std::vector<int64_t>{30, 10, 10}));
  // Half the rate each for 20 ns, then the long one alone; the third goes the other way.
  EXPECT_EQ(ends(three_messages(0)), (std::vector<int64_t>{40, 20, 10}));
  Timeline apart = three_messages(0);
  apart.tasks[2].link = apart.tasks[3].link = 1;
  EXPECT_EQ(ends(apart), (std::vector<int64_t>{30, 10, 10}));
}

// Rule 6 is about every order that is allowed, not about the times of one simulation.
TEST(RuntimeTimeline, MemoryIsCheckedInEveryOrderOfTheTracks) {
  for (const int64_t first : {10, 25}) {
    Timeline timeline;
    timeline.ranks = 1;
    timeline.memory = Bytes(1);
    TimelineTask a, wait;
    a.duration = Nanoseconds(first);
    a.acquires = a.releases = Bytes(1);
    wait.track = Track::kCopy;
    wait.kind = TaskKind::kCopy;
    wait.duration = Nanoseconds(20);
    TimelineTask b = wait;
    b.acquires = b.releases = Bytes(1);
    timeline.tasks = {a, wait, b};
    EXPECT_EQ(rules(timeline), (std::set<int>{6}));
    timeline.memory = Bytes(2);
    EXPECT_EQ(said(check(timeline)), "");
    timeline.memory = Bytes(1);
    timeline.tasks[1].after = {0};
    EXPECT_EQ(said(check(timeline)), "");
  }
}

// Rank 0 may hold what it sends only until rank 1 has answered: an order that only messages make.
TEST(RuntimeTimeline, WhatOtherRanksOrderCountsForMemoryAndBuffers) {
  Timeline timeline;
  timeline.ranks = 2;
  timeline.channels = {RankSet({0, 1}), RankSet({1, 0})};
  const auto add = [&](int rank, Track track, TaskKind kind, int channel) -> TimelineTask& {
    TimelineTask task;
    task.rank = rank;
    task.track = track;
    task.kind = kind;
    task.channel = channel;
    task.name = "task " + std::to_string(timeline.tasks.size());
    return timeline.tasks.emplace_back(task);
  };
  TimelineTask& made = add(0, Track::kCompute, TaskKind::kCompute, -1);
  made.acquires = made.releases = Bytes(1);
  made.writes = {0};
  add(0, Track::kCommHigh, TaskKind::kSend, 0).after = {0};
  add(1, Track::kCommHigh, TaskKind::kRecv, 0);
  add(1, Track::kCommLow, TaskKind::kSend, 1).after = {2};
  add(0, Track::kCommLow, TaskKind::kRecv, 1);
  TimelineTask& again = add(0, Track::kCopy, TaskKind::kCopy, -1);
  again.after = {4};
  again.acquires = again.releases = Bytes(1);
  again.writes = {0};
  timeline.memory = Bytes(1);
  EXPECT_EQ(said(check(timeline)), "");
  timeline.tasks[3].after = {};  // the answer no longer waits for the question
  EXPECT_EQ(rules(timeline), (std::set<int>{6, 7}));
}

TEST(RuntimeTimeline, SumsThatWouldOverflowAreAFinding) {
  Timeline timeline = pipeline(spec_of(2, 2));
  timeline.tasks[0].duration = timeline.tasks[1].duration = Nanoseconds(INT64_MAX);
  EXPECT_EQ(rules(timeline), (std::set<int>{2}));
}

TEST(RuntimeDdp, OverlapLeavesTheLastBucketExposed) {
  DdpSpec spec;
  spec.forward = spec.step = Nanoseconds(kUnit);
  spec.buckets.assign(4, {Nanoseconds(2 * kUnit), Nanoseconds(2 * kUnit), Bytes(1024)});
  EXPECT_EQ(makespan(ddp(spec)), 1 + 4 * 2 + 2 + 1);
  const Timeline timeline = ddp(spec);
  EXPECT_EQ(summarize(timeline, simulate(timeline)).ranks[1].exposed, Nanoseconds(2 * kUnit));
  spec.overlap = false;
  EXPECT_EQ(makespan(ddp(spec)), 1 + 8 + 8 + 1);
  spec.buckets.clear();
  EXPECT_REFUSED(ddp(spec), "at least one");
}

}  // namespace
}  // namespace tutti::runtime
