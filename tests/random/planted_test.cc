// Are the checks of scaled sums, handles and one-sided accesses sharp? Each fault here is one that
// the library could have at its API; if no job finds it, the driver proves less than it says.
// (tests/faults has those that lowering could have, planted_several_test.cc those that only several
// communicators show.)
#include <gtest/gtest.h>

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "tests/random/planted.h"
#include "tests/support/team.h"

namespace tutti::random_calls {
namespace {

TEST(RandomFaultsAlone, Control) {
  constexpr uint64_t kJobs = 10;
  for (uint64_t number = 0; number < kJobs; ++number) {
    const testing_support::TeamResult result = run_planted(number, {}, false);
    EXPECT_TRUE(result.ok) << result.report;
  }
}

Fault always(tuttiScalarResidence_t residence) {
  return [=](Library& library, int) {
    library.create_scaled_sum = [=](tuttiRedOp_t* op, void* scalar, tuttiDataType_t type,
                                    tuttiScalarResidence_t, tuttiComm_t comm) {
      return tuttiRedOpCreatePreMulSum(op, scalar, type, residence, comm);
    };
  };
}
TEST(RandomFaultsAlone, AnImmediateScalarIsReadLate) {
  expect_found(always(tuttiScalarDevice), "wrong result");
}
TEST(RandomFaultsAlone, AScalarOnTheDeviceIsReadEarly) {
  expect_found(always(tuttiScalarHostImmediate), "wrong result");
}

TEST(RandomFaultsAlone, OptionsOfACallAreForgotten) {
  const auto fault = [](Library& library, int rank) {
    if (rank != 0) return;
    library.submit = [](const tuttiCall_t* call, tuttiComm_t comm, tuttiStream_t stream,
                        const tuttiOptions_t*, tuttiRequest_t* request) {
      return tuttiSubmit(call, comm, stream, nullptr, request);
    };
  };
  expect_different_calls(fault);
}

TEST(RandomFaultsAlone, AHandleIsDoneEarly) {
  const auto fault = [](Library& library, int) {
    library.request_test = [](tuttiRequest_t, int* done) {
      *done = 1;
      return tuttiSuccess;
    };
  };
  expect_found(fault, "call ");
}

TEST(RandomFaultsAlone, AWaitDoesNotWait) {
  const auto fault = [](Library& library, int) {
    library.request_wait = [](tuttiRequest_t) { return tuttiSuccess; };
  };
  expect_found(fault, "call ");
}

TEST(RandomFaultsAlone, APutIsOneByteShort) {
  const auto fault = [](Library& library, int) {
    library.put = [](const void* source, size_t bytes, int peer, tuttiWindow_t window,
                     size_t offset, tuttiStream_t stream) {
      return tuttiPut(source, bytes > 0 ? bytes - 1 : 0, peer, window, offset, stream);
    };
  };
  expect_found(fault, "nothing came at byte");
}

TEST(RandomFaultsAlone, APutLandsOneByteOn) {
  const auto fault = [](Library& library, int) {
    library.put_signal = [](const void* source, size_t bytes, int peer, tuttiWindow_t window,
                            size_t offset, uint32_t signal, tuttiStream_t stream) {
      return tuttiPutSignal(source, bytes, peer, window, offset + 1, signal, stream);
    };
  };
  expect_found(fault, "came at byte 0");
}

TEST(RandomFaultsAlone, ASignalOvertakesItsPut) {
  const auto fault = [](Library& library, int) {
    library.put_signal = [](const void* source, size_t bytes, int peer, tuttiWindow_t window,
                            size_t offset, uint32_t signal, tuttiStream_t stream) {
      const tuttiResult_t told = tuttiSignal(peer, window, signal, stream);
      testing_support::sleep_ns(100'000'000);
      return told == tuttiSuccess ? tuttiPut(source, bytes, peer, window, offset, stream) : told;
    };
  };
  expect_found(fault, "nothing came at byte");
}

TEST(RandomFaultsAlone, AGetBringsItsNeighbour) {
  const auto fault = [](Library& library, int) {
    library.get = [](void* target, size_t bytes, int peer, tuttiWindow_t window, size_t offset,
                     tuttiStream_t stream) {
      return tuttiGet(target, bytes, peer, window, bytes > 0 ? offset + 1 : offset, stream);
    };
  };
  expect_found(fault, "wrong at byte");
}

/// Puts that wait in the origin until something must see them.
class LazyPuts {
 public:
  void add(const void* source, size_t bytes, int peer, tuttiWindow_t window, size_t offset) {
    const auto* data = static_cast<const std::byte*>(source);
    waiting_.push_back({{data, data + bytes}, peer, window, offset});
  }
  tuttiResult_t run() {
    tuttiResult_t result = tuttiSuccess;
    for (const Put& put : waiting_) {
      if (result != tuttiSuccess) break;
      result = tuttiPut(put.data.data(), put.data.size(), put.peer, put.window, put.offset,
                        tuttiBlocking());
    }
    run_.splice(run_.end(), waiting_);
    return result;
  }

 private:
  struct Put {
    std::vector<std::byte> data;
    int peer;
    tuttiWindow_t window;
    size_t offset;
  };
  std::list<Put> waiting_;
  std::list<Put> run_;  // in a group they read their data later
};

TEST(RandomFaultsAlone, AGetOfNothingFlushesNothing) {
  const auto fault = [](Library& library, int) {
    const auto lazy = std::make_shared<LazyPuts>();
    library.put = [lazy](const void* source, size_t bytes, int peer, tuttiWindow_t window,
                         size_t offset, tuttiStream_t) {
      lazy->add(source, bytes, peer, window, offset);
      return tuttiSuccess;
    };
    library.signal = [lazy](int peer, tuttiWindow_t window, uint32_t signal, tuttiStream_t stream) {
      const tuttiResult_t done = lazy->run();
      return done == tuttiSuccess ? tuttiSignal(peer, window, signal, stream) : done;
    };
    library.get = [lazy](void* target, size_t bytes, int peer, tuttiWindow_t window, size_t offset,
                         tuttiStream_t stream) {
      if (bytes == 0) return tuttiSuccess;
      const tuttiResult_t done = lazy->run();
      return done == tuttiSuccess ? tuttiGet(target, bytes, peer, window, offset, stream) : done;
    };
  };
  expect_found(fault, "nothing came at byte");
}

}  // namespace
}  // namespace tutti::random_calls
