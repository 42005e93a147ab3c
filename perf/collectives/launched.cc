#include "perf/collectives/launched.h"

#include <memory>
#include <string>

#include "perf/collectives/error.h"

namespace tutti::perf {
namespace {

/// The communicator of the launched processes, which has one rank for each.
class Processes {
 public:
  Processes() { check(tuttiCommInitLaunched(&comm_, nullptr), "tuttiCommInitLaunched"); }
  ~Processes() { tuttiCommDestroy(comm_); }
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  /// Collective: an id that process 0 makes.
  tuttiUniqueId make_id(int process) {
    tuttiUniqueId id{};
    if (process == 0) check(tuttiGetUniqueId(&id), "tuttiGetUniqueId");
    check(tuttiBroadcast(&id, &id, sizeof id, tuttiUint8, 0, comm_, tuttiBlocking()),
          "tuttiBroadcast");
    return id;
  }

 private:
  void check(tuttiResult_t result, const char* call) const {
    if (result == tuttiSuccess) return;
    throw PerfError(std::string("the launched processes do not meet: ") + call + ": " +
                        tuttiGetLastError(comm_),
                    kExitLibrary);
  }

  tuttiComm_t comm_ = nullptr;
};

}  // namespace

std::optional<bootstrap::Launch> this_launch() {
  const Result<bootstrap::Launch> launch = bootstrap::find_launch(process_environment());
  if (launch.ok()) return launch.value().ranks > 1 ? std::optional(launch.value()) : std::nullopt;
  if (launch.status().code() == Code::kUnsupported) return std::nullopt;
  throw PerfError(std::string(launch.status().message()), kExitUsage);
}

std::vector<std::string> arguments_of(int argc, char** argv,
                                      const std::optional<bootstrap::Launch>& launch) {
  std::vector<std::string> arguments(argv, argv + argc);
  if (launch) arguments.insert(arguments.end(), {"--ranks", std::to_string(launch->ranks)});
  return arguments;
}

// A launched communicator has one rank per process; a process may have several ranks here. So it
// only hands out the id of the communicator in which all of them are.
int run_launched(const CrewShape& shape, int process, const RankBody& body) {
  const tuttiUniqueId id = Processes().make_id(process);
  const BoardOf board_of = [&](int rank) { return make_group_board(id, rank, shape.ranks()); };
  return run_process(shape, process, board_of, body);
}

int run_ranks(const CrewShape& shape, const std::optional<bootstrap::Launch>& launch,
              const RankBody& body) {
  return launch ? run_launched(shape, launch->rank, body) : run_crew(shape, body);
}

}  // namespace tutti::perf
