#include "perf/collectives/options.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <utility>

#include "perf/collectives/command.h"
#include "perf/collectives/error.h"
#include "perf/collectives/flags.h"

namespace tutti::perf {
namespace {

constexpr size_t kDefaultBytes = size_t{32} << 20;
constexpr size_t kMostSizes = 100'000;

/// The size that follows one below the greatest; empty: none does.
std::optional<size_t> next_size(const SizeOptions& sizes, size_t bytes) {
  if (sizes.factor <= 1) {
    if (sizes.step_bytes > sizes.max_bytes - bytes) return std::nullopt;
    return bytes + sizes.step_bytes;
  }
  const double scaled = static_cast<double>(bytes) * sizes.factor;
  if (scaled > static_cast<double>(sizes.max_bytes)) return std::nullopt;  // or beyond any number
  const size_t next = std::max(static_cast<size_t>(scaled), bytes + 1);
  return next <= sizes.max_bytes ? std::optional(next) : std::nullopt;
}

/// Begins with the least; of a sweep with too many sizes one more than there may be.
std::vector<size_t> swept_sizes(const SizeOptions& sizes) {
  std::vector<size_t> all;
  for (std::optional<size_t> bytes = sizes.min_bytes; bytes && all.size() <= kMostSizes;) {
    all.push_back(*bytes);
    bytes = *bytes < sizes.max_bytes ? next_size(sizes, *bytes) : std::nullopt;
  }
  return all;
}

SizeOptions settle_sizes(const Draft& draft) {
  SizeOptions sizes = draft.options.sizes;
  if (!sizes.list.empty()) {
    if (draft.min_bytes || draft.max_bytes) {
      throw PerfError("--bytes-list has all sizes: leave out -b and -e", kExitUsage);
    }
    const auto [least, most] = std::ranges::minmax(sizes.list);
    sizes.min_bytes = least;
    sizes.max_bytes = most;
    return sizes;
  }
  sizes.min_bytes = draft.min_bytes.value_or(draft.max_bytes.value_or(kDefaultBytes));
  sizes.max_bytes = draft.max_bytes.value_or(draft.min_bytes.value_or(kDefaultBytes));
  const auto text = [](size_t bytes) { return std::to_string(bytes); };
  if (sizes.min_bytes > sizes.max_bytes) {
    throw PerfError("-b " + text(sizes.min_bytes) + " is greater than -e " + text(sizes.max_bytes) +
                        ": sizes go up",
                    kExitUsage);
  }
  if (sizes.min_bytes == sizes.max_bytes) return sizes;
  if (sizes.factor > 1 && sizes.min_bytes == 0) {
    throw PerfError("-b 0 stays 0 whatever -f multiplies it by: 1 at least, or -i", kExitUsage);
  }
  if (sizes.factor <= 1 && sizes.step_bytes == 0) {
    throw PerfError("with -i 0 sizes do not grow: 1 at least, or -f above 1", kExitUsage);
  }
  if (swept_sizes(sizes).size() > kMostSizes) {
    throw PerfError("-b " + text(sizes.min_bytes) + " -e " + text(sizes.max_bytes) +
                        " are more than " + text(kMostSizes) + " sizes: take a greater -f or -i",
                    kExitUsage);
  }
  return sizes;
}

CrewShape settle_crew(Draft& draft) {
  CrewShape crew;
  crew.threads = draft.options.threads * draft.options.gpus;
  crew.processes = draft.processes.value_or(draft.in_one_process ? 1 : 2);
  if (std::vector<HostSlots>& hosts = draft.options.hosts.hosts; !hosts.empty()) {
    crew.processes = draft.processes.value_or(slots_of(hosts));
    hosts = take_slots(hosts, crew.processes);
  }
  if (crew.ranks() > kMaxRanks) {
    throw PerfError("--ranks " + std::to_string(crew.processes) +
                        " processes of -t * -g = " + std::to_string(crew.threads) +
                        " ranks are more than " + std::to_string(kMaxRanks) + " ranks",
                    kExitUsage);
  }
  return crew;
}

void settle_report(PerfOptions& options) {
  ReportOptions& report = options.report;
  const size_t samples = std::min(options.iterations, kMaxSamples);
  if (report.skipped_samples > 0 && !report.per_iteration) {
    throw PerfError("-K goes with -I 1", kExitUsage);
  }
  // With -n 0 nobody knows yet how many there will be; the last one is always shown.
  if (options.iterations > 0 && report.skipped_samples > 0 && report.skipped_samples >= samples) {
    throw PerfError("-K " + std::to_string(report.skipped_samples) + " leaves none of " +
                        std::to_string(samples) + " iterations: less than that",
                    kExitUsage);
  }
}

/// A matrix has its own sizes. The errors are about all ranks, also where a group has fewer.
void check_matrix(const PerfOptions& options) {
  if (options.traffic.matrix() == nullptr) return;
  const int known = options.traffic.matrix()->ranks;
  const int ranks = options.crew.ranks();
  if (ranks > known) {
    throw PerfError("the traffic matrix has " + std::to_string(known) + " rows: not enough for " +
                        std::to_string(ranks) + " ranks",
                    kExitUsage);
  }
  const size_t needed = options.traffic.largest(0, ranks);
  if (options.byte_sizes().size() != 1 || options.largest_bytes() < needed) {
    throw PerfError("the sizes are those of the traffic matrix: -b and -e must be the same, and " +
                        std::to_string(needed) + " bytes at least",
                    kExitUsage);
  }
}

/// Takes the variables that nccl-tests reads from the environment, but those for the report and for
/// groups.
void settle_environment(PerfOptions& options) {
  if (std::getenv("NCCL_TESTS_DEVICE") != nullptr) {
    options.notes.emplace_back(
        "NCCL_TESTS_DEVICE has no effect: the ranks of a host take turns at its devices");
  }
  if (options.collective != Collective::kAllToAllV) return;
  options.traffic = traffic_asked_for();
  options.traffic_summary = traffic_summary_asked_for();
  check_matrix(options);
}

void note_unused(Draft& draft) {
  const bool compares = !draft.options.versus.peers.empty();
  const auto has_effect = [&](FlagUse use) {
    switch (use) {
      case FlagUse::kWithoutVs:
        return !compares;
      case FlagUse::kWithVs:
        return compares;
      case FlagUse::kWithAnyVs:
        return compares || draft.options.report.beside_nccl;
      case FlagUse::kWithHosts:
        return !draft.options.hosts.hosts.empty();
      default:
        return true;
    }
  };
  for (const Flag* flag : draft.given) {
    if (has_effect(flag->group.use)) continue;
    const char* const where = flag->group.use == FlagUse::kWithHosts ? "without --hosts"
                              : compares                             ? "with --vs"
                                                                     : "without --vs";
    draft.options.notes.push_back(std::string(flag->names) + " has no effect " + where);
  }
}

void check_device(const PerfOptions& options) {
  if (!options.on_device) {
    if (options.report.beside_nccl) throw PerfError("--vs nccl is for --device cuda", kExitUsage);
    if (options.communicator.engine == tuttiEngineAuto) return;
    throw PerfError("--engine is for calls on devices: --device cuda", kExitUsage);
  }
  if (!options.registered && !options.communicator.host_stream && options.versus.peers.empty()) {
    return;
  }
  throw PerfError(
      "--device cuda has memory and streams of its own: not with -R, --stream or "
      "--vs, but of nccl",
      kExitUsage);
}

/// Settles the options that follow from several flags together.
PerfOptions settle(Draft& draft) {
  PerfOptions& options = draft.options;
  const CollectiveTraits& traits = traits_of(options.collective);
  options.sizes = settle_sizes(draft);
  if (options.types.empty()) options.types = {tuttiFloat32};
  options.ops = traits.has(Trait::kReduces) ? parse_reduce_ops(draft.op) : std::vector{tuttiMax};
  if (options.ops.size() == 1) {
    const auto has_op = [&](tuttiDataType_t type) {
      return is_defined(data_type(type), options.ops[0]);
    };
    if (std::ranges::none_of(options.types, has_op)) {
      throw PerfError("there is no " + draft.op + " of " + data_type(options.types[0]).name,
                      kExitUsage);
    }
  }
  options.crew = settle_crew(draft);
  settle_report(options);
  check_device(options);
  if (!options.hosts.hosts.empty() && !options.versus.peers.empty()) {
    throw PerfError("--vs compares the ranks of one host: leave out --hosts", kExitUsage);
  }
  if (options.hosts.program.empty()) options.hosts.program = program_path();
  const bool has_buffers = traits.send != Extent::kNothing;
  if (!has_buffers) options.sizes.list = {0};
  if (options.collective == Collective::kHypercube && options.aggregate > 1) {
    throw PerfError("the steps of a hypercube depend on each other: -m does not apply", kExitUsage);
  }
  check_group(options, options.crew.ranks());
  settle_environment(options);
  note_unused(draft);
  return std::move(options);
}

void add_flag(CommandLine& line, const Flag& flag, Draft& draft) {
  line.add(flag.argument(), [&](const std::string& value) {
    if (flag.apply != nullptr) {
      if (std::ranges::find(draft.given, &flag) == draft.given.end()) draft.given.push_back(&flag);
      flag.apply(value, draft);
    } else if (value != "0") {
      draft.options.notes.push_back(std::string(flag.names) + " has no effect: " + flag.meaning);
    }
  });
}

}  // namespace

std::vector<size_t> PerfOptions::byte_sizes() const {
  return sizes.list.empty() ? swept_sizes(sizes) : sizes.list;
}

size_t PerfOptions::largest_bytes() const {
  const std::vector<size_t> all = byte_sizes();
  return *std::max_element(all.begin(), all.end());
}

void check_group(const PerfOptions& options, int ranks) {
  if (options.root >= ranks) {
    throw PerfError("-r " + std::to_string(options.root) + " is not a rank: 0 to " +
                        std::to_string(ranks - 1) + ", -1 or all",
                    kExitUsage);
  }
  const bool power_of_two = (ranks & (ranks - 1)) == 0;
  if (options.collective == Collective::kHypercube && !power_of_two) {
    throw PerfError("a hypercube has 1, 2, 4, 8 ... ranks, not " + std::to_string(ranks),
                    kExitUsage);
  }
}

std::optional<PerfOptions> parse_options(const CollectiveTraits& collective, int argc,
                                         const char* const* argv, int* exit_code) {
  Draft draft;
  draft.options.collective = collective.id;
  draft.options.command_line.assign(argv, argv + argc);
  const std::string program = std::string("tutti perf ") + collective.name;
  CommandLine line(std::string("Measures ") + collective.name + "; flags as in nccl-tests.",
                   program);
  for (const Flag& flag : all_flags()) add_flag(line, flag, draft);
  if (const std::optional<int> status = line.parse(argc, argv)) {
    *exit_code = *status;
    return std::nullopt;
  }
  try {
    return settle(draft);
  } catch (const PerfError& error) {
    std::cerr << program << ": " << error.what() << "\n";
    *exit_code = kExitUsage;
    return std::nullopt;
  }
}

}  // namespace tutti::perf
