// Ranks as threads of the test's own process, for tests of the API.
//
// Owns:    the communicators of run_ranks.
// Threads: one per rank; the test's thread waits.
// Errors:  a communicator that cannot be made is a failure of the test.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "include/tutti/tutti.h"

namespace tutti::api_test {

/// A rank's work with its communicator, which is destroyed afterwards unless it became null.
using RankBody = std::function<void(tuttiComm_t& comm, int rank)>;
void run_ranks(int ranks, const RankBody& body, const tuttiConfig_t* config = nullptr);

/// For tests of what must not hang: calls of this communicator fail after a while.
void set_deadline(tuttiComm_t comm, uint64_t milliseconds);

/// Polls until the communicator is no longer in progress, but not for ever.
tuttiResult_t settle(tuttiComm_t comm);
/// The result of a call that made or ended the communicator, whether it blocks or not.
tuttiResult_t outcome_of(tuttiResult_t result, tuttiComm_t comm);

/// Aborts one that does not block and is being made, until it is over. The making may be faster
/// than the call, which then has nothing left to end.
void abort_making(tuttiComm_t comm);

/// Until the communicator is, or is no longer, in the hands of another call.
void until_busy(tuttiComm_t comm, bool busy);

/// The sum of `value` over the communicator's ranks.
int sum_over(tuttiComm_t comm, int value);

/// A call by tuttiSubmit() on numbers.
tuttiCall_t call_of(tuttiCollective_t collective, const int* send, int* recv, size_t count);

/// The communicator's last message.
std::string message_of(tuttiComm_t comm);

/// The call returned `wanted` and left a message.
#define EXPECT_REFUSED(call, wanted, comm)           \
  do {                                               \
    EXPECT_EQ((call), (wanted)) << message_of(comm); \
    EXPECT_FALSE(message_of(comm).empty()) << #call; \
  } while (false)

#define EXPECT_OK(call, comm) EXPECT_EQ((call), tuttiSuccess) << message_of(comm)

}  // namespace tutti::api_test
