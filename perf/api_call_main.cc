// Many small all_reduces between two threads: what to run under callgrind to count the instructions
// of one call from the API's entry to its return (docs/measurements has the command and the
// breakdown).
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "include/tutti/tutti.h"

namespace {

void check(tuttiResult_t result) {
  if (result == tuttiSuccess) return;
  std::fprintf(stderr, "%s\n", tuttiGetLastError(nullptr));
  std::exit(1);
}

void run_rank(int rank, const tuttiUniqueId& id, int calls) {
  tuttiComm_t comm = nullptr;
  check(tuttiCommInitRank(&comm, 2, id, rank));
  float send[2] = {1, 2}, recv[2] = {0, 0};
  for (int i = 0; i < calls; ++i) {
    check(tuttiAllReduce(send, recv, 2, tuttiFloat32, tuttiSum, comm, tuttiBlocking()));
  }
  if (recv[0] != 2 || recv[1] != 4) std::exit(2);
  check(tuttiCommDestroy(comm));
}

}  // namespace

int main(int argc, char** argv) {
  const int calls = argc > 1 ? std::atoi(argv[1]) : 100'000;
  tuttiUniqueId id;
  check(tuttiGetUniqueId(&id));
  std::thread other([&] { run_rank(1, id, calls); });
  run_rank(0, id, calls);
  other.join();
  return 0;
}
