// The two ways to hand micro-batches from stage to stage, as a timeline.
#include "src/runtime/index.h"
#include "src/runtime/refuse.h"
#include "src/runtime/timeline_builder.h"
#include "tutti/runtime/transfer_queue.h"

namespace tutti::runtime {
namespace {

TimelineTask work(int rank, std::string name, Nanoseconds duration, int64_t item) {
  TimelineTask task;
  task.rank = rank;
  task.name = std::move(name);
  task.duration = duration;
  task.item = item;
  return task;
}

TimelineTask transfer(int rank, int micro_batch, Bytes bytes, bool is_put) {
  TimelineTask task;
  task.rank = rank;
  task.track = is_put ? Track::kCommLow : Track::kCommHigh;
  task.kind = is_put ? TaskKind::kSend : TaskKind::kRecv;
  task.name = (is_put ? "put " : "get ") + std::to_string(micro_batch);
  task.bytes = bytes;
  task.tag = micro_batch;
  return task;
}

/// The tasks of one stage; `get` and `put` are its channels, -1 at the ends of the chain.
void add_stage(const StreamedSpec& spec, TimelineBuilder& builder, int stage, int get, int put) {
  const int64_t stages = std::ssize(spec.stages);
  std::vector<int> made, results;
  for (int m = 0; m < spec.micro_batches; ++m) {
    TimelineTask task =
        work(stage, "work " + std::to_string(m), spec.stages[at(stage)], m * stages + stage);
    if (get >= 0) {
      TimelineTask arrival = transfer(stage, m, spec.message, false);
      arrival.channel = get;
      arrival.writes = task.reads = {builder.buffer()};
      task.after = {builder.add(std::move(arrival))};
    }
    results.push_back(builder.buffer());
    task.writes = {results.back()};
    made.push_back(builder.add(std::move(task)));
  }
  for (int m = 0; m < spec.micro_batches && put >= 0; ++m) {
    TimelineTask task = transfer(stage, m, spec.message, true);
    task.channel = put;
    task.after = {spec.streamed ? made[at(m)] : made.back()};
    task.reads = {results[at(m)]};
    builder.add(std::move(task));
  }
}

}  // namespace

Timeline streamed_timeline(const StreamedSpec& spec) {
  const int stages = int(spec.stages.size());
  check_ranks(stages);
  require(spec.micro_batches >= 1, spec.micro_batches, " micro-batches; give 1 or more");
  check_parts(checked_product(spec.micro_batches, stages, "the work of all stages"),
              "micro-batches of all stages");
  for (const Nanoseconds time : spec.stages) {
    require(time >= Nanoseconds(0), "a stage takes ", time.value, " ns; give 0 or more");
  }
  require(spec.message >= Bytes(0), "a message of ", spec.message.value, " bytes is negative");
  TimelineBuilder builder(stages);
  builder.timeline().items = int64_t{spec.micro_batches} * stages;
  for (int s = 0; s + 1 < stages; ++s) builder.channel(RankSet({s, s + 1}));
  for (int s = 0; s < stages; ++s) {
    add_stage(spec, builder, s, s - 1, s + 1 < stages ? s : -1);
  }
  return builder.take();
}

Timeline example_streamed(int ranks) {
  StreamedSpec spec;
  for (int s = 0; s < ranks; ++s) spec.stages.emplace_back(1'000'000 * (1 + s % 2));
  return streamed_timeline(spec);
}

}  // namespace tutti::runtime
