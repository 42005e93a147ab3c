// Bounce buffers of calls on devices over RDMA: cards read and write them where they lie, and a
// call gets the memory of another one when no card does so any more.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "src/drivers/cuda/software_device_test.h"
#include "src/engines/cuda/network_crossing.h"
#include "src/exec/domain_test.h"
#include "src/exec/host_executor.h"
#include "src/exec/pairs.h"
#include "tests/conformance/transport_crew.h"
#include "tests/software_verbs/software_verbs.h"

namespace tutti::software_verbs {
namespace {

using conformance::Crew;
using conformance::pattern;
using engines::cuda::BounceSlot;
using engines::cuda::CudaNetworkCrossing;
using engines::cuda::HostStagingPool;
using exec::BouncePairs;

constexpr registry::TransportEntry kEntry{"verbs", &make};
// More pieces than slots, and none as short as what goes as a frame.
constexpr size_t kBytes = (4 << 20) + (64 << 10);

/// The host's part of one rank, and what its stream does.
class End {
 public:
  End(conformance::Rank& rank, int number, exec::Transfer transfer)
      : link_(rank.link(1 - number)), transfer_(transfer) {
    exec::ExecutorOptions options;
    options.rank = number;
    options.ranks = 2;
    options.communicator = conformance::kCommunicator;
    options.epoch = 1;
    options.layout = exec::ArenaLayout(64 << 10, 4096, 2);
    std::vector<exec::Peer> peers(2);
    peers[static_cast<size_t>(number)].arena = exec::ArenaView(rank.arena.data(), options.layout);
    peers[static_cast<size_t>(1 - number)].stream = link_.stream();
    peers[static_cast<size_t>(1 - number)].link = &link_;
    executor_ = std::make_unique<exec::HostExecutor>(options, std::move(peers), health_);
    pairs_ = std::make_unique<exec::PairExecutor>(*executor_);
    shape_ = std::make_shared<const BouncePairs>(std::span(&transfer_, 1), 2);
  }

  void cross(HostStagingPool& pool) {
    auto slot = BounceSlot::take(pool, shape_);
    ASSERT_TRUE(slot.ok()) << slot.status().message();
    crossing_ = std::make_shared<CudaNetworkCrossing>(std::move(slot).value(),
                                                      engines::cuda::StreamInContext{});
  }
  exec::NetworkCrossing& crossing() { return *crossing_; }
  void drop_crossing() { crossing_.reset(); }
  exec::CallState& state() { return executor_->state(); }
  void start() {
    state().name_call({.signature = 0, .what = "exchange"});
    pairs_->start(exec::BouncedTransfers{{transfer_}, shape_, crossing_, {}});
  }
  /// True when the call is over, for the host.
  bool advance() {
    const bool over = pairs_->advance() == exec::Progress::kDone;
    for (int i = 0; i < 4; ++i) link_.stream()->progress();
    return over;
  }
  /// The next piece, if the host has room for it or has got it; how many have been.
  uint64_t cross_piece(std::byte* memory) {
    const exec::BounceDirection& direction = shape_->directions()[0];
    exec::BounceDirectionWords& words = shape_->words(crossing_->memory(), 0);
    const uint64_t host = words.by_host.value.load();
    const bool may = transfer_.is_send ? pieces_ < host + direction.slots : pieces_ < host;
    if (!may || pieces_ * direction.slot_bytes >= transfer_.bytes) return pieces_;
    std::byte* const slot =
        crossing_->memory() + direction.place + pieces_ % direction.slots * direction.slot_bytes;
    const uint64_t at = pieces_ * direction.slot_bytes;
    const uint64_t bytes = std::min(direction.slot_bytes, transfer_.bytes - at);
    std::memcpy(transfer_.is_send ? slot : memory + at, transfer_.is_send ? memory + at : slot,
                bytes);
    words.by_stream.value.store(++pieces_);
    return pieces_;
  }

 private:
  transport::Link& link_;
  const exec::Transfer transfer_;
  exec::domain_test::TestHealth health_;
  std::unique_ptr<exec::HostExecutor> executor_;
  std::unique_ptr<exec::PairExecutor> pairs_;
  std::shared_ptr<const BouncePairs> shape_;
  std::shared_ptr<CudaNetworkCrossing> crossing_;
  uint64_t pieces_ = 0;
};

class BounceBuffers : public drivers::cuda::OnSoftwareDevice {
 protected:
  void SetUp() override {
    crew_ = Crew::create(kEntry, 2);
    ASSERT_NE(crew_, nullptr);
    ASSERT_TRUE(crew_->connect_all().ok());
    for (int rank = 0; rank < 2; ++rank) {
      const auto peer = static_cast<uint32_t>(1 - rank);
      ends_[rank] = std::make_unique<End>(crew_->rank(rank), rank,
                                          exec::Transfer{peer, rank == 0, nullptr, kBytes});
      ends_[rank]->cross(pool_);
    }
  }
  void TearDown() override {
    known_.clear();
    for (auto& end : ends_) end.reset();
    crew_.reset();
    EXPECT_EQ(counts().objects, 0) << "something of a card was not given back";
  }
  void announce(int rank) {
    const exec::PinnedRange pinned = ends_[rank]->crossing().pinned();
    auto known = crew_->rank(rank).transport->announce({pinned.data, pinned.bytes});
    ASSERT_TRUE(known.ok()) << known.status().message();
    known_.push_back(std::move(known).value());
  }
  /// From rank 0 to rank 1, which waits for each piece before it is there; how many bytes
  /// processors copied between caller's memory and cards.
  uint64_t pass() {
    std::vector<std::byte> source = pattern(kBytes, 5), target(kBytes);
    ends_[1]->start();
    (void)ends_[1]->advance();
    ends_[0]->start();
    uint64_t taken = 0, given = 0;
    bool over[2] = {false, false};
    for (int turns = 0; turns < 100'000 && !(over[0] && over[1]); ++turns) {
      for (const int rank : {1, 0}) over[rank] = over[rank] || ends_[rank]->advance();
      taken = ends_[1]->cross_piece(target.data());
      for (const int rank : {1, 0}) over[rank] = over[rank] || ends_[rank]->advance();
      if (given < taken + BouncePairs::kSlots) given = ends_[0]->cross_piece(source.data());
    }
    (void)ends_[1]->cross_piece(target.data());
    EXPECT_TRUE(over[0] && over[1]);
    EXPECT_EQ(source, target);
    return crew_->rank(0).transport->moved()->by_processor;
  }
  /// Where a slot of that size lies.
  const std::byte* taken_next() {
    End other(crew_->rank(0), 0, exec::Transfer{1, true, nullptr, kBytes});
    other.cross(pool_);
    return other.crossing().memory();
  }

  HostStagingPool pool_{driver()};
  std::unique_ptr<Crew> crew_;
  std::array<std::unique_ptr<End>, 2> ends_;
  std::vector<std::shared_ptr<const void>> known_;
};

TEST_F(BounceBuffers, ThatAreAnnouncedAreCopiedByNoProcessor) {
  announce(0);
  announce(1);
  EXPECT_EQ(pass(), 0u);
  EXPECT_EQ(crew_->rank(0).transport->moved()->by_hardware, kBytes);
}

// Else the test above could not fail.
TEST_F(BounceBuffers, ThatAreNotAnnouncedAreCopied) { EXPECT_EQ(pass(), kBytes); }

TEST_F(BounceBuffers, GoToTheNextCallAtOnceAfterACallThatWentWell) {
  announce(0);
  announce(1);
  (void)pass();
  const std::byte* const memory = ends_[0]->crossing().memory();
  ends_[0]->drop_crossing();
  EXPECT_EQ(taken_next(), memory);
}

TEST_F(BounceBuffers, OfACallThatHasFailedGoToNobodyBeforeThePeerHasLetGo) {
  ends_[1]->start();
  (void)ends_[1]->advance();  // the peer's card may write there from now on
  const std::byte* const memory = ends_[1]->crossing().memory();
  const auto left = ends_[1]->state().left();
  std::atomic<bool> over = false;
  conformance::in_parallel(2, [&](int rank) {
    if (rank == 0) {
      while (!over) crew_->link(0, 1).stream()->progress();
      return;
    }
    EXPECT_FALSE(left->load());
    ends_[1]->state().fail(Status::remote_error("a test says so"), {});
    over = true;
  });
  EXPECT_TRUE(left->load());
  EXPECT_TRUE(ends_[1]->advance());
  ends_[1]->drop_crossing();
  EXPECT_EQ(taken_next(), memory);
}

TEST_F(BounceBuffers, GoToNobodyWhileACallIsUnderWayThatNobodyWaitsForAnyMore) {
  const std::byte* const memory = ends_[1]->crossing().memory();
  const auto left = std::make_shared<std::atomic<bool>>(false);
  ends_[1]->crossing().begin(left);
  ends_[1]->drop_crossing();
  EXPECT_NE(taken_next(), memory);
  const uint64_t pinned = client().statistics().live_pinned_bytes;
  ends_[0]->drop_crossing();
  pool_.trim();  // the two others
  EXPECT_EQ(client().statistics().live_pinned_bytes, pinned / 3);
  *left = true;
  EXPECT_EQ(taken_next(), memory);
}

TEST_F(BounceBuffers, StayWhileACommunicatorHasAnnouncedThem) {
  auto owner = ends_[0]->crossing().pinned().owner;
  const std::byte* const memory = ends_[0]->crossing().memory();
  for (auto& end : ends_) end->drop_crossing();
  const uint64_t pinned = client().statistics().live_pinned_bytes;
  pool_.trim();
  EXPECT_EQ(client().statistics().live_pinned_bytes, pinned / 2);
  EXPECT_EQ(taken_next(), memory) << "the pool has forgotten it";
  owner.reset();
  pool_.trim();
  EXPECT_EQ(client().statistics().live_pinned_bytes, 0u);
}

}  // namespace
}  // namespace tutti::software_verbs
