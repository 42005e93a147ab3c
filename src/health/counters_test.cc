// Counters over looks at recorders that go on, and the text that they make.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/health/counters.h"

namespace tutti::health {
namespace {

trace::Snapshot snapshot_of(uint64_t first, uint64_t last, bool last_runs) {
  trace::Snapshot snapshot;
  snapshot.communicator = 0xab;
  snapshot.rank = 1;
  snapshot.ranks = 4;
  snapshot.process = 77;
  snapshot.host = "/secret/host";
  for (uint64_t order = first; order <= last; ++order) {
    trace::CallRecord call;
    call.order = order;
    call.collective = order % 2 == 0 ? "all_reduce" : "broad\"cast";
    call.bytes = 100;
    call.state = trace::RecordState::kDone;
    if (order == last && last_runs) call.state = trace::RecordState::kRunning;
    call.start_ns = 1'000'000'000 * order;
    call.end_ns = call.start_ns + 500'000'000;
    call.waits_for = 3;
    call.wait_ns = call.start_ns + 250'000'000;
    snapshot.calls.push_back(call);
  }
  return snapshot;
}

bool has(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST(CallCountersTest, CountEachCallOnceAcrossLooks) {
  CallCounters counters;
  counters.add({snapshot_of(1, 5, true)});
  counters.add({snapshot_of(1, 5, true)});
  counters.add({snapshot_of(2, 6, false)});
  const std::string text = counters.prometheus_text();
  const std::string rank = "communicator=\"0xab\",rank=\"1\"";
  EXPECT_TRUE(has(text, "tutti_calls_total{" + rank + ",collective=\"all_reduce\"} 3")) << text;
  EXPECT_TRUE(has(text, "tutti_calls_total{" + rank + ",collective=\"broad\\\"cast\"} 3")) << text;
  EXPECT_TRUE(has(text, "tutti_bytes_total{" + rank + ",collective=\"all_reduce\"} 300")) << text;
  EXPECT_TRUE(has(text, "tutti_call_seconds_total{" + rank + ",collective=\"all_reduce\"} 1.5"));
  EXPECT_TRUE(has(text, "tutti_wait_seconds_total{" + rank + ",peer=\"3\"} 1.5")) << text;
  EXPECT_TRUE(has(text, "tutti_calls_unseen_total{" + rank + "} 0")) << text;
  EXPECT_EQ(text.find("secret"), std::string::npos);
  EXPECT_EQ(text.find("77"), std::string::npos);
}

TEST(CallCountersTest, SayHowManyCallsLeftTheRingUnseen) {
  CallCounters counters;
  counters.add({snapshot_of(1, 4, false)});
  counters.add({snapshot_of(15, 20, false)});
  const std::string text = counters.prometheus_text();
  EXPECT_TRUE(has(text, "tutti_calls_unseen_total{communicator=\"0xab\",rank=\"1\"} 10")) << text;
}

}  // namespace
}  // namespace tutti::health
