#include "perf/collectives/launched.h"

#include <string>

#include "perf/collectives/error.h"
#include "perf/collectives/group_board.h"

namespace tutti::perf {

std::optional<bootstrap::Launch> this_launch() {
  const Result<bootstrap::Launch> launch = bootstrap::find_launch(process_environment());
  if (launch.ok()) return launch.value().ranks > 1 ? std::optional(launch.value()) : std::nullopt;
  if (launch.status().code() == Code::kUnsupported) return std::nullopt;
  throw PerfError(std::string(launch.status().message()), kExitUsage);
}

int run_launched(const RankBody& body) {
  tuttiComm_t comm = nullptr;
  if (tuttiCommInitLaunched(&comm, nullptr) != tuttiSuccess) {
    throw PerfError(std::string("tuttiCommInitLaunched: ") + tuttiGetLastError(nullptr),
                    kExitLibrary);
  }
  GroupBoard board(comm);
  const int result = run_rank({board.rank(), board.ranks(), board}, body);
  if (!board.failed()) tuttiCommDestroy(comm);
  return result;
}

}  // namespace tutti::perf
