// Ranks as threads, each with the environment that its launcher would have made.
#include "src/bootstrap/launch/meeting.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "src/bootstrap/group.h"
#include "src/bootstrap/rendezvous.h"
#include "tests/support/reserved_port.h"

namespace tutti::bootstrap {
namespace {

constexpr int kRanks = 3;

uint64_t in(uint64_t milliseconds) { return monotonic_ns() + milliseconds * 1'000'000; }

class MeetingTest : public testing::Test {
 protected:
  MeetingTest() {
    std::string pattern = testing::TempDir() + "tutti-meeting-XXXXXX";
    root_ = mkdtemp(pattern.data());
  }
  ~MeetingTest() override {
    EXPECT_TRUE(std::filesystem::is_empty(root_)) << "something is left behind";
    std::filesystem::remove_all(root_);
  }

  Variables variables(int rank) const {
    return {{"RANK", std::to_string(rank)},
            {"WORLD_SIZE", std::to_string(kRanks)},
            {"MASTER_ADDR", "127.0.0.1"},
            {"XDG_RUNTIME_DIR", root_}};
  }

  /// Every rank's sentence: "" if all met, by the way and `rounds` times.
  std::vector<std::string> run(const Config& config, const Variables& changed, std::string_view way,
                               uint64_t milliseconds = 60'000) {
    std::vector<std::string> errors(kRanks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        Variables mine = variables(rank);
        for (const auto& [name, value] : changed) mine[name] = value;
        for (uint64_t round = 0; round < 3 && errors[rank].empty(); ++round) {
          errors[rank] = meet(config, mine, {round, round}, way, in(milliseconds));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return errors;
  }

  static std::string meet(const Config& config, const Variables& mine, const Launches& launches,
                          std::string_view way, uint64_t deadline_ns) {
    Result<LaunchMeeting> meeting = meet_launched(config, mine, launches, deadline_ns);
    if (!meeting.ok()) return std::string(meeting.status().message());
    LaunchMeeting& met = meeting.value();
    if (met.way != way) return "met by " + met.way;
    if (met.insecure != (config.insecure && !config.key)) return "insecure is wrong";
    const std::string card(kMaxBlobBytes, 'x');
    const auto cards = exchange(met.id, met.launch.rank, met.launch.ranks, card, deadline_ns);
    const Status status = cards.status();
    met.close(cards.ok(), deadline_ns);
    return cards.ok() ? "" : std::string(status.message());
  }

  /// Every rank's sentence. `kept`: the ranks go on living, with their claims.
  std::vector<std::string> run_once(const Config& config,
                                    std::vector<std::unique_ptr<RankClaim>>* kept) {
    std::vector<std::string> errors(kRanks);
    std::vector<std::unique_ptr<RankClaim>> claims(kRanks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank, at = static_cast<size_t>(rank)] {
        Result<LaunchMeeting> meeting = meet_launched(config, variables(rank), {}, in(60'000));
        if (!meeting.ok()) errors[at] = meeting.status().message();
        if (!meeting.ok()) return;
        LaunchMeeting& met = meeting.value();
        const auto cards = exchange(met.id, rank, kRanks, "x", in(60'000));
        const Status status = cards.ok() ? met.confirm() : cards.status();
        met.close(status.ok(), in(60'000));
        if (!status.ok()) errors[at] = status.message();
        claims[at] = std::move(met.claim);
      });
    }
    for (std::thread& thread : threads) thread.join();
    if (kept != nullptr) *kept = std::move(claims);
    return errors;
  }

  /// How many files there are whose names begin so.
  size_t posted(const std::string& prefix) const {
    const Result<LocalFile::Found> found = LocalFile::find(root_ + "/tutti", prefix);
    return found.ok() ? found.value().posted.size() : 0;
  }

  std::string root_;
};

const std::vector<std::string> kAllMet(kRanks);

TEST_F(MeetingTest, ByAFileOfThisHost) { EXPECT_EQ(run({}, {}, "a file of this host"), kAllMet); }

TEST_F(MeetingTest, AtThePlaceOfTuttiId) {
  const testing_support::ReservedPort port;
  Config config;
  config.id = "127.0.0.1:" + std::to_string(port.number());
  for (const std::string& error : run(config, {}, "TUTTI_ID")) {
    EXPECT_NE(error.find("TUTTI_KEY_FILE"), std::string::npos) << error;
  }
  config.key = SecretKey{1, 2, 3};
  EXPECT_EQ(run(config, {}, "TUTTI_ID"), kAllMet);
}

TEST_F(MeetingTest, AtTheMasterOfSeveralHosts) {
  // Resolves to this host, but is not the word by which one knows that all ranks are here.
  const testing_support::ReservedPort port;
  const Variables several = {{"MASTER_ADDR", "LOCALHOST"},
                             {"MASTER_PORT", std::to_string(port.number() - 1)}};
  Config config;
  config.socket_ifname = "lo";
  for (const std::string& error : run(config, several, "MASTER_ADDR")) {
    EXPECT_NE(error.find("TUTTI_KEY_FILE"), std::string::npos) << error;
    EXPECT_NE(error.find("TUTTI_INSECURE=1"), std::string::npos) << error;
  }
  config.insecure = true;
  EXPECT_EQ(run(config, several, "MASTER_ADDR"), kAllMet);
  config.key = SecretKey{1, 2, 3};
  EXPECT_EQ(run(config, several, "MASTER_ADDR"), kAllMet);
}

// Rank 0 is at its second try, the others are at their first one. Of those, one that comes before
// rank 0 has opened the place again is told how the first try ended, or that it ended, and tries
// again, too.
TEST_F(MeetingTest, ARankThatGaveUpTriesAgainAndMeetsTheOthers) {
  constexpr std::string_view kLonely = "ranks 1, 2 of 3 did not come";
  const testing_support::ReservedPort port;
  Config with_place;
  with_place.id = "127.0.0.1:" + std::to_string(port.number());
  with_place.key = SecretKey{1, 2, 3};
  for (const auto& [config, way] :
       {std::pair(Config{}, "a file of this host"), std::pair(with_place, "TUTTI_ID")}) {
    const std::string alone = meet(config, variables(0), {0, 0}, way, in(500));
    EXPECT_NE(alone.find(kLonely), std::string::npos) << alone;
    const uint64_t deadline_ns = in(60'000);
    std::vector<std::string> errors(kRanks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        uint64_t tried = rank == 0 ? 1 : 0;
        do {
          errors[rank] = meet(config, variables(rank), {0, tried++}, way, deadline_ns);
        } while (rank != 0 && !errors[rank].empty() && monotonic_ns() < deadline_ns);
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(errors, kAllMet) << way;
  }
}

TEST_F(MeetingTest, RanksAtDifferentMakingsAreToldSo) {
  constexpr std::string_view kWay = "a file of this host";
  for (const auto& [first, other] :
       {std::pair(Launches{1, 1}, Launches{0, 1}), std::pair(Launches{0, 1}, Launches{1, 1})}) {
    std::string errors[2];
    std::thread rank_0([&] { errors[0] = meet({}, variables(0), first, kWay, in(2000)); });
    errors[1] = meet({}, variables(1), other, kWay, in(1000));
    rank_0.join();
    const bool ahead = first.made > other.made;
    const char* const said = ahead ? "launched communicator number 2, this rank number 1"
                                   : "launched communicator number 1, this rank at number 2";
    EXPECT_NE(errors[1].find(said), std::string::npos) << errors[1];
    EXPECT_NE(errors[0].find(ahead ? "rank 1 aborted" : "ranks 1, 2 of 3 did not come"),
              std::string::npos)
        << errors[0];
  }
}

TEST_F(MeetingTest, TwoJobsThatNothingTellsApartAreRefused) {
  constexpr std::string_view kWay = "a file of this host";
  std::string errors[2];
  std::thread first([&] { errors[0] = meet({}, variables(0), {}, kWay, in(10'000)); });
  std::thread second([&] { errors[1] = meet({}, variables(0), {}, kWay, in(10'000)); });
  first.join();
  second.join();
  for (const std::string& error : errors) {
    EXPECT_NE(error.find("two jobs"), std::string::npos) << error;
    EXPECT_NE(error.find("TUTTI_JOB"), std::string::npos) << error;
  }
}

// Of the two ranks 1 nobody knows which is of rank 0's job: so it is told, too.
TEST_F(MeetingTest, ARankThatIsClaimedTwiceIsRefusedBothTimes) {
  const testing_support::ReservedPort port;
  Config with_place;
  with_place.id = "127.0.0.1:" + std::to_string(port.number());
  with_place.key = SecretKey{1, 2, 3};
  for (const auto& [config, way] :
       {std::pair(Config{}, "a file of this host"), std::pair(with_place, "TUTTI_ID")}) {
    std::vector<std::string> errors(3);
    std::vector<std::thread> threads;
    for (const int rank : {0, 1, 1}) {
      const size_t at = threads.size();
      while (at == 2 && (posted("claim-") < 2 || (config.id.empty() && posted("job-") < 1))) {
        std::this_thread::yield();
      }
      threads.emplace_back(
          [&, rank, at] { errors[at] = meet(config, variables(rank), {}, way, in(60'000)); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::string& error : errors) {
      EXPECT_NE(error.find("two jobs"), std::string::npos) << way << ": " << error;
      EXPECT_NE(error.find("TUTTI_JOB"), std::string::npos) << error;
    }
  }
}

TEST_F(MeetingTest, ARankOfAJobThatRunsIsRefusedToOthers) {
  constexpr std::string_view kWay = "a file of this host";
  std::vector<std::unique_ptr<RankClaim>> kept;
  ASSERT_EQ(run_once({}, &kept), kAllMet);
  for (const std::string& error : run_once({}, nullptr)) {  // it looks the same
    EXPECT_NE(error.find("process " + std::to_string(getpid()) + " is rank "), std::string::npos);
    EXPECT_NE(error.find("TUTTI_JOB"), std::string::npos) << error;
  }
  Config named;
  named.job = "other";
  EXPECT_EQ(run_once(named, nullptr), kAllMet);
  const std::string further = meet({}, variables(0), {1, 1}, kWay, in(100));
  EXPECT_NE(further.find("did not come"), std::string::npos) << further;
  kept.clear();
  EXPECT_EQ(run_once({}, nullptr), kAllMet);
}

TEST_F(MeetingTest, OneClaimOfTwoCannotBeConfirmed) {
  const RankName name{root_ + "/tutti", "00", {}, 1};
  {
    const Result<std::unique_ptr<RankClaim>> first = RankClaim::take(name, in(1000), nullptr);
    ASSERT_TRUE(first.ok()) << first.status().message();
    EXPECT_FALSE(first.value()->contested());
    bool twins = false;
    EXPECT_FALSE(RankClaim::take(name, in(1000), &twins).ok());
    EXPECT_TRUE(twins);
    EXPECT_TRUE(first.value()->contested());
    EXPECT_EQ(first.value()->confirm().code(), Code::kInvalidUsage);
    RankName other = name;
    other.rank = 11;
    const Result<std::unique_ptr<RankClaim>> beside = RankClaim::take(other, in(1000), &twins);
    ASSERT_TRUE(beside.ok());
    EXPECT_TRUE(beside.value()->confirm().ok());
  }
}

TEST_F(MeetingTest, JobsWithNamesOfTheirOwnDoNotSeeEachOther) {
  std::vector<std::string> errors[2];
  std::thread jobs[2];
  for (size_t job = 0; job < 2; ++job) {
    jobs[job] = std::thread([&, job] {
      Config config;
      config.job = job == 0 ? "one" : "other";
      errors[job] = run(config, {}, "a file of this host");
    });
  }
  for (std::thread& job : jobs) job.join();
  for (const auto& told : errors) EXPECT_EQ(told, kAllMet);
}

TEST_F(MeetingTest, RanksWithoutALaunchersContactAreRefused) {
  const Variables forged = {
      {"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALNRANKS", "2"}, {"XDG_RUNTIME_DIR", root_}};
  const Result<LaunchMeeting> meeting = meet_launched({}, forged, {}, in(1000));
  EXPECT_EQ(meeting.status().code(), Code::kInvalidUsage);
  EXPECT_NE(meeting.status().message().find("set TUTTI_JOB"), std::string_view::npos);
}

TEST_F(MeetingTest, WithoutAPlaceTheUserIsToldWhatThereIs) {
  for (const std::string& error : run({}, {{"MASTER_ADDR", ""}}, "")) {
    EXPECT_NE(error.find("MASTER_ADDR: it is not set"), std::string::npos) << error;
    EXPECT_NE(error.find("PMIX_NAMESPACE"), std::string::npos) << error;
  }
}

TEST_F(MeetingTest, NobodyLaunchedThis) {
  const Result<LaunchMeeting> meeting = meet_launched({}, {}, {}, in(1000));
  EXPECT_EQ(meeting.status().code(), Code::kInvalidUsage);
  EXPECT_NE(meeting.status().message().find("not started as one rank"), std::string_view::npos);
}

TEST_F(MeetingTest, ARankThatWaitsAloneSaysForWhat) {
  const Result<LaunchMeeting> meeting = meet_launched({}, variables(1), {}, in(50));
  EXPECT_EQ(meeting.status().code(), Code::kTimeout);
  EXPECT_NE(meeting.status().message().find("rank 0 did not post"), std::string_view::npos);
}

TEST_F(MeetingTest, TextThatIsNoIdIsNotShown) {
  Config config;
  config.id = "secretsecret";
  const Result<LaunchMeeting> meeting = meet_launched(config, variables(0), {}, in(1000));
  EXPECT_EQ(meeting.status().code(), Code::kInvalidArgument);
  EXPECT_EQ(meeting.status().message().find("secretsecret"), std::string_view::npos);
}

}  // namespace
}  // namespace tutti::bootstrap
