// The program that `tutti perf --vs` launches with mpirun: COLLECTIVE [flags] --rounds-file FILE.
#include <mpi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <vector>

#include "perf/collectives/board.h"
#include "perf/collectives/collective.h"
#include "perf/collectives/crew.h"
#include "perf/collectives/options.h"
#include "perf/collectives/rounds.h"
#include "perf/mpi/duel.h"

namespace tutti::perf {
namespace {

/// A board that all ranks of the job have mapped; they run on one host.
std::shared_ptr<Board> share_board(int rank, int ranks) {
  char name[64] = {};
  if (rank == 0) {
    std::snprintf(name, sizeof name, "/tutti-perf-%d", static_cast<int>(getpid()));
    shm_unlink(name);  // what a killed process of this number may have left
  }
  MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
  std::shared_ptr<Board> board = make_shared_board(ranks, name);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) shm_unlink(name);
  return board;
}

/// This process' rank of the duel. Rank 0 writes the rounds.
int run(const PerfOptions& options) {
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const std::shared_ptr<Board> board = share_board(rank, ranks);
  const BoardOf board_of = [&](int) { return board; };
  return run_process({ranks, 1}, rank, board_of, [&](const RankContext& context) {
    const std::vector<Round> rounds = run_duel(context, options);
    if (context.rank == 0) write_rounds(options.versus.rounds_file, rounds);
    return 0;
  });
}

int mpi_main(int argc, char** argv) {
  const CollectiveTraits* traits = argc > 1 ? find_collective(argv[1]) : nullptr;
  if (traits == nullptr) {
    std::fprintf(stderr, "usage: tutti_perf_mpi COLLECTIVE [flags of tutti perf]\n");
    return 2;
  }
  int exit_code = 0;
  auto options = parse_options(*traits, argc - 1, argv + 1, &exit_code);
  if (!options) return exit_code;
  if (options->versus.rounds_file.empty()) options->versus.rounds_file = "/dev/stdout";

  MPI_Init(&argc, &argv);
  const int result = run(*options);
  if (result != 0) MPI_Abort(MPI_COMM_WORLD, result);
  MPI_Finalize();
  return result;
}

}  // namespace
}  // namespace tutti::perf

int main(int argc, char** argv) { return tutti::perf::mpi_main(argc, argv); }
