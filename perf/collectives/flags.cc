#include "perf/collectives/flags.h"

#include <cmath>
#include <initializer_list>
#include <utility>

#include "perf/collectives/error.h"

namespace tutti::perf {
namespace {

constexpr double kMostSeconds = 1e9;

[[noreturn]] void refuse(const std::string& text, const std::string& wanted) {
  throw PerfError("'" + text + "' is not " + wanted, kExitUsage);
}

/// `text` must be one of the words; returns its value.
template <class Value>
Value one_of(const std::string& text, std::initializer_list<std::pair<const char*, Value>> words) {
  std::string all;
  for (const auto& [word, value] : words) {
    if (text == word) return value;
    all += (all.empty()                        ? ""
            : word == (words.end() - 1)->first ? " or "
                                               : ", ") +
           std::string(word);
  }
  refuse(text, all);
}

bool yes(const std::string& text) { return whole_number(text, 0, 1) == 1; }

int count_of_ranks(const std::string& text) {
  return static_cast<int>(whole_number(text, 1, kMaxRanks));
}

void set_in_process(const std::string& text, int& count, Draft& draft) {
  count = count_of_ranks(text);
  draft.in_one_process = true;
}

int root_of(const std::string& text) {
  if (text == "all" || text == "-1") return -1;
  return static_cast<int>(whole_number(text, 0, kMaxRanks - 1));
}

void take_peer(const std::string& peer, Draft& draft) {
  if (peer == "nccl") {
    draft.options.report.beside_nccl = true;
  } else {
    draft.options.versus.peers.push_back(peer);
  }
}

PlantedFault fault_of(const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos) refuse(text, "RANK:ELEMENT");
  return {static_cast<int>(whole_number(text.substr(0, colon), 0, kMaxRanks - 1)),
          whole_number(text.substr(colon + 1))};
}

void set_blocking(const std::string& text, Draft& draft) {
  const size_t mode = whole_number(text, 0, 3);
  draft.options.stepped = draft.options.stepped || mode == 3;
  draft.options.blocking = mode == 3 ? Blocking::kNo : static_cast<Blocking>(mode);
}

void set_device(const std::string& text, Draft& draft) {
  const bool on_device = one_of<bool>(text, {{"none", false}, {"cuda", true}});
  draft.options.on_device = draft.options.report.device_time = on_device;
}

void set_engine(const std::string& text, Draft& draft) {
  draft.options.communicator.engine = one_of<tuttiEngine_t>(text, {{"auto", tuttiEngineAuto},
                                                                   {"host", tuttiEngineHost},
                                                                   {"copy_engine", tuttiEngineCopy},
                                                                   {"kernel", tuttiEngineKernel},
                                                                   {"nccl", tuttiEngineNccl}});
}

using enum FlagOrigin;
using enum FlagUse;
using Text = const std::string&;

constexpr FlagGroup kSizes = {"Sizes and data", kAlways};
constexpr FlagGroup kLoop = {"The timed loop", kWithoutVs};  // --vs has a loop of its own,
constexpr FlagGroup kEveryLoop = {kLoop.heading, kAlways};
constexpr FlagGroup kRanks = {"Ranks and buffers", kAlways};
constexpr FlagGroup kHosts = {"Several hosts", kAlways};
constexpr FlagGroup kLauncher = {kHosts.heading, kWithHosts};
constexpr FlagGroup kReport = {"The report", kWithoutVs};  // and tables of its own
constexpr FlagGroup kPeers = {"Comparison with MPI", kAlways};
constexpr FlagGroup kRounds = {kPeers.heading, kWithAnyVs};
constexpr FlagGroup kMpi = {kPeers.heading, kWithVs};
constexpr FlagGroup kWithout = {"Accepted without effect", kNever};
constexpr FlagGroup kBetweenParts = {"", kAlways};

constexpr Flag kFlags[] = {
    // ---- sizes and data
    {"-b,--minbytes", "SIZE", "32M", "smallest size; K, M, G are powers of 1024", kSizes,
     kNcclTests, [](Text text, Draft& d) { d.min_bytes = byte_count(text); }},
    {"-e,--maxbytes", "SIZE", "32M", "largest size; without -b or -e, the other one", kSizes,
     kNcclTests, [](Text text, Draft& d) { d.max_bytes = byte_count(text); }},
    {"-i,--stepbytes", "SIZE", "1M", "added from size to size", kSizes, kNcclTests,
     [](Text text, Draft& d) { d.options.sizes.step_bytes = byte_count(text); }},
    {"-f,--stepfactor", "X", "1", "above 1: sizes are multiplied by it, and -i is not used", kSizes,
     kNcclTests, [](Text text, Draft& d) { d.options.sizes.factor = real_number(text); }},
    {"--bytes-list", "SIZE,...", "", "exactly these sizes: 8,1K,4M; not with -b or -e", kSizes,
     kOwn, [](Text text, Draft& d) { d.options.sizes.list.push_back(byte_count(text)); }},
    {"-o,--op", "NAME", "sum", "sum, prod, min, max, avg, band, bor, bxor, mulsum or all", kSizes,
     kNcclTests,
     [](Text text, Draft& d) {
       parse_reduce_ops(text);  // refuses
       d.op = text;
     }},
    {"-d,--datatype", "NAME", "float",
     "int8, uint8, int16, uint16, int32, uint32, int64, uint64, half, float, double, bfloat16, "
     "f8e4m3, f8e5m2, bool or all",
     kSizes, kNcclTests, [](Text text, Draft& d) { d.options.types = parse_data_types(text); }},
    {"-r,--root", "RANK", "0", "the root of a rooted collective; -1 or all: each in turn", kSizes,
     kNcclTests, [](Text text, Draft& d) { d.options.root = root_of(text); }},

    // ---- the timed loop
    {"-n,--iters", "N", "20", "timed iterations; 0: as many as take 2 ms", kLoop, kNcclTests,
     [](Text text, Draft& d) { d.options.iterations = whole_number(text); }},
    {"-w,--warmup_iters", "N", "1",
     "untimed iterations before them, at each size; 0: none before the sweep either", kLoop,
     kNcclTests, [](Text text, Draft& d) { d.options.warmup = whole_number(text); }},
    {"-m,--agg_iters", "N", "1", "calls per iteration, in one group", kLoop, kNcclTests,
     [](Text text, Draft& d) { d.options.aggregate = whole_number(text, 1); }},
    {"-N,--run_cycles", "N", "1", "repetitions of the sweep; 0: for ever", kLoop, kNcclTests,
     [](Text text, Draft& d) { d.options.cycles = whole_number(text); }},
    {"-c,--check", "N", "1", "checked calls after the timed ones; 0: none", kLoop, kNcclTests,
     [](Text text, Draft& d) { d.options.checks = whole_number(text); }},
    {"-a,--average", "0-3", "1",
     "the time is that of 0: rank 0, 1: the mean, 2: the fastest, 3: "
     "the slowest rank",
     kLoop, kNcclTests,
     [](Text text, Draft& d) {
       d.options.average = static_cast<Average>(whole_number(text, 0, 3));
     }},
    {"-z,--blocking", "0-3", "0",
     "1: wait and barrier after every iteration, both timed; 2: wait, timed; 3: as --stepped",
     kLoop, kNcclTests, set_blocking},
    {"--stepped", "", "", "an untimed barrier before every iteration", kLoop, kOwn,
     [](Text, Draft& d) { d.options.stepped = true; }},
    {"--fresh", "", "",
     "as --stepped, and the input's cache lines are written before every barrier, untimed",
     kEveryLoop, kOwn, [](Text, Draft& d) { d.options.stepped = d.options.fresh = true; }},
    {"-T,--timeout", "SECONDS", "0", "a call that takes longer fails; 0: TUTTI_TIMEOUT", kEveryLoop,
     kNcclTests,
     [](Text text, Draft& d) {
       const double seconds = real_number(text, 0, kMostSeconds);
       // Rounded up: 0 would be no limit at all.
       d.options.communicator.timeout_ns = static_cast<uint64_t>(std::ceil(seconds * 1e9));
     }},

    // ---- ranks and buffers
    {"--ranks,--np", "N", "2",
     "processes to fork; 1 with -t or -g. A launcher decides how many instead", kRanks, kOwn,
     [](Text text, Draft& d) { d.processes = count_of_ranks(text); }},
    {"-t,--nthreads", "N", "1", "threads per process", kRanks, kNcclTests,
     [](Text text, Draft& d) { set_in_process(text, d.options.threads, d); }},
    {"-g,--ngpus", "N", "1", "ranks per thread, each as a thread of its own", kRanks, kNcclTests,
     [](Text text, Draft& d) { set_in_process(text, d.options.gpus, d); }},
    {"--algorithm", "NAME", "", "a name of `tutti algorithms`, with lanes: ring:2", kRanks, kOwn,
     [](Text text, Draft& d) { d.options.communicator.algorithm = text; }},
    {"--deterministic", "", "", "only schedules that reduce in the canonical order", kRanks, kOwn,
     [](Text, Draft& d) { d.options.communicator.deterministic = true; }},
    {"--stream", "KIND", "blocking", "blocking (in the calling thread) or host (a queue)", kRanks,
     kOwn,
     [](Text text, Draft& d) {
       d.options.communicator.host_stream =
           one_of<bool>(text, {{"blocking", false}, {"host", true}});
     }},
    {"--device", "KIND", "none",
     "cuda: buffers are memory of CUDA devices, calls are in streams; ranks of a host take turns "
     "at "
     "its devices. Adds a column: the time by the stream's own clock",
     kRanks, kOwn, set_device},
    {"--engine", "NAME", "auto",
     "by what calls on devices run: auto, host, copy_engine, kernel or nccl; one that cannot be "
     "had "
     "is an error",
     kRanks, kOwn, set_engine},
    {"-R,--local_register", "0-2", "0", "1, 2: buffers from tuttiMemAlloc, registered", kRanks,
     kNcclTests, [](Text text, Draft& d) { d.options.registered = whole_number(text, 0, 2) > 0; }},
    {"--registered", "", "", "as -R 1", kRanks, kOwn,
     [](Text, Draft& d) { d.options.registered = true; }},
    {"-u,--unalign", "N", "0", "buffers begin this many elements behind a cache line", kRanks,
     kNcclTests,
     [](Text text, Draft& d) { d.options.unaligned_elements = whole_number(text, 0, 1 << 20); }},

    // ---- several hosts
    {"--hosts", "HOST:N,...", "", "ranks on these hosts, N processes each; without :N, one", kHosts,
     kOwn, [](Text text, Draft& d) { d.options.hosts.hosts.push_back(parse_host(text)); }},
    {"--hostfile", "FILE", "", "the same from a file: HOST slots=N a line, as mpirun has it",
     kHosts, kOwn,
     [](Text text, Draft& d) {
       for (const HostSlots& host : read_hostfile(text)) d.options.hosts.hosts.push_back(host);
     }},
    {"--launcher", "COMMAND", "ssh -o BatchMode=yes -o ConnectTimeout=10 {host}",
     "starts a shell's command line, its last argument, on {host}: docker exec -i {host} sh -c",
     kLauncher, kOwn, [](Text text, Draft& d) { d.options.hosts.launcher = text; }},
    {"--remote-program", "PATH", "",
     "of this program on the hosts, where it is not the same as here", kLauncher, kOwn,
     [](Text text, Draft& d) { d.options.hosts.program = text; }},

    // ---- the report
    {"-J,--output_file,--json", "FILE", "", "write configuration and results there (docs/perf.md)",
     kReport, kNcclTests, [](Text text, Draft& d) { d.options.report.json_file = text; }},
    {"--plot", "FILE", "", "draw the results there (.png, .svg, .pdf); needs python3-matplotlib",
     kReport, kOwn, [](Text text, Draft& d) { d.options.report.plot_file = text; }},
    {"-v,--verbose", "", "", "add columns: the algorithm and the transports", kReport, kOwn,
     [](Text, Draft& d) { d.options.report.verbose = true; }},
    {"--percentiles", "", "", "add columns: p50, p95, p99 and max of the iterations", kReport, kOwn,
     [](Text, Draft& d) { d.options.report.percentiles = true; }},
    {"--predicted", "", "", "add a column: pred, the time that selection expected", kReport, kOwn,
     [](Text, Draft& d) { d.options.report.predicted = true; }},
    {"-I,--per_iter_timing", "0-1", "0",
     "add columns: i_min, i_max, i_p99 and i_cv% of the "
     "iterations",
     kReport, kNcclTests, [](Text text, Draft& d) { d.options.report.per_iteration = yes(text); }},
    {"-K,--per_iter_skip", "N", "0", "leave the first N iterations out of what -I shows", kReport,
     kNcclTests,
     [](Text text, Draft& d) { d.options.report.skipped_samples = whole_number(text); }},
    {"-C,--report_cputime", "0-1", "0", "the time until the calls are queued, in place of the time",
     kReport, kNcclTests, [](Text text, Draft& d) { d.options.report.processor_time = yes(text); }},
    {"-S,--report_timestamps", "0-1", "0", "add a column: when the line was measured", kReport,
     kNcclTests, [](Text text, Draft& d) { d.options.report.timestamps = yes(text); }},
    {"-M,--memory", "0-1", "0", "add a line: resident memory of the largest process", kReport,
     kNcclTests, [](Text text, Draft& d) { d.options.report.memory = yes(text); }},

    // ---- comparison
    {"--vs", "PEER,...", "",
     "interleaved with ompi, ompi-nocma, ompi-ucx, mpich; each with plain and with tuned malloc, "
     "or one as ompi:plain, ompi:tuned; with --device cuda, nccl: in the same processes",
     kPeers, kOwn, take_peer},
    {"--rounds", "N", "9", "rounds", kRounds, kOwn,
     [](Text text, Draft& d) { d.options.versus.rounds = whole_number(text, 1); }},
    {"--round-ms", "MS", "2", "least duration of a round; -n is not used", kMpi, kOwn,
     [](Text text, Draft& d) { d.options.versus.round_ms = real_number(text, 1e-6); }},
    {"--raw", "FILE", "", "write every round there, for `tutti perf compare`", kMpi, kOwn,
     [](Text text, Draft& d) { d.options.versus.raw_file = text; }},
    {"--mpirun", "PROGRAM", "", "in place of mpirun, or of MPICH's mpiexec", kMpi, kOwn,
     [](Text text, Draft& d) { d.options.versus.mpirun = text; }},
    {"--mpi-program", "PROGRAM", "",
     "in place of tutti_perf_mpi, or tutti_perf_mpich, beside this program", kMpi, kOwn,
     [](Text text, Draft& d) { d.options.versus.program = text; }},

    // ---- of nccl-tests, without effect
    {"-p,--parallel_init", "0-1", "0", "ranks always start in parallel", kWithout, kNcclTests,
     nullptr},
    {"-y,--stream_null", "0-1", "0", "no call is in the null stream; see --stream, --device",
     kWithout, kNcclTests, nullptr},
    {"-G,--cudagraph", "N", "0", "calls are not captured into CUDA graphs", kWithout, kNcclTests,
     nullptr},
    {"-x,--cta_policy", "0-2", "", "see --engine", kWithout, kNcclTests, nullptr},
    {"-D,--device_implementation", "N", "0", "there is no device code", kWithout, kNcclTests,
     nullptr},
    {"-V,--device_cta_count", "N", "16", "there is no device code", kWithout, kNcclTests, nullptr},

    // ---- between the parts of the tool
    {"--rounds-file", "FILE", "", "where tutti_perf_mpi writes its rounds", kBetweenParts, kOwn,
     [](Text text, Draft& d) { d.options.versus.rounds_file = text; }},
    {"--configuration", "NAME", "", "what the rounds are called", kBetweenParts, kOwn,
     [](Text text, Draft& d) { d.options.versus.configuration = text; }},
    {"--plant-fault", "RANK:ELEMENT", "", "for tests: spoil this element before it is checked",
     kBetweenParts, kOwn, [](Text text, Draft& d) { d.options.fault = fault_of(text); }},
};

/// "`-b`, `--minbytes`"
std::string names_as_code(std::string_view names) {
  std::string text = "`";
  for (const char letter : names)
    text += letter == ',' ? std::string("`, `") : std::string(1, letter);
  return text + "`";
}

}  // namespace

bool Flag::is_of_hosts() const { return std::string_view(group.heading) == kHosts.heading; }

std::span<const Flag> all_flags() { return kFlags; }

std::string flags_as_markdown() {
  std::string text =
      "# Flags of `tutti perf`\n\nGenerated by `tutti perf flags > docs/perf_flags.md`; a test "
      "compares. Do not edit.\n[perf.md](perf.md) says how to measure with them.\n";
  const char* group = "";
  for (const Flag& flag : kFlags) {
    if (!flag.is_shown()) continue;
    if (std::string_view(flag.group.heading) != group) {
      group = flag.group.heading;
      text += std::string("\n## ") + group +
              "\n\n| Flag | Value | Without it | Meaning | From |\n|---|---|---|---|---|\n";
    }
    text += "| " + names_as_code(flag.names) + " | " + flag.value + " | " + flag.standard + " | " +
            flag.meaning + " | " + (flag.origin == kOwn ? "Tutti" : "nccl-tests") + " |\n";
  }
  return text;
}

}  // namespace tutti::perf
