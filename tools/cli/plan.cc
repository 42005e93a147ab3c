#include "tools/cli/plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "perf/collectives/error.h"
#include "src/arrange/library_prices.h"
#include "src/arrange/overtaking.h"
#include "src/arrange/search.h"
#include "src/arrange/step_timeline.h"
#include "src/base/clock.h"
#include "src/codecs/codec.h"
#include "src/registry/algorithms.h"
#include "src/topology/cluster_file.h"
#include "tools/cli/plan_options.h"

namespace tutti::cli {
namespace {

using namespace arrange;
using perf::PerfError;

template <class Value>
Value value_of(Result<Value> result) {
  if (!result.ok()) throw PerfError(std::string(result.status().message()), perf::kExitUsage);
  return std::move(result).value();
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw PerfError(path + " could not be written");
}

constexpr size_t kShownReasons = 5;  // of what was left out

double ms(double ns) { return ns / 1e6; }

std::vector<WireCodec> codecs_of(const PlanOptions& options) {
  constexpr uint64_t kMany = 1 << 20;  // values
  constexpr double kValueBytes = 4;
  std::vector<WireCodec> found;
  for (const std::string& text : options.codecs) {
    const codecs::Codec codec = value_of(codecs::parse_codec(text));
    const auto bytes = static_cast<double>(codec.family->bytes(codec.numbers, kMany));
    const double ns_per_byte = 1e3 / options.coding_bytes_per_us;
    found.push_back({codecs::codec_text(codec), bytes / kMany, kValueBytes * ns_per_byte});
  }
  return found;
}

TrainingJob job_of(const PlanOptions& options) {
  TrainingJob job;
  job.model = value_of(find_model(options.model));
  job.device = value_of(find_device(options.device));
  if (options.batch > 0) job.model.batch = options.batch;
  if (options.sequence > 0) job.model.sequence = options.sequence;
  job.overlaps_messages = !options.blocks_messages;
  job.overlaps_gradients = !options.blocks_gradients;
  job.codecs = codecs_of(options);
  job.outer_periods = options.outer_periods;
  return job;
}

/// An arrangement with what simulations made of its price.
struct Ranked {
  Arranged found;
  StepPrice price;  // simulated as far as it goes
  bool is_refined = false;
  std::string not_simulated;  // what of it is predicted all the same
};

class Command {
 public:
  explicit Command(const PlanOptions& options)
      : options_(options),
        cluster_(value_of(
            even_part(value_of(topology::read_cluster_file(options.topology)), options.places))),
        pricer_(job_of(options), cluster_),
        prices_(cluster_, registry::algorithms(), costs_of(cluster_), options.ring_bytes) {}

  int run() {
    const uint64_t begin = monotonic_ns();
    // The search has half of the time, simulations the rest; what would change has a sixth.
    const auto over = [this, begin](double share) {
      return static_cast<double>(monotonic_ns() - begin) > share * 1e9 * options_.seconds;
    };
    SearchLimits limits;
    limits.keep = options_.keep;
    limits.is_over = [&] { return over(0.5); };
    found_ = value_of(search_arrangements(pricer_, prices_, options_.fixed, limits));
    const double searched = seconds_since(begin);
    refine([&] { return over(5.0 / 6); });
    print_head(searched, seconds_since(begin));
    for (size_t i = 0; i < ranked_.size(); ++i) print(i);
    print_first();
    print_changes();
    if (!options_.svg.empty()) draw();
    if (!options_.json.empty()) write_file(options_.json, json());
    std::printf("%.1f s in all\n", seconds_since(begin));
    return 0;
  }

 private:
  static double seconds_since(uint64_t begin) {
    return static_cast<double>(monotonic_ns() - begin) / 1e9;
  }

  sim::Costs costs_of(const EvenCluster& cluster) const {
    sim::Costs costs = device_costs(cluster);
    costs.message_ns = static_cast<double>(options_.message_ns);
    costs.stream_latency_ns = static_cast<double>(options_.stream_latency_ns);
    return costs;
  }

  void refine(const std::function<bool()>& is_over) {
    bool over = false;  // the first is simulated whatever the time
    simulated_ = std::make_unique<SimulatedPrices>(prices_, [&over] { return over; });
    for (const Arranged& one : found_.best) {
      Ranked ranked{one, one.price, false, {}};
      over = !ranked_.empty() && is_over();
      if (!over) {
        simulated_->begin_arrangement();
        ranked.price = timeline_price(pricer_, one.arrangement, [&](const GroupExchange& exchange) {
          return simulated_->ns(exchange);
        });
        ranked.is_refined = true;
        if (simulated_->predicted() > 0) ranked.not_simulated = simulated_->why();
      }
      ranked_.push_back(std::move(ranked));
    }
    over = true;
    std::stable_sort(ranked_.begin(), ranked_.end(), [](const Ranked& a, const Ranked& b) {
      return std::pair(!a.is_refined, a.price.ns) < std::pair(!b.is_refined, b.price.ns);
    });
  }

  void print_head(double searched, double all) const {
    const TrainingJob& job = pricer_.job();
    std::printf("# %s on %u places of %s, %u sequences of %u tokens a step\n",
                job.model.name.c_str(), cluster_.places(), job.device.name.c_str(), job.model.batch,
                job.model.sequence);
    if (cluster_.left_out > 0) {
      std::printf("# %u places of the file are left out: the job uses equal nodes\n",
                  cluster_.left_out);
    }
    std::printf(
        "# %llu ways to cut it fit, %llu placements priced in %.1f s%s, simulated in %.1f s\n",
        static_cast<unsigned long long>(found_.cuts),
        static_cast<unsigned long long>(found_.priced), searched,
        found_.is_complete ? "" : ": time was over, this is the best so far (--time)",
        all - searched);
    std::printf("#    predicted/ms simulated/ms  MFU/%%  memory/GB  arrangement\n");
  }

  void print(size_t place) const {
    const Ranked& one = ranked_[place];
    const std::string simulated = one.is_refined ? fmt::format("{:.2f}", ms(one.price.ns)) : "not";
    std::printf("%3zu %13.2f %12s %6.1f %10.1f  %s\n", place + 1, ms(one.found.price.ns),
                simulated.c_str(), 100 * pricer_.utilisation(one.price), one.found.memory / 1e9,
                describe(one.found.arrangement, pricer_.job()).c_str());
    std::printf("%49s%s\n", "", describe_levels(one.found.arrangement, cluster_).c_str());
    if (place > 0) std::printf("%49s%s\n", "", why_it_loses(one).c_str());
  }

  // The parts by which it is slower than the first, those that count most before the others.
  std::string why_it_loses(const Ranked& one) const {
    const Ranked& first = ranked_.front();
    // Predictions are compared with predictions.
    const StepPrice& own = one.price;
    const StepPrice& best = one.is_refined ? first.price : first.found.price;
    std::vector<std::pair<double, std::string>> parts = {
        {own.computing - best.computing, "computing"}, {own.bubble - best.bubble, "bubble"}};
    for (size_t i = 0; i < kAxes; ++i) {
      parts.emplace_back(own.exposed[i] - best.exposed[i],
                         std::string(arrange::name_of(static_cast<Axis>(i))) + " exchanges");
    }
    std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) {
      return std::max(a.first, -a.first) > std::max(b.first, -b.first);
    });
    std::string text = fmt::format("{:+.2f} ms:", ms(own.ns - best.ns));
    for (const auto& [ns, name] : parts) {
      if (std::max(ns, -ns) < 0.02 * std::max(1.0, own.ns - best.ns) || std::max(ns, -ns) < 1e4) {
        continue;
      }
      text += fmt::format("{} {} {:+.2f}", text.back() == ':' ? "" : ",", name, ms(ns));
    }
    return text + (one.is_refined ? "" : " (predicted)");
  }

  void print_first() {
    const Ranked& first = ranked_.front();
    const StepPrice& price = first.price;
    std::printf("\nthe step of the first: %.2f ms\n", ms(price.ns));
    const auto part = [&](const char* name, double ns) {
      if (ns < 1) return;
      const auto stars = static_cast<size_t>(50 * ns / price.ns + 0.5);
      std::printf("  %-20s %10.2f ms %5.1f %%  %s\n", name, ms(ns), 100 * ns / price.ns,
                  std::string(stars, '#').c_str());
    };
    part("computing", price.computing);
    part("bubble", price.bubble);
    for (size_t i = 0; i < kAxes; ++i) {
      const std::string name = std::string(arrange::name_of(static_cast<Axis>(i))) + " exchanges";
      part(name.c_str(), price.exposed[i]);
    }
    std::printf("its collectives:\n");
    const StepExchanges all = pricer_.exchanges(first.found.arrangement);
    for (const GroupExchange* one :
         {&all.tensor, &all.context, &all.expert, &all.gradients, &all.weights,
          &all.expert_gradients, &all.expert_weights, &all.outer}) {
      if (one->group.degree() == 1 || one->bytes == 0) continue;
      std::printf("  %-14s %8.1f MB by %6u ranks: %9.3f ms, %s\n", arrange::name_of(one->kind),
                  one->bytes / 1e6, one->group.degree(), ms(simulated_->ns(*one)),
                  prices_.algorithm_of(*one).c_str());
    }
    if (!first.not_simulated.empty()) {
      std::printf("some of them are predicted: %s\n", first.not_simulated.c_str());
    }
    std::printf("the mesh, the fastest axis first:\n  %s\n",
                mesh_text(first.found.arrangement, cluster_).c_str());
    for (size_t i = 0; i < found_.refused.size(); ++i) {
      if (i == kShownReasons) {
        std::printf("left out, %zu more reasons\n", found_.refused.size() - i);
        break;
      }
      std::printf("left out, %s\n", found_.refused[i].c_str());
    }
  }

  void print_changes() const {
    if (ranked_.size() < 2) return;
    const MakePrices make = [this](const EvenCluster& changed) {
      return std::make_unique<LibraryPrices>(changed, registry::algorithms(), costs_of(changed),
                                             options_.ring_bytes);
    };
    const Ranked &first = ranked_[0], &second = ranked_[1];
    const double found = second.price.ns - first.price.ns;
    const double predicted = second.found.price.ns - first.found.price.ns;
    const auto changes =
        overtakings(pricer_, first.found.arrangement, second.found.arrangement, make,
                    first.is_refined && second.is_refined ? found - predicted : 0);
    if (changes.empty()) {
      std::printf("no bandwidth of one level within 64 times would put the second first\n");
    }
    for (const Overtaking& change : changes) {
      const ClusterLevel& level = cluster_.levels[change.level];
      std::printf(
          "the second would be as fast with %.4g GB/s in place of %.4g at each link into a %s\n",
          change.bytes_per_ns, level.bytes_per_ns, level.name.c_str());
    }
  }

  void draw() {
    const Arrangement& first = ranked_.front().found.arrangement;
    const uint32_t stages = first.degree(Axis::kPipeline);
    const uint32_t shown = std::min(first.micro_batches, 2 * stages);
    const runtime::Timeline timeline = step_timeline(
        pricer_, first, [&](const GroupExchange& exchange) { return simulated_->ns(exchange); },
        shown);
    const runtime::NamedHistory history{"simulated", runtime::simulate(timeline)};
    write_file(options_.svg, runtime::draw_svg(timeline, std::span(&history, 1)));
  }

  std::string json() const {
    std::string text = fmt::format("{{\"places\":{},\"complete\":{},\"ranking\":[",
                                   cluster_.places(), found_.is_complete);
    const char* comma = "";
    for (const Ranked& one : ranked_) {
      const Arrangement& a = one.found.arrangement;
      text += fmt::format(
          "{}\n{{\"predicted_ms\":{:.6f},\"simulated_ms\":{},\"memory_GB\":{:.3f},\"mesh\":\"{}\","
          "\"micro_batch\":{},\"micro_batches\":{},\"chunks\":{},\"zero\":{},\"recomputed\":{},"
          "\"sequence_parallel\":{},\"codec\":\"{}\",\"outer_period\":{}",
          comma, ms(one.found.price.ns),
          one.is_refined ? fmt::format("{:.6f}", ms(one.price.ns)) : "null", one.found.memory / 1e9,
          mesh_text(a, cluster_), a.micro_batch, a.micro_batches, a.chunks, a.zero, a.recomputed,
          a.sequence_parallel, a.codec == 0 ? "" : pricer_.job().codecs[a.codec - 1].text,
          a.outer_period);
      for (size_t i = 0; i < kAxes; ++i) {
        text += fmt::format(",\"{}\":{}", short_name_of(static_cast<Axis>(i)), a.axes[i].degree());
      }
      text += "}";
      comma = ",";
    }
    return text + "]}\n";
  }

  const PlanOptions& options_;
  const EvenCluster cluster_;
  const StepPricer pricer_;
  LibraryPrices prices_;
  std::unique_ptr<SimulatedPrices> simulated_;
  ArrangementSearch found_;
  std::vector<Ranked> ranked_;
};

}  // namespace

int plan_main(int argc, char** argv) {
  try {
    int exit_code = 0;
    const auto options = parse_plan(argc, argv, exit_code);
    return options ? Command(*options).run() : exit_code;
  } catch (const PerfError& error) {
    std::fprintf(stderr, "tutti plan: %s\n", error.what());
    return error.exit_code;
  } catch (const runtime::Error& error) {
    std::fprintf(stderr, "tutti plan: %s\n", error.what());
    return 2;
  }
}

}  // namespace tutti::cli
