// The flight recorder: written here, read here, in another thread and from another process.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "src/trace/reader.h"
#include "src/trace/recorder.h"

namespace tutti::trace {
namespace {

std::unique_ptr<Recorder> make(uint64_t records, uint64_t communicator = 7) {
  RecorderOptions options;
  options.communicator = communicator;
  options.rank = 1;
  options.ranks = 4;
  options.host = "alpha\"\n";
  options.records = records;
  Result<std::unique_ptr<Recorder>> made = Recorder::create(options);
  EXPECT_TRUE(made.ok()) << made.status().message();
  return std::move(made).value();
}

Label label(uint64_t bytes, int root = -1, uint8_t collective = 0) {
  Description description;
  description.collective = collective;
  description.bytes = bytes;
  description.root = root;
  return label_of(description);
}

Snapshot snapshot_of(const Recorder& recorder) {
  Result<Snapshot> snapshot = read(recorder.file());
  EXPECT_TRUE(snapshot.ok()) << snapshot.status().message();
  return std::move(snapshot).value();
}

TEST(Trace, TheRingKeepsTheLastCalls) {
  auto recorder = make(5);  // rounded up
  const uint8_t name = recorder->name("all_reduce");
  EXPECT_EQ(recorder->name("all_reduce"), name);
  for (uint32_t number = 1; number <= 20; ++number) {
    recorder->begin(label(number * 8, 2, name), number);
    if (number == 20) {
      recorder->conclude(false);
    } else {
      recorder->end();
    }
  }
  const Snapshot snapshot = snapshot_of(*recorder);
  ASSERT_EQ(snapshot.calls.size(), 8u);
  EXPECT_EQ(snapshot.communicator, 7u);
  EXPECT_EQ(snapshot.host, "alpha\"?");
  for (size_t i = 0; i < 8; ++i) {
    const CallRecord& call = snapshot.calls[i];
    EXPECT_EQ(call.number, 13 + i);
    EXPECT_EQ(call.order, 13 + i);
    EXPECT_EQ(call.bytes, (13 + i) * 8);
    EXPECT_EQ(call.root, 2);
    EXPECT_EQ(call.collective, "all_reduce");
    EXPECT_EQ(call.state, i == 7 ? State::kFailed : State::kDone);
    EXPECT_EQ(call.waits_for, -1);
  }
}

TEST(Trace, LargeCallsAreTimedAndWaitsAreKept) {
  auto recorder = make(8);
  recorder->begin_timed(label(1 << 20), 1);
  recorder->conclude(true);
  recorder->begin(label(4), 2);
  recorder->waits_for(3, 1, 5000);
  recorder->waits_for(2, 5, 17);
  const Snapshot snapshot = snapshot_of(*recorder);
  ASSERT_EQ(snapshot.calls.size(), 2u);
  EXPECT_GT(snapshot.calls[0].start_ns, 0u);
  EXPECT_GE(snapshot.calls[0].end_ns, snapshot.calls[0].start_ns);
  const CallRecord& waiting = snapshot.calls[1];
  EXPECT_EQ(waiting.state, State::kRunning);
  EXPECT_GT(waiting.start_ns, 0u);  // a wait is always timed
  EXPECT_EQ(waiting.end_ns, 0u);
  EXPECT_EQ(waiting.waits_for, 2);
  EXPECT_EQ(waiting.lane, 5u);
  EXPECT_EQ(waiting.step, 17u);
  EXPECT_GE(waiting.wait_ns, waiting.start_ns);
}

TEST(Trace, QueuedCallsAreNeverOverwritten) {
  auto recorder = make(4);
  uint64_t tickets[5];
  for (uint64_t i = 0; i < 5; ++i) tickets[i] = recorder->queue(label(i + 1));
  EXPECT_EQ(tickets[4], 0u);
  EXPECT_EQ(snapshot_of(*recorder).missed, 1u);
  for (uint32_t i = 0; i < 5; ++i) {
    recorder->begin_queued(tickets[i], label(i + 1), i + 1);
    recorder->conclude(true);
  }
  EXPECT_NE(recorder->queue(label(6)), 0u);
  const Snapshot snapshot = snapshot_of(*recorder);
  ASSERT_EQ(snapshot.calls.size(), 4u);
  EXPECT_EQ(snapshot.calls[0].number, 2u);
  EXPECT_EQ(snapshot.calls[3].state, State::kQueued);
}

/// Every word of call n follows from n. Returns what does not.
std::string judge(const Snapshot& snapshot) {
  for (const CallRecord& call : snapshot.calls) {
    const bool whole = call.bytes == uint64_t{call.number} * 3 &&
                       call.root == static_cast<int>(call.number & 0xffff) &&
                       call.order == call.number;
    if (!whole) {
      return "call " + std::to_string(call.number) + ", order " + std::to_string(call.order) +
             ", bytes " + std::to_string(call.bytes) + ", root " + std::to_string(call.root);
    }
  }
  return "";
}

TEST(Trace, ARecordIsNeverTorn) {
  auto recorder = make(4);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (uint32_t n = 1; !stop.load(std::memory_order_relaxed); ++n) {
      recorder->begin(label(uint64_t{n} * 3, static_cast<int>(n & 0xffff)), n);
      recorder->end();
    }
  });
  constexpr size_t kEnough = 20'000;
  size_t seen = 0;
  std::string torn;
  for (int i = 0; i < 10'000'000 && seen < kEnough && torn.empty(); ++i) {
    const Snapshot snapshot = snapshot_of(*recorder);
    seen += snapshot.calls.size();
    torn = judge(snapshot);
    if (snapshot.calls.empty()) std::this_thread::yield();
  }
  stop = true;
  writer.join();
  EXPECT_EQ(torn, "");
  EXPECT_GE(seen, kEnough);
}

TEST(Trace, TheCheckOfTornRecordsSeesOne) {
  auto recorder = make(4);
  recorder->begin(label(3, 1), 1);
  EXPECT_EQ(judge(snapshot_of(*recorder)), "");
  recorder->begin(label(3, 2), 2);  // bytes of call 1
  EXPECT_NE(judge(snapshot_of(*recorder)), "");
}

TEST(Trace, ARecordThatIsBeingWrittenIsLeftOut) {
  auto recorder = make(4);
  recorder->begin(label(3), 1);
  recorder->end();
  std::string file(recorder->file());
  const uint64_t none = 0;
  file.replace(kRecordsAt + sizeof(Record), sizeof none,
               std::string(reinterpret_cast<const char*>(&none), sizeof none));
  const Result<Snapshot> snapshot = read(file);
  ASSERT_TRUE(snapshot.ok());
  EXPECT_TRUE(snapshot.value().calls.empty());
}

TEST(Trace, WithoutRecordsThereIsNothingToFind) {
  auto recorder = make(0);
  for (uint32_t number = 1; number < 200; ++number) {
    recorder->begin(label(8), number);
    recorder->end();
  }
  const Result<std::vector<Snapshot>> found = read_process(getpid());
  ASSERT_TRUE(found.ok());
  EXPECT_TRUE(found.value().empty());
}

TEST(Trace, WhatIsNoRecorderIsRefused) {
  auto recorder = make(4);
  const std::string file(recorder->file());
  EXPECT_FALSE(read("").ok());
  EXPECT_FALSE(read(file.substr(0, file.size() - 1)).ok());
  for (const size_t at : {size_t{0}, size_t{8}, size_t{12}, size_t{22}}) {
    std::string other = file;
    other[at] = static_cast<char>(other[at] ^ 0x55);
    EXPECT_FALSE(read(other).ok()) << at;
  }
}

TEST(Trace, AStoppedProcessIsRead) {
  const pid_t child = fork();
  if (child == 0) {
    auto recorder = make(16, 99);
    recorder->begin(label(12, 3, recorder->name("broadcast")), 812);
    recorder->waits_for(3, 0, 1);
    raise(SIGSTOP);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  ASSERT_TRUE(WIFSTOPPED(status));
  const Result<std::vector<Snapshot>> found = read_process(child);
  const std::vector<pid_t> processes = find_processes();
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  ASSERT_TRUE(found.ok()) << found.status().message();
  ASSERT_EQ(found.value().size(), 1u);
  const Snapshot& snapshot = found.value()[0];
  EXPECT_EQ(snapshot.communicator, 99u);
  EXPECT_EQ(snapshot.process, static_cast<uint64_t>(child));
  ASSERT_EQ(snapshot.calls.size(), 1u);
  EXPECT_EQ(snapshot.calls[0].number, 812u);
  EXPECT_EQ(snapshot.calls[0].state, State::kRunning);
  EXPECT_EQ(snapshot.calls[0].waits_for, 3);
  EXPECT_EQ(std::count(processes.begin(), processes.end(), child), 1);
}

TEST(Trace, AProcessThatIsGoneIsAnError) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_FALSE(read_process(child).ok());
}

TEST(Trace, TextAndJson) {
  auto recorder = make(8);
  recorder->begin(label(64, 0, recorder->name("broadcast")), 1);
  recorder->waits_for(2, 0, 4);
  const Snapshot snapshot = snapshot_of(*recorder);
  const std::string text = to_text(snapshot, monotonic_ns());
  EXPECT_NE(text.find("rank 1 of 4"), std::string::npos) << text;
  EXPECT_NE(text.find("broadcast"), std::string::npos) << text;
  EXPECT_NE(text.find("waits for rank 2 (lane 0, step 4)"), std::string::npos) << text;
  const auto json = nlohmann::json::parse(to_json({snapshot, snapshot}));
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[0]["calls"][0]["state"], "running");
  EXPECT_EQ(json[0]["calls"][0]["waits_for"]["rank"], 2);
  EXPECT_EQ(json[1]["host"], "alpha\"?");
}

}  // namespace
}  // namespace tutti::trace
