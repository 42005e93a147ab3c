#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "src/runtime/attention_exchange.h"
#include "src/runtime/index.h"
#include "src/runtime/refuse.h"
#include "tutti/runtime/attention_timelines.h"

namespace tutti::runtime {
namespace {

/// One stage's tasks, tick by tick.
class AttentionStage {
 public:
  AttentionStage(TimelineBuilder& builder, const AttentionPipelineSpec& spec, int stage,
                 const std::vector<int>& channels)
      : builder_(builder),
        spec_(spec),
        stage_(stage),
        channels_(channels),
        exchange_(builder, spec.layer, stage, channels.back()),
        messages_{Messages(builder), Messages(builder)} {
    for (size_t m = 0; m < spec.attention.size(); ++m) kept_.push_back(builder.buffer());
  }

  void add(const std::vector<AttentionTick>& ticks) {
    for (int t = 0; t < std::ssize(ticks); ++t) {
      const AttentionTick& tick = ticks[at(t)];
      const int micro_batch = tick.micro_batch[at(stage_)];
      for (int l = 0; l < spec_.layers; ++l) add_layer(tick, t, l, micro_batch);
      if (micro_batch >= 0) finish(tick, micro_batch);
      if (const int from = neighbour(tick, -1); from >= 0) receive(tick, from);
    }
  }

 private:
  /// A message out and one in, of one direction.
  struct Messages {
    explicit Messages(TimelineBuilder& builder) : out(builder.buffer()), in(builder.buffer()) {}
    int out, in;        // buffers
    int sent = -1;      // the last tasks: the send,
    int received = -1;  // the receive that no pass has used yet,
    int used = -1;      // and the pass that used the one before
  };

  Messages& messages(const AttentionTick& tick) { return messages_[tick.backward]; }
  /// The stage that comes `step` behind this one in the tick's direction; -1: none.
  int neighbour(const AttentionTick& tick, int step) const {
    const int stage = stage_ + (tick.backward ? -step : step);
    return stage < spec_.stages ? std::max(stage, -1) : -1;
  }
  int64_t item_of(const AttentionTick& tick, int64_t micro_batch, int stage) const {
    return (micro_batch * spec_.stages + stage) * 2 + tick.backward;
  }
  int channel_from(int stage, const AttentionTick& tick) const {
    return channels_[at(tick.backward ? spec_.stages - 1 + stage - 1 : stage)];
  }
  int64_t times(const AttentionTick& tick) const { return tick.backward ? spec_.backward : 1; }
  static std::string name_of(const AttentionTick& tick, int micro_batch) {
    return (tick.backward ? "B" : "F") + std::to_string(micro_batch);
  }

  /// All micro-batches of the tick together, an equal share for each rank.
  Nanoseconds share_of(const AttentionTick& tick) const {
    Nanoseconds sum{0};
    for (const int m : tick.micro_batch) sum += m < 0 ? Nanoseconds(0) : spec_.attention[at(m)];
    return (sum * times(tick) + Nanoseconds(spec_.stages - 1)) / spec_.stages;
  }

  void add_layer(const AttentionTick& tick, int t, int l, int micro_batch) {
    std::vector<int> brought;
    if (micro_batch >= 0) brought = {add_linear(tick, l, micro_batch)};
    const int tag = (t * spec_.layers + l) * 2;
    const int entered = exchange_.enter(tag, std::move(brought));
    const int attended = exchange_.attend(entered, share_of(tick), "CA" + std::to_string(t));
    left_ = exchange_.exit(tag + 1, attended);
  }

  TimelineTask pass(const AttentionTick& tick, int micro_batch) const {
    TimelineTask task;
    task.rank = stage_;
    task.name = name_of(tick, micro_batch);
    return task;
  }

  /// Before the attention of a layer, fused with what is after that of the layer before.
  int add_linear(const AttentionTick& tick, int l, int micro_batch) {
    TimelineTask task = pass(tick, micro_batch);
    task.duration = spec_.layer.before;
    task.writes = {exchange_.input()};
    if (l > 0) {
      task.duration += spec_.layer.after;
      task.after = {left_};
      task.reads = {exchange_.output()};
    }
    task.duration = task.duration * times(tick);
    if (l > 0) return builder_.add(std::move(task));
    Messages& own = messages(tick);
    if (own.received >= 0) {
      task.after = {own.received};
      task.reads.push_back(own.in);
    }
    if (tick.backward) task.reads.push_back(kept_[at(micro_batch)]);
    if (!tick.backward) task.acquires = spec_.activations;
    const int place = builder_.add(std::move(task));
    if (own.received >= 0) own.used = place;
    own.received = -1;
    return place;
  }

  /// After the attention of the last layer; what it made goes on.
  void finish(const AttentionTick& tick, int micro_batch) {
    TimelineTask task = pass(tick, micro_batch);
    task.duration = spec_.layer.after * times(tick);
    task.after = {left_};
    task.reads = {exchange_.output()};
    task.item = item_of(tick, micro_batch, stage_);
    if (tick.backward) task.releases = spec_.activations;
    if (!tick.backward) task.writes = {kept_[at(micro_batch)]};
    const int to = neighbour(tick, 1);
    Messages& own = messages(tick);
    if (to >= 0) {
      task.writes.push_back(own.out);
      if (own.sent >= 0) task.after.push_back(own.sent);
    }
    const int done = builder_.add(std::move(task));
    if (to < 0) return;
    TimelineTask send = message(TaskKind::kSend, Track::kCommLow, tick, stage_, micro_batch);
    send.after = {done};
    send.reads = {own.out};
    own.sent = builder_.add(std::move(send));
  }

  void receive(const AttentionTick& tick, int from) {
    const int micro_batch = tick.micro_batch[at(from)];
    if (micro_batch < 0) return;
    Messages& own = messages(tick);
    TimelineTask recv = message(TaskKind::kRecv, Track::kCopy, tick, from, micro_batch);
    recv.writes = {own.in};
    if (own.used >= 0) recv.after = {own.used};
    own.received = builder_.add(std::move(recv));
  }

  TimelineTask message(TaskKind kind, Track track, const AttentionTick& tick, int from,
                       int micro_batch) const {
    TimelineTask task = pass(tick, micro_batch);
    task.name = (kind == TaskKind::kSend ? "send " : "recv ") + task.name;
    task.kind = kind;
    task.track = track;
    task.channel = channel_from(from, tick);
    task.tag = static_cast<int>(item_of(tick, micro_batch, from));
    task.duration = spec_.transfer;
    task.bytes = spec_.message;
    return task;
  }

  TimelineBuilder& builder_;
  const AttentionPipelineSpec& spec_;
  int stage_;
  const std::vector<int>& channels_;  // forward, backward from stage 1 on, all stages
  AttentionExchange exchange_;
  Messages messages_[2];   // forward, backward
  std::vector<int> kept_;  // buffers of activations, of each micro-batch
  int left_ = -1;          // the last exit
};

void check_spec(const AttentionPipelineSpec& spec) {
  require(spec.stages >= 1 && spec.stages <= kMostRanks, spec.stages,
          " stages; give 1 or more, at most 2^20");
  require(spec.layers >= 1, spec.layers, " layers; give 1 or more");
  require(spec.backward >= 0, "a backward pass takes ", spec.backward,
          " times a forward one; give 0 or more");
  require(spec.transfer >= Nanoseconds(0), "the time of a message is negative");
  for (size_t m = 0; m < spec.attention.size(); ++m) {
    require(spec.attention[m] >= Nanoseconds(0), "the attention of micro-batch ", m,
            " takes negative time");
  }
  check_layer(spec.layer);
  // The ranks share the attention of all micro-batches that are in the pipeline.
  int64_t time =
      checked_sum(spec.layer.before.value + spec.layer.after.value, spec.stages, "a layer's time");
  for (const Nanoseconds attention : spec.attention) {
    time = checked_sum(time, attention.value, "the attention of all micro-batches");
  }
  checked_product(time, std::max<int64_t>(1, spec.backward), "the time of a backward pass");
  const int64_t ticks = 2 * (std::ssize(spec.attention) + spec.stages - 1);
  const int64_t tags = checked_product(
      std::max<int64_t>(ticks * spec.layers, std::ssize(spec.attention) * spec.stages), 2, "tags");
  check_parts(checked_product(tags, spec.stages, "the exchanges of all stages"), "exchanges");
}

}  // namespace

std::vector<AttentionTick> attention_ticks(int stages, int micro_batches) {
  require(stages >= 1 && micro_batches >= 1 && stages <= kMostRanks, stages, " stages and ",
          micro_batches, " micro-batches; give 1 or more of each, at most 2^20 stages");
  check_parts(2 * (int64_t{stages} + micro_batches) * stages, "places of a timetable");
  std::vector<AttentionTick> ticks;
  const auto add = [&](bool backward, int turn) {
    ticks.push_back({backward, {}});
    for (int s = 0; s < stages; ++s) {
      const int m = turn - (backward ? stages - 1 - s : s);
      ticks.back().micro_batch.push_back(m >= 0 && m < micro_batches ? m : -1);
    }
  };
  // Warm-up, then a forward and a backward tick in turn, then the backward ones that are left.
  for (int turn = 0; turn < stages - 1; ++turn) add(false, turn);
  for (int turn = 0; turn < micro_batches + stages - 1; ++turn) {
    if (turn < micro_batches) add(false, turn + stages - 1);
    add(true, turn);
  }
  return ticks;
}

Timeline attention_pipeline(const AttentionPipelineSpec& spec) {
  require(spec.attention.size() <= at(std::numeric_limits<int>::max() / 4),
          "there are too many micro-batches");
  const std::vector<AttentionTick> ticks =
      attention_ticks(spec.stages, static_cast<int>(spec.attention.size()));
  check_spec(spec);
  TimelineBuilder builder(spec.stages);
  builder.timeline().items = std::ssize(spec.attention) * spec.stages * 2;
  builder.timeline().memory = spec.memory;
  std::vector<int> channels;
  for (int s = 0; s + 1 < spec.stages; ++s)
    channels.push_back(builder.channel(RankSet({s, s + 1})));
  for (int s = 1; s < spec.stages; ++s) channels.push_back(builder.channel(RankSet({s, s - 1})));
  channels.push_back(builder.channel(RankSet::range(0, spec.stages)));
  for (int s = 0; s < spec.stages; ++s) AttentionStage(builder, spec, s, channels).add(ticks);
  return builder.take();
}

Timeline example_attention_pipeline(int ranks) {
  AttentionPipelineSpec spec;
  spec.stages = ranks;
  for (int m = 0; m < ranks + 2; ++m) spec.attention.emplace_back(200'000 * (1 + m % 3));
  spec.layer.enter = spec.layer.exit = Nanoseconds(50'000);
  spec.layer.enter_bytes = spec.layer.exit_bytes = Bytes(256);
  spec.transfer = Nanoseconds(100'000);
  spec.message = Bytes(4096);
  return attention_pipeline(spec);
}

}  // namespace tutti::runtime
