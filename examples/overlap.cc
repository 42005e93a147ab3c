// How much of gradient reduction hides behind the backward pass: measured beside what the
// simulation says, and drawn.
//
//   build/bin/examples/overlap --ranks 2 > overlap.svg
//   TUTTI_TRANSPORTS=tcp build/bin/examples/overlap --ranks 2 > overlap.svg
//
// Computing is played by sleeping, as an accelerator's computing leaves the processors alone. It is
// made as long as communication: first the all_reduce of a bucket is measured on this link.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include "examples/ranks.h"
#include "tutti/runtime/generators.h"
#include "tutti/runtime/run_timeline.h"

namespace {

using namespace examples;
using namespace tutti::runtime;

constexpr int kBuckets = 8;
constexpr size_t kFloats = 4 << 20;  // of a bucket

DdpSpec spec_for(int ranks, Nanoseconds bucket, bool overlap) {
  DdpSpec spec;
  spec.ranks = ranks;
  spec.forward = bucket;
  spec.step = Nanoseconds(0);
  spec.overlap = overlap;
  spec.buckets.assign(kBuckets, DdpBucket{bucket, bucket, Bytes(kFloats * 4)});
  return spec;
}

/// Runs three times and returns the last history of all ranks.
History measured(tuttiComm_t comm, const Timeline& timeline,
                 std::vector<std::vector<float>>& buckets) {
  TimelineRunner runner(comm, timeline);
  const TimelineWork work{
      [](const TimelineTask& task) {
        std::this_thread::sleep_for(std::chrono::nanoseconds(task.duration.value));
      },
      [&](const TimelineTask& task) {
        std::vector<float>& bucket = buckets[static_cast<size_t>(task.tag)];
        return Payload{bucket.data(), bucket.data(), bucket.size(), tuttiFloat32, tuttiSum};
      }};
  for (int i = 0; i < 3; ++i) runner.run(work);
  return runner.gather();
}

/// The time of a bucket's all_reduce here on the slowest rank: the median of the buckets of a run
/// without overlap.
Nanoseconds bucket_time(tuttiComm_t comm, int ranks, std::vector<std::vector<float>>& buckets) {
  const Timeline timeline = ddp(spec_for(ranks, Nanoseconds(0), false));
  const History history = measured(comm, timeline, buckets);
  std::vector<Nanoseconds> times;
  for (size_t t = 0; t < timeline.tasks.size(); ++t) {
    if (timeline.tasks[t].kind != TaskKind::kAllReduce) continue;
    times.push_back(history.spans[t].end - history.spans[t].begin);
  }
  std::nth_element(times.begin(), times.begin() + std::ssize(times) / 2, times.end());
  return times[times.size() / 2];
}

void compare(tuttiComm_t comm) {
  int rank = 0, ranks = 0;
  expect(tuttiCommUserRank(comm, &rank), "tuttiCommUserRank");
  expect(tuttiCommCount(comm, &ranks), "tuttiCommCount");
  std::vector<std::vector<float>> buckets(kBuckets, std::vector<float>(kFloats, 1.0f));
  const Nanoseconds bucket = bucket_time(comm, ranks, buckets);
  if (rank == 0)
    std::fprintf(stderr, "a bucket's all_reduce takes %.3f ms\n", milliseconds(bucket));
  for (const bool overlap : {false, true}) {
    const Timeline timeline = ddp(spec_for(ranks, bucket, overlap));
    const History real = measured(comm, timeline, buckets);
    if (rank != 0) continue;
    const NamedHistory both[] = {{"simulated", simulate(timeline)}, {"measured", real}};
    for (const NamedHistory& named : both) {
      const Summary summary = summarize(timeline, named.history);
      std::fprintf(stderr, "%-15s %-10s %9.3f ms, exposed %9.3f ms\n",
                   overlap ? "overlapped" : "without overlap", named.name.c_str(),
                   milliseconds(summary.makespan), milliseconds(summary.ranks[0].exposed));
    }
    if (overlap) std::fputs(draw_svg(timeline, both).c_str(), stdout);
  }
}

}  // namespace

int main(int argc, char** argv) { return run_example(argc, argv, compare); }
