// One rank of a launched job: makes a communicator, then two in one group, reduces over each and
// says how the ranks met. An argument is a factor of what each rank brings, so that sums tell jobs
// apart. A second one is the path of a file: the process lives until it is there.
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>

#include "include/tutti/tutti.h"

namespace {

int fail(const char* what, tuttiComm_t comm) {
  std::fprintf(stderr, "%s: %s\n", what, tuttiGetLastError(comm));
  return 1;
}

std::string origin(tuttiComm_t comm) {
  char text[4096];
  if (tuttiExplain(comm, "all_reduce", 1, tuttiInt32, text, sizeof text, nullptr) != tuttiSuccess) {
    return "?";
  }
  const std::string explained = text;
  return explained.substr(0, explained.find('\n'));
}

int use(tuttiComm_t comm, int factor) {
  int ranks = 0, rank = 0;
  tuttiCommCount(comm, &ranks);
  tuttiCommUserRank(comm, &rank);
  int32_t sum = factor * (rank + 1);
  if (tuttiAllReduce(&sum, &sum, 1, tuttiInt32, tuttiSum, comm, tuttiBlocking()) != tuttiSuccess) {
    return fail("all_reduce", comm);
  }
  std::printf("sum %d; %s\n", sum, origin(comm).c_str());
  std::fflush(stdout);
  return tuttiCommDestroy(comm) == tuttiSuccess ? 0 : fail("destroy", comm);
}

int run_round(std::span<tuttiComm_t> comms, int factor) {
  tuttiGroupStart();
  for (tuttiComm_t& comm : comms) {
    if (tuttiCommInitLaunched(&comm, nullptr) != tuttiSuccess) return fail("init", nullptr);
  }
  if (tuttiGroupEnd() != tuttiSuccess) return fail("init", nullptr);
  for (const tuttiComm_t comm : comms) {
    if (const int result = use(comm, factor); result != 0) return result;
  }
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  const int factor = count > 1 ? std::atoi(arguments[1]) : 1;
  std::array<tuttiComm_t, 3> comms{};
  int result = run_round(std::span(comms).first(1), factor);
  if (result == 0) result = run_round(std::span(comms).subspan(1), factor);
  while (result == 0 && count > 2 && access(arguments[2], F_OK) != 0) usleep(10'000);
  return result;
}
