#include "src/exec/staging_stores.h"

#include <gtest/gtest.h>

#include <array>

namespace tutti::exec {
namespace {

// Runs moves of 64 KiB on processors with these costs. Readers tell what they pay when the choice
// asks for it, if they are known.
class Simulation {
 public:
  double cached_ns = 3000;
  double streaming_ns = 2700;
  StoreCosts read{};  // ns a byte
  int readers = 1;    // in turn; one of several runs on the writer's processor
  uint64_t now_ns = 1;
  uint64_t streamed = 0;

  void run(int moves) {
    for (int i = 0; i < moves; ++i) {
      const StagingChoice::StoreChoice turn = choice.next(kBytes);
      const bool is_near = readers > 1 && i % readers == 0;
      const double cached = is_near ? kNearNs : cached_ns;
      const auto ns = static_cast<uint64_t>(turn.streaming ? streaming_ns : cached);
      now_ns += ns;
      streamed += turn.streaming;
      if (turn.timed && choice.took(kBytes, turn, ns, now_ns)) choice.choose(kBytes, read);
    }
  }

  uint64_t streamed_of(int moves) {
    streamed = 0;
    run(moves);
    return streamed;
  }

  static constexpr uint64_t kBytes = 65536;
  static constexpr double kNearNs = 3000;
  StagingChoice choice;
};

TEST(StagingChoice, CachedBetweenNearProcessors) {
  Simulation near;
  near.run(300);
  EXPECT_LE(near.streamed_of(10'000), 10'000 / 25);
}

TEST(StagingChoice, StreamingBetweenFarProcessors) {
  Simulation far;
  far.cached_ns = 28'000;
  far.run(300);
  EXPECT_GE(far.streamed_of(10'000), 10'000 / 25 * 24);
}

// The writer of far lines may be the faster one with cached stores, and its reader waits for them.
TEST(StagingChoice, StreamingWhereTheReaderPaysForTheDistance) {
  Simulation far;
  far.cached_ns = 2500;
  far.run(1000);
  EXPECT_FALSE(far.choice.next(Simulation::kBytes).streaming) << "nobody has told";
  far.read = {0.12F, 0.05F};
  far.run(10'000);
  EXPECT_GE(far.streamed_of(10'000), 10'000 / 25 * 24);
}

TEST(StagingChoice, CachedWhereReadersWouldPayMoreThanTheWriterGains) {
  Simulation near;
  near.cached_ns = 2700 * 2.2;  // beyond what cached stores may cost by themselves
  near.run(500);
  EXPECT_TRUE(near.choice.next(Simulation::kBytes).streaming) << "nobody has told";
  near.read = {0.02F, 0.11F};
  near.run(10'000);
  EXPECT_LE(near.streamed_of(10'000), 10'000 / 25);
}

TEST(StagingChoice, StreamingWhereSomeReadersAreFar) {
  for (int readers : {2, 3, 4, 8}) {
    Simulation mixed;
    mixed.readers = readers;
    mixed.cached_ns = 28'000;
    mixed.run(2000);
    EXPECT_GE(mixed.streamed_of(20'000), 18'000u) << readers << " readers, one near";
  }
}

// Readers take turns: every eighth move may go to the same one.
TEST(StagingChoice, TimesMovesToEachOfEightReaders) {
  StagingChoice choice;
  std::array<int, 8> timed{};
  for (int i = 0; i < 16'000; ++i) timed[i % 8] += choice.next(Simulation::kBytes).timed;
  for (const int count : timed) EXPECT_NEAR(count, 2000 / StagingChoice::kTimedEvery, 50);
}

TEST(StagingChoice, TrialsTakeLittleTime) {
  Simulation far;
  far.cached_ns = 3'000'000;
  far.run(1000);
  const uint64_t begin_ns = far.now_ns;
  const uint64_t moves = 4'000'000;
  const uint64_t cached = moves - far.streamed_of(moves);
  EXPECT_GE(cached, StagingChoice::kTrialMoves) << "it still tries";
  EXPECT_LE(cached * 3'000'000, (far.now_ns - begin_ns) / 20) << "the pause has its limit";
}

TEST(StagingChoice, FollowsTheProcessorsAsTheyMove) {
  Simulation moved;
  moved.run(300);
  moved.cached_ns = 28'000;
  EXPECT_GE(moved.streamed_of(1000), 800u) << "sixteen timed moves show that it has changed";
  moved.cached_ns = 3000;
  moved.run(100'000'000 / 2700);  // until the next trial
  EXPECT_LE(moved.streamed_of(1000), StagingChoice::kTrialMoves);
}

// A virtual machine may stand still for seconds.
TEST(StagingChoice, AnInterruptedTrialIsNotTheLast) {
  Simulation moved;
  moved.run(300);
  moved.cached_ns = 28'000;
  moved.run(1000);
  while (moved.streamed_of(1) == 1) {
  }
  moved.cached_ns = 1e10;  // the second move of a trial
  moved.run(1);
  moved.cached_ns = 28'000;
  moved.run(100);
  moved.cached_ns = 3000;
  moved.run(2 * StagingChoice::kLongestPauseNs / 2700);
  EXPECT_LE(moved.streamed_of(1000), StagingChoice::kTrialMoves);
}

// A class that is used for a millisecond now and then: what it knows is old every time.
TEST(StagingChoice, LearnsAgainWithinAMillisecond) {
  Simulation moves;
  moves.streaming_ns = 1000;
  for (int burst = 0; burst < 20; ++burst) {
    const bool far = burst % 2 == 1;
    moves.cached_ns = far ? 3000 : 300;
    moves.read = far ? StoreCosts{0.12F, 0.05F} : StoreCosts{0.02F, 0.05F};
    moves.run(300);
    const uint64_t streamed = moves.streamed_of(1000);
    const uint64_t wrong = far ? 1000 - streamed : streamed;
    EXPECT_LE(wrong, StagingChoice::kTrialMoves) << "burst " << burst;
    moves.now_ns += 500'000'000;
  }
}

TEST(StagingChoice, OneInterruptedMoveChangesNothing) {
  Simulation busy;
  busy.run(300);
  uint64_t streamed = 0;
  for (int i = 0; i < 1000; ++i) {
    busy.cached_ns = 1e6;
    streamed += busy.streamed_of(1);
    busy.cached_ns = 3000;
    streamed += busy.streamed_of(49);
  }
  EXPECT_LE(streamed, 50'000 / 25) << "trials; a move of fifty was interrupted";
}

TEST(StagingMark, NamesOneMove) {
  const uint64_t last = ~uint64_t{0};
  for (const uint64_t at : {uint64_t{0}, uint64_t{7}, uint64_t{1} << 56, last}) {
    const StagingMark mark(StagingMark(at, 9, true).word());
    EXPECT_TRUE(mark.is_among(at, 1));
    EXPECT_FALSE(mark.is_among(at + 1, 1));
    EXPECT_FALSE(mark.is_among(at - 1, 1));
    EXPECT_TRUE(mark.is_among(at - 4095, 4096));
    EXPECT_FALSE(mark.is_among(at - 4096, 4096));
    EXPECT_EQ(mark.size_class(), 9u);
    EXPECT_TRUE(mark.streaming());
  }
  EXPECT_FALSE(StagingMark(0).is_among(0, 1)) << "memory that nobody wrote";
  EXPECT_FALSE(StagingMark(3, 0, false).streaming());
}

TEST(StagingReader, PublishesByClassAndKindAndTimesOnlyWhatIsMarked) {
  StagingReads published{};
  StagingReader reader(published);
  const auto costs_of = [&](uint64_t bytes) {
    return std::bit_cast<StoreCosts>(published.costs[staging_class(bytes)].load());
  };
  const auto take = [&](uint64_t bytes, bool streaming, uint64_t duration_ns) {
    for (uint32_t i = 0; i < StagingReader::kToldEvery; ++i) {
      reader.took(bytes, StagingMark(i, staging_class(65536), streaming), duration_ns);
    }
  };
  take(65536, true, 6554);
  take(16384, false, 3277);  // a part of it
  EXPECT_NEAR(costs_of(65536)[true], 0.1, 0.001);
  EXPECT_NEAR(costs_of(65536)[false], 0.2, 0.001);
  EXPECT_EQ(costs_of(16384), StoreCosts{});
  int reads = 0;
  const StagingMark mark(5, staging_class(8192), true);
  reader(8192, mark, 6, 1, [&] { ++reads; });
  reader(4095, mark, 5, 1, [&] { ++reads; });
  EXPECT_EQ(costs_of(8192), StoreCosts{});
  for (uint32_t i = 0; i < StagingReader::kToldEvery; ++i) {
    EXPECT_EQ(costs_of(8192), StoreCosts{}) << "it tells after several";
    reader(8192, mark, 5, 1, [&] { ++reads; });
  }
  EXPECT_GT(costs_of(8192)[true], 0);
  EXPECT_EQ(reads, 2 + static_cast<int>(StagingReader::kToldEvery));
  reader.took(8192, StagingMark(uint64_t{15} << 2 | 1), 100);  // no such class: nothing is written
}

TEST(StagingReaders, TheSlowestCountsAsLongAsItTells) {
  constexpr uint64_t kBytes = 65536;
  std::array<StagingReads, 2> published{};
  StagingReaders readers({&published[0], &published[1]});
  const auto tell = [&](int reader, const StoreCosts& costs) {
    published[reader].costs[staging_class(kBytes)] = std::bit_cast<uint64_t>(costs);
  };
  EXPECT_EQ(readers.look(kBytes), StoreCosts{}) << "nobody has told";
  tell(0, {0.5F, 0.1F});
  tell(1, {0.3F, 0.2F});
  EXPECT_EQ(readers.look(kBytes), (StoreCosts{0.5F, 0.2F}));
  EXPECT_EQ(readers.look(kBytes / 2), StoreCosts{}) << "another class";
  tell(1, {0.3F, 0});
  EXPECT_EQ(readers.look(kBytes), (StoreCosts{0.5F, 0.1F})) << "half of what it has to tell";
  for (uint32_t look = 2; look < StagingReaders::kGoneLooks; ++look) {
    tell(1, {0.4F, 0.01F * static_cast<float>(look)});
    EXPECT_EQ(readers.look(kBytes)[false], 0.5F) << look;
  }
  tell(1, {0.4F, 0.2F});
  EXPECT_EQ(readers.look(kBytes), (StoreCosts{0.4F, 0.2F})) << "the first is gone";
  tell(0, {0.6F, 0.1F});
  EXPECT_EQ(readers.look(kBytes), (StoreCosts{0.6F, 0.2F})) << "it is back";
}

TEST(StagingChoice, SizesAreJudgedApart) {
  Simulation far;
  far.cached_ns = 28'000;
  far.run(300);
  EXPECT_TRUE(far.choice.next(Simulation::kBytes).streaming);
  EXPECT_FALSE(far.choice.next(kLeastStagingBytes).streaming);
  EXPECT_FALSE(far.choice.next(uint64_t{1} << 40).streaming);
}

}  // namespace
}  // namespace tutti::exec
