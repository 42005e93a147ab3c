#include "src/comm/host_survey.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

namespace tutti::comm {
namespace {

constexpr uint64_t kRingBytes = 1 << 20;
constexpr uint64_t kLimitNs = 60'000'000'000;

/// Between threads: what another process would read by a system call is copied.
class Near final : public transport::Link, public transport::Mapped {
 public:
  const transport::Capabilities& capabilities() const override { return capabilities_; }
  Status status() const override { return is_gone ? Status::remote_error("it is gone") : Status(); }
  transport::Buffer arena() const override { return {}; }
  Result<transport::Buffer> import(std::string_view /*handle*/) override {
    return Status::unsupported("no");
  }
  void release(const std::byte* /*memory*/) override {}
  Status give_descriptor(int /*descriptor*/) override { return {}; }
  Result<Fd> take_descriptor(int /*descriptor*/) override { return Status::unsupported("no"); }
  Status read(transport::Buffer target, uint64_t source) override {
    ++reads;
    if (naps && reads % 8 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::memcpy(target.data, reinterpret_cast<const std::byte*>(source), target.bytes);
    return {};
  }
  Status write(uint64_t /*target*/, transport::ConstBuffer /*source*/) override { return {}; }

  std::atomic<int> reads{0};
  bool is_gone = false;
  bool naps = false;  // now and then

 private:
  transport::Capabilities capabilities_;
};

struct Survey {
  explicit Survey(int ranks, uint64_t ring_bytes = kRingBytes)
      : layout(ring_bytes, 64 << 10, ranks), disturbed(static_cast<size_t>(ranks)) {
    for (int rank = 0; rank < ranks; ++rank) {
      memory.push_back(std::make_unique<Room>(layout.bytes()));
      peers.push_back({exec::ArenaView(memory.back()->begin(), layout), &link, nullptr, &link});
    }
  }

  Result<select::CrowdTimes> measure(int rank, bool reads, const WaitLimit& wait_limit) const {
    const SurveyedRanks all{.peers = peers,
                            .rank = rank,
                            .cores = 2,
                            .spins = 5,
                            .reads = reads,
                            .ring_bytes = layout.ring_bytes,
                            .name_of = [](int of) { return "rank " + std::to_string(of); }};
    HostSurvey survey(all, wait_limit);
    Result<select::CrowdTimes> found = survey.measure();
    disturbed[static_cast<size_t>(rank)] = survey.was_disturbed() ? 1 : 0;
    return found;
  }

  std::vector<select::CrowdTimes> of_all(bool reads) const {
    std::vector<select::CrowdTimes> found(peers.size());
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < peers.size(); ++rank) {
      threads.emplace_back([&, rank] {
        const auto measured =
            measure(static_cast<int>(rank), reads, WaitLimit(deadline_after(kLimitNs)));
        EXPECT_TRUE(measured.ok()) << measured.status().message();
        if (measured.ok()) found[rank] = measured.value();
        // The first call of whoever goes on does so while others are still on their way out, and
        // may fail.
        std::memset(peers[rank].arena.rings(), 0x7f, layout.ring_bytes);
        peers[rank].arena.counter(0).failed.store(1);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return found;
  }

  /// Zeros that begin a page.
  class Room {
   public:
    explicit Room(size_t bytes) : bytes_(bytes + 4096) {}
    std::byte* begin() {
      const auto at = reinterpret_cast<uintptr_t>(bytes_.data());
      return bytes_.data() + ((at + 4095) / 4096 * 4096 - at);
    }

   private:
    std::vector<std::byte> bytes_;
  };

  exec::ArenaLayout layout;
  std::vector<std::unique_ptr<Room>> memory;
  mutable Near link;
  mutable std::vector<char> disturbed;  // by rank
  std::vector<exec::Peer> peers;
};

TEST(HostSurvey, AllRanksFindTheSame) {
  for (const int ranks : {2, 3, 4}) {
    const Survey survey(ranks);
    const auto found = survey.of_all(true);
    for (const select::CrowdTimes& one : found) EXPECT_EQ(one, found[0]);
    EXPECT_EQ(found[0].ranks, ranks);
    EXPECT_EQ(found[0].cores, 2);
    EXPECT_GT(found[0].step_ns, 0);
    EXPECT_GT(found[0].one_way_ns, 0);
    ASSERT_GE(found[0].copies.size(), 1u);
    EXPECT_EQ(found[0].copies[0].bytes, static_cast<double>(HostSurvey::kLeastBytes));
    for (const select::CopyTimes& copy : found[0].copies) {
      EXPECT_GT(copy.staged_ns, 0);
      EXPECT_EQ(copy.single_ns > 0, !survey.disturbed[0]);
    }
    EXPECT_EQ(survey.disturbed, std::vector<char>(survey.peers.size(), survey.disturbed[0]));
    EXPECT_GT(survey.link.reads, 0);
  }
}

TEST(HostSurvey, NobodyReadsWhereThatIsRefused) {
  const Survey survey(2);
  EXPECT_EQ(survey.of_all(false)[0].copies[0].single_ns, 0);
  EXPECT_EQ(survey.link.reads, 0);
}

// Two rows of calls wait for a nap, and the one between them does not.
TEST(HostSurvey, WhatIsDisturbedSaysNothingOfSingleCopies) {
  Survey survey(2);
  survey.link.naps = true;
  EXPECT_EQ(survey.of_all(true)[1].copies[0].single_ns, 0);
  EXPECT_EQ(survey.disturbed, std::vector<char>(2, 1));
}

// The least that TUTTI_RING_BYTES allows.
TEST(HostSurvey, FitsTheShortestRing) {
  const Survey survey(8, 64 << 10);
  const auto found = survey.of_all(true);
  EXPECT_EQ(found[7], found[0]);
  EXPECT_GT(found[0].copies[0].staged_ns, 0);
}

TEST(HostSurvey, NamesARankThatIsGoneOrDoesNotCome) {
  Survey survey(2);
  const auto late = survey.measure(0, true, WaitLimit(monotonic_ns() + 1'000'000));
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.status().code(), Code::kTimeout);
  EXPECT_NE(late.status().message().find("rank 1 has not measured this host in time"),
            std::string::npos)
      << late.status().message();
  survey.link.is_gone = true;
  const auto gone = survey.measure(0, true, WaitLimit(kNoDeadline));
  ASSERT_FALSE(gone.ok());
  EXPECT_EQ(gone.status().message(), "it is gone");
  survey.link.is_gone = false;
  survey.peers[1].arena.counter(0).failed.store(1);
  const auto failed = survey.measure(0, true, WaitLimit(kNoDeadline));
  ASSERT_FALSE(failed.ok());
  EXPECT_NE(failed.status().message().find("rank 1 could not join"), std::string::npos);
}

}  // namespace
}  // namespace tutti::comm
