// Are the checks sharp for what only several communicators show? (planted_test.cc has the others.)
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "tests/random/planted.h"

namespace tutti::random_calls {
namespace {

TEST(RandomFaultsOfSeveralAlone, KeysOfASplitAreIgnored) {
  const auto fault = [](Library& library, int) {
    library.split = [](tuttiComm_t comm, int color, int, tuttiComm_t* made,
                       const tuttiConfig_t* config) {
      return tuttiCommSplit(comm, color, 0, made, config);
    };
  };
  expect_found(fault, "a communicator has rank");
}

TEST(RandomFaultsOfSeveralAlone, ColoursOfASplitAreIgnored) {
  const auto fault = [](Library& library, int) {
    library.split = [](tuttiComm_t comm, int color, int key, tuttiComm_t* made,
                       const tuttiConfig_t* config) {
      return tuttiCommSplit(comm, std::min(color, 0), key, made, config);
    };
  };
  expect_found(fault, "a communicator has rank");
}

/// Both live, and the rank has one place in both.
bool are_alike(tuttiComm_t a, tuttiComm_t b) {
  int ranks[2] = {-1, -2}, rank[2] = {-1, -2};
  for (const int i : {0, 1}) {
    tuttiCommCount(i == 0 ? a : b, &ranks[i]);
    tuttiCommUserRank(i == 0 ? a : b, &rank[i]);
  }
  return ranks[0] == ranks[1] && rank[0] == rank[1];
}

// One rank takes the communicator of its call before, where that is no invalid argument.
TEST(RandomFaultsOfSeveralAlone, ACallGoesToAnotherCommunicator) {
  const auto fault = [](Library& library, int rank) {
    if (rank != 1) return;
    const auto before = std::make_shared<tuttiComm_t>(nullptr);
    library.submit = [before](const tuttiCall_t* call, tuttiComm_t comm, tuttiStream_t stream,
                              const tuttiOptions_t* options, tuttiRequest_t* request) {
      const bool fits = call->op <= tuttiAvg && are_alike(*before, comm);
      const tuttiComm_t other = fits ? *before : comm;
      *before = comm;
      return tuttiSubmit(call, other, stream, options, request);
    };
  };
  expect_different_calls(fault);
}

/// Where the last call that may be in flight expects its result.
struct Output {
  tuttiComm_t comm = nullptr;
  void* memory = nullptr;
  uint64_t bytes = 0;
};

// 0 where counts differ.
Output output_of(const tuttiCall_t& call, tuttiComm_t comm) {
  int ranks = 1;
  if (call.collective == tuttiCollAllGather || call.collective == tuttiCollGather ||
      call.collective == tuttiCollAllToAll) {
    tuttiCommCount(comm, &ranks);
  }
  const bool counts = call.collective >= tuttiCollAllGatherV;
  const uint64_t elements = counts ? 0 : call.count * static_cast<uint64_t>(ranks);
  return {comm, call.recv, elements * reference::size_of(call.type)};
}

// A result that fits goes to where the call before it, on another communicator, expects its own.
TEST(RandomFaultsOfSeveralAlone, AResultLandsInABufferOfAnotherCommunicator) {
  const auto fault = [](Library& library, int) {
    const auto before = std::make_shared<Output>();
    library.submit = [before](const tuttiCall_t* call, tuttiComm_t comm, tuttiStream_t stream,
                              const tuttiOptions_t* options, tuttiRequest_t* request) {
      tuttiCall_t changed = *call;
      const Output own = output_of(*call, comm);
      const bool in_flight = stream.kind == tuttiStreamHost && before->memory != nullptr;
      if (in_flight && before->comm != comm && own.memory != nullptr && own.bytes > 0 &&
          own.bytes <= before->bytes) {
        changed.recv = before->memory;
      }
      *before = own;
      return tuttiSubmit(&changed, comm, stream, options, request);
    };
    const auto forget = [before] { before->memory = nullptr; };
    library.request_wait = [forget](tuttiRequest_t request) {
      forget();
      return tuttiRequestWait(request);
    };
    library.request_test = [forget](tuttiRequest_t request, int* done) {
      forget();
      return tuttiRequestTest(request, done);
    };
  };
  expect_found(fault, "wrong result");
}

// One rank tells them all to the same one.
TEST(RandomFaultsOfSeveralAlone, OptionsGoToAnotherCommunicator) {
  const auto fault = [](Library& library, int rank) {
    if (rank != 1) return;
    const auto first = std::make_shared<tuttiComm_t>(nullptr);
    library.set_options = [first](tuttiComm_t comm, const tuttiOptions_t* options) {
      int ranks = 0;
      if (tuttiCommCount(*first, &ranks) != tuttiSuccess) *first = comm;
      return tuttiCommSetOptions(*first, options);
    };
  };
  expect_different_calls(fault);
}

// Ranks name the communicators of a group in different orders, and would wait for each other.
TEST(RandomFaultsOfSeveralAlone, CallsOfAGroupRunOneAfterTheOther) {
  const auto fault = [](Library& library, int) {
    library.group_start = [] { return tuttiSuccess; };
    library.group_end = [] { return tuttiSuccess; };
  };
  expect_different_calls(fault);
}

}  // namespace
}  // namespace tutti::random_calls
