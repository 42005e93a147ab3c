#include <algorithm>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "src/runtime/index.h"
#include "src/runtime/memory_model.h"
#include "src/runtime/refuse.h"
#include "src/runtime/timeline_builder.h"

namespace tutti::runtime {
namespace {

/// One rank's step. Memory is acquired and released on the compute track alone, so that its peak
/// does not depend on how fast copies are.
class ChunkedRank {
 public:
  ChunkedRank(TimelineBuilder& builder, const MemoryModel& model, const MemoryPlan& plan, int rank)
      : builder_(builder),
        model_(model),
        plan_(plan),
        rank_(rank),
        interval_(swap_interval(model)),
        places_(places_of(model, plan)),
        slots_(at(plan.buffers)) {
    for (int s = 0; s < plan.buffers; ++s) {
      slots_[at(s)].buffer = builder.buffer();
      free_.push_back(s);
    }
    for (const MemoryBlock& block : model.blocks) {
      first_chunk_.push_back(std::ssize(chunks_));
      chunks_.resize(chunks_.size() + at(block.chunks));
      activations_.push_back({builder.buffer(), builder.buffer(), -1});
    }
  }

  void add() {
    const Bytes standing =
        model_.costs.states * plan_.persist + model_.costs.parameters * plan_.buffers;
    TimelineTask state = task_of("state", 0);
    state.acquires = standing;
    builder_.add(std::move(state));
    const int chunks = static_cast<int>(chunks_.size());
    stays_from_ = std::max(plan_.persist, chunks - plan_.buffers);
    for (int c = plan_.persist; c < chunks; ++c) pending_.push_back(c);
    load_ahead();
    for (int b = 0; b < blocks(); ++b) add_forward(b);
    for (int b = std::max(0, blocks() - interval_ - 1); b < blocks(); ++b) add_free(b);
    for (int c = stays_from_ - 1; c >= plan_.persist; --c) pending_.push_back(c);
    for (int b = blocks() - 1; b >= 0; --b) add_backward(b);
    TimelineTask update = task_of("update", 0);
    update.duration = model_.costs.device_update * plan_.persist;
    update.releases = standing;
    builder_.add(std::move(update));
  }

 private:
  struct ChunkBuffer {
    int buffer = 0;
    int user = -1;  // the last task that needs what it holds
  };
  struct HostChunk {
    int slot = -1;
    int gathered = -1;  // the task; -1: no pass has to wait for it
  };
  struct Activations {
    int buffer = 0;
    int on_host = 0;   // a buffer
    int swapped = -1;  // the last task that copied them
  };

  int blocks() const { return static_cast<int>(model_.blocks.size()); }
  bool is_swapped(int block) const {
    return block >= 0 && places_[at(block)] == ActivationPlace::kHost;
  }

  TimelineTask task_of(const std::string& what, int tag) const {
    TimelineTask task;
    task.rank = rank_;
    task.name = what;
    task.tag = tag;
    return task;
  }

  TimelineTask copy_of(const std::string& what, int tag, Nanoseconds duration) const {
    TimelineTask task = task_of(what + std::to_string(tag), tag);
    task.kind = TaskKind::kCopy;
    task.track = Track::kCopy;
    task.duration = duration;
    return task;
  }

  TimelineTask collective_of(TaskKind kind, int chunk, int buffer) const {
    const bool gathers = kind == TaskKind::kAllGather;
    TimelineTask task = task_of((gathers ? "gather " : "scatter ") + std::to_string(chunk), chunk);
    task.kind = kind;
    task.track = gathers ? Track::kCommHigh : Track::kCommLow;
    task.channel = gathers ? 0 : 1;
    task.duration = gathers ? model_.costs.gather : model_.costs.scatter;
    task.bytes = model_.costs.parameters / builder_.timeline().ranks;
    task.link = 0;
    task.reads = task.writes = {buffer};
    return task;
  }

  /// As many of the next chunks as there is room for.
  void load_ahead() {
    while (!pending_.empty() && !free_.empty()) {
      const int chunk = pending_.front(), slot = free_.front();
      pending_.pop_front();
      free_.pop_front();
      ChunkBuffer& room = slots_[at(slot)];
      TimelineTask upload = copy_of("upload ", chunk, model_.costs.upload);
      upload.writes = {room.buffer};
      if (room.user >= 0) upload.after = {room.user};
      TimelineTask gather = collective_of(TaskKind::kAllGather, chunk, room.buffer);
      gather.after = {builder_.add(std::move(upload))};
      chunks_[at(chunk)] = {slot, builder_.add(std::move(gather))};
    }
  }

  /// The pass reads the block's chunks, once they have come.
  void use_chunks(TimelineTask& pass, int block) {
    for (int c = end_of(block) - 1; c >= first_on_host(block); --c) {
      HostChunk& chunk = chunks_[at(c)];
      pass.reads.push_back(slots_[at(chunk.slot)].buffer);
      if (chunk.gathered >= 0) pass.after.push_back(chunk.gathered);
      chunk.gathered = -1;
    }
  }
  int end_of(int block) const {
    return static_cast<int>(first_chunk_[at(block)]) + model_.blocks[at(block)].chunks;
  }
  int first_on_host(int block) const {
    return std::max(static_cast<int>(first_chunk_[at(block)]), plan_.persist);
  }
  int64_t item_of(int pass) const { return int64_t{rank_} * 2 * blocks() + pass; }

  void add_forward(int b) {
    const MemoryBlock& block = model_.blocks[at(b)];
    add_free(b - interval_ - 1);
    Activations& kept = activations_[at(b)];
    TimelineTask pass = task_of("F" + std::to_string(b), b);
    pass.duration = block.forward;
    pass.item = item_of(b);
    pass.acquires = block.activations + block.transient;
    pass.releases = block.transient;
    if (places_[at(b)] == ActivationPlace::kRecomputed) {
      pass.releases += block.activations - block.input;
    }
    pass.writes = {kept.buffer};
    use_chunks(pass, b);
    const int done = builder_.add(std::move(pass));
    for (int c = first_on_host(b); c < std::min(end_of(b), stays_from_); ++c) {
      slots_[at(chunks_[at(c)].slot)].user = done;
      free_.push_back(chunks_[at(c)].slot);
    }
    if (is_swapped(b)) {
      TimelineTask out = copy_of("swap out ", b, block.swap);
      out.after = {done};
      out.reads = {kept.buffer};
      out.writes = {kept.on_host};
      kept.swapped = builder_.add(std::move(out));
    }
    load_ahead();
  }

  /// The activations' memory is free once they have been copied.
  void add_free(int b) {
    if (!is_swapped(b)) return;
    TimelineTask task = task_of("free " + std::to_string(b), b);
    task.after = {activations_[at(b)].swapped};
    task.writes = {activations_[at(b)].buffer};
    task.releases = model_.blocks[at(b)].activations;
    builder_.add(std::move(task));
  }

  /// Room for what comes back, an interval ahead of its use.
  void add_swap_in(int b) {
    if (!is_swapped(b)) return;
    Activations& kept = activations_[at(b)];
    TimelineTask room = task_of("room " + std::to_string(b), b);
    room.acquires = model_.blocks[at(b)].activations;
    room.writes = {kept.buffer};
    TimelineTask in = copy_of("swap in ", b, model_.blocks[at(b)].swap);
    in.after = {builder_.add(std::move(room))};
    in.reads = {kept.on_host};
    in.writes = {kept.buffer};
    kept.swapped = builder_.add(std::move(in));
  }

  void add_backward(int b) {
    const MemoryBlock& block = model_.blocks[at(b)];
    for (int s = b == blocks() - 1 ? b : b - interval_; s >= b - interval_; --s) add_swap_in(s);
    TimelineTask pass = task_of("B" + std::to_string(b), b);
    pass.duration = block.backward;
    pass.item = item_of(blocks() + b);
    pass.acquires = block.transient;
    pass.releases = block.activations + block.transient;
    use_chunks(pass, b);
    pass.writes = pass.reads;  // gradients take the place of parameters
    const int kept = activations_[at(b)].buffer;
    pass.reads.push_back(kept);
    if (places_[at(b)] == ActivationPlace::kRecomputed) {
      pass.duration += block.forward;
      pass.acquires += block.activations - block.input;
      pass.writes.push_back(kept);
    }
    if (is_swapped(b)) pass.after.push_back(activations_[at(b)].swapped);
    const int done = builder_.add(std::move(pass));
    for (int c = end_of(b) - 1; c >= first_on_host(b); --c) store(c, done);
    load_ahead();
  }

  void store(int chunk, int done) {
    ChunkBuffer& slot = slots_[at(chunks_[at(chunk)].slot)];
    TimelineTask scatter = collective_of(TaskKind::kReduceScatter, chunk, slot.buffer);
    scatter.after = {done};
    TimelineTask offload = copy_of("offload ", chunk, model_.costs.offload);
    offload.after = {builder_.add(std::move(scatter))};
    offload.reads = {slot.buffer};
    slot.user = builder_.add(std::move(offload));
    free_.push_back(chunks_[at(chunk)].slot);
  }

  TimelineBuilder& builder_;
  const MemoryModel& model_;
  const MemoryPlan& plan_;
  int rank_;
  int interval_;
  int stays_from_ = 0;  // chunks from it on stay in their buffers from forward to backward
  std::vector<ActivationPlace> places_;
  std::vector<ChunkBuffer> slots_;
  std::deque<int> free_, pending_;  // slots; chunks that are to be loaded, the next one first
  std::vector<HostChunk> chunks_;
  std::vector<int64_t> first_chunk_;  // of each block
  std::vector<Activations> activations_;
};

}  // namespace

Timeline chunked_step(const MemoryModel& model, const MemoryPlan& plan, int ranks) {
  require(ranks >= 1, ranks, " ranks; give 1 or more");
  check_model(model);
  check_plan(model, plan);
  require(model.costs.parameters.value % ranks == 0, "a chunk of ", model.costs.parameters.value,
          " bytes is not a multiple of ", ranks, " ranks; pad it");
  check_ranks(ranks);
  check_parts(int64_t{ranks} * (std::ssize(model.blocks) + chunks_of(model)), "blocks and chunks");
  TimelineBuilder builder(ranks);
  builder.timeline().items = int64_t{ranks} * 2 * std::ssize(model.blocks);
  builder.channel(RankSet::range(0, ranks));  // 0: gathers
  builder.channel(RankSet::range(0, ranks));  // 1: scatters
  for (int rank = 0; rank < ranks; ++rank) ChunkedRank(builder, model, plan, rank).add();
  return builder.take();
}

Timeline example_chunked(int ranks) {
  MemoryModel model;
  model.blocks.resize(6);
  for (MemoryBlock& block : model.blocks) {
    block.swap = Nanoseconds(1'500'000);
    block.activations = Bytes(1 << 20);
    block.input = Bytes(1 << 16);
  }
  model.costs.parameters = Bytes(1024 * ranks);
  model.costs.states = model.costs.parameters * 8;
  model.costs.upload = model.costs.offload = Nanoseconds(300'000);
  model.costs.gather = model.costs.scatter = Nanoseconds(400'000);
  return chunked_step(model, {1, 2, 2, 1}, ranks);
}

}  // namespace tutti::runtime
