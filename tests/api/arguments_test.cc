// Every invalid argument gives the documented code and a message, leaves the communicator usable,
// and nothing crashes.
#include <gtest/gtest.h>

#include <climits>
#include <cstdint>
#include <set>
#include <vector>

#include "tests/api/crowd.h"

namespace tutti::api_test {
namespace {

constexpr size_t kCount = 16;

struct Buffers {
  std::vector<float> send = std::vector<float>(4 * kCount, 1.0f);
  std::vector<float> recv = std::vector<float>(4 * kCount, 0.0f);
};

tuttiResult_t reduce(tuttiComm_t comm, const void* send, void* recv, size_t count = kCount) {
  return tuttiAllReduce(send, recv, count, tuttiFloat32, tuttiSum, comm, tuttiBlocking());
}

void expect_usable(tuttiComm_t comm) {
  Buffers b;
  EXPECT_OK(reduce(comm, b.send.data(), b.recv.data()), comm);
  EXPECT_EQ(b.recv[0], 1.0f);
}

TEST(Arguments, NullPointers) {
  EXPECT_REFUSED(tuttiGetVersion(nullptr), tuttiInvalidArgument, nullptr);
  EXPECT_REFUSED(tuttiGetUniqueId(nullptr), tuttiInvalidArgument, nullptr);
  EXPECT_REFUSED(tuttiStreamCreate(nullptr), tuttiInvalidArgument, nullptr);
  EXPECT_REFUSED(tuttiMemAlloc(nullptr, 64), tuttiInvalidArgument, nullptr);
  EXPECT_EQ(tuttiMemFree(nullptr), tuttiSuccess);
  run_ranks(1, [](tuttiComm_t& comm, int) {
    EXPECT_REFUSED(tuttiCommCount(comm, nullptr), tuttiInvalidArgument, comm);
    EXPECT_REFUSED(tuttiCommUserRank(comm, nullptr), tuttiInvalidArgument, comm);
    EXPECT_REFUSED(tuttiCommGetAsyncError(comm, nullptr), tuttiInvalidArgument, comm);
    EXPECT_REFUSED(tuttiCommRegister(comm, nullptr, 64, nullptr), tuttiInvalidArgument, comm);
    EXPECT_EQ(tuttiCommSetOptions(comm, nullptr), tuttiSuccess);
    expect_usable(comm);
  });
}

TEST(Arguments, NoCommunicator) {
  float x = 0, y = 0;
  int number = 0;
  tuttiResult_t error;
  const tuttiStream_t stream = tuttiBlocking();
  const std::vector<tuttiResult_t> results = {
      tuttiAllReduce(&x, &y, 1, tuttiFloat32, tuttiSum, nullptr, stream),
      tuttiAllGather(&x, &y, 1, tuttiFloat32, nullptr, stream),
      tuttiReduceScatter(&x, &y, 1, tuttiFloat32, tuttiSum, nullptr, stream),
      tuttiBroadcast(&x, &y, 1, tuttiFloat32, 0, nullptr, stream),
      tuttiReduce(&x, &y, 1, tuttiFloat32, tuttiSum, 0, nullptr, stream),
      tuttiGather(&x, &y, 1, tuttiFloat32, 0, nullptr, stream),
      tuttiScatter(&x, &y, 1, tuttiFloat32, 0, nullptr, stream),
      tuttiAllToAll(&x, &y, 1, tuttiFloat32, nullptr, stream),
      tuttiBarrier(nullptr, stream),
      tuttiSend(&x, 1, tuttiFloat32, 0, nullptr, stream),
      tuttiRecv(&x, 1, tuttiFloat32, 0, nullptr, stream),
      tuttiCommCount(nullptr, &number),
      tuttiCommUserRank(nullptr, &number),
      tuttiCommGetAsyncError(nullptr, &error),
      tuttiCommSetOptions(nullptr, nullptr),
      tuttiExplain(nullptr, "all_reduce", 1, tuttiFloat32, nullptr, 0, nullptr),
      tuttiCommRegister(nullptr, &x, 4, nullptr),
      tuttiCommDeregister(nullptr, &x),
      tuttiCommDestroy(nullptr),
      tuttiCommAbort(nullptr),
  };
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i], tuttiInvalidArgument) << "call " << i;
  }
  EXPECT_FALSE(message_of(nullptr).empty());
}

TEST(Arguments, Init) {
  tuttiUniqueId id;
  ASSERT_EQ(tuttiGetUniqueId(&id), tuttiSuccess);
  tuttiComm_t comm = nullptr;
  EXPECT_REFUSED(tuttiCommInitRank(nullptr, 1, id, 0), tuttiInvalidArgument, nullptr);
  EXPECT_REFUSED(tuttiCommInitRank(&comm, 0, id, 0), tuttiInvalidArgument, nullptr);
  EXPECT_REFUSED(tuttiCommInitRank(&comm, -1, id, 0), tuttiInvalidArgument, nullptr);
  EXPECT_REFUSED(tuttiCommInitRank(&comm, 2, id, 2), tuttiInvalidArgument, nullptr);
  EXPECT_REFUSED(tuttiCommInitRank(&comm, 2, id, -1), tuttiInvalidArgument, nullptr);
  tuttiUniqueId garbage;
  for (char& byte : garbage.internal) byte = 0x5a;
  EXPECT_REFUSED(tuttiCommInitRank(&comm, 1, garbage, 0), tuttiInvalidArgument, nullptr);
  id.internal[60] = static_cast<char>(id.internal[60] ^ 1);  // one bit of the key
  EXPECT_REFUSED(tuttiCommInitRank(&comm, 1, id, 0), tuttiInvalidArgument, nullptr);
  EXPECT_EQ(comm, nullptr);
}

// Refused before there is memory for so many, in the caller's thread and in a worker.
TEST(Arguments, NoGroupIsThatLarge) {
  tuttiUniqueId id;
  ASSERT_EQ(tuttiGetUniqueId(&id), tuttiSuccess);
  tuttiComm_t comm = nullptr;
  for (const int ranks : {INT_MAX, (1 << 20) + 1}) {
    for (const int blocking : {0, 1}) {
      tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
      config.blocking = blocking;
      EXPECT_REFUSED(tuttiCommInitRankConfig(&comm, ranks, id, 0, &config), tuttiInvalidArgument,
                     nullptr);
      EXPECT_REFUSED(tuttiCommInitRankScalable(&comm, ranks, 0, 1, &id, &config),
                     tuttiInvalidArgument, nullptr);
      EXPECT_REFUSED(tuttiCommGrow(nullptr, ranks, &id, 1, &comm, &config), tuttiInvalidArgument,
                     nullptr);
    }
    EXPECT_REFUSED(tuttiCommInitAll(&comm, ranks, nullptr), tuttiInvalidArgument, nullptr);
  }
  EXPECT_EQ(comm, nullptr);
  run_ranks(1, [&](tuttiComm_t& old, int) {
    EXPECT_REFUSED(tuttiCommGrow(old, INT_MAX, &id, -1, &comm, nullptr), tuttiInvalidArgument, old);
    expect_usable(old);
  });
}

TEST(Arguments, TypesOperationsRoots) {
  run_ranks(1, [](tuttiComm_t& comm, int) {
    Buffers b;
    const tuttiStream_t stream = tuttiBlocking();
    float* send = b.send.data();
    float* recv = b.recv.data();
    for (int wrong : {-1, 15, 255, 256, 1000}) {
      const auto type = static_cast<tuttiDataType_t>(wrong);
      EXPECT_REFUSED(tuttiAllReduce(send, recv, 1, type, tuttiSum, comm, stream),
                     tuttiInvalidArgument, comm);
      EXPECT_REFUSED(tuttiAllGather(send, recv, 1, type, comm, stream), tuttiInvalidArgument, comm);
      EXPECT_REFUSED(tuttiReduce(send, recv, 1, type, tuttiSum, 0, comm, stream),
                     tuttiInvalidArgument, comm);
      EXPECT_REFUSED(tuttiGather(send, recv, 1, type, 0, comm, stream), tuttiInvalidArgument, comm);
      EXPECT_REFUSED(tuttiScatter(send, recv, 1, type, 0, comm, stream), tuttiInvalidArgument,
                     comm);
      EXPECT_REFUSED(tuttiSend(send, 1, type, 0, comm, stream), tuttiInvalidArgument, comm);
      EXPECT_REFUSED(tuttiRecv(recv, 1, type, 0, comm, stream), tuttiInvalidArgument, comm);
    }
    for (int wrong : {-1, 8, 255, 256}) {
      const auto op = static_cast<tuttiRedOp_t>(wrong);
      EXPECT_REFUSED(tuttiAllReduce(send, recv, 1, tuttiFloat32, op, comm, stream),
                     tuttiInvalidArgument, comm);
      EXPECT_REFUSED(tuttiReduceScatter(send, recv, 1, tuttiFloat32, op, comm, stream),
                     tuttiInvalidArgument, comm);
      EXPECT_REFUSED(tuttiReduce(send, recv, 1, tuttiFloat32, op, 0, comm, stream),
                     tuttiInvalidArgument, comm);
    }
    for (int wrong : {-1, 1, 1 << 20}) {
      EXPECT_REFUSED(tuttiBroadcast(send, recv, 1, tuttiFloat32, wrong, comm, stream),
                     tuttiInvalidArgument, comm);
      EXPECT_REFUSED(tuttiReduce(send, recv, 1, tuttiFloat32, tuttiSum, wrong, comm, stream),
                     tuttiInvalidArgument, comm);
      EXPECT_REFUSED(tuttiGather(send, recv, 1, tuttiFloat32, wrong, comm, stream),
                     tuttiInvalidArgument, comm);
      EXPECT_REFUSED(tuttiScatter(send, recv, 1, tuttiFloat32, wrong, comm, stream),
                     tuttiInvalidArgument, comm);
      EXPECT_REFUSED(tuttiSend(send, 1, tuttiFloat32, wrong, comm, stream), tuttiInvalidArgument,
                     comm);
      EXPECT_REFUSED(tuttiRecv(recv, 1, tuttiFloat32, wrong, comm, stream), tuttiInvalidArgument,
                     comm);
    }
    expect_usable(comm);
  });
}

TEST(Arguments, BuffersAndCounts) {
  run_ranks(1, [](tuttiComm_t& comm, int) {
    Buffers b;
    const tuttiStream_t stream = tuttiBlocking();
    float* at = b.send.data();
    EXPECT_REFUSED(reduce(comm, nullptr, at), tuttiInvalidArgument, comm);
    EXPECT_REFUSED(reduce(comm, at, nullptr), tuttiInvalidArgument, comm);
    EXPECT_REFUSED(reduce(comm, at, at + 1), tuttiInvalidArgument, comm);
    EXPECT_REFUSED(reduce(comm, at + kCount - 1, at), tuttiInvalidArgument, comm);
    EXPECT_REFUSED(reduce(comm, at, b.recv.data(), SIZE_MAX), tuttiInvalidArgument, comm);
    EXPECT_REFUSED(reduce(comm, at, b.recv.data(), SIZE_MAX / 4), tuttiInvalidArgument, comm);
    EXPECT_REFUSED(tuttiSend(nullptr, 1, tuttiInt8, 0, comm, stream), tuttiInvalidArgument, comm);
    EXPECT_REFUSED(tuttiRecv(nullptr, 1, tuttiInt8, 0, comm, stream), tuttiInvalidArgument, comm);
    EXPECT_REFUSED(tuttiSend(at, SIZE_MAX, tuttiInt64, 0, comm, stream), tuttiInvalidArgument,
                   comm);
    expect_usable(comm);
  });
}

TEST(Arguments, OverlapThatIsNotInPlace) {
  run_ranks(2, [](tuttiComm_t& comm, int rank) {
    Buffers b;
    const tuttiStream_t stream = tuttiBlocking();
    float* at = b.send.data();
    const int other = 1 - rank;
    // In place for the other rank is not in place for me.
    EXPECT_REFUSED(tuttiAllGather(at + other * kCount, at, kCount, tuttiFloat32, comm, stream),
                   tuttiInvalidArgument, comm);
    EXPECT_REFUSED(
        tuttiReduceScatter(at, at + other * kCount, kCount, tuttiFloat32, tuttiSum, comm, stream),
        tuttiInvalidArgument, comm);
    EXPECT_REFUSED(tuttiAllToAll(at, at + kCount, kCount, tuttiFloat32, comm, stream),
                   tuttiInvalidArgument, comm);
    EXPECT_OK(tuttiBarrier(comm, stream), comm);
  });
}

// The root has both buffers, and they are checked; what the others pass for the one they do not
// have is not looked at.
TEST(Arguments, BuffersOfTheRootOnly) {
  run_ranks(2, [](tuttiComm_t& comm, int rank) {
    Buffers b;
    const tuttiStream_t stream = tuttiBlocking();
    float* at = b.send.data();
    float* other = b.recv.data();
    if (rank == 1) {
      EXPECT_REFUSED(tuttiReduce(at, nullptr, 1, tuttiFloat32, tuttiSum, 1, comm, stream),
                     tuttiInvalidArgument, comm);
      EXPECT_REFUSED(tuttiReduce(at, at + 1, 2, tuttiFloat32, tuttiSum, 1, comm, stream),
                     tuttiInvalidArgument, comm);
      EXPECT_REFUSED(tuttiGather(at, nullptr, 1, tuttiFloat32, 1, comm, stream),
                     tuttiInvalidArgument, comm);
      EXPECT_REFUSED(tuttiGather(at, at, kCount, tuttiFloat32, 1, comm, stream),
                     tuttiInvalidArgument, comm);
      EXPECT_REFUSED(tuttiScatter(nullptr, at, 1, tuttiFloat32, 1, comm, stream),
                     tuttiInvalidArgument, comm);
      EXPECT_REFUSED(tuttiScatter(at, at, kCount, tuttiFloat32, 1, comm, stream),
                     tuttiInvalidArgument, comm);
    } else {
      EXPECT_REFUSED(tuttiReduce(nullptr, at, 1, tuttiFloat32, tuttiSum, 1, comm, stream),
                     tuttiInvalidArgument, comm);
      EXPECT_REFUSED(tuttiGather(nullptr, at, 1, tuttiFloat32, 1, comm, stream),
                     tuttiInvalidArgument, comm);
      EXPECT_REFUSED(tuttiScatter(at, nullptr, 1, tuttiFloat32, 1, comm, stream),
                     tuttiInvalidArgument, comm);
    }
    const bool root = rank == 1;
    float* overlaps = root ? other : at + 1;
    EXPECT_OK(tuttiReduce(at, overlaps, 2, tuttiFloat32, tuttiSum, 1, comm, stream), comm);
    EXPECT_OK(tuttiGather(at, overlaps, 2, tuttiFloat32, 1, comm, stream), comm);
    EXPECT_OK(tuttiScatter(root ? other : at + 1, at, 2, tuttiFloat32, 1, comm, stream), comm);
    EXPECT_OK(tuttiReduce(at, root ? other : nullptr, 1, tuttiFloat32, tuttiSum, 1, comm, stream),
              comm);
    EXPECT_OK(tuttiGather(at, root ? other : nullptr, 1, tuttiFloat32, 1, comm, stream), comm);
    EXPECT_OK(tuttiScatter(root ? other : nullptr, at, 1, tuttiFloat32, 1, comm, stream), comm);
  });
}

TEST(Arguments, Streams) {
  run_ranks(1, [](tuttiComm_t& comm, int) {
    float x = 1, y = 0;
    const tuttiStream_t wrong[] = {{tuttiStreamHost, 0, nullptr}, {7, 0, nullptr}, {0, 1, nullptr}};
    for (const tuttiStream_t& stream : wrong) {
      EXPECT_REFUSED(tuttiAllReduce(&x, &y, 1, tuttiFloat32, tuttiSum, comm, stream),
                     tuttiInvalidArgument, comm);
      EXPECT_REFUSED(tuttiBarrier(comm, stream), tuttiInvalidArgument, comm);
      EXPECT_EQ(tuttiStreamSynchronize(stream), tuttiInvalidArgument);
      EXPECT_EQ(tuttiStreamDestroy(stream), tuttiInvalidArgument);
    }
    EXPECT_EQ(tuttiStreamSynchronize(tuttiBlocking()), tuttiSuccess);
    expect_usable(comm);
  });
}

TEST(Arguments, RegisteredMemory) {
  run_ranks(1, [](tuttiComm_t& comm, int) {
    std::vector<char> ordinary(4096);
    void* handle = nullptr;
    EXPECT_REFUSED(tuttiMemAlloc(&handle, 0), tuttiInvalidArgument, nullptr);
    EXPECT_REFUSED(tuttiMemFree(ordinary.data()), tuttiInvalidArgument, nullptr);
    EXPECT_REFUSED(tuttiCommRegister(comm, ordinary.data(), 4096, &handle), tuttiInvalidArgument,
                   comm);
    EXPECT_NE(tuttiCommDeregister(comm, ordinary.data()), tuttiSuccess);
    void* memory = nullptr;
    ASSERT_EQ(tuttiMemAlloc(&memory, 4096), tuttiSuccess);
    EXPECT_REFUSED(tuttiCommRegister(comm, memory, 8192, &handle), tuttiInvalidArgument, comm);
    EXPECT_REFUSED(tuttiCommRegister(comm, memory, SIZE_MAX, &handle), tuttiInvalidArgument, comm);
    EXPECT_OK(tuttiCommRegister(comm, memory, 4096, &handle), comm);
    EXPECT_OK(tuttiCommDeregister(comm, handle), comm);
    EXPECT_NE(tuttiCommDeregister(comm, handle), tuttiSuccess);
    EXPECT_EQ(tuttiMemFree(memory), tuttiSuccess);
    EXPECT_NE(tuttiMemFree(memory), tuttiSuccess);
    expect_usable(comm);
  });
}

// Registration is collective: the others learn of a rank's mistake, instead of waiting for it.
TEST(Arguments, OneRanksMistakeInRegisteringIsEverybodysError) {
  run_ranks(2, [](tuttiComm_t& comm, int rank) {
    set_deadline(comm, 10'000);
    void* memory = nullptr;
    ASSERT_EQ(tuttiMemAlloc(&memory, 4096), tuttiSuccess);
    char ordinary[64];
    void* handle = nullptr;
    struct {
      void* memory;
      void** handle;
    } const mistakes[] = {{ordinary, &handle}, {memory, nullptr}};
    for (const auto& mistake : mistakes) {
      if (rank == 0) {
        EXPECT_REFUSED(tuttiCommRegister(comm, mistake.memory, 64, mistake.handle),
                       tuttiInvalidArgument, comm);
      } else {
        EXPECT_REFUSED(tuttiCommRegister(comm, memory, 64, &handle), tuttiInvalidUsage, comm);
        EXPECT_NE(message_of(comm).find("rank 0"), std::string::npos) << message_of(comm);
      }
      EXPECT_EQ(handle, nullptr);
    }
    EXPECT_OK(tuttiCommRegister(comm, memory, 64, &handle), comm);
    EXPECT_OK(tuttiCommDeregister(comm, handle), comm);
    EXPECT_OK(tuttiBarrier(comm, tuttiBlocking()), comm);
    EXPECT_OK(tuttiMemFree(memory), nullptr);
  });
}

TEST(Arguments, DestroyedTwice) {
  run_ranks(1, [](tuttiComm_t& comm, int) {
    tuttiComm_t gone = comm;
    comm = nullptr;
    EXPECT_EQ(tuttiCommDestroy(gone), tuttiSuccess);
    int ranks = 0;
    float x = 1, y = 0;
    EXPECT_REFUSED(tuttiCommDestroy(gone), tuttiInvalidUsage, gone);
    EXPECT_REFUSED(tuttiCommAbort(gone), tuttiInvalidUsage, gone);
    EXPECT_REFUSED(tuttiCommCount(gone, &ranks), tuttiInvalidUsage, gone);
    EXPECT_REFUSED(reduce(gone, &x, &y, 1), tuttiInvalidUsage, gone);
  });
}

TEST(Arguments, CountZeroNeedsNoBuffers) {
  run_ranks(3, [](tuttiComm_t& comm, int) {
    const tuttiStream_t stream = tuttiBlocking();
    EXPECT_OK(tuttiAllReduce(nullptr, nullptr, 0, tuttiInt8, tuttiSum, comm, stream), comm);
    EXPECT_OK(tuttiAllGather(nullptr, nullptr, 0, tuttiInt8, comm, stream), comm);
    EXPECT_OK(tuttiReduceScatter(nullptr, nullptr, 0, tuttiInt8, tuttiMax, comm, stream), comm);
    EXPECT_OK(tuttiBroadcast(nullptr, nullptr, 0, tuttiInt8, 2, comm, stream), comm);
    EXPECT_OK(tuttiReduce(nullptr, nullptr, 0, tuttiInt8, tuttiMin, 1, comm, stream), comm);
    EXPECT_OK(tuttiGather(nullptr, nullptr, 0, tuttiInt8, 2, comm, stream), comm);
    EXPECT_OK(tuttiScatter(nullptr, nullptr, 0, tuttiInt8, 2, comm, stream), comm);
    EXPECT_OK(tuttiAllToAll(nullptr, nullptr, 0, tuttiInt8, comm, stream), comm);
    EXPECT_OK(tuttiBarrier(comm, stream), comm);
  });
}

TEST(Arguments, CountZeroDoesNotHideAFailure) {
  run_ranks(2, [](tuttiComm_t& comm, int rank) {
    const tuttiStream_t stream = tuttiBlocking();
    const auto nothing = [&] {
      return tuttiAllReduce(nullptr, nullptr, 0, tuttiInt8, tuttiSum, comm, stream);
    };
    set_deadline(comm, 50);
    char value = 0;
    const tuttiResult_t lost = tuttiRecv(&value, 1, tuttiInt8, 1 - rank, comm, stream);
    EXPECT_NE(lost, tuttiSuccess);
    EXPECT_REFUSED(nothing(), lost, comm);
    const size_t counts[2] = {0, 0};
    EXPECT_REFUSED(tuttiAllGatherV(nullptr, 0, nullptr, counts, nullptr, tuttiInt8, comm, stream),
                   lost, comm);
    EXPECT_OK(tuttiGroupStart(), comm);
    EXPECT_REFUSED(nothing(), lost, comm);
    EXPECT_REFUSED(tuttiGroupEnd(), lost, nullptr);
  });
}

TEST(Arguments, VersionAndStrings) {
  int version = 0;
  EXPECT_EQ(tuttiGetVersion(&version), tuttiSuccess);
  EXPECT_EQ(version, TUTTI_VERSION);
  std::set<std::string> texts;
  for (int code = tuttiSuccess; code <= tuttiUnsupported; ++code) {
    texts.insert(tuttiGetErrorString(static_cast<tuttiResult_t>(code)));
  }
  EXPECT_EQ(texts.size(), 10u);
  EXPECT_NE(tuttiGetErrorString(static_cast<tuttiResult_t>(99)), nullptr);
}

TEST(Arguments, DefaultsOfSettings) {
  EXPECT_EQ(tuttiSetDefault(nullptr, "error", "here"), tuttiInvalidArgument);
  EXPECT_EQ(tuttiSetDefault("TUTTI_LOG", nullptr, "here"), tuttiInvalidArgument);
  EXPECT_EQ(tuttiSetDefault("TUTTI_LOG", "error", nullptr), tuttiInvalidArgument);
  EXPECT_EQ(tuttiSetDefault("NCCL_NONSENSE", "error", "here"), tuttiInvalidArgument);
  EXPECT_EQ(tuttiSetDefault("", "error", "here"), tuttiInvalidArgument);
  tuttiSetting_t setting;
  ASSERT_EQ(tuttiGetSetting(0, &setting), tuttiSuccess);
  EXPECT_EQ(tuttiSetDefault("TUTTI_LOG", "error", "here"), tuttiInvalidUsage);
}

}  // namespace
}  // namespace tutti::api_test
