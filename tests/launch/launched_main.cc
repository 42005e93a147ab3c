// One rank of a launched job: makes two communicators in a row, reduces over each and says how the
// ranks met.
#include <cstdint>
#include <cstdio>
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

int run_round() {
  tuttiComm_t comm = nullptr;
  if (tuttiCommInitLaunched(&comm, nullptr) != tuttiSuccess) return fail("init", nullptr);
  int ranks = 0, rank = 0;
  tuttiCommCount(comm, &ranks);
  tuttiCommUserRank(comm, &rank);
  int32_t sum = rank + 1;
  if (tuttiAllReduce(&sum, &sum, 1, tuttiInt32, tuttiSum, comm, tuttiBlocking()) != tuttiSuccess) {
    return fail("all_reduce", comm);
  }
  std::printf("sum %d; %s\n", sum, origin(comm).c_str());
  std::fflush(stdout);
  return tuttiCommDestroy(comm) == tuttiSuccess ? 0 : fail("destroy", comm);
}

}  // namespace

int main() {
  for (int round = 0; round < 2; ++round) {
    if (const int result = run_round(); result != 0) return result;
  }
  return 0;
}
