// Are the random driver's checks sharp? Each fault here is one that lowering could have; if none of
// the calls finds it, the driver proves less than it says.
//
// A fault counts as found by a wrong result, an error, or a call that runs into its deadline.
#include <gtest/gtest.h>

#include <atomic>

#include "tests/faults/planted.h"
#include "tests/faults/thread_group.h"

namespace tutti::faults {
namespace {

constexpr int kCalls = 150;
constexpr uint64_t kSmallRing = 64 << 10;
constexpr uint64_t kHangNs = 3'000'000'000;  // of a call with a fault; others are in no hurry

struct Fault {
  bool (*plant)(plan::Plan&) = nullptr;
  bool on_every_rank = false;
  bool one_process = false;
  uint64_t ring_bytes = 4 << 20;
  int hosts = 1;
};

// Several seeds: a fault may need an unlucky moment, but not many of them.
void expect_found(const Fault& fault) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "many faults are races, and the thread sanitizer sees them";
#endif
  std::atomic<int> planted{0};
  GroupOptions options;
  options.one_process = fault.one_process;
  options.ring_bytes = fault.ring_bytes;
  options.hosts = fault.hosts;
  options.deadline_ns = kHangNs;
  options.tamper = [&](int rank, plan::Plan& plan) {
    if (!fault.on_every_rank && rank != 1) return;
    if (fault.plant(plan)) ++planted;
  };
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const std::string finding = find_fault(options, seed, kCalls);
    if (finding.empty()) continue;
    std::printf("  seed %d: %s\n", static_cast<int>(seed), finding.c_str());
    EXPECT_GT(planted.load(), 0) << "something else failed: " << finding;
    return;
  }
  ADD_FAILURE() << "not found; planted in " << planted.load() << " plans";
}

void expect_found_between_hosts(bool (*plant)(plan::Plan&)) {
  expect_found({plant, true, false, 4 << 20, 2});
}

void expect_nothing(bool one_process, uint64_t ring_bytes, int hosts = 1) {
  GroupOptions options;
  options.hosts = hosts;
  options.one_process = one_process;
  options.ring_bytes = ring_bytes;
  EXPECT_EQ(find_fault(options, 1, kCalls), "");
}

TEST(Faults, ControlThreads) { expect_nothing(true, 4 << 20); }
TEST(Faults, ControlProcesses) { expect_nothing(false, 4 << 20); }
TEST(Faults, ControlSmallRing) { expect_nothing(false, kSmallRing); }
TEST(Faults, ControlHosts) { expect_nothing(false, 4 << 20, 2); }

TEST(Faults, MissingArrival) { expect_found_between_hosts(forget_arrival); }
TEST(Faults, MissingSent) { expect_found_between_hosts(forget_sent); }
TEST(Faults, SentOneShort) { expect_found_between_hosts(send_one_less); }
TEST(Faults, MissingSend) { expect_found_between_hosts(forget_send); }

TEST(Faults, OffsetOffByOneElement) { expect_found({shift_offset_by_one_element}); }
TEST(Faults, StaleScratch) { expect_found({leave_scratch_stale}); }
TEST(Faults, MissingCredit) { expect_found({forget_credit, true, false, kSmallRing}); }
TEST(Faults, MissingWaitForReaders) { expect_found({forget_readers, true, true}); }
TEST(Faults, MissingEnd) { expect_found({forget_end, false, false, kSmallRing}); }
TEST(Faults, WaitOneTooLow) { expect_found({wait_for_one_less, true}); }
TEST(Faults, NeighbourCell) { expect_found({read_neighbour_cell}); }
TEST(Faults, LengthOneShort) { expect_found({cut_length_by_one}); }
TEST(Faults, SwappedBlocks) { expect_found({swap_blocks}); }
TEST(Faults, AdvanceOneTooHigh) { expect_found({advance_one_more}); }
TEST(Faults, OtherSignature) { expect_found({sign_differently}); }

}  // namespace
}  // namespace tutti::faults
