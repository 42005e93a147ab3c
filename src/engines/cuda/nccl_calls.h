// Calls of ours in NCCL's words: which of them NCCL has, and what puts one into a stream.
//
// Collectives that NCCL has no function for, or not in all versions, are groups of its sends and
// receives; those with a count for each rank, which all ranks know, of its broadcasts or reduces.
// Types that are only moved are bytes. Threads: pure. Errors: kUnsupported, with the reason; of
// calls NCCL's results.
#pragma once

#include "src/base/status.h"
#include "src/drivers/nccl/library.h"
#include "src/exec/stream_rank.h"

namespace tutti::engines::cuda {

/// The powers of the library on the devices of all ranks.
struct NcclPowers {
  int types = 0;             // whose number is below
  bool folds_bytes = false;  // floats of 8 bits are reduced
};

/// OK, or why it runs no such call.
Status object_to_nccl(const diagnosis::DescribedCall& call, const NcclPowers& powers);
/// Puts it into the call's stream, captured or not. The device is current.
drivers::nccl::NcclResult put_by_nccl(const drivers::nccl::NcclFunctions& functions,
                                      const exec::StreamedCall& call, int rank, int ranks,
                                      drivers::nccl::NcclComm comm);

}  // namespace tutti::engines::cuda
