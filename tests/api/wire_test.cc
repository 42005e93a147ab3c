// Levels that encode, by the C API: ranks of two hosts and of hosts of their own have the same
// bits, an option of a call wins over the setting, and ranks whose options differ are told so.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/team.h"
#include "tests/support/team_rank.h"

namespace tutti::api_test {
namespace {

using testing_support::Member;
using testing_support::Network;

constexpr int kRanks = 4;
constexpr size_t kCount = 20'000;
constexpr uint64_t kLimitNs = 60'000'000'000;

float value_of(int rank, size_t i) {
  return std::sin(static_cast<float>(rank) * 7 + static_cast<float>(i) * 0.37f);
}

struct WireRank : testing_support::TeamRank {
  explicit WireRank(Member& member) : TeamRank(member), send(kCount), recv(kCount) {
    for (size_t i = 0; i < kCount; ++i) send[i] = value_of(member.rank(), i);
  }

  tuttiResult_t submit(tuttiCollective_t collective, const char* wire) {
    tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
    options.wire = wire;
    tuttiCall_t call = TUTTI_CALL_INITIALIZER;
    call.collective = collective;
    call.send = send.data();
    call.recv = recv.data();
    call.count = kCount;
    call.type = tuttiFloat32;
    call.op = tuttiSum;
    return tuttiSubmit(&call, comm_, tuttiBlocking(), &options, nullptr);
  }
  float exact(size_t i) const {
    float sum = 0;
    for (int rank = 0; rank < kRanks; ++rank) sum += value_of(rank, i);
    return sum;
  }
  float largest_error() const {
    float most = 0;
    for (size_t i = 0; i < kCount; ++i) most = std::max(most, std::fabs(recv[i] - exact(i)));
    return most;
  }
  // The bits of all ranks, compared with those of rank 0 by an exact broadcast.
  void expect_equal_bits() {
    std::vector<float> first = recv;
    if (!ok(tuttiBroadcast(first.data(), first.data(), kCount * sizeof(float), tuttiUint8, 0, comm_,
                           tuttiBlocking()))) {
      return;
    }
    if (std::memcmp(first.data(), recv.data(), kCount * sizeof(float)) != 0) {
      member_.fail("other bits than rank 0");
    }
  }
  void expect_error(float least, float most, const char* what) {
    const float error = largest_error();
    if (error >= least && error <= most) return;
    member_.fail(std::string(what) + ": an error of " + std::to_string(error));
  }
  void expect_said(const std::string& part) {
    const std::string said = tuttiGetLastError(comm_);
    if (said.find(part) == said.npos) member_.fail("no '" + part + "' in: " + said);
  }
  void leave() {
    member_.meet();
    tuttiCommDestroy(comm_);
  }

  using TeamRank::comm_;
  using TeamRank::join;
  using TeamRank::member_;
  using TeamRank::ok;
  std::vector<float> send, recv;
};

void run(Network network, const char* setting, const std::function<void(WireRank&)>& body) {
  auto shape = testing_support::TeamShape::of(kRanks, false, network);
  shape.set("TUTTI_LOG", "off");
  if (setting != nullptr) shape.set("TUTTI_WIRE", setting);
  const auto result = testing_support::run_team(
      shape,
      [&](Member& member) {
        WireRank rank(member);
        if (rank.join()) body(rank);
      },
      [](uint64_t) { return std::string("an encoded call"); }, kLimitNs);
  EXPECT_TRUE(result.ok) << result.report;
}

void sum_encoded(WireRank& rank) {
  if (!rank.ok(rank.submit(tuttiCollAllReduce, nullptr))) return;
  rank.expect_error(1e-4f, 0.3f, "encoded by the setting");
  rank.expect_equal_bits();
  if (!rank.ok(rank.submit(tuttiCollAllReduce, ""))) return;
  rank.expect_error(0, 1e-5f, "exact by the option");
  if (!rank.ok(rank.submit(tuttiCollAllReduce, "always,network:bf16"))) return;
  rank.expect_error(1e-5f, 0.1f, "encoded by the option");
  rank.expect_equal_bits();
  rank.leave();
}

TEST(Wire, RanksOfTwoHostsHaveTheSameBits) {
  run(Network::kMixed, "always,network:int8_block:64", sum_encoded);
}
TEST(Wire, RanksOfHostsOfTheirOwnHaveTheSameBits) {
  run(Network::kTcp, "always,network:int8_block:64", sum_encoded);
}

/// Rank `source` sends so many elements to rank `target`, from 10 elements of its input on for
/// each.
size_t share(int source, int target) {
  return static_cast<size_t>(600 + 100 * source + 7 * target);
}

void exchange_shares(WireRank& rank) {
  const int me = rank.member_.rank();
  std::vector<size_t> sent, received, from, to;
  size_t end = 0;
  for (int peer = 0; peer < kRanks; ++peer) {
    sent.push_back(share(me, peer));
    received.push_back(share(peer, me));
    from.push_back(static_cast<size_t>(peer) * 10);
    to.push_back(std::exchange(end, end + received.back()));
  }
  tuttiCall_t call = TUTTI_CALL_INITIALIZER;
  call.collective = tuttiCollAllToAllV;
  call.send = rank.send.data();
  call.recv = rank.recv.data();
  call.send_counts = sent.data();
  call.send_offsets = from.data();
  call.recv_counts = received.data();
  call.recv_offsets = to.data();
  call.type = tuttiFloat32;
  if (!rank.ok(tuttiSubmit(&call, rank.comm_, tuttiBlocking(), nullptr, nullptr))) return;
  size_t exact = 0;
  for (size_t source = 0; source < kRanks; ++source) {
    for (size_t i = 0; i < received[source]; ++i) {
      const float wanted = value_of(static_cast<int>(source), static_cast<size_t>(me) * 10 + i);
      const float found = rank.recv[to[source] + i];
      if (std::fabs(found - wanted) > 0.01f) rank.member_.fail("a wrong element");
      exact += found == wanted ? 1 : 0;
    }
  }
  if (exact > end * 9 / 10) rank.member_.fail("nothing was encoded");
  rank.leave();
}

TEST(Wire, SharesOfTheirOwnSizesAreEncoded) {
  run(Network::kMixed, "always,network:int8_block:64", exchange_shares);
}
TEST(Wire, SharesOfHostsOfTheirOwnAreEncoded) {
  run(Network::kTcp, "always,network:int8_block:64", exchange_shares);
}

TEST(Wire, ACodecThatDropsValuesIsRefusedWhereSumsAreTaken) {
  run(Network::kMixed, nullptr, [](WireRank& rank) {
    if (rank.submit(tuttiCollAllReduce, "network:top_k") != tuttiInvalidArgument) {
      rank.member_.fail("not refused");
    }
    rank.expect_said("all_gather the bytes");
    if (rank.submit(tuttiCollAllReduce, "network:int9") != tuttiInvalidArgument) {
      rank.member_.fail("not refused");
    }
    rank.expect_said("there is no codec 'int9'");
    rank.leave();
  });
}

TEST(Wire, RanksWhoseOptionsDifferAreToldSo) {
  run(Network::kTcp, nullptr, [](WireRank& rank) {
    const char* wire = rank.member_.rank() == 1 ? "always,network:bf16" : "";
    if (rank.submit(tuttiCollAllReduce, wire) == tuttiSuccess) rank.member_.fail("no error");
    rank.expect_said("wire");
    rank.member_.meet();
    tuttiCommAbort(rank.comm_);
  });
}

TEST(Wire, ExplainSaysWhatIsEncodedAndWhyNot) {
  run(Network::kMixed, "always,network:int8_block:64", [](WireRank& rank) {
    const auto explain = [&](tuttiDataType_t type) {
      size_t needed = 0;
      std::vector<char> text(1 << 16);
      const tuttiResult_t result =
          tuttiExplain(rank.comm_, "all_reduce", kCount, type, text.data(), text.size(), &needed);
      return rank.ok(result) ? std::string(text.data()) : std::string();
    };
    const std::string floats = explain(tuttiFloat32), whole = explain(tuttiInt32);
    if (floats.find("0.266 of the bytes cross") == floats.npos ||
        floats.find(", encoded") == floats.npos) {
      rank.member_.fail("floats: " + floats);
    }
    if (whole.find("exact: codecs are of float") == whole.npos) {
      rank.member_.fail("whole numbers: " + whole);
    }
    rank.leave();
  });
}

}  // namespace
}  // namespace tutti::api_test
