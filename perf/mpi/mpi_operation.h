// One collective of MPI with everything but the buffers.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <vector>

#include "perf/collectives/communicator.h"

namespace tutti::perf {

class MpiOperation {
 public:
  /// Errors: PerfError for a type or operation that MPI does not have.
  explicit MpiOperation(const Operation& operation);

  void run(const void* send, void* recv) const;

 private:
  void run_hypercube(const void* send, std::byte* recv) const;

  Operation operation_;
  int count_;
  MPI_Datatype type_;
  MPI_Op op_;
  // By rank, for uneven calls: counts, and where the blocks begin.
  std::vector<int> send_counts_;
  std::vector<int> send_offsets_;
  std::vector<int> recv_counts_;
  std::vector<int> recv_offsets_;
};

}  // namespace tutti::perf
