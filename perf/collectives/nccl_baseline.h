// NCCL itself in the processes of Tutti's ranks, on the same buffers and the same stream: what
// `tutti perf --device cuda --vs nccl` times in turns with Tutti.
//
// Owns: NCCL's communicator. Threads: the rank's. Errors: PerfError, on all ranks where one of them
// cannot have it, with the rank and NCCL's words.
#pragma once

#include <cstddef>
#include <string>

#include "perf/collectives/baseline.h"
#include "src/drivers/nccl/library.h"

namespace tutti::perf {

class NcclBaseline final : public Baseline {
 public:
  /// Collective. `library`: the setting TUTTI_NCCL. The communicator outlives it.
  NcclBaseline(const RankContext& context, const Subgroup& group, const Communicator& communicator,
               const std::string& library);
  ~NcclBaseline() override;
  NcclBaseline(const NcclBaseline&) = delete;
  NcclBaseline& operator=(const NcclBaseline&) = delete;

  bool has(const Operation& operation, bool in_place) const override;
  void enqueue(const Operation& operation, const void* send, void* recv) override;
  void synchronize() override;

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

/// The one that TUTTI_NCCL names, or that is found. Collective.
std::unique_ptr<Baseline> open_nccl_baseline(const RankContext& context, const Subgroup& group,
                                             const Communicator& communicator);

}  // namespace tutti::perf
