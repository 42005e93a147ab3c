#include <unistd.h>

#include <cstdio>
#include <fstream>

#include <nlohmann/json.hpp>

#include "perf/collectives/report.h"

namespace tutti::perf {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormatOfNcclTests = 3;
constexpr int kOwnFormat = 2;  // 1 had numbers and booleans where nccl-tests has text

/// nccl-tests writes these as text.
const char* truth_text(bool value) { return value ? "true" : "false"; }

std::string root_text(int root) {
  char text[16];
  std::snprintf(text, sizeof text, "%6d", root);
  return text;
}

Json to_json(const Finding& finding) {
  return {{"rank", finding.rank},
          {"buffer", finding.in_input ? "input" : "output"},
          {"element", finding.first.element},
          {"expected", finding.first.expected},
          {"got", finding.first.got},
          {"wrong_ranks", finding.wrong_ranks}};
}

Json to_json(const PerfOptions& options, const Cell& cell) {
  Json json = Json::object();
  for (const CellField& field : cell_fields(options.report)) {
    if (*field.name == '\0') continue;
    Json& entry = json[field.name];
    const std::optional<double> number = field.value(cell);
    if (!number) continue;
    if (field.digits == 0) {
      entry = static_cast<size_t>(*number);
    } else {
      entry = *number;
    }
  }
  if (cell.wrong) json["first_wrong"] = to_json(*cell.wrong);
  return json;
}

Json to_json(const PerfOptions& options, const IterationTimes& times) {
  const Summary& kept = times.kept;
  return {{"skipped_iterations", options.report.skipped_samples},
          {"min_us", kept.least},
          {"max_us", kept.greatest},
          {"avg_us", kept.mean},
          {"p50_us", kept.p50},
          {"p95_us", kept.p95},
          {"p99_us", kept.p99},
          {"stdev_us", kept.deviation},
          {"cv_pct", kept.deviation_percent()},
          {"times_us", times.slowest_us},
          {"per_process_max_times_us", times.of_rank_us}};
}

Json to_json(const PerfOptions& options, const Line& line) {
  const CollectiveTraits& traits = traits_of(options.collective);
  Json json = {{"size", line.size_bytes},
               {"count", line.count},
               {"type", data_type(line.one.type).name},
               {"redop", line.op_name(traits)},
               {"root", root_text(line.root(traits))},
               {"cycle", line.cycle},
               {"measured_at", line.measured_at},
               {"out_of_place", to_json(options, line.out_of_place)},
               {"in_place", nullptr}};
  if (line.in_place) json["in_place"] = to_json(options, *line.in_place);
  if (const auto& times = line.out_of_place.times) {
    json["out_of_place_per_iter"] = to_json(options, *times);
  }
  if (line.in_place && line.in_place->times) {
    json["in_place_per_iter"] = to_json(options, *line.in_place->times);
  }
  json["actual_iterations"] = line.out_of_place.iterations;
  json["algorithm"] = nullptr;
  json["transports"] = nullptr;
  if (line.choice) {
    json["algorithm"] = line.choice->algorithm;
    json["transports"] = line.choice->transports;
  }
  return json;
}

Json ranks_json(const Results& results) {
  Json ranks = Json::array();
  for (size_t rank = 0; rank < results.ranks.size(); ++rank) {
    ranks.push_back({{"rank", rank},
                     {"group", results.ranks[rank].color},
                     {"pid", results.ranks[rank].process},
                     {"hostname", results.ranks[rank].host},
                     {"device", results.ranks[rank].device}});
  }
  return ranks;
}

Json config_json(const PerfOptions& options, const Results& results) {
  const SizeOptions& sizes = options.sizes;
  Json json = {{"collective", traits_of(options.collective).name},
               {"ranks", results.ranks.size()},
               {"nthreads", options.threads},
               {"ngpus", options.gpus},
               {"minimum_bytes", sizes.min_bytes},
               {"maximum_bytes", sizes.max_bytes}};
  if (sizes.factor > 1) {
    json["step_factor"] = sizes.factor;
  } else {
    json["step_bytes"] = sizes.step_bytes;
  }
  const CommunicatorOptions& communicator = options.communicator;
  json.update(
      {{"warmup_iters", options.warmup},
       {"warmup_calls_before_sweep", results.warm_up_calls},
       {"iterations", options.iterations},
       {"aggregated_iterations", options.aggregate},
       {"validation", options.checks},
       {"graph", 0},
       {"blocking_collectives", truth_text(options.blocking != Blocking::kNo || options.stepped)},
       {"blocking", static_cast<int>(options.blocking)},
       {"per_iter_timing", truth_text(options.report.samples())},
       {"per_iter_skip", options.report.skipped_samples},
       {"parallel_init", truth_text(true)},
       {"average", static_cast<int>(options.average)},
       {"stepped", options.stepped},
       {"fresh", options.fresh},
       {"registered", options.registered},
       {"unaligned_elements", options.unaligned_elements},
       {"stream", stream_text(options)},
       {"algorithm", communicator.algorithm},
       {"deterministic", communicator.deterministic},
       {"devices", ranks_json(results)}});
  return json;
}

Json environment_json() {
  Json list = Json::array();
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (may_be_told(*entry)) list.push_back(*entry);
  }
  return list;
}

Json footer_json(const Results& results) {
  const size_t wrong = results.wrong_elements();
  const double average = results.average_bus_bandwidth();
  const std::optional<double> least = least_bandwidth();
  Json json = {{"out_of_bounds", {{"count", wrong}, {"okay", truth_text(wrong == 0)}}},
               {"average_bus_bandwidth", {{"bandwidth", average}, {"okay", "unchecked"}}},
               {"memory", nullptr}};
  if (least) json["average_bus_bandwidth"]["okay"] = truth_text(average >= 0.9 * *least);
  if (const auto& memory = results.memory) {
    json["memory"] = {{"initialization_bytes", memory->initialization},
                      {"buffer_bytes", memory->buffers},
                      {"collective_bytes", memory->collectives}};
  }
  return json;
}

}  // namespace

bool may_be_told(const std::string& variable) {
  const std::string name = variable.substr(0, variable.find('='));
  for (const char* secret : {"KEY", "ID", "SECRET", "TOKEN", "PASS"}) {
    if (name.find(secret) != std::string::npos) return false;
  }
  return name.starts_with("TUTTI_") || name.starts_with("NCCL_");
}

void write_json(const PerfOptions& options, const Results& results) {
  const std::string& path = options.report.json_file;
  if (path.empty()) return;
  int version = 0;
  tuttiGetVersion(&version);
  Json json = {{"version", kFormatOfNcclTests}, {"tutti_format", kOwnFormat},
               {"tutti_version", version},      {"start_time", results.started_at},
               {"end_time", results.ended_at},  {"args", options.command_line},
               {"env", environment_json()},     {"config", config_json(options, results)},
               {"results", Json::array()}};
  for (const Line& line : results.lines) json["results"].push_back(to_json(options, line));
  json.update(footer_json(results));

  // The environment and the arguments may hold bytes that are no UTF-8.
  const std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace);
  std::ofstream file(path);
  file << text << "\n";
  if (!file.flush()) throw PerfError("cannot write " + path);
}

}  // namespace tutti::perf
