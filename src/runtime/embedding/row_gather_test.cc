// Gathers of rows: equal to copies row by row, and lines as the papers' example counts them.
#include "tutti/runtime/row_gather.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "src/runtime/crew_test.h"

namespace tutti::runtime {
namespace {

std::vector<int64_t> draw_ids(size_t count, int64_t rows, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int64_t> ids(count);
  for (int64_t& id : ids) id = random() % rows;
  return ids;
}

std::vector<uint8_t> draw_table(size_t bytes) {
  std::vector<uint8_t> table(bytes);
  std::mt19937 random(1);
  for (uint8_t& byte : table) byte = static_cast<uint8_t>(random());
  return table;
}

std::vector<uint8_t> copied(const RowTable& table, const std::vector<int64_t>& ids) {
  std::vector<uint8_t> rows;
  for (const int64_t id : ids) {
    const auto* row = static_cast<const uint8_t*>(table.data) + id * table.stride.value;
    rows.insert(rows.end(), row, row + table.row.value);
  }
  return rows;
}

TEST(RuntimeRowGather, IsACopyRowByRowForAnyWidth) {
  constexpr int64_t kRows = 301;
  for (const int64_t row : {1, 3, 4, 12, 64, 132, 516, 4100}) {
    for (const int64_t gap : {0, 1}) {
      const int64_t element = row % 4 == 0 ? 4 : 1;
      const int64_t stride = row + gap * element;
      const std::vector<uint8_t> bytes = draw_table(size_t(kRows * stride));
      const RowTable table{bytes.data(), kRows, Bytes(row), Bytes(stride), Bytes(element)};
      for (const int threads : {0, 1, 3}) {
        RowGather gather(table, threads);
        for (const size_t count : {0, 1, 255, 256, 257, 2000}) {
          const auto ids = draw_ids(count, kRows, uint32_t(count));
          std::vector<uint8_t> target(count * size_t(row), 0xee);
          gather.gather(ids, target.data(), Bytes(std::ssize(target)));
          EXPECT_EQ(target, copied(table, ids)) << row << " bytes, " << threads << " threads";
        }
      }
    }
  }
}

// Several are under way while the ids that the caller passed are gone.
TEST(RuntimeRowGather, InTheBackgroundItHasFilledTheTargetWhenItIsWaitedFor) {
  const std::vector<uint8_t> bytes = draw_table(1000 * 100);
  const RowTable table{bytes.data(), 1000, Bytes(100), Bytes(100), Bytes(4)};
  for (const int threads : {0, 2}) {
    RowGather gather(table, threads);
    std::vector<std::vector<uint8_t>> targets(5, std::vector<uint8_t>(3000 * 100, 0xee));
    std::vector<int64_t> tickets;
    for (uint32_t i = 0; i < 5; ++i) {
      auto ids = draw_ids(3000, 1000, i);
      tickets.push_back(gather.begin(ids, targets[i].data(), Bytes(300000)));
      std::fill(ids.begin(), ids.end(), int64_t{-1});
    }
    for (const uint32_t i : {3, 0, 4, 1, 2}) {
      gather.wait(tickets[i]);
      EXPECT_EQ(targets[i], copied(table, draw_ids(3000, 1000, i)));
      EXPECT_REFUSED(gather.done(tickets[i]), "was waited for");
    }
    EXPECT_REFUSED(gather.wait(99), "ticket 99 is unknown");
    const auto ids = draw_ids(10, 1000, 1);
    const int64_t last = gather.begin(ids, targets[0].data(), Bytes(1000));
    while (threads > 0 && !gather.done(last)) {
    }
    if (threads == 0) {
      EXPECT_FALSE(gather.done(last));  // nobody has begun it
    }
    gather.wait(last);
  }
}

TEST(RuntimeRowGather, AnotherProcessGathersFromSharedMemory) {
  constexpr size_t kBytes = 512 * 132;
  void* shared =
      mmap(nullptr, 2 * kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  const std::vector<uint8_t> bytes = draw_table(kBytes);
  std::memcpy(shared, bytes.data(), kBytes);
  const RowTable table{shared, 512, Bytes(132), Bytes(132), Bytes(4)};
  const auto ids = draw_ids(512, 512, 4);
  auto* target = static_cast<uint8_t*>(shared) + kBytes;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    RowGather(table, 0).gather(ids, target, Bytes(kBytes));
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(std::vector<uint8_t>(target, target + kBytes), copied(table, ids));
  munmap(shared, 2 * kBytes);
}

TEST(RuntimeRowGather, CountsLinesAgainstBytes) {
  std::vector<uint8_t> memory(64 * 132 + 64);
  auto* aligned = reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) &
                                             ~uintptr_t{63});
  RowGather gather({aligned, 64, Bytes(132), Bytes(132), Bytes(4)}, 0);
  std::vector<uint8_t> target(3 * 132);
  const std::array<int64_t, 3> ids{0, 1, 15};
  gather.gather(ids, target.data(), Bytes(396));
  const RowGatherCounters counters = gather.counters();
  EXPECT_EQ(counters.wanted, Bytes(396));
  EXPECT_EQ(counters.lines, 3 + 3 + 3);  // 0 to 131, 132 to 263, 1980 to 2111 (60 in its line)
  EXPECT_EQ(counters.moved(), Bytes(9 * 64));
  EXPECT_EQ(counters.rows, 3);
}

// The table of the papers' model: lines of 128 bytes a row, plain and rotated, and which is better.
TEST(RuntimeReadLines, AreThoseOfTheRowAndLineTable) {
  struct Case {
    int64_t row;
    double plain, rotated;
    bool rotates;
  };
  const auto ids = draw_ids(4000, 1 << 20, 5);
  for (const Case& c :
       {Case{512, 4.00, 4.00, false}, Case{516, 8.89, 6.40, true}, Case{1028, 16.76, 10.38, true},
        Case{2052, 32.44, 18.40, true}, Case{4100, 63.99, 34.39, true},
        Case{132, 2.97, 3.40, false}, Case{260, 4.94, 4.41, true}}) {
    const ReadLines predicted = lines_of_reads(Bytes(c.row));
    EXPECT_NEAR(predicted.plain, c.plain, 0.006 * c.plain) << c.row;
    EXPECT_NEAR(predicted.rotated, c.rotated, 0.006 * c.rotated) << c.row;
    EXPECT_EQ(predicted.rotates(), c.rotates) << c.row;
    const ReadLines counted = lines_of_reads(Bytes(c.row), ids);
    EXPECT_NEAR(counted.plain, predicted.plain, 0.02 * predicted.plain) << c.row;
    EXPECT_NEAR(counted.rotated, predicted.rotated, 0.02 * predicted.rotated) << c.row;
  }
}

TEST(RuntimeRowGather, RefusesWhatCannotBe) {
  std::vector<uint8_t> memory(800);
  const RowTable good{memory.data(), 10, Bytes(40), Bytes(40), Bytes(4)};
  const auto with = [&](auto change) {
    RowTable table = good;
    change(table);
    RowGather made(table, 0);
  };
  EXPECT_REFUSED(with([](RowTable& t) { t.data = nullptr; }), "where they are");
  EXPECT_REFUSED(with([](RowTable& t) { t.row = Bytes(42); }), "whole elements");
  EXPECT_REFUSED(with([](RowTable& t) { t.stride = Bytes(42); }), "a multiple of the element's 4");
  EXPECT_REFUSED(with([](RowTable& t) { t.stride = Bytes(36); }), "no less than a row");
  EXPECT_REFUSED(with([](RowTable& t) { t.rows = std::numeric_limits<int64_t>::max(); }),
                 "beyond 2^63 - 1");
  EXPECT_REFUSED(RowGather(good, -2), "threads");
  RowGather gather(good, 0);
  const std::vector<int64_t> ten{10}, negative{-1}, two{1, 2};
  std::vector<uint8_t> target(80, 7);
  EXPECT_REFUSED(gather.gather(ten, target.data(), Bytes(80)), "row 10 is asked for");
  EXPECT_REFUSED(gather.begin(negative, target.data(), Bytes(80)), "row -1");
  EXPECT_REFUSED(gather.gather(two, target.data(), Bytes(79)), "need 80 bytes");
  EXPECT_REFUSED(gather.gather(two, nullptr, Bytes(80)), "no target");
  EXPECT_REFUSED(gather.gather(two, memory.data() + 396, Bytes(80)), "lies in the table");
  gather.gather(two, memory.data() + 400, Bytes(80));  // behind it
  EXPECT_EQ(target, std::vector<uint8_t>(80, 7));
  EXPECT_REFUSED(lines_of_reads(Bytes(6)), "a multiple of 4");
  EXPECT_REFUSED(lines_of_reads(Bytes(8), negative), "rows count from 0");
  EXPECT_REFUSED(lines_of_reads(Bytes(8), {}), "no rows");
}

}  // namespace
}  // namespace tutti::runtime
