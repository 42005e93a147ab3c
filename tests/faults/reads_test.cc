// What a rank could not read it must not pass on: memory of a peer that is gone in the middle of a
// call that copies once.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "src/base/clock.h"
#include "tests/faults/thread_group.h"

namespace tutti::faults {
namespace {

constexpr int kRanks = 4;
constexpr size_t kBytes = 64 << 10;  // one slice

comm::Request broadcast(void* memory) {
  comm::Request request;
  request.collective = schedule::Collective::kBroadcast;
  request.send = memory;
  request.recv = memory;
  request.count = kBytes;
  return request;
}

/// The root's memory cannot be read, as if its process had died.
std::array<Status, kRanks> broadcast_of_nothing(const std::string& algorithm) {
  void* nothing = mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(nothing, MAP_FAILED);
  std::array<Status, kRanks> statuses;
  GroupOptions options;
  options.ranks = kRanks;
  options.one_process = false;
  options.single_copy_bytes = 1;
  const std::string problem = with_group(options, [&](int rank, comm::Communicator& communicator) {
    comm::CallOptions call;
    call.algorithm = algorithm;
    call.timeout_ns = 10 * kNanosecondsPerSecond;
    communicator.set_options(call);
    std::vector<std::byte> memory(rank == 0 ? 0 : kBytes);
    statuses[static_cast<size_t>(rank)] =
        communicator.run(broadcast(rank == 0 ? nothing : memory.data()));
  });
  EXPECT_EQ(problem, "");
  munmap(nothing, kBytes);
  return statuses;
}

TEST(Reads, NobodyTakesWhatAPeerCouldNotRead) {
  for (const char* algorithm : {"publish_once", "binomial", "chain", "scatter_all_gather"}) {
    const auto statuses = broadcast_of_nothing(algorithm);
    for (int rank = 1; rank < kRanks; ++rank) {
      EXPECT_FALSE(statuses[static_cast<size_t>(rank)].ok()) << algorithm << ", rank " << rank;
    }
  }
}

}  // namespace
}  // namespace tutti::faults
