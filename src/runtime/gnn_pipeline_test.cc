// Pipelines of graph networks: training_systems 3.17.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/runtime/crew_test.h"
#include "tutti/runtime/exchange.h"
#include "tutti/runtime/gnn_pipeline.h"
#include "tutti/runtime/run_timeline.h"

namespace tutti::runtime {
namespace {

constexpr int kVertices = 12;
using Row = std::vector<double>;  // a number of each vertex

std::vector<GraphEdge> random_edges(unsigned seed) {
  std::mt19937 dice(seed);
  std::vector<GraphEdge> edges;
  for (int i = 0; i < 30; ++i) {
    edges.push_back({int64_t(dice() % kVertices), int64_t(dice() % kVertices)});
  }
  return edges;
}

std::vector<int> chunks_of(int chunks) {
  std::vector<int> chunk;
  for (int v = 0; v < kVertices; ++v) chunk.push_back(v * chunks / kVertices);
  return chunk;
}

GnnSpec spec_of(const std::vector<GraphEdge>& edges, int stages, int chunks, int lag) {
  GnnSpec spec;
  spec.stages = stages;
  spec.layers = 4;
  spec.epochs = 3;
  spec.lag = lag;
  spec.needs = chunk_needs(edges, chunks_of(chunks));
  spec.vertices.assign(size_t(chunks), kVertices / chunks);
  spec.row = Bytes(8);
  return spec;
}

double weight(int epoch, int layer) { return 1 + 0.25 * epoch + 0.125 * layer; }

/// One vertex in one layer: its own, and what its neighbours had, in the order of the edges.
double aggregated(const std::vector<GraphEdge>& edges, int v, const Row& before, double w) {
  double sum = before[size_t(v)];
  for (const GraphEdge& edge : edges) {
    if (edge.to == v) sum += w * before[size_t(edge.from)];
  }
  return sum;
}

double feature(int v) { return 1 + 0.5 * v; }

/// The last layer's embeddings of each epoch, computed with explicit versions: layer by layer,
/// neighbours of other chunks as version_of() says.
std::vector<Row> reference(const std::vector<GraphEdge>& edges, const GnnSpec& spec,
                           const std::vector<int>& chunk) {
  // versions[e + 1][layer]; the epoch before the first has the features in all layers.
  std::vector<std::vector<Row>> versions(size_t(spec.epochs) + 1);
  Row features(kVertices);
  for (int v = 0; v < kVertices; ++v) features[size_t(v)] = feature(v);
  versions[0].assign(size_t(spec.layers) + 1, features);
  std::vector<Row> last;
  for (int e = 0; e < spec.epochs; ++e) {
    auto& now = versions[size_t(e) + 1];
    now.assign(size_t(spec.layers) + 1, features);
    for (const int c : chunk_order(spec)) {
      for (int l = 0; l < spec.layers; ++l) {
        for (int v = 0; v < kVertices; ++v) {
          if (chunk[size_t(v)] != c) continue;
          Row before(kVertices);
          for (int u = 0; u < kVertices; ++u) {
            const int version = version_of(spec, e, c, chunk[size_t(u)]);
            before[size_t(u)] = versions[size_t(version) + 1][size_t(l)][size_t(u)];
          }
          now[size_t(l) + 1][size_t(v)] = aggregated(edges, v, before, weight(e, l));
        }
      }
    }
    last.push_back(now.back());
  }
  return last;
}

/// A stage: what it last had of every vertex in each of its layers.
class Stage {
 public:
  Stage(const std::vector<GraphEdge>& edges, const GnnSpec& spec, const std::vector<int>& chunk,
        int stage)
      : edges_(edges), spec_(spec), chunk_(chunk), layers_(layers_of(spec, stage)), stage_(stage) {
    Row features(kVertices);
    for (int v = 0; v < kVertices; ++v) features[size_t(v)] = feature(v);
    had_.assign(size_t(layers_.end - layers_.begin) + 1, features);
  }

  void compute(const TimelineTask& task) {
    if (task.name[0] != 'F') return;
    const int chunks = int(spec_.needs.size());
    const int epoch = task.tag / 2 / chunks, c = task.tag / 2 % chunks;
    if (stage_ > 0) {
      const Row& message = buffer(task.reads[0]);
      for (size_t v = 0, i = 0; v < kVertices; ++v) {
        if (chunk_[v] == c) had_[0][v] = message[i++];
      }
    }
    for (int l = layers_.begin; l < layers_.end; ++l) {
      const size_t i = size_t(l - layers_.begin);
      Row after = had_[i + 1];
      for (int v = 0; v < kVertices; ++v) {
        if (chunk_[size_t(v)] != c) continue;
        after[size_t(v)] = aggregated(edges_, v, had_[i], weight(epoch, l));
      }
      had_[i + 1] = after;
    }
    Row& out = buffer(task.writes.back());
    out.clear();
    for (size_t v = 0; v < kVertices; ++v) {
      if (chunk_[v] == c) out.push_back(had_.back()[v]);
    }
    if (c == chunk_order(spec_).back()) epochs_.push_back(had_.back());
  }

  Payload payload(const TimelineTask& task) {
    Row& row = buffer(task.kind == TaskKind::kSend ? task.reads[0] : task.writes[0]);
    row.resize(size_t(task.bytes.value) / 8);
    return {row.data(), row.data(), row.size(), tuttiFloat64, tuttiSum};
  }

  const std::vector<Row>& epochs() const { return epochs_; }

 private:
  Row& buffer(int number) {
    const std::lock_guard lock(mutex_);
    return buffers_[number];
  }

  const std::vector<GraphEdge>& edges_;
  const GnnSpec& spec_;
  const std::vector<int>& chunk_;
  LayerRange layers_;
  int stage_;
  std::vector<Row> had_;     // in front of each layer, and behind the last
  std::vector<Row> epochs_;  // had_.back() at the end of each
  std::mutex mutex_;
  std::map<int, Row> buffers_;
};

void expect_as_referenced(const std::vector<GraphEdge>& edges, const GnnSpec& spec,
                          const std::vector<int>& chunk) {
  const std::vector<Row> expected = reference(edges, spec, chunk);
  run_ranks(spec.stages, [&](tuttiComm_t comm, int rank) {
    TimelineRunner runner(comm, gnn_pipeline(spec));
    Stage stage(edges, spec, chunk, rank);
    runner.run({[&](const TimelineTask& task) { stage.compute(task); },
                [&](const TimelineTask& task) { return stage.payload(task); }});
    if (rank + 1 < spec.stages) return;
    EXPECT_EQ(stage.epochs(), expected);
  });
}

// 3.17 (e): one chunk without lag is one process' result, bit by bit.
TEST(RuntimeGnn, OneChunkWithoutLagEqualsTheSerialResult) {
  const std::vector<GraphEdge> edges = random_edges(1);
  const std::vector<int> chunk = chunks_of(1);
  for (const int stages : {1, 2, 4}) {
    expect_as_referenced(edges, spec_of(edges, stages, 1, 0), chunk);
  }
  const GnnSpec spec = spec_of(edges, 3, 1, 0);
  Row serial(kVertices);
  for (int v = 0; v < kVertices; ++v) serial[size_t(v)] = feature(v);
  for (int l = 0; l < 4; ++l) {
    const Row before = serial;
    for (int v = 0; v < kVertices; ++v) {
      serial[size_t(v)] = aggregated(edges, v, before, weight(2, l));
    }
  }
  EXPECT_EQ(reference(edges, spec, chunk)[2], serial);
}

// 3.17 (e): with a lag, the result of one process that uses the same versions.
TEST(RuntimeGnn, WithALagTheVersionsAreThoseOfTheReference) {
  for (const unsigned seed : {2, 3, 4}) {
    const std::vector<GraphEdge> edges = random_edges(seed);
    for (const int chunks : {2, 3, 6}) {
      const std::vector<int> chunk = chunks_of(chunks);
      const GnnSpec lagging = spec_of(edges, 3, chunks, 1);
      expect_as_referenced(edges, lagging, chunk);
      // The lag shows: it is not what one chunk gives.
      EXPECT_NE(reference(edges, lagging, chunk)[2],
                reference(edges, spec_of(edges, 3, 1, 0), chunks_of(1))[2]);
    }
  }
}

TEST(RuntimeGnn, ChunksThatOnlyNeedEarlierOnesAreExactWithoutLag) {
  std::vector<GraphEdge> edges = random_edges(5);
  for (GraphEdge& edge : edges) {  // from the last vertices to the first
    if (edge.from < edge.to) std::swap(edge.from, edge.to);
  }
  const GnnSpec spec = spec_of(edges, 2, 3, 0);
  EXPECT_EQ(chunk_order(spec), (std::vector<int>{2, 1, 0}));
  expect_as_referenced(edges, spec, chunks_of(3));
  EXPECT_EQ(reference(edges, spec, chunks_of(3)),
            reference(edges, spec_of(edges, 1, 1, 0), chunks_of(1)));
}

// 3.17 (e): the bytes of a pass, counted in the timeline and by hand.
TEST(RuntimeGnn, StagesExchangeEachVertexOnceAndGraphParallelismEachCopyInEachLayer) {
  const std::vector<GraphEdge> edges = random_edges(6);
  for (int stages = 1; stages <= 4; ++stages) {
    const GnnSpec spec = spec_of(edges, stages, 3, 1);
    Bytes sent{0};
    for (const TimelineTask& task : gnn_pipeline(spec).tasks) {
      if (task.kind == TaskKind::kSend) sent += task.bytes;
    }
    EXPECT_EQ(sent, stage_bytes(spec) * (2 * spec.epochs));
    EXPECT_EQ(stage_bytes(spec), Bytes(8 * kVertices * (stages - 1)));
  }
  // 0 goes to parts 1 and 2, 3 to part 0; the second edge from 0 to part 1 needs no second copy.
  const std::vector<GraphEdge> few{{0, 1}, {0, 2}, {0, 3}, {3, 0}, {1, 2}};
  const std::vector<int> parts{0, 1, 1, 2};
  EXPECT_EQ(graph_parallel_bytes(few, parts, 5, Bytes(16)), Bytes(3 * 5 * 16));
}

// Rows of true sizes: every rank gets what its vertices aggregate, once, and gradients go back.
TEST(RuntimeGnn, BoundariesBringWhatAPartNeedsAndNoMore) {
  for (const int ranks : {1, 2, 3, 5}) {
    const std::vector<GraphEdge> edges = random_edges(unsigned(ranks));
    std::vector<int> parts;
    for (int v = 0; v < kVertices; ++v) parts.push_back((v * v + v / 2) % ranks);
    const GraphBoundary boundary = graph_boundary(edges, parts, ranks);
    EXPECT_EQ(Bytes(moved(boundary.rows)), graph_parallel_bytes(edges, parts, 1, Bytes(1)));
    run_ranks(ranks, [&](tuttiComm_t comm, int rank) {
      std::vector<double> own(1), all(1, 0), home(kVertices, 0);  // never without an address
      own.clear();
      for (int v = 0; v < kVertices; ++v) {
        if (parts[size_t(v)] == rank) own.push_back(v + 0.5);
      }
      const auto& halo = boundary.halo[size_t(rank)];
      all.resize(halo.size() + 1);
      own.push_back(0);
      Exchange(boundary.rows, Bytes(8)).run(comm, own.data(), all.data());
      for (size_t i = 0; i < halo.size(); ++i) EXPECT_EQ(all[i], double(halo[i]) + 0.5);
      std::set<int64_t> needed;
      for (const GraphEdge& e : edges) {
        if (parts[size_t(e.to)] == rank && parts[size_t(e.from)] != rank) needed.insert(e.from);
      }
      EXPECT_EQ(std::set<int64_t>(halo.begin(), halo.end()), needed);
      EXPECT_EQ(halo.size(), needed.size());
      std::fill(all.begin(), all.end(), 1.0);
      const auto sum = sum_of(tuttiFloat64);
      Exchange(reverse(boundary.rows), Bytes(8), sum.get()).run(comm, all.data(), home.data());
      size_t place = 0;
      for (int64_t v = 0; v < kVertices; ++v) {
        if (parts[size_t(v)] != rank) continue;
        double users = 0;
        for (const auto& other : boundary.halo) users += std::count(other.begin(), other.end(), v);
        EXPECT_EQ(home[place++], users) << v;
      }
    });
  }
}

TEST(RuntimeGnn, StagesThatAreGraphParallelAreSound) {
  for (int group = 1; group <= 3; ++group) {
    GnnSpec spec = spec_of(random_edges(7), 2, 2, 1);
    spec.group = group;
    spec.exchange = Nanoseconds(1000);
    const Timeline timeline = gnn_pipeline(spec);
    EXPECT_TRUE(check(timeline).empty());
    const Summary summary = summarize(timeline, simulate(timeline));
    EXPECT_EQ(timeline.ranks, 2 * group);
    // Two layers of 3 ms, two chunks, three epochs.
    for (const RankSummary& own : summary.ranks) EXPECT_EQ(own.computing.value, 36'000'000);
  }
}

// 3.17 (f).
TEST(RuntimeGnn, RefusesWhatCannotBeScheduled) {
  const std::vector<GraphEdge> circle{{0, 11}, {11, 0}};
  EXPECT_REFUSED(gnn_pipeline(spec_of(circle, 2, 2, -1)), "the lag is -1");
  EXPECT_REFUSED(gnn_pipeline(spec_of(circle, 2, 2, 2)), "the lag is 2");
  EXPECT_REFUSED(gnn_pipeline(spec_of(circle, 2, 2, 0)), "allow a lag of 1");
  EXPECT_NO_THROW(gnn_pipeline(spec_of(circle, 2, 2, 1)));
  EXPECT_NO_THROW(gnn_pipeline(spec_of(circle, 2, 1, 0)));
  EXPECT_REFUSED(gnn_pipeline(spec_of(circle, 5, 2, 1)), "at most as many stages as layers");
  GnnSpec spec = spec_of(circle, 2, 2, 1);
  spec.group = 4;
  EXPECT_REFUSED(gnn_pipeline(spec), "pad it");
  spec = spec_of(circle, 2, 2, 1);
  spec.needs[0] = {0};
  EXPECT_REFUSED(gnn_pipeline(spec), "name others");
  spec.needs.pop_back();
  EXPECT_REFUSED(gnn_pipeline(spec), "give both");
  EXPECT_REFUSED(chunk_needs(std::vector<GraphEdge>{{0, 9}}, std::vector<int>{0, 0}), "2 vertices");
  EXPECT_REFUSED(chunk_needs({}, std::vector<int>{0, 7}), "without gaps");
  EXPECT_REFUSED(graph_parallel_bytes(circle, std::vector<int>{0}, 1, Bytes(1)), "1 vertices");
  EXPECT_REFUSED(graph_parallel_bytes({}, {}, 0, Bytes(1)), "give 1 or more");
  EXPECT_REFUSED(graph_boundary(circle, std::vector<int>{0, 1}, 2), "2 vertices");
  EXPECT_REFUSED(graph_boundary({}, std::vector<int>{0, 2}, 2), "vertex 1 is in part 2");
}

}  // namespace
}  // namespace tutti::runtime
