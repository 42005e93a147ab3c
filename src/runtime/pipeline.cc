#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"
#include "src/runtime/timeline_builder.h"
#include "tutti/runtime/generators.h"

namespace tutti::runtime {
namespace {

/// One pass of one micro-batch through one chunk.
struct Pass {
  bool backward = false;
  int chunk = 0;
  int micro_batch = 0;
};

/// The k-th forward (or backward) pass of every rank: groups of micro-batches, chunk by chunk.
std::vector<Pass> passes(const PipelineSpec& spec, bool backward) {
  std::vector<Pass> order;
  for (int first = 0; first < spec.micro_batches; first += spec.group) {
    const int last = std::min(first + spec.group, spec.micro_batches);
    for (int c = 0; c < spec.chunks; ++c) {
      for (int m = first; m < last; ++m) {
        order.push_back({backward, backward ? spec.chunks - 1 - c : c, m});
      }
    }
  }
  return order;
}

/// Warm-up, then one forward and one backward in turn, then the backward passes that are left.
std::vector<Pass> program(const PipelineSpec& spec, int rank) {
  const std::vector<Pass> forward = passes(spec, false), backward = passes(spec, true);
  const int behind = spec.ranks - rank - 1;
  const size_t warm_up =
      spec.chunks == 1 ? at(behind) : at(2 * behind + (spec.chunks - 1) * spec.group);
  std::vector<Pass> order;
  size_t f = 0;
  for (; f < std::min(warm_up, forward.size()); ++f) order.push_back(forward[f]);
  for (const Pass& pass : backward) {
    if (f < forward.size()) order.push_back(forward[f++]);
    order.push_back(pass);
  }
  return order;
}

/// When each pass would end if no message ever waited for a buffer: it orders the receives.
/// Messages of one rank arrive in this order on all its channels, so that no send waits for a
/// receive that is posted behind what only a later send allows.
class IdealTimes {
 public:
  explicit IdealTimes(const PipelineSpec& spec)
      : spec_(spec), ends_(at(spec.ranks) * at(spec.chunks) * at(spec.micro_batches) * 2, -1) {
    std::vector<std::vector<Pass>> programs;
    for (int r = 0; r < spec.ranks; ++r) programs.push_back(program(spec, r));
    std::vector<size_t> next(at(spec.ranks), 0);
    std::vector<int64_t> free_at(at(spec.ranks), 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (int r = 0; r < spec.ranks; ++r) {
        for (; next[at(r)] < programs[at(r)].size(); ++next[at(r)], moved = true) {
          const Pass& pass = programs[at(r)][next[at(r)]];
          const int64_t input = arrival(pass, pass.chunk * spec.ranks + r);
          if (input < 0) break;
          const int64_t work = (pass.backward ? spec.backward : spec.forward).value / spec.chunks;
          free_at[at(r)] = std::max(free_at[at(r)], input) + work;
          ends_[place(pass, pass.chunk * spec.ranks + r)] = free_at[at(r)];
        }
      }
    }
  }

  int64_t end(const Pass& pass, int stage) const { return ends_[place(pass, stage)]; }

  /// Of what the pass takes from another stage: 0 for what takes nothing, -1: not known yet.
  int64_t arrival(const Pass& pass, int stage) const {
    const int stages = spec_.ranks * spec_.chunks;
    Pass before = pass;
    int from = pass.backward ? stage + 1 : stage - 1;
    if (from < 0) return 0;
    if (from == stages) {
      from = stage;
      before.backward = false;
      return end(before, from);
    }
    const int64_t made = end(before, from);
    return made < 0 ? -1 : made + spec_.transfer.value;
  }

 private:
  size_t place(const Pass& pass, int stage) const {
    return at((int64_t{stage} * spec_.micro_batches + pass.micro_batch) * 2 + pass.backward);
  }

  const PipelineSpec& spec_;
  std::vector<int64_t> ends_;
};

/// A message that a rank receives: for whom, when it comes and when its buffer is free again.
struct Arrival {
  Pass pass;
  int reader = 0;  // the task
  int64_t comes = 0;
  int64_t used = 0;
};

class PipelineMaker {
 public:
  explicit PipelineMaker(const PipelineSpec& spec)
      : spec_(spec), stages_(spec.ranks * spec.chunks), times_(spec), builder_(spec.ranks) {
    for (int direction = 0; spec.ranks > 1 && direction < 2; ++direction) {
      for (int r = 0; r < spec.ranks; ++r) {
        const int to = (r + (direction == 0 ? 1 : spec.ranks - 1)) % spec.ranks;
        channels_.push_back(builder_.channel(RankSet({r, to})));
      }
    }
  }

  Timeline make() {
    builder_.timeline().items = int64_t{spec_.micro_batches} * stages_ * 2;
    builder_.timeline().memory = spec_.memory;
    for (int rank = 0; rank < spec_.ranks; ++rank) {
      for (int backward = 0; backward < 2; ++backward) {
        sends_[backward].clear();
        send_buffers_[backward] = {builder_.buffer(), builder_.buffer()};
      }
      activations_.assign(at(spec_.micro_batches * spec_.chunks), -1);
      arrivals_.clear();
      for (const Pass& pass : program(spec_, rank)) add_pass(rank, pass);
      add_receives(rank);
    }
    return builder_.take();
  }

 private:
  int tag_of(int micro_batch, int stage, bool backward) const {
    return (micro_batch * stages_ + stage) * 2 + backward;
  }
  int channel_from(int rank, bool backward) const {
    return channels_[at((backward ? spec_.ranks : 0) + rank)];
  }

  void add_pass(int rank, const Pass& pass) {
    const int stage = pass.chunk * spec_.ranks + rank;
    TimelineTask work;
    work.rank = rank;
    work.name = std::string(pass.backward ? "B" : "F") + std::to_string(pass.micro_batch) +
                (spec_.chunks > 1 ? "." + std::to_string(pass.chunk) : "");
    work.duration = (pass.backward ? spec_.backward : spec_.forward) / spec_.chunks;
    work.item = work.tag = tag_of(pass.micro_batch, stage, pass.backward);
    (pass.backward ? work.releases : work.acquires) = spec_.activations;
    int& kept = activations_[at(pass.chunk * spec_.micro_batches + pass.micro_batch)];
    if (kept < 0) kept = builder_.buffer();
    (pass.backward ? work.reads : work.writes).push_back(kept);
    const bool receives = pass.backward ? stage < stages_ - 1 : stage > 0;
    const bool sends = pass.backward ? stage > 0 : stage < stages_ - 1;
    std::vector<int>& sent = sends_[pass.backward];
    const int buffer = send_buffers_[pass.backward][sent.size() % 2];
    if (sends) {
      work.writes.push_back(buffer);
      if (sent.size() >= 2) work.after.push_back(sent[sent.size() - 2]);
    }
    TimelineTask send = message(rank, work.name, TaskKind::kSend);
    const int done = builder_.add(std::move(work));
    if (receives) {
      arrivals_.push_back({pass, done, times_.arrival(pass, stage), times_.end(pass, stage)});
    }
    if (!sends) return;
    send.channel = channel_from(rank, pass.backward);
    send.tag = tag_of(pass.micro_batch, pass.backward ? stage - 1 : stage + 1, pass.backward);
    send.after = {done};
    send.reads = {buffer};
    sent.push_back(builder_.add(std::move(send)));
  }

  /// The fewest buffers, at least two, with which none is still in use when its next message comes.
  static size_t buffers_for(const std::vector<Arrival>& in_order) {
    size_t most = 2;
    for (size_t k = 0; k < in_order.size(); ++k) {
      size_t waiting = 1;
      while (waiting <= k && in_order[k - waiting].used > in_order[k].comes) ++waiting;
      most = std::max(most, waiting);
    }
    return most;
  }

  /// In the order in which the messages come; each of the two channels with buffers of its own.
  void add_receives(int rank) {
    std::stable_sort(arrivals_.begin(), arrivals_.end(),
                     [](const Arrival& a, const Arrival& b) { return a.comes < b.comes; });
    std::vector<Arrival> received[2];
    std::vector<int> buffers[2];
    for (const Arrival& arrival : arrivals_) received[arrival.pass.backward].push_back(arrival);
    for (int backward = 0; backward < 2; ++backward) {
      for (size_t i = 0; i < buffers_for(received[backward]); ++i) {
        buffers[backward].push_back(builder_.buffer());
      }
    }
    size_t count[2] = {0, 0};
    for (const Arrival& arrival : arrivals_) {
      const bool backward = arrival.pass.backward;
      const size_t k = count[backward]++, depth = buffers[backward].size();
      TimelineTask recv = message(rank, builder_.task(arrival.reader).name, TaskKind::kRecv);
      recv.channel =
          channel_from((rank + (backward ? 1 : spec_.ranks - 1)) % spec_.ranks, backward);
      recv.tag = builder_.task(arrival.reader).tag;
      recv.writes = {buffers[backward][k % depth]};
      if (k >= depth) recv.after = {received[backward][k - depth].reader};
      const int place = builder_.add(std::move(recv));
      builder_.task(arrival.reader).after.push_back(place);
      builder_.task(arrival.reader).reads.push_back(buffers[backward][k % depth]);
    }
  }

  /// Sends on one track and receives on the other, so that neither holds up the other.
  TimelineTask message(int rank, const std::string& of, TaskKind kind) const {
    TimelineTask task;
    task.rank = rank;
    task.kind = kind;
    task.track = kind == TaskKind::kSend ? Track::kCommHigh : Track::kCommLow;
    task.name = (kind == TaskKind::kSend ? "send " : "recv ") + of;
    task.duration = spec_.transfer;
    task.bytes = spec_.message;
    return task;
  }

  const PipelineSpec& spec_;
  int stages_;
  IdealTimes times_;
  TimelineBuilder builder_;
  std::vector<int> channels_;
  // Of the rank at hand, forward and backward.
  std::vector<int> sends_[2];
  std::vector<int> send_buffers_[2];
  std::vector<int> activations_;
  std::vector<Arrival> arrivals_;
};

void check_spec(const PipelineSpec& spec) {
  check_ranks(spec.ranks);
  require(spec.micro_batches >= 1, spec.micro_batches, " micro-batches; give 1 or more");
  require(spec.chunks >= 1, spec.chunks, " chunks; give 1 or more");
  require(spec.chunks == 1 || spec.ranks > 1, spec.chunks,
          " chunks on one rank: there is nothing to interleave; give 1 chunk");
  const int64_t stages = int64_t{spec.ranks} * spec.chunks;
  const int64_t all = checked_product(stages, spec.micro_batches, "the passes of all stages");
  check_parts(all, "passes");
  require(spec.layers >= 0 && spec.layers % stages == 0, spec.layers,
          " layers are not a multiple of ", spec.ranks, " ranks * ", spec.chunks, " chunks");
  require(spec.forward >= Nanoseconds(0) && spec.backward >= Nanoseconds(0) &&
              spec.transfer >= Nanoseconds(0),
          "a time of the pipeline is negative");
  const int64_t pass = checked_sum(checked_sum(spec.forward.value, spec.backward.value, "a pass"),
                                   checked_product(2, spec.transfer.value, "two messages"),
                                   "a pass with its messages");
  checked_product(pass, 2 * (all + stages), "the time of the pipeline");
  require(spec.group >= 1, "groups of ", spec.group, " micro-batches; give 1 or more");
  require(spec.forward.value % spec.chunks == 0 && spec.backward.value % spec.chunks == 0,
          "forward ", spec.forward.value, " and backward ", spec.backward.value,
          " ns must be multiples of the ", spec.chunks, " chunks");
  if (spec.chunks == 1) return;
  require(spec.micro_batches >= spec.ranks, spec.micro_batches, " micro-batches for ", spec.ranks,
          " ranks with ", spec.chunks,
          " chunks each: an interleaved pipeline needs at least as many micro-batches as ranks; "
          "give more micro-batches, or 1 chunk");
  require(spec.group >= spec.ranks && spec.group <= spec.micro_batches, "the group of ", spec.group,
          " micro-batches is outside of [", spec.ranks, " ranks, ", spec.micro_batches,
          " micro-batches]; choose one between");
  const int rest = spec.micro_batches % spec.group;
  require(rest == 0 || rest >= spec.ranks, spec.micro_batches, " micro-batches in groups of ",
          spec.group, " leave a last group of ", rest, ", fewer than ", spec.ranks,
          " ranks; change either");
}

}  // namespace

int micro_batches_of(const BatchShape& shape) {
  for (const int64_t number :
       {shape.batch, shape.micro_batch, shape.data, shape.tensor, shape.heads, shape.hidden}) {
    require(number >= 1, "a number of the batch's shape is ", number, "; give 1 or more");
  }
  require(shape.heads % shape.tensor == 0, shape.heads, " heads are not a multiple of ",
          shape.tensor, " tensor-parallel ranks");
  require(shape.hidden % shape.tensor == 0, "the hidden size ", shape.hidden,
          " is not a multiple of ", shape.tensor, " tensor-parallel ranks");
  const int64_t at_once = checked_product(shape.data, shape.micro_batch, "replicas * micro-batch");
  require(shape.batch % at_once == 0, "a batch of ", shape.batch, " is not a multiple of ",
          shape.data, " replicas * micro-batches of ", shape.micro_batch);
  const int64_t count = shape.batch / at_once;
  require(count <= std::numeric_limits<int>::max(), count, " micro-batches are too many");
  return static_cast<int>(count);
}

Timeline pipeline(const PipelineSpec& given) {
  PipelineSpec spec = given;
  if (spec.group == 0) spec.group = spec.ranks;
  check_spec(spec);
  return PipelineMaker(spec).make();
}

Timeline example_pipeline(int ranks) {
  PipelineSpec spec;
  spec.ranks = ranks;
  spec.micro_batches = 2 * ranks;
  spec.transfer = Nanoseconds(100'000);
  spec.message = Bytes(4096);
  return pipeline(spec);
}

Timeline example_interleaved(int ranks) {
  PipelineSpec spec;
  spec.ranks = ranks;
  spec.micro_batches = 2 * ranks;
  spec.chunks = ranks > 1 ? 2 : 1;
  spec.message = Bytes(4096);
  return pipeline(spec);
}

}  // namespace tutti::runtime
