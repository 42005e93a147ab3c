// Level calls (plan::LevelCall) in NCCL's words: a call of the whole where blocks lie in order,
// else a group of reduces, broadcasts and messages, which NCCL runs as one kernel.
//
// Threads: pure. Errors: NCCL's results.
#pragma once

#include "src/drivers/nccl/library.h"
#include "src/engines/cuda/level_library.h"

namespace tutti::engines::cuda {

/// A communicator of a host's ranks, as one of them has it.
struct NcclRank {
  drivers::nccl::NcclComm comm = nullptr;
  int rank = 0, ranks = 1;
};

drivers::nccl::NcclResult put_level_by_nccl(const drivers::nccl::NcclFunctions& functions,
                                            const LevelWork& work, const NcclRank& here,
                                            void* stream);

}  // namespace tutti::engines::cuda
