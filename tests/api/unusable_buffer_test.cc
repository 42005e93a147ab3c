// A buffer that its own rank may not use, in a call between hosts: who is told what?
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstddef>
#include <string>
#include <vector>

#include "tests/support/team.h"

namespace tutti::api_test {
namespace {

using testing_support::Member;

constexpr size_t kBytes = size_t{1} << 20;
constexpr uint64_t kLimitNs = 60'000'000'000;
constexpr int kAtFault = 0, kPeer = 1, kThird = 2, kRanks = 3;

void expect(Member& member, tuttiComm_t comm, tuttiResult_t result) {
  const std::string said = tuttiGetLastError(comm);
  const bool at_fault = member.rank() == kAtFault;
  if (result != (at_fault ? tuttiInvalidArgument : tuttiRemoteError)) {
    return member.fail(std::string(tuttiGetErrorString(result)) + ": " + said);
  }
  const std::string wanted = at_fault ? "a buffer of its own call" : "rank 0";
  if (said.find(wanted) == std::string::npos)
    return member.fail("no word of " + wanted + ": " + said);
  const bool slanders = said.find("because of rank 1") != std::string::npos;
  if (slanders) member.fail("it blames rank 1: " + said);
}

void run_rank(Member& member) {
  tuttiUniqueId id;
  tuttiComm_t comm = nullptr;
  if (!member.take_id(id)) return;
  if (tuttiCommInitRank(&comm, member.ranks(), id, member.rank()) != tuttiSuccess) {
    return member.fail(tuttiGetLastError(nullptr));
  }
  std::vector<char> usable(kBytes, 1);
  void* unusable = mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (unusable == MAP_FAILED) return member.fail("mmap");
  const int rank = member.rank();
  // The third waits for the innocent one, which never comes so far.
  expect(member, comm,
         rank == kAtFault ? tuttiSend(unusable, kBytes, tuttiInt8, kPeer, comm, tuttiBlocking())
                          : tuttiRecv(usable.data(), kBytes, tuttiInt8,
                                      rank == kPeer ? kAtFault : kPeer, comm, tuttiBlocking()));
  tuttiCommAbort(comm);
}

// Memory into which the kernel cannot receive is written by this process itself, which ends it.
TEST(UnusableBuffer, SentToAnotherHostIsTheFaultOfItsRank) {
  const auto shape = testing_support::TeamShape::of(kRanks, false, testing_support::Network::kTcp);
  const auto result = testing_support::run_team(
      shape, run_rank, [](uint64_t) { return std::string("its call"); }, kLimitNs);
  EXPECT_TRUE(result.ok) << result.report;
}

}  // namespace
}  // namespace tutti::api_test
