// Verdicts over recorders with planted faults, and none over recorders without.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "src/health/dump.h"
#include "src/health/recorded_job_test.h"
#include "src/health/report.h"
#include "src/trace/record_file.h"

namespace tutti::health {
namespace {

using tests::Fault;
using tests::JobRecorders;
using tests::RecordedJob;

// As they come back from the bytes of files.
std::vector<RankRecorder> read_back(const std::vector<RankRecorder>& recorders) {
  std::vector<RankRecorder> read;
  for (const RankRecorder& one : recorders) {
    const tests::RecorderBytes file(one.snapshot);
    Result<trace::Snapshot> snapshot = trace::read(file.bytes());
    EXPECT_TRUE(snapshot.ok()) << snapshot.status().message();
    if (snapshot.ok()) read.push_back({std::move(snapshot).value(), one.now_ns});
  }
  return read;
}

HealthKind kind_of(Fault fault) {
  switch (fault) {
    case Fault::kMismatch:
      return HealthKind::kMismatch;
    case Fault::kMissing:
      return HealthKind::kMissing;
    case Fault::kComputingHang:
      return HealthKind::kComputingHang;
    case Fault::kCommunicationHang:
      return HealthKind::kCommunicationHang;
    case Fault::kComputingSlow:
      return HealthKind::kComputingSlow;
    default:
      return HealthKind::kCommunicationSlow;
  }
}

bool names_two(Fault fault) { return fault == Fault::kPath || fault == Fault::kCommunicationHang; }

bool is_right(const std::vector<CommunicatorHealth>& all, const RecordedJob& job) {
  if (all.size() != 1 || all[0].verdicts.size() != 1) return false;
  const HealthVerdict& verdict = all[0].verdicts[0];
  const std::vector<int> blamed =
      names_two(job.fault) ? std::vector<int>{job.rank, job.peer} : std::vector<int>{job.rank};
  if (verdict.kind != kind_of(job.fault) || verdict.ranks != blamed) return false;
  switch (job.fault) {
    case Fault::kSender:
      return verdict.part == SlowPart::kSender;
    case Fault::kReceiver:
      return verdict.part == SlowPart::kReceiver;
    case Fault::kRank:
      return verdict.part == SlowPart::kRank;
    case Fault::kPath:
      return verdict.part == SlowPart::kPath;
    default:
      return true;
  }
}

TEST(HealthAnalysis, FindsThePlantedFaultInTwoHundredJobs) {
  constexpr int kJobs = 200, kFaults = 9;
  Prng random(50);
  for (int i = 0; i < kJobs; ++i) {
    RecordedJob job;
    job.ranks = 4 + static_cast<int>(random.below(i % 10 == 0 ? 61 : 13));
    job.fault = static_cast<Fault>(1 + i % kFaults);
    job.rank = static_cast<int>(random.below(static_cast<uint64_t>(job.ranks)));
    job.peer =
        (job.rank + 1 + static_cast<int>(random.below(static_cast<uint64_t>(job.ranks) - 1))) %
        job.ranks;
    const JobRecorders made(job, random());
    const auto all = analyse(read_back(made.recorders()));
    ASSERT_TRUE(is_right(all, job))
        << "job " << i << ", fault " << static_cast<int>(job.fault) << " of rank " << job.rank
        << " towards " << job.peer << " of " << job.ranks << ":\n"
        << text_report(all, true);
  }
}

TEST(HealthAnalysis, FindsNothingInAThousandCleanSteps) {
  Prng random(51);
  for (int i = 0; i < 40; ++i) {
    RecordedJob job;
    job.ranks = 4 + static_cast<int>(random.below(i % 8 == 0 ? 61 : 13));
    job.steps = 25;
    const JobRecorders made(job, random());
    const auto all = analyse(made.recorders());
    ASSERT_EQ(all.size(), 1u);
    ASSERT_TRUE(all[0].verdicts.empty()) << text_report(all, true);
  }
}

TEST(HealthAnalysis, SetsAsideOtherEpochsAndRecordersThatAreNone) {
  RecordedJob job;
  std::vector<RankRecorder> recorders = JobRecorders(job, 1).recorders();
  for (RankRecorder& one : recorders) one.snapshot.epoch = 2;
  recorders[1].snapshot.epoch = 1;
  std::swap(recorders[2].snapshot.calls.front(), recorders[2].snapshot.calls.back());
  const auto all = analyse(recorders);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].set_aside.size(), 2u);
  EXPECT_EQ(all[0].present, (std::vector<int>{0, 3}));
  ASSERT_EQ(all[0].verdicts.size(), 1u);
  EXPECT_EQ(all[0].verdicts[0].kind, HealthKind::kMissing);
}

// Ranks 0 and 2 say that rank 1 has entered their call and does nothing there.
TEST(HealthAnalysis, TellsAProcessThatWasStoppedInTheMiddle) {
  RecordedJob job;
  job.fault = Fault::kCommunicationHang;
  job.rank = 1;
  std::vector<RankRecorder> recorders = JobRecorders(job, 8).recorders();
  for (RankRecorder& one : recorders) {
    trace::CallRecord& last = one.snapshot.calls.back();
    for (trace::ExchangeRecord& exchange : last.exchanges) {
      const bool stopped = exchange.peer == 1;
      exchange.state = stopped ? trace::PeerState::kElsewhere : trace::PeerState::kWaits;
      exchange.call = last.number;
      exchange.blame = 1;
    }
  }
  const auto all = analyse(recorders);
  ASSERT_EQ(all[0].verdicts.size(), 1u);
  EXPECT_EQ(all[0].verdicts[0].kind, HealthKind::kComputingHang);
  EXPECT_EQ(all[0].verdicts[0].ranks, std::vector<int>{1});
}

// The others have gone on; the one that is behind waits for bytes of rank 0, which has sent all.
TEST(HealthAnalysis, TellsALossOnTheWayFromARankThatIsLate) {
  RecordedJob job;
  job.fault = Fault::kComputingHang;
  job.rank = 2;
  std::vector<RankRecorder> recorders = JobRecorders(job, 8).recorders();
  EXPECT_EQ(analyse(recorders)[0].verdicts[0].kind, HealthKind::kComputingHang);
  std::vector<trace::CallRecord>& calls = recorders[2].snapshot.calls;
  while (calls.back().series != trace::Series::kCollective) calls.pop_back();
  calls.back().state = trace::RecordState::kRunning;
  calls.back().waits_for = 0;
  trace::ExchangeRecord exchange;
  exchange.messages = 4;
  calls.back().exchanges.push_back(exchange);
  const auto all = analyse(recorders);
  ASSERT_EQ(all[0].verdicts.size(), 1u);
  EXPECT_EQ(all[0].verdicts[0].kind, HealthKind::kCommunicationHang);
  EXPECT_EQ(all[0].verdicts[0].ranks, (std::vector<int>{0, 2}));
}

TEST(HealthAnalysis, NeedsEnoughCallsForSlowness) {
  RecordedJob job;
  job.fault = Fault::kComputingSlow;
  job.steps = 9;
  for (RankRecorder& one : JobRecorders(job, 3).recorders())
    EXPECT_FALSE(one.snapshot.calls.empty());
  EXPECT_TRUE(analyse(JobRecorders(job, 3).recorders())[0].verdicts.empty());
  job.steps = 12;
  EXPECT_FALSE(analyse(JobRecorders(job, 3).recorders())[0].verdicts.empty());
}

// The example of communication_systems: 8 x 8, 5 % of noise, a fault of four times the delay.
TEST(DelayMatrixTest, TellsSenderReceiverRankAndPath) {
  Prng random(7);
  const auto matrix = [&](auto slow) {
    DelayMatrix made(8);
    for (uint32_t source = 0; source < 8; ++source) {
      for (uint32_t target = 0; target < 8; ++target) {
        if (source == target) continue;
        const double noise = 0.95 + 0.1 * random.unit();
        made.add(source, target, 1e6 * noise * (slow(source, target) ? 4 : 1));
      }
    }
    return made;
  };
  const auto judged = [&](auto slow) { return judge(matrix(slow)); };
  EXPECT_FALSE(judged([](uint32_t, uint32_t) { return false; }).has_value());
  const auto sender = judged([](uint32_t s, uint32_t) { return s == 3; });
  ASSERT_TRUE(sender.has_value());
  EXPECT_EQ(sender->part, SlowPart::kSender);
  EXPECT_EQ(sender->source, 3u);
  EXPECT_NEAR(sender->times, 4, 0.4);
  const auto receiver = judged([](uint32_t, uint32_t t) { return t == 5; });
  ASSERT_TRUE(receiver.has_value());
  EXPECT_EQ(receiver->part, SlowPart::kReceiver);
  EXPECT_EQ(receiver->target, 5u);
  const auto path = judged([](uint32_t s, uint32_t t) { return s == 2 && t == 6; });
  ASSERT_TRUE(path.has_value());
  EXPECT_EQ(path->part, SlowPart::kPath);
  EXPECT_EQ(path->source, 2u);
  EXPECT_EQ(path->target, 6u);
  const auto both = judged([](uint32_t s, uint32_t t) { return s == 3 || t == 3; });
  ASSERT_TRUE(both.has_value());
  EXPECT_EQ(both->part, SlowPart::kRank);
  EXPECT_EQ(both->source, 3u);
  DelayMatrix few(2);
  few.add(0, 1, 1e6);
  few.add(1, 0, 9e6);
  EXPECT_FALSE(judge(few).has_value());
}

TEST(HealthDump, ReadsWhatTraceDumpPrints) {
  RecordedJob job;
  job.fault = Fault::kCommunicationHang;
  job.rank = 2;
  job.peer = 3;
  std::vector<trace::Snapshot> snapshots;
  for (RankRecorder& one : JobRecorders(job, 5).recorders()) snapshots.push_back(one.snapshot);
  const auto read = read_dump(trace::to_json(snapshots), "host.json");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_TRUE(is_right(analyse(read.value().recorders), job));
  EXPECT_FALSE(read_dump("[{\"communicator\":\"x\"}]", "host.json").ok());
  EXPECT_EQ(read_dump("not a recorder", "f").value().refused.size(), 1u);
}

std::string pytorch_json(const std::string& name, const char* state) {
  return R"({"version":"2.5","pg_config":{"0":{"name":"0","desc":"default_pg",)"
         R"("ranks":"[0, 1, 2]"}},"entries":[{"record_id":0,"pg_id":0,)"
         R"("process_group":["0","default_pg"],"collective_seq_id":1,"p2p_seq_id":0,"op_id":1,)"
         R"("profiling_name":"nccl:all_reduce","time_created_ns":100,"input_sizes":[[4,4]],)"
         R"("input_dtypes":["BFloat16"],"state":"completed","time_discovered_started_ns":200,)"
         R"("time_discovered_completed_ns":900,"is_p2p":false},{"record_id":1,"pg_id":0,)"
         R"("process_group":["0","default_pg"],"collective_seq_id":2,"p2p_seq_id":0,)"
         R"("profiling_name":"nccl:)" +
         name +
         R"(","time_created_ns":1000,)"
         R"("input_sizes":[[8]],"input_dtypes":["Float"],"state":")" +
         state + R"(","is_p2p":false}]})";
}

TEST(HealthDump, ReadsPyTorchsFlightRecorder) {
  std::vector<RankRecorder> all;
  for (int rank = 0; rank < 3; ++rank) {
    const std::string name = rank == 1 ? "broadcast" : "all_reduce";
    const auto read =
        read_dump(pytorch_json(name, "started"), "nccl_trace_rank_" + std::to_string(rank));
    ASSERT_TRUE(read.ok()) << read.status().message();
    for (const RankRecorder& one : read.value().recorders) all.push_back(one);
  }
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].snapshot.calls[0].bytes, 32u);
  EXPECT_EQ(all[0].snapshot.calls[0].state, trace::RecordState::kDone);
  const auto health = analyse(all);
  ASSERT_EQ(health[0].verdicts.size(), 1u);
  EXPECT_EQ(health[0].verdicts[0].kind, HealthKind::kMismatch);
  EXPECT_EQ(health[0].verdicts[0].ranks, std::vector<int>{1});
  EXPECT_EQ(health[0].verdicts[0].call, 2u);
  EXPECT_FALSE(read_dump(pytorch_json("all_reduce", "started"), "no_number").ok());
  EXPECT_FALSE(read_dump("{\"version\":\"1.0\",\"entries\":[]}", "rank_0").ok());
}

TEST(HealthReport, IsOneLineAVerdictAndAPageWithTheMatrix) {
  RecordedJob job;
  job.ranks = 8;
  job.fault = Fault::kPath;
  job.rank = 2;
  job.peer = 6;
  const auto all = analyse(JobRecorders(job, 9).recorders());
  const std::string brief = text_report(all, false);
  EXPECT_NE(brief.find("the path from rank 2 to rank 6 is slow"), std::string::npos) << brief;
  EXPECT_EQ(std::count(brief.begin(), brief.end(), '\n'), 2);
  const std::string page = html_report(all);
  EXPECT_NE(page.find("<title>from 2 to 6: "), std::string::npos);
  EXPECT_EQ(page.find("<script"), std::string::npos);
}

}  // namespace
}  // namespace tutti::health
