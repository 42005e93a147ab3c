// The flight recorder: written here, read here, in another thread and from another process.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
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
    EXPECT_EQ(call.state, i == 7 ? RecordState::kFailed : RecordState::kDone);
    EXPECT_EQ(call.waits_for, -1);
  }
}

TEST(Trace, LargeCallsAreTimedAndWaitsAreKept) {
  auto recorder = make(8);
  recorder->begin(label(1 << 20), 1);
  recorder->conclude(true);
  recorder->begin(label(4), 2);
  recorder->waits_for(3, 1, 5000);
  recorder->waits_for(2, 5, 17);
  const Snapshot snapshot = snapshot_of(*recorder);
  ASSERT_EQ(snapshot.calls.size(), 2u);
  EXPECT_GT(snapshot.calls[0].start_ns, 0u);
  EXPECT_GE(snapshot.calls[0].end_ns, snapshot.calls[0].start_ns);
  const CallRecord& waiting = snapshot.calls[1];
  EXPECT_EQ(waiting.state, RecordState::kRunning);
  EXPECT_GT(waiting.start_ns, 0u);  // a wait is always timed
  EXPECT_EQ(waiting.end_ns, 0u);
  EXPECT_EQ(waiting.waits_for, 2);
  EXPECT_EQ(waiting.lane, 5u);
  EXPECT_EQ(waiting.step, 17u);
  EXPECT_GE(waiting.wait_ns, waiting.start_ns);
}

// Of the short way: end() instead of conclude().
TEST(Trace, LargeCallsAndThoseThatWaitedHaveAnEnd) {
  auto recorder = make(8);
  recorder->begin(label(64), 1);
  recorder->end();
  recorder->begin(label(64), 2);
  recorder->waits_for(3, 0, 1);
  recorder->end();
  recorder->begin(label(Recorder::kTimedBytes), 3);
  recorder->end();
  const Snapshot snapshot = snapshot_of(*recorder);
  ASSERT_EQ(snapshot.calls.size(), 3u);
  EXPECT_EQ(snapshot.calls[0].end_ns, 0u);
  for (const CallRecord& call : snapshot.calls) {
    EXPECT_EQ(call.state, RecordState::kDone) << call.number;
    if (call.number == 1) continue;
    EXPECT_GT(call.start_ns, 0u) << call.number;
    EXPECT_GE(call.end_ns, call.start_ns) << call.number;
  }
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
  EXPECT_EQ(snapshot.calls[3].state, RecordState::kQueued);
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
  const Result<Recorders> found = read_process(getpid());
  ASSERT_TRUE(found.ok());
  EXPECT_TRUE(found.value().snapshots.empty());
}

TEST(Trace, WhatIsNoRecorderIsRefused) {
  auto recorder = make(4);
  const std::string file(recorder->file());
  EXPECT_FALSE(read("").ok());
  EXPECT_FALSE(read(file.substr(0, file.size() - 1)).ok());
  for (const size_t at : {size_t{0}, size_t{8}, size_t{12}, size_t{22}, size_t{44}, size_t{54}}) {
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
  const Result<Recorders> found = read_process(child);
  const std::vector<pid_t> processes = find_processes();
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  ASSERT_TRUE(found.ok()) << found.status().message();
  ASSERT_EQ(found.value().snapshots.size(), 1u);
  const Snapshot& snapshot = found.value().snapshots[0];
  EXPECT_EQ(snapshot.communicator, 99u);
  EXPECT_EQ(snapshot.process, static_cast<uint64_t>(child));
  ASSERT_EQ(snapshot.calls.size(), 1u);
  EXPECT_EQ(snapshot.calls[0].number, 812u);
  EXPECT_EQ(snapshot.calls[0].state, RecordState::kRunning);
  EXPECT_EQ(snapshot.calls[0].waits_for, 3);
  EXPECT_EQ(std::count(processes.begin(), processes.end(), child), 1);
}

// A reader that maps it would be killed where it is cut off, whatever it has found good before.
TEST(Trace, ARecorderThatCanBeCutOffIsRefusedByName) {
  const auto recorder = make(4);
  const std::string_view file = recorder->file();
  const Fd other(memfd_create(kFileLabel, MFD_CLOEXEC));
  ASSERT_EQ(write(other.get(), file.data(), file.size()), static_cast<ssize_t>(file.size()));
  const Result<Recorders> found = read_process(getpid());
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found.value().snapshots.size(), 1u);
  ASSERT_EQ(found.value().refused.size(), 1u);
  const std::string message(found.value().refused[0].message());
  EXPECT_NE(message.find("/fd/" + std::to_string(other.get()) + ": its size could change"),
            std::string::npos)
      << message;
}

TEST(Trace, AForkedChildDoesNotShowItsParentsCalls) {
  const auto recorder = make(4);
  EXPECT_EQ(read_process(getpid()).value().snapshots.size(), 1u);
  const pid_t child = fork();
  if (child == 0) _exit(static_cast<int>(read_process(getpid()).value().snapshots.size()));
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(Trace, AProcessThatIsGoneIsAnError) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_FALSE(read_process(child).ok());
}

/// A line of which every word follows from `seed`.
ExchangeState exchange_of(uint32_t seed) {
  ExchangeState exchange{.peer = seed, .sends = seed % 2 == 1};
  exchange.number = seed + 1;
  exchange.bytes = uint64_t{seed} * 1000;
  exchange.moved = uint64_t{seed} * 10;
  exchange.messages = seed + 2;
  exchange.call = seed + 3;
  exchange.blame = seed + 4;
  exchange.state = PeerState::kWaits;
  return exchange;
}

bool follows_from(const ExchangeRecord& seen, uint32_t seed) {
  return seen.peer == seed && seen.sends == (seed % 2 == 1) && seen.number == seed + 1 &&
         seen.bytes == uint64_t{seed} * 1000 && seen.moved == uint64_t{seed} * 10 &&
         seen.messages == seed + 2 && seen.call == seed + 3 && seen.blame == seed + 4;
}

TEST(Trace, LinesAreKeptUntilTheCallIsDone) {
  auto recorder = make(8);
  recorder->begin(label(64), 1);
  ASSERT_EQ(recorder->open_lines(3), 3u);
  for (uint32_t i = 0; i < 3; ++i) recorder->set_line(i, exchange_of(i));
  ASSERT_EQ(recorder->open_lines(2), 2u) << "again, and fewer";
  for (uint32_t i = 0; i < 2; ++i) recorder->set_line(i, exchange_of(i + 10));
  std::vector<CallRecord> calls = snapshot_of(*recorder).calls;
  ASSERT_EQ(calls[0].exchanges.size(), 2u);
  EXPECT_TRUE(follows_from(calls[0].exchanges[1], 11));
  EXPECT_FALSE(follows_from(calls[0].exchanges[1], 10)) << "the check of lines sees another";
  recorder->end();
  EXPECT_TRUE(snapshot_of(*recorder).calls[0].exchanges.empty());

  recorder->begin(label(64), 2);
  ASSERT_EQ(recorder->open_lines(1), 1u);
  recorder->set_line(0, exchange_of(5));
  recorder->conclude(false);
  calls = snapshot_of(*recorder).calls;
  ASSERT_EQ(calls[1].exchanges.size(), 1u) << "of a call that failed";
  EXPECT_TRUE(follows_from(calls[1].exchanges[0], 5));
}

TEST(Trace, TransfersKeepTheirLinesWithTheirOwnNumbers) {
  auto recorder = make(8);
  recorder->begin(label(64), 7, Series::kTransfers);
  ASSERT_EQ(recorder->open_lines(1), 1u);
  recorder->set_line(0, exchange_of(3));
  recorder->conclude(true);
  const uint64_t ticket = recorder->queue(label(64));
  recorder->begin_queued(ticket, label(64), 9, Series::kOneSided);
  const std::vector<CallRecord> calls = snapshot_of(*recorder).calls;
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].series, Series::kTransfers);
  EXPECT_EQ(calls[0].number, 7u);
  ASSERT_EQ(calls[0].exchanges.size(), 1u);
  EXPECT_EQ(calls[0].exchanges[0].moved, 3000u) << "it is done, so all of it has moved";
  EXPECT_EQ(calls[1].series, Series::kOneSided);
  EXPECT_EQ(calls[1].number, 9u);
}

TEST(Trace, ACallHasNoMoreLinesThanThereIsRoomFor) {
  auto recorder = make(8);  // of 4 ranks: 256 lines
  recorder->begin(label(64), 1);
  const uint32_t room = recorder->open_lines(1000);
  EXPECT_EQ(room, 128u);
  for (uint32_t i = 0; i < room; ++i) recorder->set_line(i, exchange_of(i));
  const CallRecord call = snapshot_of(*recorder).calls[0];
  EXPECT_EQ(call.exchanges.size(), 128u);
  EXPECT_EQ(call.left_out, 872u);
  EXPECT_EQ(to_lines(call, 4).back(), "and 996 more");
}

// 256 lines are those of the last four calls here.
TEST(Trace, TheLinesOfOldCallsMakeRoom) {
  auto recorder = make(16);
  for (uint32_t number = 1; number <= 10; ++number) {
    recorder->begin(label(64), number, Series::kTransfers);
    const uint32_t room = recorder->open_lines(64);
    for (uint32_t i = 0; i < room; ++i) recorder->set_line(i, exchange_of(number * 100 + i));
    recorder->conclude(false);
  }
  const std::vector<CallRecord> calls = snapshot_of(*recorder).calls;
  ASSERT_EQ(calls.size(), 10u);
  for (const CallRecord& call : calls) {
    EXPECT_EQ(call.exchanges.size(), call.number > 6 ? 64u : 0u) << call.number;
    for (uint32_t i = 0; i < call.exchanges.size(); ++i) {
      EXPECT_TRUE(follows_from(call.exchanges[i], call.number * 100 + i)) << call.number;
    }
  }
}

TEST(Trace, LinesAreDueWhenACallHasWaitedForAWhile) {
  auto recorder = make(8);
  constexpr uint64_t kMillisecond = 1'000'000;
  EXPECT_FALSE(recorder->lines_due(kMillisecond)) << "there is no call";
  recorder->begin(label(64), 1);
  EXPECT_TRUE(recorder->in_call());
  EXPECT_FALSE(recorder->lines_due(100 * kMillisecond)) << "the wait begins";
  EXPECT_TRUE(recorder->lines_due(200 * kMillisecond));
  EXPECT_FALSE(recorder->lines_due(201 * kMillisecond)) << "they were just written";
  EXPECT_TRUE(recorder->lines_due(400 * kMillisecond));
  recorder->end();
  EXPECT_FALSE(recorder->in_call());
  recorder->begin(label(64), 2);
  EXPECT_FALSE(recorder->lines_due(500 * kMillisecond)) << "another call, another wait";
}

TEST(Trace, ALineIsNeverTorn) {
  auto recorder = make(4);
  recorder->begin(label(64), 1);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (uint32_t n = 0; !stop.load(std::memory_order_relaxed); n = (n + 1) % 10'000) {
      (void)recorder->open_lines(1);
      recorder->set_line(0, exchange_of(n));
    }
  });
  constexpr size_t kEnough = 20'000;
  size_t seen = 0, torn = 0;
  for (int i = 0; i < 10'000'000 && seen < kEnough && torn == 0; ++i) {
    const Snapshot snapshot = snapshot_of(*recorder);
    for (const ExchangeRecord& exchange : snapshot.calls[0].exchanges) {
      ++seen;
      torn += follows_from(exchange, exchange.peer) ? 0 : 1;
    }
    if (snapshot.calls[0].exchanges.empty()) std::this_thread::yield();
  }
  stop = true;
  writer.join();
  EXPECT_EQ(torn, 0u);
  EXPECT_GE(seen, kEnough);
}

TEST(Trace, LinesAsTextAndJson) {
  auto recorder = make(8);
  recorder->begin(label(64), 3);
  ASSERT_EQ(recorder->open_lines(2), 2u);
  ExchangeState exchange{.peer = 1, .bytes = 64, .moved = 64, .messages = 4, .complete = 4};
  exchange.state = PeerState::kWaits;
  exchange.call = 3;
  exchange.blame = 2;
  recorder->set_line(0, exchange);
  exchange = {.peer = 2, .sends = true, .type = recorder->name("float"), .number = 9};
  exchange.bytes = 64;
  exchange.moved = 16;
  exchange.messages = 4;
  exchange.complete = 1;
  exchange.state = PeerState::kElsewhere;
  exchange.call = 2;
  recorder->set_line(1, exchange);
  const Snapshot snapshot = snapshot_of(*recorder);
  const std::vector<std::string> lines = to_lines(snapshot.calls[0], 10);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0],
            "send 9 to rank 2: 16 of 64 bytes (1 of 4 messages), float; the last call it entered "
            "is 2");
  EXPECT_EQ(lines[1], "from rank 1: all 64 bytes; in call 3 it waits for rank 2");
  EXPECT_NE(to_text(snapshot, 0).find(lines[0] + "\n"), std::string::npos);
  const auto json = nlohmann::json::parse(to_json({snapshot}));
  const auto& seen = json[0]["calls"][0]["exchanges"];
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0]["direction"], "from");
  EXPECT_EQ(seen[0]["peer_state"], "waits");
  EXPECT_EQ(seen[1]["rank"], 2);
  EXPECT_EQ(seen[1]["moved"], 16);
  EXPECT_EQ(json[0]["calls"][0]["series"], "collective");
}

TEST(Trace, WhereMostIsMissingComesFirst) {
  auto recorder = make(8);
  recorder->begin(label(64), 1);
  ASSERT_EQ(recorder->open_lines(4), 4u);
  constexpr uint32_t kComplete[] = {4, 3, 1, 4};
  for (uint32_t peer = 0; peer < 4; ++peer) {
    recorder->set_line(peer, {.peer = peer, .messages = 4, .complete = kComplete[peer]});
  }
  const std::vector<std::string> lines = to_lines(snapshot_of(*recorder).calls[0], 3);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0], "from rank 2: 0 of 0 bytes (1 of 4 messages)");
  EXPECT_EQ(lines[1], "from rank 1: 0 of 0 bytes (3 of 4 messages)");
  EXPECT_EQ(lines[2], "from rank 0: all 0 bytes");
  EXPECT_EQ(lines[3], "and 1 more");
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
