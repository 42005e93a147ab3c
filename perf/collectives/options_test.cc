#include "perf/collectives/options.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "perf/collectives/error.h"
#include "perf/collectives/flags.h"

namespace tutti::perf {
namespace {

using Sizes = std::vector<size_t>;

std::optional<PerfOptions> parse(std::vector<const char*> flags, const char* name = "all_reduce") {
  flags.insert(flags.begin(), name);
  int exit_code = 0;
  return parse_options(*find_collective(name), static_cast<int>(flags.size()), flags.data(),
                       &exit_code);
}

TEST(Options, TheSweepMultipliesAddsOrIsGiven) {
  EXPECT_EQ(parse({"-b", "8", "-e", "64", "-f", "2"})->byte_sizes(), (Sizes{8, 16, 32, 64}));
  EXPECT_EQ(parse({"-b", "8", "-e", "20", "-i", "6"})->byte_sizes(), (Sizes{8, 14, 20}));
  EXPECT_EQ(parse({"-b", "1", "-e", "3", "-f", "1.1"})->byte_sizes(), (Sizes{1, 2, 3}));
  EXPECT_EQ(parse({"-b", "1K"})->byte_sizes(), Sizes{1024});
  EXPECT_EQ(parse({"--bytes-list", "4M,8"})->byte_sizes(), (Sizes{4 << 20, 8}));
  EXPECT_EQ(parse({"--bytes-list", "4M,8"})->largest_bytes(), size_t{4} << 20);
  EXPECT_EQ(parse({})->byte_sizes(), Sizes{32 << 20});
  EXPECT_EQ(parse({"-b", "8"}, "barrier")->byte_sizes(), Sizes{0});
}

TEST(Options, TheSweepEndsWhereSizesEnd) {
  constexpr size_t kEnd = size_t{1} << 60;
  const char* end = "1073741824G";
  EXPECT_EQ(parse({"-b", "8", "-e", end, "-f", "1e300"})->byte_sizes(), Sizes{8});
  EXPECT_EQ(parse({"-b", end, "-e", end, "-f", "64"})->byte_sizes(), Sizes{kEnd});
  EXPECT_EQ(parse({"-b", "1e18", "-e", end, "-f", "30"})->byte_sizes(), Sizes{1000000000000000000});
  EXPECT_EQ(parse({"-b", "8", "-e", end, "-i", end})->byte_sizes(), Sizes{8});
  EXPECT_EQ(parse({"-b", "0", "-e", end, "-i", end})->byte_sizes(), (Sizes{0, kEnd}));
}

TEST(Options, WrongSizesAreNamedWithWhatIsAllowed) {
  const auto said = [](const std::vector<const char*>& flags) {
    testing::internal::CaptureStderr();
    EXPECT_FALSE(parse(flags));
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_NE(said({"-b", "1K", "-e", "8"}).find("-b 1024 is greater than -e 8"), std::string::npos);
  EXPECT_NE(said({"-b", "1", "-e", "8", "-i", "0"}).find("-i 0"), std::string::npos);
  EXPECT_NE(said({"-b", "0", "-e", "8", "-f", "2"}).find("-b 0"), std::string::npos);
  const std::vector<std::vector<const char*>> endless = {
      {"-b", "1", "-e", "1G", "-i", "1"}, {"-b", "1", "-e", "1G", "-f", "1.0000001"}};
  for (const auto& flags : endless) {
    EXPECT_NE(said(flags).find("more than 100000 sizes"), std::string::npos);
  }
  EXPECT_NE(said({"-T", "1e300"}).find("-T"), std::string::npos);
  EXPECT_EQ(parse({"-T", "1e-12"})->communicator.timeout_ns, 1u) << "0 would be no limit";
}

TEST(Options, AListOfSizesHasItsOwnEnds) {
  const auto options = parse({"--bytes-list", "4M,8,1K"});
  ASSERT_TRUE(options);
  EXPECT_EQ(options->sizes.min_bytes, 8u);
  EXPECT_EQ(options->sizes.max_bytes, size_t{4} << 20);
  EXPECT_FALSE(parse({"--bytes-list", "8", "-b", "8"}));
  EXPECT_FALSE(parse({"--bytes-list", "8", "-e", "8"}));
}

TEST(Options, NonsenseIsRefused) {
  EXPECT_FALSE(parse({"-b", "8", "-e", "4"}));
  EXPECT_FALSE(parse({"-b", "0", "-e", "4", "-f", "2"}));
  EXPECT_FALSE(parse({"-b", "1", "-e", "4", "-i", "0"}));
  EXPECT_FALSE(parse({"-d", "complex"}));
  EXPECT_FALSE(parse({"--ranks", "0"}));
  EXPECT_FALSE(parse({"-r", "2"}));
  EXPECT_FALSE(parse({"--stream", "cuda"}));
  EXPECT_FALSE(parse({"--engine", "copy_engine"})) << "of calls on devices";
  EXPECT_FALSE(parse({"-t", "1000"}));
}

TEST(Options, RanksAreProcessesTimesThreads) {
  EXPECT_EQ(parse({})->crew.processes, 2);
  EXPECT_EQ(parse({"-t", "2", "-g", "3"})->crew.processes, 1);
  EXPECT_EQ(parse({"-g", "1"})->crew.ranks(), 1) << "as in nccl-tests";
  EXPECT_EQ(parse({"-t", "2", "-g", "3"})->crew.ranks(), 6);
  EXPECT_EQ(parse({"--np", "4", "-t", "2"})->crew.ranks(), 8);
  EXPECT_EQ(parse({"-r", "all"})->root, -1);
}

// A value that every flag with this placeholder takes.
std::string example_of(const Flag& flag) {
  static const std::map<std::string, std::string> examples = {{"SIZE", "1K"},
                                                              {"X", "2"},
                                                              {"SIZE,...", "8,1K"},
                                                              {"RANK", "1"},
                                                              {"N", "1"},
                                                              {"0-1", "1"},
                                                              {"0-2", "2"},
                                                              {"0-3", "3"},
                                                              {"SECONDS", "1"},
                                                              {"KIND", "host"},
                                                              {"FILE", "file"},
                                                              {"PEER,...", "ompi"},
                                                              {"MS", "1"},
                                                              {"PROGRAM", "cat"},
                                                              {"RANK:ELEMENT", "1:2"},
                                                              {"HOST:N,...", "node1:2"},
                                                              {"COMMAND", "sh -c"},
                                                              {"PATH", "/tutti"}};
  if (flag.names == std::string("-o,--op")) return "max";
  if (flag.names == std::string("-d,--datatype")) return "half";
  static const std::string hostfile = testing::TempDir() + "hosts." + std::to_string(getpid());
  if (flag.names == std::string("--hostfile")) {
    std::ofstream(hostfile) << "node1 slots=2\n";
    return hostfile;
  }
  if (flag.names == std::string("--device")) return "cuda";
  if (flag.names == std::string("--engine")) return "auto";
  const auto found = examples.find(flag.value);
  return found == examples.end() ? "name" : found->second;
}

std::vector<std::string> names_of(const Flag& flag) {
  std::vector<std::string> names;
  std::istringstream text(flag.names);
  for (std::string name; std::getline(text, name, ',');) names.push_back(name);
  return names;
}

TEST(Flags, EachIsAcceptedByEveryNameAndChangesTheOptions) {
  for (const Flag& flag : all_flags()) {
    const std::string example = example_of(flag);
    for (const std::string& name : names_of(flag)) {
      SCOPED_TRACE(name + " " + example);
      std::vector<const char*> arguments = {name.c_str()};
      if (!flag.argument().stands_alone()) arguments.push_back(example.c_str());
      // -K is only legal beside -I.
      if (name == "-K" || name == "--per_iter_skip") arguments.insert(arguments.end(), {"-I", "1"});
      const auto options = parse(arguments);
      ASSERT_TRUE(options);
      EXPECT_EQ(options->notes.size(),
                flag.group.use != FlagUse::kAlways && flag.group.use != FlagUse::kWithoutVs);
    }
  }
}

TEST(Flags, NamesAreUniqueAndExplained) {
  std::set<std::string> names;
  for (const Flag& flag : all_flags()) {
    EXPECT_FALSE(std::string(flag.meaning).empty()) << flag.names;
    EXPECT_EQ(flag.apply == nullptr, flag.group.use == FlagUse::kNever) << flag.names;
    for (const std::string& name : names_of(flag)) EXPECT_TRUE(names.insert(name).second) << name;
  }
  // getopt's string of nccl-tests 2.19.6, and its long names.
  for (const char letter : std::string("tgbeifnmwNpIKcodrzyTGCaRxDVJSMu")) {
    EXPECT_TRUE(names.contains({'-', letter})) << letter;
  }
  for (const char* name : {"nthreads",
                           "ngpus",
                           "minbytes",
                           "maxbytes",
                           "stepbytes",
                           "stepfactor",
                           "iters",
                           "agg_iters",
                           "warmup_iters",
                           "run_cycles",
                           "check",
                           "parallel_init",
                           "op",
                           "datatype",
                           "root",
                           "blocking",
                           "stream_null",
                           "timeout",
                           "cudagraph",
                           "report_cputime",
                           "average",
                           "local_register",
                           "cta_policy",
                           "device_implementation",
                           "memory",
                           "unalign",
                           "output_file",
                           "report_timestamps",
                           "per_iter_skip",
                           "per_iter_timing",
                           "device_cta_count"}) {
    EXPECT_TRUE(names.contains(std::string("--") + name)) << name;
  }
}

// As far as flags set them.
std::string text_of(const PerfOptions& o) {
  std::ostringstream text;
  for (const size_t bytes : o.byte_sizes()) text << bytes << " ";
  const ReportOptions& r = o.report;
  const CommunicatorOptions& c = o.communicator;
  text << o.sizes.step_bytes << " " << o.sizes.factor << " " << o.types[0] << " " << o.ops[0] << " "
       << o.root << " " << o.iterations << " " << o.warmup << " " << o.aggregate << " " << o.cycles
       << " " << o.checks << " " << static_cast<int>(o.average) << " "
       << static_cast<int>(o.blocking) << o.stepped << o.fresh << " " << o.crew.ranks() << " "
       << c.algorithm << c.deterministic << c.host_stream << " " << c.timeout_ns << " " << c.engine
       << o.on_device << o.registered << " " << o.unaligned_elements << r.percentiles
       << r.per_iteration << " " << r.skipped_samples << r.processor_time << r.device_time
       << r.predicted << r.timestamps << r.memory << r.verbose << " " << o.versus.rounds << " "
       << o.versus.round_ms << " " << o.hosts.launcher;
  return text.str();
}

TEST(Flags, TheTableSaysWhatHappensWithoutThem) {
  const std::string without = text_of(*parse({}));
  for (const Flag& flag : all_flags()) {
    const std::string name = names_of(flag)[0];
    // One thread means one process.
    const bool in_process = name == "-t" || name == "-g";
    if (*flag.standard == '\0' || flag.apply == nullptr) continue;
    const auto options = in_process ? parse({name.c_str(), flag.standard, "--ranks", "2"})
                                    : parse({name.c_str(), flag.standard});
    ASSERT_TRUE(options) << name;
    EXPECT_EQ(text_of(*options), without) << name;
  }
}

TEST(Flags, SayWhatTheySay) {
  const auto options =
      parse({"-n", "5",  "-w", "2",  "-m",  "3",  "-N", "4",  "-c", "6",        "-a",
             "3",  "-z", "2",  "-T", "1.5", "-R", "1",  "-u", "3",  "-I",       "1",
             "-K", "2",  "-C", "1",  "-S",  "1",  "-M", "1",  "-J", "out.json", "-v"});
  ASSERT_TRUE(options);
  EXPECT_EQ(options->iterations, 5u);
  EXPECT_EQ(options->warmup, 2u);
  EXPECT_EQ(options->aggregate, 3u);
  EXPECT_EQ(options->cycles, 4u);
  EXPECT_EQ(options->checks, 6u);
  EXPECT_EQ(options->average, Average::kMax);
  EXPECT_EQ(options->blocking, Blocking::kWait);
  EXPECT_EQ(options->communicator.timeout_ns, 1'500'000'000u);
  EXPECT_TRUE(options->registered);
  EXPECT_EQ(options->unaligned_elements, 3u);
  EXPECT_EQ(options->report.skipped_samples, 2u);
  EXPECT_TRUE(options->report.samples());
  EXPECT_TRUE(options->report.processor_time && options->report.timestamps);
  EXPECT_TRUE(options->report.memory && options->report.verbose);
  EXPECT_EQ(options->report.json_file, "out.json");
}

TEST(Flags, BlockingThreeIsStepped) {
  EXPECT_TRUE(parse({"-z", "3"})->stepped);
  EXPECT_EQ(parse({"-z", "3"})->blocking, Blocking::kNo);
  EXPECT_EQ(parse({"-z", "1"})->blocking, Blocking::kWaitAndBarrier);
  EXPECT_FALSE(parse({"-z", "1"})->stepped);
  EXPECT_FALSE(parse({"--stepped"})->fresh);
  EXPECT_TRUE(parse({"--fresh"})->fresh && parse({"--fresh"})->stepped);
}

TEST(Flags, AreWrittenAsGetoptReadsThem) {
  EXPECT_EQ(parse({"-b8", "-e16", "-n0x10"})->iterations, 16u);
  EXPECT_EQ(parse({"--minbytes=8", "--maxbytes", "16"})->sizes.max_bytes, 16u);
  EXPECT_EQ(parse({"-n", "3", "-n", "7"})->iterations, 7u) << "the last one counts";
}

TEST(Flags, WithoutEffectAreNamedUnlessTheyAskForNothing) {
  const auto options = parse({"-G", "4", "-p", "1", "-y", "0"});
  ASSERT_TRUE(options);
  ASSERT_EQ(options->notes.size(), 2u);
  EXPECT_NE((options->notes[0] + options->notes[1]).find("--cudagraph"), std::string::npos);
}

TEST(Flags, OfTheOtherModeAreNamed) {
  const auto versus = parse({"--vs", "ompi", "-n", "5", "-n", "6", "--json", "file", "--rounds",
                             "3", "-T", "1", "--fresh"});
  ASSERT_TRUE(versus);
  ASSERT_EQ(versus->notes.size(), 2u) << "once each";
  EXPECT_EQ(versus->notes[0], "-n,--iters has no effect with --vs");
  EXPECT_NE(versus->notes[1].find("--json has no effect with --vs"), std::string::npos);
  const auto plain = parse({"-n", "5", "--raw", "file"});
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->notes, std::vector<std::string>{"--raw has no effect without --vs"});
}

TEST(Flags, MistakesNameTheFlag) {
  for (const auto& [flag, value] :
       std::vector<std::pair<const char*, const char*>>{{"-a", "4"},
                                                        {"-r", "2"},
                                                        {"-z", "4"},
                                                        {"-n", "-1"},
                                                        {"-m", "0"},
                                                        {"-t", "0"},
                                                        {"-o", "mulmax"},
                                                        {"-I", "2"},
                                                        {"-R", "3"},
                                                        {"-T", "-1"},
                                                        {"--plant-fault", "3"},
                                                        {"-n", "5x"}}) {
    testing::internal::CaptureStderr();
    EXPECT_FALSE(parse({flag, value})) << flag << " " << value;
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find(flag), std::string::npos) << said;
    EXPECT_NE(said.find(value), std::string::npos) << said;
  }
  EXPECT_FALSE(parse({"-K", "1"})) << "-K without -I";
  EXPECT_FALSE(parse({"-I", "1", "-n", "4", "-K", "4"})) << "nothing would be left";
  EXPECT_TRUE(parse({"-I", "1", "-n", "0", "-K", "4"})) << "nobody knows yet how many";
  EXPECT_FALSE(parse({"--ranks", "3"}, "hypercube"));
  EXPECT_FALSE(parse({"-m", "2"}, "hypercube"));
}

TEST(Collectives, AreFoundByEveryNameOfTheirs) {
  for (const char* name : {"all_to_all", "alltoall", "alltoall_perf", "all_to_all_perf"}) {
    ASSERT_NE(find_collective(name), nullptr) << name;
    EXPECT_EQ(find_collective(name)->id, Collective::kAllToAll);
  }
  EXPECT_EQ(find_collective("allreduce")->id, Collective::kAllReduce);
  EXPECT_EQ(find_collective("hypercube_perf")->id, Collective::kHypercube);
  EXPECT_EQ(find_collective("hyperloop"), nullptr);
}

TEST(Collectives, UnevenBlocksMeetOnBothSides) {
  for (const int ranks : {1, 2, 5}) {
    for (const CollectiveTraits& traits : all_collectives()) {
      if (traits.send != Extent::kPerRank || traits.recv != Extent::kPerRank) continue;
      for (int a = 0; a < ranks; ++a) {
        const Shape from = shape_of(traits.id, 1001, {a, ranks, 0});
        EXPECT_LE(from.send_count, 1001u);
        EXPECT_EQ(from.send_count, from.largest_count) << traits.name;
        for (int b = 0; b < ranks; ++b) {
          const Shape to = shape_of(traits.id, 1001, {b, ranks, 0});
          EXPECT_EQ(from.send_blocks[b], to.recv_blocks[a]) << traits.name;
        }
      }
    }
  }
  EXPECT_EQ(shape_of(Collective::kAllToAllV, 60, {2, 4, 0}).send_blocks, (Sizes{20, 30, 0, 10}));
  for (int rank = 0; rank < 4; ++rank) {
    const auto own = static_cast<size_t>(rank) * 10;
    const Shape gathers = shape_of(Collective::kAllGatherV, 60, {rank, 4, 0});
    EXPECT_EQ(gathers.recv_blocks, (Sizes{0, 10, 20, 30}));
    EXPECT_EQ(gathers.send_count, own);
    EXPECT_EQ(gathers.recv_count, 60u);
    const Shape scatters = shape_of(Collective::kReduceScatterV, 60, {rank, 4, 0});
    EXPECT_EQ(scatters.send_blocks, (Sizes{0, 10, 20, 30}));
    EXPECT_EQ(scatters.recv_count, own);
    EXPECT_EQ(scatters.largest_count, 60u);
  }
  EXPECT_EQ(
      in_place_offsets(Collective::kAllGatherV, shape_of(Collective::kAllGatherV, 60, {2, 4, 0}), 2)
          .send,
      10u);
}

TEST(Collectives, BandwidthRulesAreThoseOfNcclTests) {
  EXPECT_DOUBLE_EQ(bus_factor(Collective::kAllReduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::kAllGather, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::kAllToAll, 2), 0.5);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::kBroadcast, 8), 1);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::kReduce, 8), 1);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::kGather, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::kScatter, 2), 0.5);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::kSendRecv, 8), 1);
  EXPECT_DOUBLE_EQ(bus_factor(Collective::kHypercube, 8), 1);

  const auto elements = [](Collective id, size_t buffer, int ranks) {
    return algorithm_elements(id, shape_of(id, buffer, {0, ranks, 0}), ranks);
  };
  EXPECT_DOUBLE_EQ(elements(Collective::kAllReduce, 80, 8), 80);
  EXPECT_DOUBLE_EQ(elements(Collective::kAllGather, 80, 8), 80);
  EXPECT_DOUBLE_EQ(elements(Collective::kHypercube, 80, 8), 70);
}

}  // namespace
}  // namespace tutti::perf
