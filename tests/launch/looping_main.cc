// One rank of a launched job that calls until something goes wrong: says that it has begun, and
// then when and why a call failed.
//
//   ready
//   failed at NANOSECONDS (of CLOCK_MONOTONIC): MESSAGE
//
// Exit status: 3 a call failed, 2 a result is wrong, 1 it could not begin.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <vector>

#include "include/tutti/tutti.h"

namespace {

enum Exit : int { kNotBegun = 1, kWrong = 2, kFailed = 3 };

int fail(Exit code, tuttiComm_t comm) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  std::printf("failed at %lld%09ld: %s\n", static_cast<long long>(now.tv_sec), now.tv_nsec,
              tuttiGetLastError(comm));
  std::fflush(stdout);
  if (comm != nullptr) tuttiCommAbort(comm);
  return code;
}

}  // namespace

int main() {
  constexpr size_t kSmall = 2, kLarge = 64 * 1024;
  tuttiComm_t comm = nullptr;
  if (tuttiCommInitLaunched(&comm, nullptr) != tuttiSuccess) return fail(kNotBegun, nullptr);
  int ranks = 0;
  tuttiCommCount(comm, &ranks);
  std::vector<int32_t> values(kLarge);
  for (uint64_t turn = 0;; ++turn) {
    const size_t count = turn % 2 == 0 ? kSmall : kLarge;
    std::fill_n(values.begin(), count, 1);
    if (tuttiAllReduce(values.data(), values.data(), count, tuttiInt32, tuttiSum, comm,
                       tuttiBlocking()) != tuttiSuccess) {
      return fail(kFailed, comm);
    }
    for (size_t i = 0; i < count; ++i) {
      if (values[i] != ranks) return kWrong;
    }
    if (turn != 1) continue;
    std::printf("ready\n");
    std::fflush(stdout);
  }
}
