#include "tools/cli/sim.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "perf/collectives/error.h"
#include "perf/collectives/plot.h"
#include "src/arrange/library_prices.h"
#include "src/exec/arena_map.h"
#include "src/registry/algorithms.h"
#include "src/select/select.h"
#include "src/select/wire_prices.h"
#include "src/sim/cluster.h"
#include "src/sim/report.h"
#include "src/topology/cluster_file.h"
#include "tools/cli/arguments.h"
#include "tools/cli/sim_options.h"

namespace tutti::cli {
namespace {

using perf::PerfError;

constexpr const char* kUsage =
    "usage: tutti sim COLLECTIVE --topology FILE [options]      tutti sim COLLECTIVE --help\n";
constexpr types::DataType kType = types::DataType::kFloat32;

template <class Value>
Value required(Result<Value> result) {
  if (!result.ok()) throw PerfError(std::string(result.status().message()), perf::kExitUsage);
  return std::move(result).value();
}

void write(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw PerfError(path + " could not be written");
}

/// null where the collective is none of one schedule.
const schedule::Traits* schedule_traits(std::string_view name, schedule::Collective& collective) {
  for (int i = 0; i < schedule::kCollectives; ++i) {
    collective = static_cast<schedule::Collective>(i);
    if (schedule::traits_of(collective).name == name) return &schedule::traits_of(collective);
  }
  return nullptr;
}

/// One size, simulated.
struct Simulated {
  uint64_t bytes = 0;
  uint64_t count = 0;
  std::string algorithm;  // "ring:2"
  sim::Outcome outcome;

  double algorithm_bandwidth() const {
    const double time = sim::nanoseconds(outcome.end);
    return time > 0 ? static_cast<double>(bytes) / time : 0;
  }
};

class Command {
 public:
  explicit Command(const SimOptions& options)
      : options_(options),
        network_(
            required(sim::network_of(required(topology::read_cluster_file(options.topology))))),
        prices_(network_.group(), options.costs.cores > 0 ? options.costs.cores : kManyCores,
                arrange::selection_model(options.costs)),
        wire_(required(codecs::parse_wire(options.wire))) {
    check_wire();
    if (options.ring_bytes < kLeastRing || options.ring_bytes > kMostRing) {
      throw PerfError("--ring is not from 64K to 1G", perf::kExitUsage);
    }
    tuning_.region_bytes = options.ring_bytes / exec::kRingRegions;
    tuning_.frame_bytes = std::min(tuning_.frame_bytes, tuning_.region_bytes / 2);
    prices_.set_slicing({.frame_bytes = static_cast<double>(tuning_.frame_bytes),
                         .stream_bytes = static_cast<double>(tuning_.stream_bytes),
                         .memory_bytes = static_cast<double>(tuning_.long_slice_bytes)});
    if (options.root >= network_.ranks()) {
      throw PerfError("--root " + std::to_string(options.root) + " is not a rank: there are " +
                          std::to_string(network_.ranks()),
                      perf::kExitUsage);
    }
    schedule_traits(options.name, collective_);
    const Status divided = network_.divide_uplinks(options.paths, options.path_rule);
    if (!divided.ok()) throw PerfError(std::string(divided.message()), perf::kExitUsage);
    add_link_faults(options, network_);
  }

  int run() {
    if (!options_.plot.empty()) perf::check_plotter();
    const std::vector<uint64_t> sizes = options_.sizes();
    bool is_complete = true;
    std::vector<Simulated> all;
    for (const uint64_t bytes : sizes) {
      if (options_.candidates) {
        compare(bytes);
        continue;
      }
      Simulated one = simulate(bytes);
      is_complete = is_complete && one.outcome.is_complete;
      print(one, sizes.size() == 1);
      if (!options_.trace.empty()) write(options_.trace, sim::perfetto_json(one.outcome, network_));
      one.outcome.spans.clear();
      one.outcome.path.clear();
      one.outcome.cast = {};
      all.push_back(std::move(one));
    }
    if (!options_.json.empty()) write(options_.json, json(all));
    if (!options_.plot.empty()) perf::plot_results(options_.json, options_.plot);
    return is_complete ? 0 : 1;
  }

 private:
  /// Every level that is to encode is one of the cluster's, and its messages are sent, not mapped.
  void check_wire() const {
    std::vector<std::string> sends;
    std::string known;
    for (size_t level = 0; level < network_.group()->levels(); ++level) {
      if (network_.group()->level(level).reach.map) continue;
      sends.push_back(network_.group()->level(level).name);
      known += (known.empty() ? "" : ", ") + sends.back();
    }
    for (const codecs::LevelCodec& entry : wire_.levels) {
      if (std::ranges::find(sends, entry.level) != sends.end()) continue;
      throw PerfError("--wire: the cluster has no level '" + entry.level +
                          "' that sends messages; those that do: " + known,
                      perf::kExitUsage);
    }
  }

  static constexpr int kManyCores = 1 << 16;
  static constexpr uint64_t kLeastRing = 64 << 10, kMostRing = 1 << 30;  // as TUTTI_RING_BYTES
  // So much takes a second or two: there are many candidates.
  static constexpr sim::FoldLimits kOfOneCandidate = {
      .proved = 1'500'000, .sampled = 200'000, .simulated = 300'000};

  uint64_t count_of(uint64_t bytes) const {
    const perf::Place place{0, network_.ranks(), options_.root};
    return perf::shape_of(options_.collective, bytes / types::size_of(kType), place).count;
  }

  Simulated simulate(uint64_t bytes) {
    const uint64_t count = count_of(bytes);
    const auto chosen = required(select::choose(registry::algorithms(), query_of(count)));
    return required(simulate(bytes, chosen));
  }

  Result<Simulated> simulate(uint64_t bytes, const select::Candidate& candidate) {
    sim::Experiment wanted;
    wanted.job = job_of(count_of(bytes), candidate);
    wanted.costs = options_.costs;
    wanted.faults = rank_faults(options_);
    wanted.folding = options_.unfolded ? sim::Folding::kNever : sim::Folding::kIfEqual;
    if (options_.sampled) wanted.folding = sim::Folding::kSampled;
    wanted.traced = options_.traced;
    if (options_.candidates) wanted.limits = kOfOneCandidate;
    Result<sim::Outcome> outcome = sim::simulate(wanted, network_);
    if (!outcome.ok()) return outcome.status();
    return Simulated{bytes, count_of(bytes), name_of(candidate), std::move(outcome).value()};
  }

  static std::string name_of(const select::Candidate& candidate) {
    const uint16_t lanes = candidate.parameters.lanes;
    const std::string name(candidate.algorithm->name);
    return (lanes > 1 ? name + ":" + std::to_string(lanes) : name) +
           (candidate.encodes ? " encoded" : "");
  }

  select::Query query_of(uint64_t count) {
    select::Query query;
    query.collective = collective_;
    query.parameters.ranks = network_.ranks();
    query.parameters.root = options_.root;
    query.parameters.tree = prices_.tree();
    query.parameters.fold = options_.deterministic ? schedule::Fold::kTree : schedule::Fold::kList;
    query.count = count;
    query.element_bytes = static_cast<uint32_t>(types::size_of(kType));
    query.in_place = options_.in_place || schedule::traits_of(collective_).rooted();
    query.deterministic = options_.deterministic && schedule::reduces(collective_);
    query.forced = options_.algorithm;
    query.forced_by = "--algorithm";
    query.prices = &prices_;
    query.limits = {.sources = types::kMaxSources,
                    .slice_bytes = tuning_.frame_bytes,
                    .frame_bytes = tuning_.region_bytes};
    query.wires = select::wire_prices(wire_, prices_.levels(), query.element_bytes);
    query.must_encode = wire_.always;
    query.fits = [this, count](const select::Candidate& one) {
      return sim::fits(job_of(count, one), network_.group());
    };
    return query;
  }

  sim::Job job_of(uint64_t count, const select::Candidate& candidate) const {
    sim::Job job;
    job.algorithm = candidate.algorithm;
    job.parameters = candidate.parameters;
    job.mode = options_.registered ? plan::Mode::kDirect : plan::Mode::kStaged;
    job.in_place = options_.in_place;
    if (candidate.encodes) job.wire = plan::wire_of(wire_, *network_.group());
    job.request.count = count;
    job.request.type = kType;
    job.request.far_slices = candidate.far_slices;
    job.calls = options_.calls;
    job.tuning = tuning_;
    return job;
  }

  // Every candidate, the best by prediction first.
  void compare(uint64_t bytes) {
    std::printf("# %s of %llu bytes by %d ranks\n#%-26s %14s %14s  %s\n", options_.name.c_str(),
                static_cast<unsigned long long>(bytes), network_.ranks(), "algorithm",
                "predicted/us", "simulated/us", "why not");
    for (const select::Candidate& one :
         select::rank_candidates(registry::algorithms(), query_of(count_of(bytes)))) {
      std::string time = "", why = one.rejected;
      if (why.empty()) {
        const Result<Simulated> made = simulate(bytes, one);
        if (one.overflows) why = "its frames hardly fit: raise --ring (TUTTI_RING_BYTES)";
        if (!made.ok()) {
          why += (why.empty() ? "" : "; ");
          why += "not simulated: " + std::string(made.status().message());
        }
        if (made.ok()) time = microseconds(made.value().outcome);
      }
      std::printf("  %-25s %14.2f %14s  %s\n", name_of(one).c_str(), one.predicted_ns / 1000,
                  time.c_str(), why.c_str());
      std::fflush(stdout);  // a large cluster takes a while
    }
  }

  static std::string microseconds(const sim::Outcome& outcome) {
    return outcome.is_complete ? fmt::format("{:.2f}", sim::nanoseconds(outcome.end) / 1000)
                               : "never";
  }

  void print(const Simulated& one, bool alone) const {
    const double bandwidth = one.algorithm_bandwidth();
    const double bus = bandwidth * perf::bus_factor(options_.collective, network_.ranks());
    if (alone) {
      std::printf("# %s of %llu bytes (count %llu float32) by %d ranks: %s\n",
                  options_.name.c_str(), static_cast<unsigned long long>(one.bytes),
                  static_cast<unsigned long long>(one.count), network_.ranks(),
                  one.algorithm.c_str());
      std::fputs(sim::describe(one.outcome, network_, options_.hops).c_str(), stdout);
      if (one.outcome.is_complete) {
        std::printf("algorithm bandwidth %.4g GB/s, bus bandwidth %.4g GB/s\n", bandwidth, bus);
      }
      return;
    }
    if (!std::exchange(has_heading_, true)) {
      std::printf("# %s by %d ranks\n#%13s %14s  %-24s %14s %9s %9s  %s\n", options_.name.c_str(),
                  network_.ranks(), "bytes", "count", "algorithm", "time/us", "algbw", "busbw",
                  "busiest link");
    }
    const sim::Busiest most = sim::busiest(one.outcome);
    const std::string link =
        most.load == nullptr
            ? "none"
            : fmt::format("{}, {:.0f} %", network_.describe(most.load->link), 100 * most.share);
    std::printf("%14llu %14llu  %-24s %14s %9.3f %9.3f  %s\n",
                static_cast<unsigned long long>(one.bytes),
                static_cast<unsigned long long>(one.count), one.algorithm.c_str(),
                microseconds(one.outcome).c_str(), bandwidth, bus, link.c_str());
  }

  // In the form that plot_results.py reads.
  std::string json(const std::vector<Simulated>& all) const {
    std::string text = fmt::format(
        "{{\"config\":{{\"collective\":\"{}\",\"ranks\":{},\"devices\":[]}},"
        "\"results\":[",
        options_.name, network_.ranks());
    const char* comma = "";
    for (const Simulated& one : all) {
      if (!one.outcome.is_complete) continue;
      const double bandwidth = one.algorithm_bandwidth();
      text += fmt::format(
          "{}\n{{\"size\":{},\"count\":{},\"type\":\"float32\",\"redop\":\"sum\",\"root\":{},"
          "\"algorithm\":\"{}\",\"in_place\":null,\"out_of_place\":{{\"time\":{:.6f},\"alg_bw\":"
          "{:.6f},\"bus_bw\":{:.6f}}}}}",
          comma, one.bytes, one.count, options_.root, one.algorithm,
          sim::nanoseconds(one.outcome.end) / 1000, bandwidth,
          bandwidth * perf::bus_factor(options_.collective, network_.ranks()));
      comma = ",";
    }
    return text + "]}\n";
  }

  const SimOptions& options_;
  schedule::Collective collective_ = schedule::Collective::kAllReduce;
  sim::Network network_;
  plan::Tuning tuning_;
  select::LevelPrices prices_;
  const codecs::WireOption wire_;
  mutable bool has_heading_ = false;
};

}  // namespace

int sim_main(int argc, char** argv) {
  const std::string_view wanted = argc > 1 ? argv[1] : "";
  if (asks_for_help(wanted)) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  const perf::CollectiveTraits* traits = perf::find_collective(wanted);
  schedule::Collective collective;
  if (traits == nullptr || schedule_traits(traits->name, collective) == nullptr) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  try {
    std::string name = traits->name;
    argv[1] = name.data();
    int exit_code = 0;
    const auto options = parse_sim(argc - 1, argv + 1, exit_code);
    return options ? Command(*options).run() : exit_code;
  } catch (const PerfError& error) {
    std::fprintf(stderr, "tutti sim: %s\n", error.what());
    return error.exit_code;
  }
}

}  // namespace tutti::cli
