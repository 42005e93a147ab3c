// Any thread takes memory and windows back while another one is in a call, as watchdogs do before
// they abort: it waits for no call, and the call goes on as if nothing had happened.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/in_call.h"
#include "tests/support/team.h"

namespace tutti::api_test {
namespace {

using testing_support::Member;
using testing_support::Network;
using testing_support::TeamShape;

constexpr uint64_t kLimitNs = 120'000'000'000;
constexpr size_t kFloats = 16 << 10;  // long enough to be used where it lies
constexpr size_t kBytes = kFloats * sizeof(float);

/// Memory of one rank: registered for collectives, and a window.
struct Part {
  void* memory = nullptr;
  void* handle = nullptr;
  tuttiWindow_t window = nullptr;
};

class Rank {
 public:
  explicit Rank(Member& member) : member_(member) {}

  bool ok(tuttiResult_t result) {
    if (result != tuttiSuccess) member_.fail(tuttiGetLastError(nullptr));
    return result == tuttiSuccess;
  }

  bool join() {
    tuttiUniqueId id;
    return member_.take_id(id) && ok(tuttiCommInitRank(&comm, member_.ranks(), id, member_.rank()));
  }

  bool add(Part& part) {
    return ok(tuttiMemAlloc(&part.memory, kBytes)) &&
           ok(tuttiCommRegister(comm, part.memory, kBytes, &part.handle)) &&
           ok(tuttiCommWindowRegister(comm, part.memory, kBytes, &part.window, 0));
  }

  bool take_back(const Part& part) {
    return ok(tuttiCommWindowDeregister(comm, part.window)) &&
           ok(tuttiCommDeregister(comm, part.handle));
  }

  tuttiResult_t sum(void* buffer, tuttiStream_t stream = tuttiBlocking()) {
    return tuttiAllReduce(buffer, buffer, kFloats, tuttiFloat32, tuttiSum, comm, stream);
  }

  tuttiComm_t comm = nullptr;

 private:
  Member& member_;
};

void run(int ranks, Network network, const testing_support::Body& body) {
  const auto result = testing_support::run_team(
      TeamShape::of(ranks, false, network), body, [](uint64_t) { return std::string("the test"); },
      kLimitNs);
  EXPECT_TRUE(result.ok) << testing_support::name_of(network) << ": " << result.report;
}

using Call = std::function<tuttiResult_t(Rank& rank, void* buffer)>;

// Rank 1 comes late; meanwhile rank 0 takes back what the call uses.
void take_back_while(const Call& call, Network network) {
  run(2, network, [&](Member& member) {
    Rank rank(member);
    Part part;
    if (!rank.join() || (network == Network::kDefault && !rank.add(part))) return;
    if (network != Network::kDefault) {  // memory is registered on one host
      if (!rank.ok(tuttiMemAlloc(&part.memory, kBytes)) ||
          !rank.ok(tuttiCommWindowRegister(rank.comm, part.memory, kBytes, &part.window, 0))) {
        return;
      }
    }
    auto* values = static_cast<float*>(part.memory);
    std::fill_n(values, kFloats, static_cast<float>(member.rank() + 1));
    if (member.rank() == 1 && !member.meet()) return;
    std::thread caller([&] { rank.ok(call(rank, values)); });
    if (member.rank() == 0 && !testing_support::await_waiting(0)) member.fail("it never waited");
    const auto take_back = [&] {
      return part.handle != nullptr ? rank.take_back(part)
                                    : rank.ok(tuttiCommWindowDeregister(rank.comm, part.window));
    };
    if (member.rank() == 0 && take_back()) member.meet();
    caller.join();
    if (values[0] != 3 || values[kFloats - 1] != 3) member.fail("the sum is wrong");
    if (member.rank() == 1) take_back();
    rank.ok(rank.sum(values));  // the same memory, registered no more
    if (values[kFloats / 2] != 6) member.fail("the second sum is wrong");
    rank.ok(tuttiCommDestroy(rank.comm));
    tuttiMemFree(part.memory);
  });
}

tuttiResult_t plainly(Rank& rank, void* buffer) { return rank.sum(buffer); }

tuttiResult_t in_a_group(Rank& rank, void* buffer) {
  tuttiGroupStart();
  const tuttiResult_t result = rank.sum(buffer);
  return result == tuttiSuccess ? tuttiGroupEnd() : result;
}

tuttiResult_t on_a_stream(Rank& rank, void* buffer) {
  tuttiStream_t stream;
  tuttiStreamCreate(&stream);
  tuttiResult_t result = rank.sum(buffer, stream);
  if (result == tuttiSuccess) result = tuttiStreamSynchronize(stream);
  tuttiStreamDestroy(stream);
  return result;
}

TEST(Deregister, DoesNotWaitForACall) {
  take_back_while(plainly, Network::kDefault);
  take_back_while(plainly, Network::kTcp);
}

TEST(Deregister, DoesNotWaitForAGroup) {
  take_back_while(in_a_group, Network::kDefault);
  take_back_while(in_a_group, Network::kTcp);
}

TEST(Deregister, DoesNotWaitForAStream) {
  take_back_while(on_a_stream, Network::kDefault);
  take_back_while(on_a_stream, Network::kTcp);
}

// The thread sanitizer, too, sees the faults that this test looks for.
TEST(Deregister, LeavesCallsInOtherMemoryAlone) {
  run(2, Network::kDefault, [](Member& member) {
    Rank rank(member);
    std::vector<Part> parts(8);
    if (!rank.join()) return;
    for (Part& part : parts) {
      if (!rank.add(part)) return;
    }
    std::thread watchdog([&] {
      for (const Part& part : parts) rank.take_back(part);
    });
    std::vector<float> values(kFloats, 0);
    for (int i = 0; i < 200 && rank.ok(rank.sum(values.data())); ++i) {
    }
    watchdog.join();
    if (tuttiCommDeregister(rank.comm, parts[0].handle) != tuttiInvalidUsage) {
      member.fail("memory that was deregistered is deregistered again");
    }
    for (Part& part : parts) rank.add(part);
    rank.ok(tuttiCommDestroy(rank.comm));
    for (const Part& part : parts) tuttiMemFree(part.memory);
  });
}

// Else new memory at the same address would be taken for what the peers have mapped.
TEST(Deregister, FreedMemoryStaysUntilThen) {
  run(2, Network::kDefault, [](Member& member) {
    Rank rank(member);
    Part freed;
    if (!rank.join() || !rank.add(freed)) return;
    rank.ok(tuttiMemFree(freed.memory));
    void* memory = nullptr;
    if (!rank.ok(tuttiMemAlloc(&memory, kBytes))) return;
    if (memory == freed.memory) member.fail("the address was given out again");
    auto* values = static_cast<float*>(memory);
    std::fill_n(values, kFloats, static_cast<float>(member.rank() + 1));
    rank.ok(rank.sum(values));
    if (values[0] != 3 || values[kFloats - 1] != 3) member.fail("the sum is wrong");
    const int peer = 1 - member.rank();
    rank.ok(tuttiPutSignal(values, kBytes, peer, freed.window, 0, 0, tuttiBlocking()));
    rank.ok(tuttiWaitSignal(peer, freed.window, 0, 1, tuttiBlocking()));
    rank.ok(tuttiGet(values, kBytes, peer, freed.window, 0, tuttiBlocking()));
    if (values[kFloats / 2] != 3) member.fail("the freed window holds something else");
    if (!member.meet()) return;
    rank.take_back(freed);
    if (tuttiMemFree(freed.memory) != tuttiInvalidArgument) member.fail("it was freed twice");
    rank.ok(tuttiMemFree(memory));
    rank.ok(tuttiCommDestroy(rank.comm));
  });
}

/// Of memory that ranks share.
size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:") != std::string::npos) ++count;
  }
  return count;
}

void expect_gone(Member& member, size_t before, const std::string& when) {
  const size_t now = mappings();
  if (now == before) return;
  member.fail(when + ": " + std::to_string(before) + " mappings before, " + std::to_string(now));
}

bool add_registered(Rank& rank, Part& part) {
  return rank.ok(tuttiMemAlloc(&part.memory, kBytes)) &&
         rank.ok(tuttiCommRegister(rank.comm, part.memory, kBytes, &part.handle));
}

// No later call is needed, and freed memory goes too.
TEST(Deregister, GivesMemoryBackAtOnce) {
  run(2, Network::kDefault, [](Member& member) {
    Rank rank(member);
    Part part;
    if (!rank.join()) return;
    const size_t before = mappings();
    if (!add_registered(rank, part)) return;
    rank.ok(rank.sum(part.memory));
    rank.ok(tuttiMemFree(part.memory));
    rank.ok(tuttiCommDeregister(rank.comm, part.handle));
    expect_gone(member, before, "between calls");
    rank.ok(tuttiCommDestroy(rank.comm));
  });
}

// Rank 0 waits in a call of the buffer while memory that is registered is taken back.
void give_back_while(bool call_uses_it) {
  run(2, Network::kDefault, [&](Member& member) {
    Rank rank(member);
    Part part;
    std::vector<float> plain(kFloats, 1);
    if (!rank.join()) return;
    const size_t before = mappings();
    if (!add_registered(rank, part)) return;
    if (member.rank() == 1 && !member.meet()) return;
    std::thread caller([&] { rank.ok(rank.sum(call_uses_it ? part.memory : plain.data())); });
    if (member.rank() == 0) {
      if (!testing_support::await_waiting(0)) member.fail("it never waited");
      rank.ok(tuttiMemFree(part.memory));
      rank.ok(tuttiCommDeregister(rank.comm, part.handle));
      if (!call_uses_it) expect_gone(member, before, "in a call of other memory");
      member.meet();
    }
    caller.join();
    if (member.rank() == 0) expect_gone(member, before, "after the call");
    if (member.rank() == 1) rank.ok(tuttiCommDeregister(rank.comm, part.handle));
    rank.ok(tuttiCommDestroy(rank.comm));
    if (member.rank() == 1) tuttiMemFree(part.memory);
  });
}

TEST(Deregister, GivesMemoryBackBesideACallInOtherMemory) { give_back_while(false); }
TEST(Deregister, GivesMemoryBackWhenTheCallEnds) { give_back_while(true); }

TEST(Deregister, IsForRevokedCommunicatorsToo) {
  run(2, Network::kDefault, [](Member& member) {
    Rank rank(member);
    Part part;
    if (!rank.join() || !rank.add(part) || !member.meet()) return;
    rank.ok(tuttiCommRevoke(rank.comm, TUTTI_REVOKE_DEFAULT));
    rank.take_back(part);
    rank.ok(tuttiCommAbort(rank.comm));
    tuttiMemFree(part.memory);
  });
}

}  // namespace
}  // namespace tutti::api_test
