#include "tools/cli/timeline.h"

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "perf/collectives/error.h"
#include "perf/command_line.h"
#include "tools/cli/arguments.h"
#include "tutti/codecs.h"
#include "tutti/runtime/block_context.h"
#include "tutti/runtime/cost.h"
#include "tutti/runtime/generators.h"
#include "tutti/runtime/outer/outer_timeline.h"
#include "tutti/runtime/ring.h"

namespace tutti::cli {
namespace {

using namespace runtime;
using perf::CommandLine;

constexpr uint64_t kMostTime = 1'000'000'000'000;  // ns
constexpr uint64_t kMostBytes = uint64_t{1} << 50;

/// The numbers that every generator is given.
struct Common {
  int ranks = 4;
  int64_t forward = 1'000'000;
  int64_t backward = 2'000'000;
  int64_t memory = 0;
  int64_t latency = 5'000;
  int64_t bandwidth = 25;
  std::string svg, perfetto;
};

void add_common(CommandLine& line, Common& common) {
  line.add({"--ranks", "N", "ranks", "4"}, common.ranks, 1, 1024);
  line.add({"--forward", "NS",
            "time of a forward pass: pipeline: of a rank's share, fsdp: of a "
            "layer, ddp: of all",
            "1000000"},
           common.forward, 0, kMostTime);
  line.add({"--backward", "NS", "time of a backward pass, likewise", "2000000"}, common.backward, 0,
           kMostTime);
  line.add({"--memory", "BYTES", "limit of a rank; 0: none", "0"}, common.memory, 0, kMostBytes);
  line.add({"--latency", "NS", "of a message", "5000"}, common.latency, 0, kMostTime);
  line.add({"--bandwidth", "GB/S", "of a link", "25"}, common.bandwidth, 1, 1'000'000);
  line.add({"--svg", "FILE", "write a picture"}, common.svg);
  line.add({"--perfetto", "FILE", "write a trace for ui.perfetto.dev"}, common.perfetto);
}

LinkClass link_of(const Common& common) {
  return {Nanoseconds(common.latency), static_cast<double>(common.bandwidth)};
}

Nanoseconds time_of(const Common& common, TaskKind kind, int64_t bytes) {
  const Machine machine({{common.ranks, link_of(common)}}, common.ranks);
  return collective_time(machine, RankSet::range(0, common.ranks), kind, Bytes(bytes));
}

/// Each command takes its own flags beside the common ones and makes its timeline.
using Make = std::optional<Timeline> (*)(CommandLine&, Common&, int argc, const char* const* argv,
                                         int& exit_code);

bool parsed(CommandLine& line, int argc, const char* const* argv, int& exit_code) {
  const std::optional<int> end = line.parse(argc, argv);
  if (end) exit_code = *end;
  return !end;
}

std::optional<Timeline> make_pipeline(CommandLine& line, Common& common, int argc,
                                      const char* const* argv, int& exit_code) {
  PipelineSpec spec;
  int64_t message = 1 << 20, activations = 1 << 20, weights = 0;
  line.add({"--micro-batches", "M", "micro-batches of a step", "8"}, spec.micro_batches, 0, 4096);
  line.add({"--chunks", "V", "chunks of each rank; more than 1: interleaved", "1"}, spec.chunks, 0,
           64);
  line.add({"--group", "N", "micro-batches that run chunk by chunk; 0: as many as ranks", "0"},
           spec.group, 0, 4096);
  line.add({"--layers", "L", "of the model, to check that they divide; 0: any", "0"}, spec.layers,
           0, 1 << 20);
  line.add({"--message", "BYTES", "between stages, of a micro-batch", "1048576"}, message, 0,
           kMostBytes);
  line.add({"--activations", "BYTES", "that a micro-batch keeps in a chunk", "1048576"},
           activations, 0, kMostBytes);
  line.add({"--weights", "NS", "of the backward pass, for weights: a pass that fills bubbles", "0"},
           weights, 0, kMostTime);
  if (!parsed(line, argc, argv, exit_code)) return std::nullopt;
  spec.ranks = common.ranks;
  spec.forward = Nanoseconds(common.forward);
  spec.backward = Nanoseconds(common.backward);
  spec.weights = Nanoseconds(weights);
  spec.message = Bytes(message);
  spec.transfer = message_time(link_of(common), spec.message);
  spec.activations = Bytes(activations);
  spec.memory = Bytes(common.memory);
  return pipeline(spec);
}

std::optional<Timeline> make_fsdp(CommandLine& line, Common& common, int argc,
                                  const char* const* argv, int& exit_code) {
  FsdpSpec spec;
  int64_t layer = 64 << 20;
  line.add({"--layers", "L", "layers", "8"}, spec.layers, 0, 4096);
  line.add({"--prefetch", "N", "layers gathered ahead", "1"}, spec.prefetch, 0, 64);
  line.add({"--layer", "BYTES", "parameters of a layer", "67108864"}, layer, 0, kMostBytes);
  if (!parsed(line, argc, argv, exit_code)) return std::nullopt;
  spec.ranks = common.ranks;
  spec.forward = Nanoseconds(common.forward);
  spec.backward = Nanoseconds(common.backward);
  spec.layer = Bytes(layer);
  spec.memory = Bytes(common.memory);
  spec.gather = time_of(common, TaskKind::kAllGather, layer);
  spec.scatter = time_of(common, TaskKind::kReduceScatter, layer);
  return fsdp(spec);
}

std::optional<Timeline> make_ddp(CommandLine& line, Common& common, int argc,
                                 const char* const* argv, int& exit_code) {
  DdpSpec spec;
  int buckets = 4;
  int64_t bytes = 64 << 20, step = 100'000;
  bool at_end = false;
  line.add({"--buckets", "N", "buckets of gradients, equal ones", "4"}, buckets, 1, 4096);
  line.add({"--bytes", "BYTES", "gradients of the model", "67108864"}, bytes, 1, kMostBytes);
  line.add({"--step", "NS", "time of the optimizer", "100000"}, step, 0, kMostTime);
  line.add({"--no-overlap", "", "reduce when the backward pass has ended"}, at_end);
  if (!parsed(line, argc, argv, exit_code)) return std::nullopt;
  spec.ranks = common.ranks;
  spec.forward = Nanoseconds(common.forward);
  spec.step = Nanoseconds(step);
  spec.overlap = !at_end;
  DdpBucket bucket;
  bucket.backward = Nanoseconds(common.backward / buckets);
  bucket.bytes = Bytes(bytes / buckets);
  bucket.all_reduce = time_of(common, TaskKind::kAllReduce, bucket.bytes.value);
  spec.buckets.assign(static_cast<size_t>(buckets), bucket);
  return ddp(spec);
}

std::optional<Timeline> make_ring(CommandLine& line, Common& common, int argc,
                                  const char* const* argv, int& exit_code) {
  RingSpec spec;
  int nodes = 1;
  int64_t block = 1 << 20, intra = 200;
  bool flat = false;
  line.add({"--nodes", "N", "nodes that the ranks are spread over", "1"}, nodes, 1, 1024);
  line.add({"--block", "BYTES", "keys and values of a rank", "1048576"}, block, 0, kMostBytes);
  line.add({"--intra", "GB/S", "of a link within a node", "200"}, intra, 1, 1'000'000);
  line.add({"--flat", "", "one ring over all ranks, though there are several nodes"}, flat);
  if (!parsed(line, argc, argv, exit_code)) return std::nullopt;
  if (common.ranks % nodes != 0) {
    throw perf::PerfError(std::to_string(common.ranks) + " ranks are not a multiple of " +
                              std::to_string(nodes) + " nodes",
                          perf::kExitUsage);
  }
  spec.nodes = nodes;
  spec.gpus = common.ranks / nodes;
  spec.block = Bytes(block);
  spec.compute = Nanoseconds(common.forward / common.ranks);
  spec.inter = message_time(link_of(common), spec.block);
  spec.intra = message_time({Nanoseconds(common.latency), static_cast<double>(intra)}, spec.block);
  return flat ? ring(spec) : two_level_ring(spec);
}

std::optional<Timeline> make_context(CommandLine& line, Common& common, int argc,
                                     const char* const* argv, int& exit_code) {
  std::vector<int64_t> lengths;
  ContextSpec spec;
  ContextTimes times;
  int64_t token = 2048, rate = 600'000;
  const AttentionShape shape{64, 8, 128};
  line.add({"--lengths", "TOKENS...", "of the sequences", "65536,16384,8192,4096,4096"},
           [&](const std::string& text) {
             lengths.push_back(static_cast<int64_t>(perf::whole_number(text, 1, 1 << 30)));
           });
  line.add({"--block", "TOKENS", "of a block, a multiple of 128", "4096"}, spec.block, 0, 1 << 30);
  line.add({"--token", "BYTES", "keys and values of a token", "2048"}, token, 1, 1 << 30);
  line.add({"--rate", "GFLOPS", "of attention, with 64 heads of 128", "600000"}, rate, 1,
           uint64_t{1} << 40);
  line.add({"--coalesce", "N", "rounds whose blocks are attended to together", "1"}, times.coalesce,
           0, 1 << 20);
  if (!parsed(line, argc, argv, exit_code)) return std::nullopt;
  if (lengths.empty()) lengths = {65536, 16384, 8192, 4096, 4096};
  times.pull = message_time(link_of(common), Bytes(spec.block * token));
  times.ns_per_pair =
      4.0 * static_cast<double>(shape.q_heads * shape.head_dim) / static_cast<double>(rate);
  return context_timeline(plan_context(lengths, common.ranks, spec), times);
}

/// The bytes of `parameters` values encoded.
int64_t encoded_bytes(const std::string& text, int64_t parameters) {
  tuttiCodec_t codec;
  size_t bytes = 0;
  if (tuttiCodecParse(text.c_str(), &codec) != tuttiSuccess ||
      tuttiCodecBytes(&codec, static_cast<size_t>(parameters), &bytes) != tuttiSuccess) {
    throw perf::PerfError(tuttiGetLastError(nullptr), perf::kExitUsage);
  }
  return static_cast<int64_t>(bytes);
}

/// Without a codec an exchange is an all_reduce, with one an all_gather of encoded fragments.
std::optional<Timeline> make_outer(CommandLine& line, Common& common, int argc,
                                   const char* const* argv, int& exit_code) {
  OuterTimelineSpec spec;
  int64_t parameters = 25'000'000, megabits = 50;
  std::string codec = "none";
  line.add({"--steps", "N", "inner steps", "16"}, spec.steps, 1, 100'000);
  line.add({"--period", "N", "inner steps between two exchanges of a fragment", "4"}, spec.period,
           1, 100'000);
  line.add({"--fragments", "N", "fragments of the parameters", "1"}, spec.fragments, 1, 10'000);
  line.add({"--delay", "N", "inner steps until a result is due", "0"}, spec.delay, 0, 100'000);
  line.add({"--parameters", "N", "of the model", "25000000"}, parameters, 1, 1'000'000'000'000);
  line.add({"--codec", "TEXT", "how they are encoded, for example e3m0:256", "none"}, codec);
  line.add({"--megabits", "MB/S", "of a link, in Mb/s, in place of --bandwidth", "50"}, megabits, 1,
           100'000'000);
  if (!parsed(line, argc, argv, exit_code)) return std::nullopt;
  spec.ranks = common.ranks;
  spec.step = Nanoseconds(common.forward + common.backward);
  spec.bytes = Bytes(encoded_bytes(codec, parameters / spec.fragments));
  const LinkClass link{Nanoseconds(common.latency), static_cast<double>(megabits) / 8000};
  const Machine machine({{common.ranks, link}}, common.ranks);
  const bool gathers = codec != "none";
  const Bytes whole = gathers ? spec.bytes * common.ranks : spec.bytes;
  spec.exchange = collective_time(machine, RankSet::range(0, common.ranks),
                                  gathers ? TaskKind::kAllGather : TaskKind::kAllReduce, whole);
  const Timeline timeline = outer_timeline(spec);
  std::printf(
      "# an exchange of %lld bytes takes %.3f ms, which a delay of %d hides; %.2f%% of the "
      "time is computed\n",
      static_cast<long long>(spec.bytes.value), milliseconds(spec.exchange), hiding_delay(spec),
      100 * utilisation(spec));
  return timeline;
}

struct Command {
  const char* name;
  const char* summary;
  Make make;
};
constexpr Command kCommands[] = {
    {"pipeline", "1F1B over ranks as stages, interleaved with --chunks", make_pipeline},
    {"fsdp", "parameters gathered ahead of their use, gradients reduce-scattered behind",
     make_fsdp},
    {"ddp", "gradients all-reduced in buckets behind the backward pass", make_ddp},
    {"ring", "ring attention, on two levels with --nodes; --forward is all steps of a rank",
     make_ring},
    {"context", "attention on blocks that ranks pull from each other in rounds", make_context},
    {"outer", "training that exchanges fragments of the parameters now and then, behind its steps",
     make_outer},
};

/// Null where the name is no command's.
const Command* command_of(std::string_view name) {
  for (const Command& command : kCommands) {
    if (name == command.name) return &command;
  }
  return nullptr;
}

int print_usage(std::FILE* file) {
  std::fprintf(file, "usage: tutti timeline WHAT [options]      tutti timeline WHAT --help\n\n");
  for (const Command& command : kCommands) {
    std::fprintf(file, "  %-18s %s\n", command.name, command.summary);
  }
  std::fprintf(file, "\nThe example of any other generator, for --ranks of them:\n\n");
  for (const TimelineGenerator& generator : timeline_generators()) {
    if (command_of(generator.name) != nullptr) continue;
    std::fprintf(file, "  %-18s %s\n", generator.name, generator.summary);
  }
  return file == stdout ? 0 : 2;
}

void write(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw perf::PerfError(path + " could not be written");
}

int show(const Timeline& timeline, const Common& common) {
  const std::vector<Finding> findings = check(timeline);
  for (const Finding& finding : findings) {
    std::fprintf(stderr, "tutti timeline: rule %d: %s\n", finding.rule, finding.sentence.c_str());
  }
  const NamedHistory simulated{"simulated", simulate(timeline)};
  const Summary summary = summarize(timeline, simulated.history);
  std::printf("# %zu tasks of %d ranks, %.3f ms\n", timeline.tasks.size(), timeline.ranks,
              milliseconds(summary.makespan));
  std::printf("# %4s %13s %11s %13s %12s %14s\n", "rank", "computing/ms", "bubble/%", "comm/ms",
              "exposed/ms", "peak/bytes");
  for (size_t r = 0; r < summary.ranks.size(); ++r) {
    const RankSummary& own = summary.ranks[r];
    const double whole = milliseconds(summary.makespan);
    std::printf("%6zu %13.3f %11.2f %13.3f %12.3f %14lld\n", r, milliseconds(own.computing),
                whole > 0 ? 100 * milliseconds(own.idle) / whole : 0,
                milliseconds(own.communicating), milliseconds(own.exposed),
                static_cast<long long>(own.peak.value));
  }
  const std::span<const NamedHistory> all(&simulated, 1);
  if (!common.svg.empty()) write(common.svg, draw_svg(timeline, all));
  if (!common.perfetto.empty()) write(common.perfetto, perfetto_json(timeline, all));
  return findings.empty() ? 0 : 1;
}

int run(const Command& command, int argc, char** argv) {
  Common common;
  CommandLine line(command.summary, std::string("tutti timeline ") + command.name);
  add_common(line, common);
  int exit_code = 0;
  const auto timeline = command.make(line, common, argc, argv, exit_code);
  return timeline ? show(*timeline, common) : exit_code;
}

/// A generator without flags of its own: its example, for so many ranks.
int run_example(const TimelineGenerator& generator, int argc, char** argv) {
  Common common;
  CommandLine line(generator.summary, std::string("tutti timeline ") + generator.name);
  line.add({"--ranks", "N", "ranks", "4"}, common.ranks, 1, 1024);
  line.add({"--svg", "FILE", "write a picture"}, common.svg);
  line.add({"--perfetto", "FILE", "write a trace for ui.perfetto.dev"}, common.perfetto);
  int exit_code = 0;
  if (!parsed(line, argc, argv, exit_code)) return exit_code;
  return show(generator.example(common.ranks), common);
}

/// The exit code; nothing where the name is nobody's.
std::optional<int> run_named(std::string_view name, int argc, char** argv) {
  if (const Command* command = command_of(name)) return run(*command, argc, argv);
  for (const TimelineGenerator& generator : timeline_generators()) {
    if (name == generator.name) return run_example(generator, argc, argv);
  }
  return std::nullopt;
}

}  // namespace

int timeline_main(int argc, char** argv) {
  const std::string_view wanted = argc > 1 ? argv[1] : "";
  if (asks_for_help(wanted)) return print_usage(stdout);
  if (wanted.empty()) return print_usage(stderr);
  try {
    const std::optional<int> code = run_named(wanted, argc - 1, argv + 1);
    return code ? *code : print_usage(stderr);
  } catch (const Error& error) {
    std::fprintf(stderr, "tutti timeline: %s\n", error.what());
    return 2;
  } catch (const perf::PerfError& error) {
    std::fprintf(stderr, "tutti timeline: %s\n", error.what());
    return error.exit_code;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr,
                 "tutti timeline: memory ran out; simulate fewer ranks, layers or micro-batches\n");
    return 2;
  }
}

}  // namespace tutti::cli
