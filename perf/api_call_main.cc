// Many small calls between two threads: what to run under callgrind to count the instructions of
// one from the API's entry to its return (docs/measurements has the command and the breakdown).
//
//   api_call [CALLS [sendrecv]]      without a second word, all_reduces
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "include/tutti/tutti.h"

namespace {

void check(tuttiResult_t result) {
  if (result == tuttiSuccess) return;
  std::fprintf(stderr, "%s\n", tuttiGetLastError(nullptr));
  std::exit(1);
}

struct Pair {
  float first = 0, second = 0;
  bool operator==(const Pair&) const = default;
};

void all_reduce(const Pair& send, Pair& recv, tuttiComm_t comm) {
  check(tuttiAllReduce(&send, &recv, 2, tuttiFloat32, tuttiSum, comm, tuttiBlocking()));
}

void exchange(const Pair& send, Pair& recv, tuttiComm_t comm, int peer) {
  check(tuttiGroupStart());
  check(tuttiSend(&send, 2, tuttiFloat32, peer, comm, tuttiBlocking()));
  check(tuttiRecv(&recv, 2, tuttiFloat32, peer, comm, tuttiBlocking()));
  check(tuttiGroupEnd());
}

void run_rank(int rank, const tuttiUniqueId& id, int calls, bool exchanges) {
  tuttiComm_t comm = nullptr;
  check(tuttiCommInitRank(&comm, 2, id, rank));
  const Pair send{1, 2};
  Pair recv;
  for (int i = 0; i < calls; ++i) {
    if (exchanges) {
      exchange(send, recv, comm, 1 - rank);
    } else {
      all_reduce(send, recv, comm);
    }
  }
  if (recv != (exchanges ? send : Pair{2, 4})) std::exit(2);
  check(tuttiCommDestroy(comm));
}

}  // namespace

int main(int argc, char** argv) {
  const int calls = argc > 1 ? std::atoi(argv[1]) : 100'000;
  const bool exchanges = argc > 2 && std::string(argv[2]) == "sendrecv";
  tuttiUniqueId id;
  check(tuttiGetUniqueId(&id));
  std::thread other([&] { run_rank(1, id, calls, exchanges); });
  run_rank(0, id, calls, exchanges);
  other.join();
  return 0;
}
