// How the examples get their ranks: from a launcher (torchrun, mpirun, srun), or, with --ranks N,
// as N processes of their own.
#pragma once

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tutti/tutti.h"

namespace examples {

inline void expect(tuttiResult_t result, const char* call) {
  if (result == tuttiSuccess) return;
  throw std::runtime_error(std::string(call) + ": " + tuttiGetLastError(nullptr));
}

/// One rank's life: its communicator is made by `make` and ends behind the body.
inline int run_rank(const std::function<tuttiComm_t()>& make,
                    const std::function<void(tuttiComm_t)>& body) {
  try {
    const tuttiComm_t comm = make();
    body(comm);
    expect(tuttiCommDestroy(comm), "tuttiCommDestroy");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

/// Where the forked processes find the id that the first of them makes.
struct Meeting {
  tuttiUniqueId id;
  std::atomic<int> state;  // 1: the id is there, -1: there will be none
};

inline tuttiComm_t meet(Meeting& meeting, int rank, int ranks) {
  if (rank == 0) {
    const tuttiResult_t made = tuttiGetUniqueId(&meeting.id);
    meeting.state = made == tuttiSuccess ? 1 : -1;
    expect(made, "tuttiGetUniqueId");
  }
  while (meeting.state == 0) std::this_thread::yield();
  if (meeting.state < 0) throw std::runtime_error("rank 0 has no id");
  tuttiComm_t comm = nullptr;
  expect(tuttiCommInitRank(&comm, ranks, meeting.id, rank), "tuttiCommInitRank");
  return comm;
}

/// Returns the exit status: 0 if every rank ended well, but for those that are meant to be lost.
inline int run_forked(int ranks, const std::function<void(tuttiComm_t)>& body,
                      const std::set<int>& lost = {}) {
  void* shared =
      mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return std::perror("mmap"), 1;
  auto* meeting = new (shared) Meeting{};
  std::vector<pid_t> children;
  // Before the first call of the library: threads do not survive a fork.
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = fork();
    if (child < 0) return std::perror("fork"), 1;
    if (child == 0) {
      const int status = run_rank([&] { return meet(*meeting, rank, ranks); }, body);
      std::fflush(nullptr);
      _exit(status);
    }
    children.push_back(child);
  }
  int failed = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    int status = 0;
    waitpid(children[static_cast<size_t>(rank)], &status, 0);
    if (!lost.contains(rank)) failed |= status;
  }
  return failed != 0;
}

/// As so many processes of its own, or, of 0 ranks, as the rank that a launcher says.
inline int run_ranks(int ranks, const std::function<void(tuttiComm_t)>& body) {
  if (ranks == 1 || ranks == 2 || ranks == 4 || ranks == 8) return run_forked(ranks, body);
  if (ranks != 0) return std::fprintf(stderr, "--ranks %d: give 1, 2, 4 or 8\n", ranks), 2;
  const auto launched = [] {
    tuttiComm_t comm = nullptr;
    expect(tuttiCommInitLaunched(&comm, nullptr), "tuttiCommInitLaunched");
    return comm;
  };
  return run_rank(launched, body);
}

inline int run_example(int argc, char** argv, const std::function<void(tuttiComm_t)>& body) {
  if (argc == 3 && std::string(argv[1]) == "--ranks") {
    const int ranks = std::atoi(argv[2]);
    return run_ranks(ranks == 0 ? -1 : ranks, body);
  }
  if (argc == 1) return run_ranks(0, body);
  std::fprintf(stderr, "usage: %s [--ranks N]   (without it: under a launcher)\n", argv[0]);
  return 2;
}

}  // namespace examples
