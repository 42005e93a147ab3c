#include "tutti/runtime/generators.h"

#include <algorithm>
#include <string>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"
#include "src/runtime/timeline_builder.h"

namespace tutti::runtime {

#define TUTTI_GENERATOR(name, example, summary) Timeline example(int ranks);
#include "src/runtime/generators.inc"
#undef TUTTI_GENERATOR

namespace {

TimelineTask compute(int rank, std::string name, Nanoseconds duration) {
  TimelineTask task;
  task.rank = rank;
  task.name = std::move(name);
  task.duration = duration;
  return task;
}

TimelineTask collective(int rank, std::string name, TaskKind kind, int channel) {
  TimelineTask task = compute(rank, std::move(name), Nanoseconds(0));
  task.kind = kind;
  task.track = kind == TaskKind::kAllGather ? Track::kCommHigh : Track::kCommLow;
  task.channel = channel;
  return task;
}

/// One rank of FSDP. Gathered parameters pass through prefetch + 1 buffers, gradients through two.
class FsdpRank {
 public:
  FsdpRank(const FsdpSpec& spec, TimelineBuilder& builder, int rank, int gathers, int scatters)
      : spec_(spec), builder_(builder), rank_(rank), gathers_(gathers), scatters_(scatters) {
    for (int i = 0; i <= spec.prefetch; ++i) parameters_.push_back(builder.buffer());
    gradients_ = {builder.buffer(), builder.buffer()};
    for (int l = 0; l < spec.layers; ++l) activations_.push_back(builder.buffer());
  }

  void add() {
    const int64_t first_item = int64_t{rank_} * spec_.layers * 2;
    for (int l = 0; l < spec_.layers; ++l) {
      TimelineTask work = compute(rank_, "F" + std::to_string(l), spec_.forward);
      if (l > 0) work.reads.push_back(activations_[at(l - 1)]);
      work.writes.push_back(activations_[at(l)]);
      work.item = first_item + l;
      add_use(l, std::move(work), false);
    }
    for (int l = spec_.layers - 1; l >= 0; --l) {
      TimelineTask work = compute(rank_, "B" + std::to_string(l), spec_.backward);
      work.reads.push_back(activations_[at(l)]);
      work.item = first_item + spec_.layers + l;
      const int used = std::ssize(scatter_tasks_);
      work.writes.push_back(gradients_[at(used % 2)]);
      if (used >= 2) work.after.push_back(scatter_tasks_[at(used - 2)]);
      work.acquires = spec_.layer;
      // The last layer's parameters are still there.
      const int done =
          l == spec_.layers - 1 ? reuse(std::move(work)) : add_use(l, std::move(work), true);
      TimelineTask scatter =
          collective(rank_, "RS" + std::to_string(l), TaskKind::kReduceScatter, scatters_);
      scatter.duration = spec_.scatter;
      scatter.bytes = spec_.layer / spec_.ranks;
      scatter.tag = l;
      scatter.link = 0;
      scatter.after = {done};
      scatter.reads = {gradients_[at(used % 2)]};
      scatter.releases = spec_.layer;
      scatter_tasks_.push_back(builder_.add(std::move(scatter)));
    }
  }

 private:
  /// The gather of a layer's parameters and the work that uses them.
  int add_use(int layer, TimelineTask work, bool backward) {
    const size_t slot = uses_.size() % parameters_.size();
    TimelineTask gather =
        collective(rank_, "AG" + std::to_string(layer), TaskKind::kAllGather, gathers_);
    gather.duration = spec_.gather;
    gather.bytes = spec_.layer / spec_.ranks;
    gather.tag = layer + (backward ? spec_.layers : 0);
    gather.link = 0;
    gather.writes = {parameters_[slot]};
    gather.acquires = spec_.layer;
    if (uses_.size() >= parameters_.size()) {
      gather.after = {uses_[uses_.size() - parameters_.size()]};
    }
    work.after.push_back(builder_.add(std::move(gather)));
    work.reads.push_back(parameters_[slot]);
    if (layer < spec_.layers - 1 || backward) work.releases = spec_.layer;
    const int done = builder_.add(std::move(work));
    uses_.push_back(done);
    return done;
  }

  /// The backward pass of the last layer, which uses what its forward pass has gathered.
  int reuse(TimelineTask work) {
    work.reads.push_back(parameters_[(uses_.size() - 1) % parameters_.size()]);
    work.releases = spec_.layer;
    return uses_.back() = builder_.add(std::move(work));
  }

  const FsdpSpec& spec_;
  TimelineBuilder& builder_;
  int rank_, gathers_, scatters_;
  std::vector<int> parameters_, gradients_, activations_;
  std::vector<int> uses_;  // the work that is done with each gather
  std::vector<int> scatter_tasks_;
};

void add_ddp_rank(const DdpSpec& spec, TimelineBuilder& builder, int rank, int channel) {
  const int64_t buckets = std::ssize(spec.buckets);
  const int64_t first_item = rank * (buckets + 2);
  TimelineTask forward = compute(rank, "forward", spec.forward);
  const int activations = builder.buffer();
  forward.writes = {activations};
  forward.item = first_item;
  builder.add(std::move(forward));
  std::vector<int> made, gradients;
  for (int64_t b = 0; b < buckets; ++b) {
    TimelineTask backward = compute(rank, "B" + std::to_string(b), spec.buckets[at(b)].backward);
    gradients.push_back(builder.buffer());
    backward.reads = {activations};
    backward.writes = {gradients.back()};
    backward.item = first_item + 1 + b;
    made.push_back(builder.add(std::move(backward)));
  }
  TimelineTask step = compute(rank, "step", spec.step);
  for (int64_t b = 0; b < buckets; ++b) {
    TimelineTask reduce = collective(rank, "AR" + std::to_string(b), TaskKind::kAllReduce, channel);
    reduce.duration = spec.buckets[at(b)].all_reduce;
    reduce.bytes = spec.buckets[at(b)].bytes;
    reduce.chunk = spec.chunk;
    reduce.tag = static_cast<int>(b);
    reduce.after = {spec.overlap ? made[at(b)] : made.back()};
    reduce.reads = reduce.writes = {gradients[at(b)]};
    step.after.push_back(builder.add(std::move(reduce)));
    step.reads.push_back(gradients[at(b)]);
  }
  step.item = first_item + buckets + 1;
  builder.add(std::move(step));
}

constexpr TimelineGenerator kGenerators[] = {
#define TUTTI_GENERATOR(name, example, summary) {name, summary, example},
#include "src/runtime/generators.inc"
#undef TUTTI_GENERATOR
};

}  // namespace

Timeline fsdp(const FsdpSpec& given) {
  FsdpSpec spec = given;
  check_ranks(spec.ranks);
  require(spec.layers >= 1, spec.layers, " layers; give 1 or more");
  check_parts(int64_t{spec.ranks} * spec.layers, "layers of all ranks");
  require(spec.prefetch >= 0, "prefetch ", spec.prefetch, " is negative; 0 gathers nothing ahead");
  spec.prefetch = std::min(spec.prefetch, 2 * spec.layers);  // there is nothing beyond
  for (const Nanoseconds time : {spec.forward, spec.backward, spec.gather, spec.scatter}) {
    require(time >= Nanoseconds(0), "a time of the layers is ", time.value, " ns; give 0 or more");
  }
  require(spec.layer >= Bytes(0) && spec.memory >= Bytes(0), "a layer of ", spec.layer.value,
          " bytes in a memory of ", spec.memory.value, "; give 0 or more");
  require(spec.layer.value % spec.ranks == 0, "a layer of ", spec.layer.value,
          " bytes is not a multiple of ", spec.ranks, " ranks; pad it");
  TimelineBuilder builder(spec.ranks);
  builder.timeline().items = int64_t{spec.ranks} * spec.layers * 2;
  builder.timeline().memory = spec.memory;
  const int gathers = builder.channel(RankSet::range(0, spec.ranks));
  const int scatters = builder.channel(RankSet::range(0, spec.ranks));
  for (int rank = 0; rank < spec.ranks; ++rank) {
    FsdpRank(spec, builder, rank, gathers, scatters).add();
  }
  return builder.take();
}

Timeline ddp(const DdpSpec& spec) {
  check_ranks(spec.ranks);
  require(!spec.buckets.empty(), "there are no buckets; give at least one");
  check_parts(checked_product(spec.ranks, std::ssize(spec.buckets), "the buckets of all ranks"),
              "buckets of all ranks");
  require(spec.forward >= Nanoseconds(0) && spec.step >= Nanoseconds(0) && spec.chunk >= Bytes(0),
          "a time or the chunk is negative; give 0 or more");
  for (const DdpBucket& bucket : spec.buckets) {
    require(bucket.backward >= Nanoseconds(0) && bucket.all_reduce >= Nanoseconds(0) &&
                bucket.bytes >= Bytes(0),
            "a bucket has a negative time or size; give 0 or more");
  }
  TimelineBuilder builder(spec.ranks);
  builder.timeline().items = spec.ranks * (std::ssize(spec.buckets) + 2);
  const int channel = builder.channel(RankSet::range(0, spec.ranks));
  for (int rank = 0; rank < spec.ranks; ++rank) add_ddp_rank(spec, builder, rank, channel);
  return builder.take();
}

Timeline example_fsdp(int ranks) {
  FsdpSpec spec;
  spec.ranks = ranks;
  spec.layer = Bytes(4096 * ranks);
  return fsdp(spec);
}

Timeline example_ddp(int ranks) {
  DdpSpec spec;
  spec.ranks = ranks;
  spec.buckets.assign(4, DdpBucket{});
  for (DdpBucket& bucket : spec.buckets) bucket.bytes = Bytes(4096);
  spec.chunk = Bytes(1024);
  return ddp(spec);
}

std::span<const TimelineGenerator> timeline_generators() { return kGenerators; }

}  // namespace tutti::runtime
