// The collectives of nccl-tests that are made of sends and receives.
#pragma once

#include "perf/collectives/communicator.h"

namespace tutti::perf {

/// To the next rank, from the one before.
tuttiResult_t enqueue_sendrecv(const Operation& operation, const void* send, void* recv,
                               const Communicator& communicator);

/// An all_gather: in step k a rank exchanges the 2^k blocks it has with the rank whose number
/// differs in bit k. One group per step, so it cannot itself stand in a group. Requires: the number
/// of ranks is a power of two.
tuttiResult_t enqueue_hypercube(const Operation& operation, const void* send, void* recv,
                                const Communicator& communicator);

}  // namespace tutti::perf
