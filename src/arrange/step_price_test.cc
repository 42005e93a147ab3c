// Prices of steps: the pipeline's formula against the timeline that executes it, memory, models,
// cluster files that are not even.
#include <gtest/gtest.h>

#include <string>

#include "src/arrange/arrange_test.h"
#include "src/arrange/pipeline_price.h"
#include "src/arrange/step_timeline.h"
#include "src/topology/cluster_file.h"
#include "tutti/runtime/generators.h"

namespace tutti::arrange {
namespace {

using tests::cluster_of;
using tests::small_job;

double simulated(int ranks, int micro_batches, int chunks, int64_t transfer) {
  runtime::PipelineSpec spec;
  spec.ranks = ranks;
  spec.micro_batches = micro_batches;
  spec.chunks = chunks;
  spec.forward = runtime::Nanoseconds(1'200'000);
  spec.backward = runtime::Nanoseconds(2'400'000);
  spec.transfer = runtime::Nanoseconds(transfer);
  const runtime::Timeline timeline = runtime::pipeline(spec);
  return static_cast<double>(
      runtime::summarize(timeline, runtime::simulate(timeline)).makespan.value);
}

double formula(uint32_t ranks, uint32_t micro_batches, uint32_t chunks, double transfer) {
  PipelineTimes times{.turn = 3'600'000};
  times.hops.assign(ranks - 1, transfer);
  times.wrap = transfer;
  times.chunks = chunks;
  times.micro_batches = micro_batches;
  return pipeline_step(times).ns;
}

TEST(PipelinePrice, IsTheTimelinesWhereMessagesTakeNoTime) {
  for (const uint32_t ranks : {2u, 3u, 4u, 8u}) {
    for (const uint32_t rounds : {1u, 2u, 4u}) {
      for (const uint32_t chunks : {1u, 2u, 3u}) {
        EXPECT_NEAR(formula(ranks, ranks * rounds, chunks, 0),
                    simulated(static_cast<int>(ranks), static_cast<int>(ranks * rounds),
                              static_cast<int>(chunks), 0),
                    10)
            << ranks << " " << rounds << " " << chunks;
      }
    }
  }
}

TEST(PipelinePrice, IsNearTheTimelineWhereMessagesTakeTime) {
  for (const uint32_t ranks : {2u, 4u, 8u}) {
    for (const int64_t transfer : {50'000, 400'000, 1'500'000}) {
      const double price = formula(ranks, 8 * ranks, 1, static_cast<double>(transfer));
      const double whole =
          simulated(static_cast<int>(ranks), static_cast<int>(8 * ranks), 1, transfer);
      EXPECT_NEAR(price / whole, 1, 0.12) << ranks << " " << transfer;
    }
  }
}

TEST(StepTimeline, OfAFewMicroBatchesTellsTheTimeOfMany) {
  const EvenCluster cluster = cluster_of({4, 2});
  IdealPrices prices(cluster);
  TrainingJob job = small_job();
  job.model.batch = 256;
  const StepPricer pricer(job, cluster);
  Arrangement a;
  a[Axis::kPipeline].at = Spread().at;
  a[Axis::kPipeline].at[0] = 4;
  a[Axis::kPipeline].at[1] = 2;
  a.micro_batches = 256;
  const auto ns = [&](const GroupExchange& exchange) { return prices.ns(exchange); };
  const StepPrice few = timeline_price(pricer, a, ns);
  const runtime::Timeline all = step_timeline(pricer, a, ns, 256);
  const double whole =
      static_cast<double>(runtime::summarize(all, runtime::simulate(all)).makespan.value);
  EXPECT_NEAR(few.ns / whole, 1, 0.001);
  double sum = few.computing + few.bubble;
  for (const double exposed : few.exposed) sum += exposed;
  EXPECT_NEAR(sum, few.ns, 1);
}

TEST(StepPricer, KeepsLessInMemoryWithEachThatSavesIt) {
  const EvenCluster cluster = cluster_of({4, 2});
  const StepPricer pricer(small_job(), cluster);
  Arrangement a;
  a[Axis::kTensor].at[0] = 4;
  a[Axis::kData].at[1] = 2;
  a.micro_batches = 32;
  double before = pricer.memory(a);
  const auto expect_less = [&](const char* what) {
    EXPECT_LT(pricer.memory(a), before) << what;
    before = pricer.memory(a);
  };
  a.sequence_parallel = true;
  expect_less("sequence parallelism");
  for (a.zero = 1; a.zero < 3; ++a.zero) expect_less("zero");
  a.recomputed = true;
  expect_less("recomputing");
}

TEST(TrainingModelTest, KnownOnesHaveTheParametersThatTheirNamesSay) {
  EXPECT_NEAR(find_model("llama-8b").value().parameters(), 8.0e9, 0.1e9);
  EXPECT_NEAR(find_model("llama-70b").value().parameters(), 70.6e9, 0.2e9);
  EXPECT_NEAR(find_model("llama-405b").value().parameters(), 405.8e9, 1e9);
  EXPECT_NEAR(find_model("mixtral-8x7b").value().parameters(), 46.7e9, 0.2e9);
  EXPECT_NEAR(find_model("mixtral-8x7b").value().active_parameters(), 12.9e9, 0.1e9);
  EXPECT_FALSE(find_model("no-such").ok());
}

TEST(TrainingModelTest, FilesAreRefusedWithTheirLines) {
  const auto why = [](const std::string& text) {
    const auto model = parse_model(text, "m.json");
    return model.ok() ? std::string() : std::string(model.status().message());
  };
  const std::string rest =
      "\"layers\": 4, \"hidden\": 64, \"heads\": 4, \"feed_forward\": 128, \"vocabulary\": 10, "
      "\"sequence\": 8, \"batch\": 2}";
  EXPECT_EQ(why("{\"tutti_model\": 1, " + rest), "");
  EXPECT_EQ(parse_model("{\"tutti_model\": 1, " + rest, "").value().kv_heads, 4u);
  EXPECT_NE(why("{\"tutti_model\": 2,\n " + rest).find("m.json:1: "), std::string::npos);
  EXPECT_NE(why("{\"tutti_model\": 1,\n\"layer\": 4, " + rest).find("did you mean 'layers'"),
            std::string::npos);
  EXPECT_NE(why("{\"tutti_model\": 1, \"kv_heads\": 3, " + rest).find("divide"), std::string::npos);
  EXPECT_NE(why("{\"tutti_model\": 1, \"experts\": 3, " + rest).find("go together"),
            std::string::npos);
  EXPECT_FALSE(parse_device("{\"tutti_device\": 1, \"tflops\": -3}", "d.json").ok());
  EXPECT_TRUE(parse_device("{\"tutti_device\": 1, \"tflops\": 100, \"memory_GB\": 16}", "d").ok());
}

topology::Topology two_regions() {
  const char* text = R"({"tutti_topology": 1,
    "levels": [{"name": "wan", "latency_us": 100, "port_GB_per_s": 10},
               {"name": "rack", "latency_us": 5, "port_GB_per_s": 50},
               {"name": "host", "latency_us": 1, "port_GB_per_s": 400}],
    "tree": {"children": [{"children": [{"count": 3, "ranks": 8}]},
                          {"uplink_GB_per_s": 4, "children": [{"count": 4, "ranks": 4}]}]}})";
  return topology::parse_cluster(text, "").value();
}

TEST(EvenPart, IsTheLargestWhoseNodesAreEqual) {
  const EvenCluster cluster = even_part(two_regions()).value();
  // 2 racks of 3 hosts of 4 ranks or 1 rack of 3 hosts of 8: both have 24 places.
  EXPECT_EQ(cluster.places(), 24u);
  EXPECT_EQ(cluster.left_out, 16u);
  const EvenCluster few = even_part(two_regions(), 8).value();
  EXPECT_EQ(few.places(), 8u);
  EXPECT_FALSE(even_part(two_regions(), 10).ok());
  EXPECT_FALSE(even_part(two_regions(), 1000).ok());
}

TEST(MeshText, NamesAnAxisOnSeveralLevelsOncePerLevel) {
  const EvenCluster cluster = cluster_of({4, 2});
  Arrangement a;
  a[Axis::kTensor].at[0] = 2;
  a[Axis::kData].at[0] = 2;
  a[Axis::kData].at[1] = 2;
  EXPECT_EQ(mesh_text(a, cluster), "tp=2,dp.level_0=2,dp.level_1=2");
  EXPECT_EQ(mesh_text(Arrangement{}, cluster), "dp=1");
}

}  // namespace
}  // namespace tutti::arrange
