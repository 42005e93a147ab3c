#include "tools/cli/sim_options.h"

#include <algorithm>

#include "perf/collectives/error.h"
#include "perf/collectives/options.h"
#include "perf/command_line.h"

namespace tutti::cli {
namespace {

using perf::CommandLine;
using perf::PerfError;

constexpr uint64_t kMostBytes = uint64_t{1} << 50;

/// "rack:3=0.5" in three; what stands behind '=' or '@' may be missing.
struct Named {
  std::string owner;
  uint32_t node = 0;
  std::string value;
};
Named named(const std::string& text, char separator) {
  const size_t colon = text.find(':'), at = text.find(separator);
  if (colon == std::string::npos) {
    throw PerfError("'" + text + "' names no link: it is LEVEL:NUMBER, as in host:3 or rank:17",
                    perf::kExitUsage);
  }
  Named found{text.substr(0, colon), 0, at == std::string::npos ? "" : text.substr(at + 1)};
  const size_t length = at == std::string::npos ? at : at - colon - 1;
  found.node =
      static_cast<uint32_t>(perf::whole_number(text.substr(colon + 1, length), 0, 1 << 30));
  return found;
}

sim::LinkFault fault_of(const Named& name, const sim::Network& network) {
  sim::LinkFault fault;
  fault.node = name.node;
  std::string known = "rank";
  if (name.owner == known) return fault;
  for (size_t level = 0; level + 1 < network.levels(); ++level) {
    fault.level = level + 1;
    if (network.level(level).name == name.owner) return fault;
    known += ", " + network.level(level).name;
  }
  throw PerfError("no link is named '" + name.owner + "': there are those of " + known,
                  perf::kExitUsage);
}

void fail(sim::Network& network, const sim::LinkFault& fault) {
  const Status status = network.fail(fault);
  if (!status.ok()) throw PerfError(std::string(status.message()), perf::kExitUsage);
}

sim::Time time_of(const std::string& microseconds) {
  return microseconds.empty() ? 0 : sim::picoseconds(perf::real_number(microseconds) * 1000);
}

// "hashed:8": how connections are spread, and over how many links of an uplink.
void take_paths(const std::string& text, SimOptions& options) {
  constexpr int kMostPaths = 1024;
  const size_t colon = text.find(':');
  const std::string rule = text.substr(0, colon);
  if (rule == "sprayed") {
    options.path_rule = sim::PathRule::kSprayed;
  } else if (rule == "hashed") {
    options.path_rule = sim::PathRule::kHashed;
  } else if (rule == "planned") {
    options.path_rule = sim::PathRule::kPlanned;
  } else {
    throw PerfError("--paths is sprayed, hashed:N or planned:N, not '" + text + "'",
                    perf::kExitUsage);
  }
  if (options.path_rule == sim::PathRule::kSprayed) return;
  if (colon == std::string::npos) {
    throw PerfError(
        "--paths " + rule + " needs the number of links of an uplink, as in " + rule + ":8",
        perf::kExitUsage);
  }
  options.paths = static_cast<uint32_t>(perf::whole_number(text.substr(colon + 1), 1, kMostPaths));
}

CommandLine::Take append(std::vector<std::string>& texts) {
  return [&texts](const std::string& text) { texts.push_back(text); };
}

void add_call(CommandLine& line, SimOptions& options) {
  line.add(
      {"--topology", "FILE", "the cluster: a file as of docs/topology.md", "", "The call", true},
      options.topology);
  const auto bytes = [](uint64_t& size) {
    return [&size](const std::string& text) { size = perf::byte_count(text); };
  };
  line.add({"-b,--minbytes", "SIZE", "of the larger buffer; K, M, G are powers of 1024", "1M",
            "The call"},
           bytes(options.min_bytes));
  line.add({"-e,--maxbytes", "SIZE", "largest size", "that of -b", "The call"},
           bytes(options.max_bytes));
  line.add({"-f,--stepfactor", "X", "from size to size", "4", "The call"}, options.factor, 2,
           1 << 20);
  line.add({"--algorithm", "NAME", "and lanes, as in ring:2; without it, the one that is chosen",
            "", "The call"},
           options.algorithm);
  line.add({"--root", "RANK", "of a rooted collective", "0", "The call"}, options.root, 0, 1 << 22);
  line.add({"--calls", "N", "one after the other", "1", "The call"}, options.calls, 1, 10'000);
  line.add({"--deterministic", "", "as TUTTI_DETERMINISTIC", "", "The call"},
           options.deterministic);
  line.add({"--wire", "LEVELS",
            "as TUTTI_WIRE: levels of the cluster file and codecs, as in network:int8_block", "",
            "The call"},
           options.wire);
  line.add({"--in-place", "", "the input is (part of) the output", "", "The call"},
           options.in_place);
  line.add({"--ring", "SIZE", "as TUTTI_RING_BYTES: very many ranks stage very many blocks", "4M",
            "The call"},
           bytes(options.ring_bytes));
  line.add({"--paths", "RULE",
            "of connections over the N links that an uplink is: sprayed, hashed:N "
            "or planned:N",
            "sprayed", "The call"},
           [&options](const std::string& text) { take_paths(text, options); });
  line.add({"--registered", "", "ranks of a host reach each other's buffers", "", "The call"},
           options.registered);
}

void add_faults(CommandLine& line, SimOptions& options) {
  constexpr const char* kGroup = "What is wrong (LINK is LEVEL:NUMBER: rack:3, rank:17)";
  line.add({"--slow", "LINK=FACTOR...", "its bandwidth is so many times what it was", "", kGroup},
           append(options.slow));
  line.add({"--delay", "LINK=US...", "microseconds that it adds, each way", "", kGroup},
           append(options.delayed));
  line.add({"--loss", "LINK=SHARE...", "of packets that it loses", "", kGroup},
           append(options.lossy));
  line.add({"--dead", "LINK@US...", "from this time on; without one, from the start", "", kGroup},
           append(options.dead));
  line.add({"--slow-rank", "RANK=FACTOR...", "its work takes so many times as long", "", kGroup},
           append(options.slow_ranks));
  line.add({"--dead-rank", "RANK@US...", "from this time on", "", kGroup},
           append(options.dead_ranks));
}

void add_costs(CommandLine& line, sim::Costs& costs) {
  constexpr const char* kGroup = "What a rank's own work costs";
  const auto real = [](double& value) {
    return [&value](const std::string& text) { value = perf::real_number(text); };
  };
  line.add({"--cores", "N", "of a host; 0: one for each rank", "0", kGroup}, costs.cores, 0,
           1 << 16);
  line.add({"--copy", "NS", "a byte that is copied", "0.09", kGroup}, real(costs.copy_ns_per_byte));
  line.add({"--signal", "NS", "a store that others wait for", "50", kGroup}, real(costs.signal_ns));
  line.add({"--message", "NS", "a message by stream, at each end", "2000", kGroup},
           real(costs.message_ns));
  line.add({"--stream-latency", "NS", "one way, beside the links'", "8000", kGroup},
           real(costs.stream_latency_ns));
  line.add({"--stream-rate", "GB/S", "of one connection; 0: as its links", "0", kGroup},
           real(costs.stream_bytes_per_ns));
  line.add(
      {"--socket", "BYTES", "that the kernel takes before they are on the wire", "262144", kGroup},
      real(costs.socket_bytes));
}

void add_output(CommandLine& line, SimOptions& options) {
  constexpr const char* kGroup = "What is simulated, and what comes out";
  line.add({"--unfolded", "", "equal ranks, too, are simulated one by one", "", kGroup},
           options.unfolded);
  line.add({"--sampled", "", "of groups too large to compare all ranks, a sample is compared", "",
            kGroup},
           options.sampled);
  line.add({"--candidates", "", "every algorithm: what selection predicts, and what it would take",
            "", kGroup},
           options.candidates);
  line.add({"--hops", "N", "of the critical path, the last", "0", kGroup}, options.hops, 0,
           1'000'000);
  line.add({"--trace", "FILE", "for ui.perfetto.dev, of the ranks of --trace-ranks", "", kGroup},
           options.trace);
  line.add({"--trace-ranks", "RANK...", "ranks", "0", kGroup}, [&options](const std::string& text) {
    options.traced.push_back(static_cast<int>(perf::whole_number(text, 0, 1 << 22)));
  });
  line.add({"--json", "FILE", "results as those of tutti perf", "", kGroup}, options.json);
  line.add({"--plot", "PICTURE", "of time and bandwidth over size; needs --json", "", kGroup},
           options.plot);
}

}  // namespace

std::vector<uint64_t> SimOptions::sizes() const {
  std::vector<uint64_t> found;
  const uint64_t most = std::max(min_bytes, max_bytes);
  for (uint64_t size = min_bytes; size <= most && size <= kMostBytes; size *= factor) {
    found.push_back(size);
    if (size == 0) break;
  }
  return found;
}

std::optional<SimOptions> parse_sim(int argc, const char* const* argv, int& exit_code) {
  SimOptions options;
  options.name = argv[0];
  options.collective = perf::find_collective(options.name)->id;
  CommandLine line("Simulates " + options.name + " on a cluster that is not here.",
                   "tutti sim " + options.name);
  add_call(line, options);
  add_faults(line, options);
  add_costs(line, options.costs);
  add_output(line, options);
  if (const std::optional<int> end = line.parse(argc, argv)) {
    exit_code = *end;
    return {};
  }
  if (options.traced.empty() && !options.trace.empty()) options.traced = {0};
  if (!options.plot.empty() && options.json.empty()) {
    throw PerfError("--plot draws what --json writes", perf::kExitUsage);
  }
  return options;
}

void add_link_faults(const SimOptions& options, sim::Network& network) {
  for (const std::string& text : options.slow) {
    const Named name = named(text, '=');
    sim::LinkFault fault = fault_of(name, network);
    fault.factor = perf::real_number(name.value);
    fail(network, fault);
  }
  for (const std::string& text : options.delayed) {
    const Named name = named(text, '=');
    sim::LinkFault fault = fault_of(name, network);
    fault.delay_ns = perf::real_number(name.value) * 1000;
    fail(network, fault);
  }
  for (const std::string& text : options.lossy) {
    const Named name = named(text, '=');
    sim::LinkFault fault = fault_of(name, network);
    fault.loss = perf::real_number(name.value);
    fail(network, fault);
  }
  for (const std::string& text : options.dead) {
    const Named name = named(text, '@');
    sim::LinkFault fault = fault_of(name, network);
    fault.dead_from = time_of(name.value);
    fail(network, fault);
  }
}

std::vector<sim::RankFault> rank_faults(const SimOptions& options) {
  std::vector<sim::RankFault> faults;
  for (const std::string& text : options.slow_ranks) {
    const Named name = named("rank:" + text, '=');
    faults.push_back({static_cast<int>(name.node), perf::real_number(name.value), sim::kNever});
  }
  for (const std::string& text : options.dead_ranks) {
    const Named name = named("rank:" + text, '@');
    faults.push_back({static_cast<int>(name.node), 1, time_of(name.value)});
  }
  return faults;
}

}  // namespace tutti::cli
