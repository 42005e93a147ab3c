#include "tutti/runtime/gnn_pipeline.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"
#include "src/runtime/timeline_builder.h"

namespace tutti::runtime {
namespace {

constexpr int64_t kMostVertices = int64_t{1} << 48;

void check_spec(const GnnSpec& spec) {
  require(spec.stages >= 1 && spec.group >= 1 && spec.epochs >= 1, spec.stages, " stages of ",
          spec.group, " ranks for ", spec.epochs, " epochs; give 1 or more of each");
  require(spec.stages <= spec.layers, spec.stages, " stages for ", spec.layers,
          " layers; give at most as many stages as layers");
  require(spec.lag == 0 || spec.lag == 1, "the lag is ", spec.lag,
          " epochs; give 0 (exact) or 1 (historical embeddings)");
  require(!spec.needs.empty() && spec.needs.size() == spec.vertices.size(), spec.needs.size(),
          " chunks need others and ", spec.vertices.size(), " have vertices; give both for each");
  const int chunks = static_cast<int>(spec.needs.size());
  int64_t all = 0;
  for (int c = 0; c < chunks; ++c) {
    const int64_t vertices = spec.vertices[at(c)];
    require(vertices >= 1 && vertices % spec.group == 0 && vertices <= kMostVertices - all,
            "chunk ", c, " has ", vertices, " vertices, no positive multiple of the ", spec.group,
            " ranks of a stage; pad it");
    all += vertices;
    for (const int needed : spec.needs[at(c)]) {
      require(needed >= 0 && needed < chunks && needed != c, "chunk ", c, " needs chunk ", needed,
              "; name others of the ", chunks, " chunks");
    }
  }
  require(spec.row >= Bytes(1) && spec.boundary >= Bytes(0), "a size is not positive");
  checked_product(checked_product(all, spec.row.value, "all embeddings"), spec.stages,
                  "what all stages send");
  const int64_t ranks = checked_product(spec.stages, spec.group, "the number of ranks");
  check_ranks(ranks);
  const int64_t passes = checked_product(checked_product(spec.epochs, chunks, "passes"),
                                         2 * int64_t{spec.layers}, "the number of passes");
  check_parts(checked_product(passes, spec.group, "the passes of all ranks"), "passes");
  for (const Nanoseconds time : {spec.forward, spec.backward, spec.transfer, spec.exchange}) {
    require(time >= Nanoseconds(0), "a time of the graph network is negative");
    checked_product(time.value, spec.layers, "the time of all layers");
  }
}

/// Places of the chunks in their order.
std::vector<int> places_in(const std::vector<int>& order) {
  std::vector<int> places(order.size());
  for (size_t i = 0; i < order.size(); ++i) places[at(order[i])] = static_cast<int>(i);
  return places;
}

struct GnnPass {
  int epoch = 0;
  int chunk = 0;
  bool backward = false;
};

/// One rank's epochs.
class GnnRank {
 public:
  GnnRank(TimelineBuilder& builder, const GnnSpec& spec, int rank, const std::vector<int>& order)
      : builder_(builder),
        spec_(spec),
        rank_(rank),
        stage_(rank / spec.group),
        order_(order),
        places_(places_in(order)),
        state_(builder.buffer()),
        halo_(builder.buffer()) {
    for (size_t c = 0; c < spec.needs.size(); ++c) {
      chunks_.push_back({builder.buffer(), builder.buffer(), builder.buffer()});
    }
    for (Direction& direction : directions_) {
      for (MessageBuffer& slot : direction.out) slot.buffer = builder.buffer();
      for (MessageBuffer& slot : direction.in) slot.buffer = builder.buffer();
    }
  }

  void add() {
    TimelineTask first = task_of("embeddings");
    for (const GraphChunk& chunk : chunks_) first.writes.push_back(chunk.embeddings);
    computed_ = builder_.add(std::move(first));
    for (int e = 0; e < spec_.epochs; ++e) {
      for (const int c : order_) add_pass({e, c, false});
      for (size_t i = order_.size(); i-- > 0;) add_pass({e, order_[i], true});
    }
  }

 private:
  struct GraphChunk {
    int embeddings = 0;  // buffers: of its last forward pass,
    int kept = 0;        // what its backward pass needs of that,
    int gradients = 0;   // and what other chunks' backward passes add to its own
  };
  struct MessageBuffer {
    int buffer = 0;
    int user = -1;
  };
  struct Direction {
    MessageBuffer out[2], in[2];
    size_t sent = 0, received = 0;
  };

  TimelineTask task_of(std::string name) const {
    TimelineTask task;
    task.rank = rank_;
    task.name = std::move(name);
    return task;
  }
  int tag_of(const GnnPass& pass) const {
    return (pass.epoch * static_cast<int>(chunks_.size()) + pass.chunk) * 2 + pass.backward;
  }
  static std::string text_of(const GnnPass& pass) {
    return (pass.backward ? "B" : "F") + std::to_string(pass.chunk) + "." +
           std::to_string(pass.epoch);
  }

  void add_pass(const GnnPass& pass) {
    const bool receives = pass.backward ? stage_ + 1 < spec_.stages : stage_ > 0;
    const bool sends = pass.backward ? stage_ > 0 : stage_ + 1 < spec_.stages;
    Direction& direction = directions_[pass.backward];
    MessageBuffer* in = receives ? &direction.in[direction.received++ % 2] : nullptr;
    MessageBuffer* out = sends ? &direction.out[direction.sent++ % 2] : nullptr;
    int arrived = in != nullptr ? add_message(pass, TaskKind::kRecv, *in) : -1;
    const LayerRange layers = layers_of(spec_, stage_);
    const int steps = spec_.group > 1 ? layers.end - layers.begin : 1;
    for (int step = 0; step < steps; ++step) {
      const bool is_first = step == 0, is_last = step + 1 == steps;
      TimelineTask work = task_of(text_of(pass));
      work.tag = tag_of(pass);
      work.duration = (pass.backward ? spec_.backward : spec_.forward) *
                      (spec_.group > 1 ? 1 : layers.end - layers.begin);
      if (is_first && in != nullptr) work.reads = {in->buffer};
      if (!is_first) work.reads = {state_};
      if (spec_.group > 1) {
        work.after = {add_exchange(pass, step, work.reads, arrived)};
        work.reads.push_back(halo_);
        work.writes.push_back(state_);
      } else if (arrived >= 0) {
        work.after = {arrived};
      }
      add_neighbours(pass, is_first, is_last, work);
      if (is_last) finish(pass, out, work);
      computed_ = builder_.add(std::move(work));
      if (is_first && in != nullptr) in->user = computed_;
      arrived = -1;
    }
    if (out != nullptr) out->user = add_message(pass, TaskKind::kSend, *out);
  }

  /// Adds the buffers of other chunks that a pass reads or writes.
  void add_neighbours(const GnnPass& pass, bool is_first, bool is_last, TimelineTask& work) const {
    const GraphChunk& own = chunks_[at(pass.chunk)];
    if (pass.backward && is_first) work.reads.insert(work.reads.end(), {own.kept, own.gradients});
    if (!pass.backward && is_last) {
      work.writes.insert(work.writes.end(), {own.embeddings, own.kept, own.gradients});
    }
    for (const int needed : spec_.needs[at(pass.chunk)]) {
      if (!pass.backward) work.reads.push_back(chunks_[at(needed)].embeddings);
      // Historical embeddings are constants.
      const bool is_current = places_[at(needed)] < places_[at(pass.chunk)];
      if (pass.backward && is_current) work.writes.push_back(chunks_[at(needed)].gradients);
    }
  }

  void finish(const GnnPass& pass, const MessageBuffer* out, TimelineTask& work) const {
    const auto passes = static_cast<int64_t>(chunks_.size()) * spec_.epochs * 2;
    work.item = rank_ * passes + tag_of(pass);
    if (out == nullptr) return;
    work.writes.push_back(out->buffer);
    if (out->user >= 0) work.after.push_back(out->user);
  }

  int add_exchange(const GnnPass& pass, int step, const std::vector<int>& reads, int arrived) {
    TimelineTask task = task_of("halo " + text_of(pass));
    task.kind = TaskKind::kAllToAll;
    task.track = Track::kCommHigh;
    task.channel = stage_;
    task.tag = tag_of(pass) * spec_.layers + step;
    task.duration = spec_.exchange;
    task.bytes = spec_.boundary;
    task.after = {computed_};
    if (arrived >= 0) task.after.push_back(arrived);
    task.reads = reads;
    for (const int needed : spec_.needs[at(pass.chunk)]) {
      if (!pass.backward) task.reads.push_back(chunks_[at(needed)].embeddings);
    }
    task.writes = {halo_};
    return builder_.add(std::move(task));
  }

  /// Channels: first the stages' own, then from each rank to the next stage's, then back.
  int add_message(const GnnPass& pass, TaskKind kind, const MessageBuffer& slot) {
    const bool sends = kind == TaskKind::kSend;
    const int between = (spec_.stages - 1) * spec_.group;
    const int lower = pass.backward == sends ? rank_ - spec_.group : rank_;
    TimelineTask task = task_of((sends ? "send " : "recv ") + text_of(pass));
    task.kind = kind;
    task.track = sends ? Track::kCommLow : Track::kCopy;
    task.channel = spec_.stages + (pass.backward ? between : 0) + lower;
    task.tag = tag_of(pass);
    task.duration = spec_.transfer;
    task.bytes = spec_.row * (spec_.vertices[at(pass.chunk)] / spec_.group);
    (sends ? task.reads : task.writes) = {slot.buffer};
    if (sends) task.after = {computed_};
    if (!sends && slot.user >= 0) task.after = {slot.user};
    return builder_.add(std::move(task));
  }

  TimelineBuilder& builder_;
  const GnnSpec& spec_;
  int rank_;
  int stage_;
  const std::vector<int>& order_;
  std::vector<int> places_;
  int state_, halo_;  // buffers: between two layers of a pass, of the group's other ranks
  std::vector<GraphChunk> chunks_;
  Direction directions_[2];  // forward, backward
  int computed_ = -1;        // the last task on the compute track
};

}  // namespace

std::vector<std::vector<int>> chunk_needs(std::span<const GraphEdge> edges,
                                          std::span<const int> chunk_of_vertex) {
  std::vector<std::set<int>> needs;
  for (const int chunk : chunk_of_vertex) {
    require(chunk >= 0 && at(chunk) < chunk_of_vertex.size(), "a vertex is in chunk ", chunk,
            "; number chunks from 0 without gaps");
    needs.resize(std::max(needs.size(), at(chunk) + 1));
  }
  for (const GraphEdge& edge : edges) {
    require(edge.from >= 0 && edge.to >= 0 &&
                std::max(edge.from, edge.to) < std::ssize(chunk_of_vertex),
            "an edge goes from ", edge.from, " to ", edge.to, "; there are ",
            chunk_of_vertex.size(), " vertices");
    const int from = chunk_of_vertex[at(edge.from)], to = chunk_of_vertex[at(edge.to)];
    if (from != to) needs[at(to)].insert(from);
  }
  std::vector<std::vector<int>> lists;
  for (const std::set<int>& own : needs) lists.emplace_back(own.begin(), own.end());
  return lists;
}

std::vector<int> chunk_order(const GnnSpec& spec) {
  check_spec(spec);
  std::vector<int> order(spec.needs.size());
  std::iota(order.begin(), order.end(), 0);
  if (spec.lag > 0) return order;
  order.clear();
  std::vector<bool> is_done(spec.needs.size(), false);
  while (order.size() < spec.needs.size()) {
    const size_t before = order.size();
    for (size_t c = 0; c < spec.needs.size(); ++c) {
      const std::vector<int>& needs = spec.needs[c];
      const bool is_ready = std::all_of(needs.begin(), needs.end(),
                                        [&](int needed) -> bool { return is_done[at(needed)]; });
      if (is_done[c] || !is_ready) continue;
      is_done[c] = true;
      order.push_back(static_cast<int>(c));
    }
    require(order.size() > before, "without lag chunks cannot need each other in a circle, as ",
            spec.needs.size() - before, " of ", spec.needs.size(),
            " do; allow a lag of 1, or make one chunk of them");
  }
  return order;
}

int version_of(const GnnSpec& spec, int epoch, int chunk, int needed) {
  const std::vector<int> places = places_in(chunk_order(spec));
  for (const int c : {chunk, needed}) {
    require(c >= 0 && c < std::ssize(places), "there is no chunk ", c);
  }
  return places[at(needed)] <= places[at(chunk)] ? epoch : epoch - 1;
}

LayerRange layers_of(const GnnSpec& spec, int stage) {
  check_spec(spec);
  require(stage >= 0 && stage < spec.stages, "there is no stage ", stage);
  const int each = spec.layers / spec.stages, more = spec.layers % spec.stages;
  const int begin = stage * each + std::min(stage, more);
  return {begin, begin + each + (stage < more)};
}

Timeline gnn_pipeline(const GnnSpec& spec) {
  const std::vector<int> order = chunk_order(spec);
  const int ranks = static_cast<int>(checked_product(spec.stages, spec.group, "ranks"));
  TimelineBuilder builder(ranks);
  builder.timeline().items = std::ssize(order) * spec.epochs * 2 * ranks;
  for (int s = 0; s < spec.stages; ++s) {
    builder.channel(RankSet::range(s * spec.group, spec.group));
  }
  for (int r = 0; r + spec.group < ranks; ++r) builder.channel(RankSet({r, r + spec.group}));
  for (int r = 0; r + spec.group < ranks; ++r) builder.channel(RankSet({r + spec.group, r}));
  for (int rank = 0; rank < ranks; ++rank) GnnRank(builder, spec, rank, order).add();
  return builder.take();
}

Bytes stage_bytes(const GnnSpec& spec) {
  check_spec(spec);
  const int64_t all = std::accumulate(spec.vertices.begin(), spec.vertices.end(), int64_t{0});
  return spec.row * (all * (spec.stages - 1));
}

Timeline example_gnn(int ranks) {
  GnnSpec spec;
  spec.group = ranks % 4 == 0 ? 2 : 1;
  spec.stages = ranks / spec.group;
  spec.layers = spec.stages + 1;
  spec.needs = {{1}, {0, 2}, {1}};
  spec.vertices = {8, 4, 6};
  spec.row = Bytes(64);
  spec.boundary = Bytes(128);
  spec.transfer = spec.exchange = Nanoseconds(200'000);
  return gnn_pipeline(spec);
}

}  // namespace tutti::runtime
