#include "tools/cli/explain.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "perf/collectives/communicator.h"
#include "perf/collectives/crew.h"
#include "perf/collectives/error.h"
#include "perf/collectives/launched.h"
#include "perf/collectives/options.h"
#include "src/operation/kinds.h"
#include "tools/cli/arguments.h"
#include "tools/cli/sim.h"
#include "tutti/tutti.h"

namespace tutti::cli {
namespace {

using namespace tutti::perf;

constexpr const char* kUsage =
    "usage: tutti explain CALL [--ranks N] [-b -e -f -d as tutti perf]\n"
    "       tutti explain COLLECTIVE --topology FILE [options as tutti sim]\n"
    "A CALL is a collective, or send, recv, put, get, signal or wait_signal, then with the next "
    "rank.\n"
    "Under a launcher it explains the job's ranks, of which rank 0 speaks. Of a cluster that is "
    "not\n"
    "here it says what selection predicts of each algorithm, and what the simulator does.\n";

/// The question is about a cluster that is not here.
bool names_topology(int argc, char** argv) {
  return std::any_of(argv, argv + argc, [](std::string_view word) {
    return word.substr(0, word.find('=')) == "--topology";
  });
}

/// Each rank asks this: about a collective, with the shapes of tutti perf, or a call of two ranks.
struct Asked {
  const PerfOptions& options;
  std::string call;  // of two ranks; else empty
};

std::string answer(const Communicator& communicator, const Asked& asked, int ranks, size_t bytes,
                   tuttiDataType_t type) {
  const PerfOptions& options = asked.options;
  const size_t elements = bytes / data_type(type).bytes;
  const size_t count =
      asked.call.empty() ? shape_of(options.collective, elements, {0, ranks, 0}).count : elements;
  const char* const name =
      asked.call.empty() ? traits_of(options.collective).name : asked.call.c_str();
  std::printf("# %s, %d ranks, %zu bytes (count %zu %s)\n", name, ranks, bytes, count,
              data_type(type).name);
  if (!asked.call.empty()) return explanation(communicator, name, count, type);
  return explanation(communicator, {options.collective, count, type, options.ops[0], 0, 0, ranks});
}

/// Every rank takes part in the group, since what is best depends on its links; rank 0 speaks.
int explain_on_rank(const RankContext& context, const Asked& asked) {
  const PerfOptions& options = asked.options;
  const Communicator communicator(context, options.communicator);
  for (const tuttiDataType_t type : options.types) {
    for (const size_t bytes : options.byte_sizes()) {
      if (context.rank != 0) continue;
      std::printf("%s\n", answer(communicator, asked, context.ranks, bytes, type).c_str());
    }
  }
  context.board.barrier();  // the others stay until rank 0 has spoken
  return 0;
}

}  // namespace

int explain_main(int argc, char** argv) {
  const std::string_view wanted = argc > 1 ? argv[1] : "";
  if (asks_for_help(wanted)) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  const CollectiveTraits* traits = find_collective(wanted);
  const std::vector<std::string> names = operation::names_of_calls();
  const bool is_of_two =
      traits == nullptr && std::find(names.begin(), names.end(), wanted) != names.end();
  // Its options are those of any call of pairs.
  if (is_of_two) traits = find_collective("sendrecv");
  if (traits == nullptr) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  if (!is_of_two && traits->has(Trait::kOfPairs)) {
    std::fprintf(stderr, "tutti explain: %s is made of sends and receives: nothing is chosen\n",
                 traits->name);
    return 2;
  }
  if (!is_of_two && names_topology(argc, argv)) {
    std::vector<char*> words(argv, argv + argc);
    std::string flag = "--candidates";
    words.push_back(flag.data());
    return sim_main(static_cast<int>(words.size()), words.data());
  }
  try {
    const std::optional<bootstrap::Launch> launch = this_launch();
    const std::vector<std::string> arguments = arguments_of(argc - 1, argv + 1, launch);
    std::vector<const char*> words;
    for (const std::string& argument : arguments) words.push_back(argument.c_str());
    int exit_code = 0;
    const auto options =
        parse_options(*traits, static_cast<int>(words.size()), words.data(), &exit_code);
    if (!options) return exit_code;
    const Asked asked{*options, is_of_two ? std::string(wanted) : ""};
    return run_ranks(options->crew, launch,
                     [&](const RankContext& context) { return explain_on_rank(context, asked); });
  } catch (const PerfError& error) {
    std::fprintf(stderr, "tutti explain: %s\n", error.what());
    return error.exit_code;
  }
}

}  // namespace tutti::cli
