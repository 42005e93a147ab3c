// The exchange of a registration among the ranks is not taken for a collective of the user's,
// whatever its size.
#include <gtest/gtest.h>

#include <vector>

#include "tests/api/crowd.h"

namespace tutti::api_test {
namespace {

TEST(RegistrationMismatch, AnAllGatherIsNoRegistration) {
  run_ranks(2, [](tuttiComm_t& comm, int rank) {
    set_deadline(comm, 60'000);
    if (rank == 0) {
      void* memory = nullptr;
      void* handle = nullptr;
      EXPECT_OK(tuttiMemAlloc(&memory, 4096), comm);
      EXPECT_EQ(tuttiCommRegister(comm, memory, 4096, &handle), tuttiInvalidUsage);
      EXPECT_OK(tuttiMemFree(memory), comm);
    } else {
      std::vector<char> send(512, 1), recv(1024);  // as long as what describes a registration
      EXPECT_NE(tuttiAllGather(send.data(), recv.data(), 512, tuttiInt8, comm, tuttiBlocking()),
                tuttiSuccess);
    }
    EXPECT_OK(tuttiCommAbort(comm), comm);
    comm = nullptr;
  });
}

}  // namespace
}  // namespace tutti::api_test
