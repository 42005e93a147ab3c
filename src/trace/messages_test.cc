// When messages of calls on devices passed between hosts, as the flight recorder has it.
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/trace/reader.h"
#include "src/trace/recorder.h"

namespace tutti::trace {
namespace {

std::unique_ptr<Recorder> make(uint64_t records = 8) {
  RecorderOptions options;
  options.ranks = 4;
  options.host = "alpha";
  options.records = records;
  return std::move(Recorder::create(options)).value();
}

Snapshot snapshot_of(const Recorder& recorder) {
  Result<Snapshot> snapshot = read(recorder.file());
  EXPECT_TRUE(snapshot.ok()) << snapshot.status().message();
  return std::move(snapshot).value();
}

TEST(TraceMessages, OfACallAreListedInTheOrderOfTheirBegins) {
  auto recorder = make();
  recorder->begin(label_of({}), 1);
  const uint64_t first = recorder->begin_message({3, 0, true, 0, 100});
  const uint64_t second = recorder->begin_message({2, 1, false, 1, 200});
  recorder->end_message(first);
  recorder->end();
  recorder->begin(label_of({}), 2);
  recorder->end_message(second);  // late, and of the call before
  (void)recorder->begin_message({1, 0, true, 5, 300});
  const Snapshot snapshot = snapshot_of(*recorder);
  ASSERT_EQ(snapshot.calls.size(), 2u);
  const std::vector<MessageRecord>& messages = snapshot.calls[0].messages;
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0].peer, 3u);
  EXPECT_TRUE(messages[0].sends);
  EXPECT_EQ(messages[0].bytes, 100u);
  EXPECT_EQ(messages[1].lane, 1u);
  EXPECT_EQ(messages[1].slice, 1u);
  EXPECT_FALSE(messages[1].sends);
  EXPECT_LE(messages[0].begin_ns, messages[1].begin_ns);
  EXPECT_GE(messages[0].end_ns, messages[1].begin_ns) << "they overlap";
  EXPECT_GT(messages[1].end_ns, 0u);
  ASSERT_EQ(snapshot.calls[1].messages.size(), 1u);
  EXPECT_EQ(snapshot.calls[1].messages[0].end_ns, 0u) << "it is under way";
}

TEST(TraceMessages, TheLastOnesAreKept) {
  auto recorder = make();
  recorder->begin(label_of({}), 1);
  uint64_t first = 0;
  for (uint64_t slice = 0; slice < kTimedMessages + 10; ++slice) {
    const uint64_t number = recorder->begin_message({1, 0, true, slice, 8});
    if (slice == 0) first = number;
  }
  recorder->end_message(first);  // of which there is nothing any more
  const Snapshot snapshot = snapshot_of(*recorder);
  const std::vector<MessageRecord>& messages = snapshot.calls.at(0).messages;
  ASSERT_EQ(messages.size(), kTimedMessages);
  EXPECT_EQ(messages.front().slice, 10u);
  EXPECT_EQ(messages.back().slice, kTimedMessages + 9);
  for (const MessageRecord& message : messages) EXPECT_EQ(message.end_ns, 0u);
}

TEST(TraceMessages, AreShownAsTextAndAsJson) {
  auto recorder = make();
  recorder->begin(label_of({}), 1);
  recorder->end_message(recorder->begin_message({3, 1, true, 7, 100}));
  (void)recorder->begin_message({2, 0, false, 8, 200});
  Snapshot snapshot = snapshot_of(*recorder);
  std::vector<MessageRecord>& messages = snapshot.calls.at(0).messages;
  messages[0].end_ns = messages[0].begin_ns + 5000;
  messages[1].begin_ns = messages[0].begin_ns + 1000;
  const std::string text = to_text(snapshot, 0);
  for (const char* line :
       {"lane 1, slice 7, to rank 3: 100 bytes, copied by 0.0us, sent by 5.0us",
        "lane 0, slice 8, from rank 2: 200 bytes, awaited from 1.0us, not received"}) {
    EXPECT_NE(text.find(line), std::string::npos) << text;
  }
  EXPECT_EQ(to_message_lines(snapshot.calls[0], 1).back(), "and 1 more messages");
  const auto json = nlohmann::json::parse(to_json({snapshot}));
  const auto& all = json[0]["calls"][0]["messages"];
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0]["direction"], "to");
  EXPECT_EQ(all[0]["slice"], 7);
  EXPECT_EQ(all[1]["end_ns"], 0);
}

TEST(TraceMessages, WithoutACallThereIsNothingToName) {
  auto recorder = make();
  EXPECT_EQ(recorder->begin_message({1, 0, true, 0, 8}), 0u);
  recorder->end_message(0);
  EXPECT_TRUE(snapshot_of(*recorder).calls.empty());
}

}  // namespace
}  // namespace tutti::trace
