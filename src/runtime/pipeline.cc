#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"
#include "src/runtime/timeline_builder.h"
#include "tutti/runtime/generators.h"

namespace tutti::runtime {
namespace {

enum class PassKind { kForward, kBackward, kWeights };

/// One pass of one micro-batch through one chunk.
struct Pass {
  PassKind kind = PassKind::kForward;
  int chunk = 0;
  int micro_batch = 0;

  bool backward() const { return kind == PassKind::kBackward; }
};

/// How long the pass takes on that stage: of equal ones a chunk's share of a rank's whole.
int64_t time_of(const PipelineSpec& spec, PassKind kind, int stage) {
  const int64_t of_rank = kind == PassKind::kForward    ? spec.forward.value
                          : kind == PassKind::kBackward ? (spec.backward - spec.weights).value
                                                        : spec.weights.value;
  if (spec.stage_layers.empty()) return of_rank / spec.chunks;
  const auto& layers = spec.stage_layers;
  return of_rank * spec.ranks * layers[at(stage)] /
         std::accumulate(layers.begin(), layers.end(), int64_t{0});
}

/// The k-th forward (or backward) pass of every rank: groups of micro-batches, chunk by chunk.
std::vector<Pass> passes(const PipelineSpec& spec, PassKind kind) {
  const bool backward = kind != PassKind::kForward;
  std::vector<Pass> order;
  for (int first = 0; first < spec.micro_batches; first += spec.group) {
    const int last = std::min(first + spec.group, spec.micro_batches);
    for (int c = 0; c < spec.chunks; ++c) {
      for (int m = first; m < last; ++m) {
        order.push_back({kind, backward ? spec.chunks - 1 - c : c, m});
      }
    }
  }
  return order;
}

/// Warm-up, then one forward and one backward in turn, then the backward passes that are left.
/// Passes for weights follow the backward passes, on rank r r of them later: so much earlier than
/// on rank 0 it has its first backward pass, and so many more activations it has room for.
std::vector<Pass> program(const PipelineSpec& spec, int rank) {
  const std::vector<Pass> forward = passes(spec, PassKind::kForward),
                          backward = passes(spec, PassKind::kBackward),
                          weights = spec.weights > Nanoseconds(0) ? passes(spec, PassKind::kWeights)
                                                                  : std::vector<Pass>();
  const int behind = spec.ranks - rank - 1;
  const size_t warm_up =
      spec.chunks == 1 ? at(behind) : at(2 * behind + (spec.chunks - 1) * spec.group);
  std::vector<Pass> order;
  size_t f = 0, w = 0;
  for (; f < std::min(warm_up, forward.size()); ++f) order.push_back(forward[f]);
  for (size_t b = 0; b < backward.size(); ++b) {
    if (f < forward.size()) order.push_back(forward[f++]);
    order.push_back(backward[b]);
    if (w < weights.size() && b >= at(rank)) order.push_back(weights[w++]);
  }
  order.insert(order.end(), weights.begin() + static_cast<std::ptrdiff_t>(w), weights.end());
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
          const int stage = pass.chunk * spec.ranks + r;
          const int64_t input = pass.kind == PassKind::kWeights ? 0 : arrival(pass, stage);
          if (input < 0) break;
          free_at[at(r)] = std::max(free_at[at(r)], input) + time_of(spec, pass.kind, stage);
          if (pass.kind != PassKind::kWeights) ends_[place(pass, stage)] = free_at[at(r)];
        }
      }
    }
  }

  int64_t end(const Pass& pass, int stage) const { return ends_[place(pass, stage)]; }

  /// Of what the pass takes from another stage: 0 for what takes nothing, -1: not known yet.
  int64_t arrival(const Pass& pass, int stage) const {
    const int stages = spec_.ranks * spec_.chunks;
    Pass before = pass;
    const int from = pass.backward() ? stage + 1 : stage - 1;
    if (from < 0) return 0;
    if (from == stages) {
      before.kind = PassKind::kForward;
      return end(before, stage);
    }
    const int64_t made = end(before, from);
    return made < 0 ? -1 : made + spec_.transfer.value;
  }

 private:
  size_t place(const Pass& pass, int stage) const {
    return at((int64_t{stage} * spec_.micro_batches + pass.micro_batch) * 2 + pass.backward());
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
    const bool has_weights = spec_.weights > Nanoseconds(0);
    builder_.timeline().items = int64_t{spec_.micro_batches} * stages_ * (has_weights ? 3 : 2);
    builder_.timeline().memory = spec_.memory;
    for (int rank = 0; rank < spec_.ranks; ++rank) {
      for (int backward = 0; backward < 2; ++backward) {
        sends_[backward].clear();
        send_buffers_[backward] = {builder_.buffer(), builder_.buffer()};
      }
      activations_.assign(at(spec_.micro_batches * spec_.chunks), -1);
      gradients_.assign(has_weights ? activations_.size() : 0, -1);
      arrivals_.clear();
      for (const Pass& pass : program(spec_, rank)) {
        pass.kind == PassKind::kWeights ? add_weights(rank, pass) : add_pass(rank, pass);
      }
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

  TimelineTask work_of(int rank, const Pass& pass) const {
    const int stage = pass.chunk * spec_.ranks + rank;
    TimelineTask work;
    work.rank = rank;
    work.name = "FBW"[static_cast<int>(pass.kind)] + std::to_string(pass.micro_batch) +
                (spec_.chunks > 1 ? "." + std::to_string(pass.chunk) : "");
    work.duration = Nanoseconds(time_of(spec_, pass.kind, stage));
    return work;
  }
  /// Its activations, or the gradient of its output, between the passes that need them.
  int& kept(std::vector<int>& buffers, const Pass& pass) {
    int& buffer = buffers[at(pass.chunk * spec_.micro_batches + pass.micro_batch)];
    if (buffer < 0) buffer = builder_.buffer();
    return buffer;
  }

  void add_weights(int rank, const Pass& pass) {
    TimelineTask work = work_of(rank, pass);
    const int stage = pass.chunk * spec_.ranks + rank;
    work.item = int64_t{spec_.micro_batches} * stages_ * 2 + pass.micro_batch * stages_ + stage;
    work.releases = spec_.activations;
    work.reads = {kept(activations_, pass), kept(gradients_, pass)};
    builder_.add(std::move(work));
  }

  void add_pass(int rank, const Pass& pass) {
    const int stage = pass.chunk * spec_.ranks + rank;
    const bool backward = pass.backward();
    TimelineTask work = work_of(rank, pass);
    work.item = work.tag = tag_of(pass.micro_batch, stage, backward);
    if (!backward) work.acquires = spec_.activations;
    if (backward && gradients_.empty()) work.releases = spec_.activations;
    (backward ? work.reads : work.writes).push_back(kept(activations_, pass));
    if (backward && !gradients_.empty()) work.writes.push_back(kept(gradients_, pass));
    const bool receives = backward ? stage < stages_ - 1 : stage > 0;
    const bool sends = backward ? stage > 0 : stage < stages_ - 1;
    std::vector<int>& sent = sends_[backward];
    const int buffer = send_buffers_[backward][sent.size() % 2];
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
    send.channel = channel_from(rank, backward);
    send.tag = tag_of(pass.micro_batch, backward ? stage - 1 : stage + 1, backward);
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
    for (const Arrival& arrival : arrivals_) received[arrival.pass.backward()].push_back(arrival);
    for (int backward = 0; backward < 2; ++backward) {
      for (size_t i = 0; i < buffers_for(received[backward]); ++i) {
        buffers[backward].push_back(builder_.buffer());
      }
    }
    size_t count[2] = {0, 0};
    for (const Arrival& arrival : arrivals_) {
      const bool backward = arrival.pass.backward();
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
  std::vector<int> gradients_;  // empty: there are no passes for weights
  std::vector<Arrival> arrivals_;
};

void check_layers(const PipelineSpec& spec, int64_t stages) {
  if (spec.stage_layers.empty()) {
    return require(spec.layers >= 0 && spec.layers % stages == 0, spec.layers,
                   " layers are not a multiple of ", spec.ranks, " ranks * ", spec.chunks,
                   " chunks; change either, or give the layers of each stage");
  }
  require(std::ssize(spec.stage_layers) == stages, "there are layers for ",
          spec.stage_layers.size(), " stages; the pipeline has ", stages);
  int64_t sum = 0;
  for (const int layers : spec.stage_layers) {
    require(layers >= 1, "a stage has ", layers, " layers; give 1 or more");
    sum += layers;
  }
  require(spec.layers == 0 || spec.layers == sum, "the stages have ", sum, " layers, not ",
          spec.layers);
}

void check_spec(const PipelineSpec& spec) {
  check_ranks(spec.ranks);
  require(spec.micro_batches >= 1, spec.micro_batches, " micro-batches; give 1 or more");
  require(spec.chunks >= 1, spec.chunks, " chunks; give 1 or more");
  require(spec.chunks == 1 || spec.ranks > 1, spec.chunks,
          " chunks on one rank: there is nothing to interleave; give 1 chunk");
  const int64_t stages = int64_t{spec.ranks} * spec.chunks;
  const int64_t all = checked_product(stages, spec.micro_batches, "the passes of all stages");
  check_parts(all, "passes");
  check_layers(spec, stages);
  require(spec.forward >= Nanoseconds(0) && spec.backward >= Nanoseconds(0) &&
              spec.transfer >= Nanoseconds(0),
          "a time of the pipeline is negative");
  require(spec.weights >= Nanoseconds(0) && spec.weights <= spec.backward, "the part for weights, ",
          spec.weights.value, " ns, is not within the ", spec.backward.value,
          " ns of the backward pass");
  const int64_t pass = checked_sum(checked_sum(spec.forward.value, spec.backward.value, "a pass"),
                                   checked_product(2, spec.transfer.value, "two messages"),
                                   "a pass with its messages");
  checked_product(pass, 2 * (all + stages), "the time of the pipeline");
  const int64_t most = spec.stage_layers.empty() ? 1 : *std::ranges::max_element(spec.stage_layers);
  checked_product(checked_product(pass, spec.ranks, "a pass on all ranks"), most,
                  "the time of a stage's layers");
  require(spec.group >= 1, "groups of ", spec.group, " micro-batches; give 1 or more");
  for (const Nanoseconds time : {spec.forward, spec.backward, spec.weights}) {
    require(!spec.stage_layers.empty() || time.value % spec.chunks == 0, "forward ",
            spec.forward.value, ", backward ", spec.backward.value, " and weights ",
            spec.weights.value, " ns must be multiples of the ", spec.chunks, " chunks");
  }
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

Timeline example_zero_bubble(int ranks) {
  PipelineSpec spec;
  spec.ranks = ranks;
  spec.micro_batches = 2 * ranks;
  spec.weights = spec.backward / 2;
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
