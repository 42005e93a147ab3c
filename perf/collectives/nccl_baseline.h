// NCCL itself in the processes of Tutti's ranks, on the same buffers and the same stream: what
// `tutti perf --device cuda --vs nccl` times in turns with Tutti.
//
// Owns: NCCL's communicator. Threads: the rank's. Errors: PerfError, on all ranks where one of them
// cannot have it, with the rank and NCCL's words.
#pragma once

#include <cstddef>
#include <string>

#include "perf/collectives/communicator.h"
#include "src/drivers/nccl/library.h"

namespace tutti::perf {

class NcclBaseline {
 public:
  /// Collective. `library`: the setting TUTTI_NCCL. The communicator outlives it.
  NcclBaseline(const RankContext& context, const Subgroup& group, const Communicator& communicator,
               const std::string& library);
  ~NcclBaseline();
  NcclBaseline(const NcclBaseline&) = delete;
  NcclBaseline& operator=(const NcclBaseline&) = delete;

  /// Whether NCCL has such a call, of this type and operation. Equal on all ranks.
  bool has(const Operation& operation, bool in_place) const;
  void enqueue(const Operation& operation, const void* send, void* recv);
  /// Waits for it. NCCL's errors of calls on their way are told here.
  void synchronize();

 private:
  std::string make(const Subgroup& group, const drivers::nccl::NcclId& id);
  void abort();
  void exchange(const Operation& operation, const std::byte* send, std::byte* recv);
  void check(drivers::nccl::NcclResult result, const char* function);
  drivers::nccl::NcclResult settle();

  Board& board_;
  const Communicator& communicator_;
  const Result<drivers::nccl::Nccl>& nccl_;
  drivers::nccl::NcclComm comm_ = nullptr;
};

}  // namespace tutti::perf
