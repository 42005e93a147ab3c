// A rank that leaves a call with an error may free its buffers at once, though peers were reading
// and writing there: without the guard this test ends with SIGSEGV or a report of the sanitizer.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <chrono>
#include <thread>

#include "tests/api/crowd.h"
#include "tests/support/dice.h"

namespace tutti::api_test {
namespace {

constexpr int kRanks = 3;
constexpr size_t kCount = 1 << 20;
constexpr int kRounds = 5;

/// Memory that is gone from the address space once it is freed.
class Pages {
 public:
  explicit Pages(size_t bytes) : bytes_(bytes) {
    memory_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(memory_, MAP_FAILED);
  }
  ~Pages() { munmap(memory_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  void* data() const { return memory_; }

 private:
  size_t bytes_;
  void* memory_;
};

// Calls until one fails, with buffers that do not outlive their call.
void call_until_error(tuttiComm_t comm, bool gather) {
  for (tuttiResult_t result = tuttiSuccess; result == tuttiSuccess;) {
    const Pages send(kCount * sizeof(float)), recv(kRanks * kCount * sizeof(float));
    result = gather ? tuttiAllGather(send.data(), recv.data(), kCount, tuttiFloat32, comm,
                                     tuttiBlocking())
                    : tuttiAllReduce(send.data(), recv.data(), kCount, tuttiFloat32, tuttiSum, comm,
                                     tuttiBlocking());
  }
}

TEST(Leave, BuffersAreFreeOnceTheCallHasFailed) {
  testing_support::Dice dice(20261121);
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t limit_ns = dice.log_uniform(3'000'000);
    run_ranks(kRanks, [&](tuttiComm_t& comm, int rank) {
      tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
      options.timeout_ns = rank == 0 ? limit_ns : 60'000'000'000;
      EXPECT_OK(tuttiCommSetOptions(comm, &options), comm);
      call_until_error(comm, round % 2 == 0);
    });
  }
}

}  // namespace
}  // namespace tutti::api_test
