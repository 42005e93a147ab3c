// Looks at the recorders of a job that goes on, with one rank that computes for longer.
#include "src/health/slow_peers.h"

#include <gtest/gtest.h>

#include <vector>

#include "src/base/prng.h"

namespace tutti::health {
namespace {

/// Ranks that compute for 10 ms, and then meet in a call of 2 ms; with jitter.
class SteppingJob {
 public:
  SteppingJob(int ranks, int slow, double times, uint64_t seed)
      : slow_(slow), times_(times), random_(seed), now_(static_cast<size_t>(ranks), 1e9) {
    snapshots_.resize(now_.size());
    for (size_t rank = 0; rank < now_.size(); ++rank) {
      snapshots_[rank].communicator = 0xabc;
      snapshots_[rank].rank = static_cast<int>(rank);
      snapshots_[rank].ranks = ranks;
    }
  }

  const std::vector<trace::Snapshot>& go_on(int steps) {
    for (int step = 0; step < steps; ++step) {
      double latest = 0;
      std::vector<double> comes;
      for (size_t rank = 0; rank < now_.size(); ++rank) {
        const double times = static_cast<int>(rank) == slow_ ? times_ : 1;
        comes.push_back(now_[rank] + 10e6 * times * (0.95 + 0.1 * random_.unit()));
        latest = std::max(latest, comes.back());
      }
      for (size_t rank = 0; rank < now_.size(); ++rank) {
        trace::CallRecord call;
        call.order = snapshots_[rank].calls.size() + 1;
        call.state = trace::RecordState::kDone;
        call.collective = "all_reduce";
        call.start_ns = static_cast<uint64_t>(comes[rank]);
        now_[rank] = latest + 2e6;
        call.end_ns = static_cast<uint64_t>(now_[rank]);
        snapshots_[rank].calls.push_back(call);
      }
    }
    return snapshots_;
  }
  std::vector<trace::Snapshot>& snapshots() { return snapshots_; }

 private:
  const int slow_;
  const double times_;
  Prng random_;
  std::vector<double> now_;
  std::vector<trace::Snapshot> snapshots_;
};

TEST(SlowPeersTest, WhoComputesForLongerIsSuspectedAfterItsWindowsAndNobodyElse) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SteppingJob job(8, 5, 1.3, seed);
    SlowPeers peers({.windows = 3});
    EXPECT_TRUE(peers.add(job.go_on(20)).empty());
    EXPECT_TRUE(peers.add(job.go_on(20)).empty());
    const std::vector<SlowPeer> found = peers.add(job.go_on(20));
    ASSERT_EQ(found.size(), 1u) << seed;
    EXPECT_EQ(found[0].rank, 5);
    EXPECT_GT(found[0].between_ns, 1.2 * found[0].usual_between_ns);
  }
}

TEST(SlowPeersTest, NobodyIsSuspectedWhereAllAreAlike) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SteppingJob job(8, 0, 1, seed);
    SlowPeers peers({.windows = 3});
    for (int look = 0; look < 12; ++look) EXPECT_TRUE(peers.add(job.go_on(20)).empty()) << seed;
  }
}

TEST(SlowPeersTest, WindowsInWhichNothingEndsCountForNothing) {
  SteppingJob job(4, 2, 2, 1);
  SlowPeers peers({.windows = 2});
  EXPECT_TRUE(peers.add(job.go_on(20)).empty());
  EXPECT_TRUE(peers.add(job.go_on(0)).empty());
  EXPECT_EQ(peers.add(job.go_on(20)).size(), 1u);
  job.snapshots().pop_back();  // it has gone: three are too few to be compared
  EXPECT_TRUE(peers.add(job.go_on(0)).empty());
}

}  // namespace
}  // namespace tutti::health
