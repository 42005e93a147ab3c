// The queue's table, stepped through with a clock of the test's own.
#include "src/runtime/queue/table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "src/runtime/crew_test.h"

namespace tutti::runtime::queue {
namespace {

constexpr int64_t kMillisecond = 1'000'000;

QueueSpec small_spec() {
  QueueSpec spec;
  spec.ring_steps = 2;
  spec.rows = 4;
  spec.fields = {"prompt", "answer"};
  spec.units = {"unix:/unused"};
  spec.lease = std::chrono::milliseconds(10);
  return spec;
}

int64_t put(Table& table, QueueRow row, const std::string& field, int64_t version = kAnyVersion,
            int64_t weight = -1) {
  const auto found = table.reserve(1, {row, table.field_of(field)}, "int8[*]", 0);
  table.commit(1, found.value().token, version, weight);
  return found->token;
}

ClaimSpec claim_of(int64_t rows, int64_t group = 1, int64_t window = 0) {
  ClaimSpec spec;
  spec.rows = rows;
  spec.group = group;
  spec.window = window;
  return spec;
}

TEST(QueueTable, TasksConsumeTheSameRowsEachForItself) {
  Table table(small_spec());
  table.add_task({"reward", {"prompt", "answer"}});
  put(table, {0, 1}, "prompt");
  table.add_task({"generate", {"prompt"}});  // later, and sees what is there
  EXPECT_FALSE(table.claim(2, "reward", claim_of(1), 0));
  const auto prompt = table.claim(2, "generate", claim_of(1), 0);
  ASSERT_TRUE(prompt);
  EXPECT_EQ(prompt->rows, std::vector<QueueRow>({{0, 1}}));
  const int64_t answer = put(table, {0, 1}, "answer");
  const auto both = table.claim(3, "reward", claim_of(1), 0);
  ASSERT_TRUE(both);
  EXPECT_EQ(both->tokens.at(1), answer);
  table.ack(2, prompt->id);
  table.ack(3, both->id);
  EXPECT_EQ(table.counts("generate").consumed, 1);
  EXPECT_FALSE(table.claim(2, "generate", claim_of(1), 0));
  EXPECT_EQ(refusal([&] { table.ack(3, both->id); }, ErrorKind::kInfeasible).find("batch"), 0u);
}

TEST(QueueTable, ALoanEndsWithItsTimeAndWithItsOwner) {
  Table table(small_spec());
  table.add_task({"t", {"prompt"}});
  put(table, {0, 0}, "prompt");
  put(table, {0, 1}, "prompt");
  const auto slow = table.claim(2, "t", claim_of(1), 0);
  const auto dead = table.claim(3, "t", claim_of(1), 0);
  EXPECT_FALSE(table.expire(9 * kMillisecond));
  table.renew(2, slow->id, 9 * kMillisecond);
  EXPECT_EQ(table.next_end(), 10 * kMillisecond);
  EXPECT_TRUE(table.expire(10 * kMillisecond));
  EXPECT_INFEASIBLE(table.ack(3, dead->id), "its rows go to others");
  EXPECT_INFEASIBLE(table.ack(4, slow->id), "is not lent to this client");
  table.drop_owner(2);
  EXPECT_INFEASIBLE(table.ack(2, slow->id), "is not lent");
  const auto again = table.claim(4, "t", claim_of(2), 11 * kMillisecond);
  ASSERT_TRUE(again);
  table.ack(4, again->id);
  EXPECT_EQ(table.counts("t").consumed, 2);
  EXPECT_EQ(table.counts("t").lapsed, 2);
}

TEST(QueueTable, AProducerThatDiesLeavesNothing) {
  Table table(small_spec());
  table.add_task({"t", {"prompt"}});
  const CellName cell{{0, 0}, 0};
  const auto first = table.reserve(1, cell, "int8[*]", 0);
  EXPECT_FALSE(table.reserve(2, cell, "int8[*]", 0)) << "two producers have one cell";
  EXPECT_NE(table.why_not_reserve(cell).find("another producer"), std::string::npos);
  table.drop_owner(1);
  const auto second = table.reserve(2, cell, "int8[*]", 0);
  ASSERT_TRUE(second);
  EXPECT_GT(second->token, first->token);
  EXPECT_TRUE(table.expire(10 * kMillisecond));
  EXPECT_INFEASIBLE(table.commit(2, second->token, 0, -1), "void");
  EXPECT_FALSE(table.claim(3, "t", claim_of(1), 0));
  put(table, {0, 0}, "prompt");
  EXPECT_EQ(table.reserve(2, cell, "int8[*]", 0)->token, 0) << "the cell is there";
}

TEST(QueueTable, StepsShareARing) {
  Table table(small_spec());
  table.add_task({"t", {"prompt"}});
  put(table, {1, 0}, "prompt");  // a later step first
  put(table, {0, 0}, "prompt");
  const CellName next{{2, 0}, 0};
  EXPECT_FALSE(table.reserve(1, next, "int8[*]", 0));
  EXPECT_NE(table.why_not_reserve(next).find("clear an older one"), std::string::npos);
  const auto lent = table.claim(2, "t", claim_of(1), 0);
  EXPECT_EQ(lent->rows.at(0).step, 0) << "the oldest first";
  EXPECT_REFUSED(table.clear(0), "is lent to task 't'");
  table.ack(2, lent->id);
  EXPECT_EQ(table.clear(0), 3) << "rows that nobody has read";
  EXPECT_REFUSED(table.clear(0), "cleared before");
  EXPECT_REFUSED(table.reserve(1, {{0, 0}, 0}, "int8[*]", 0), "step 0 was cleared");
  EXPECT_EQ(table.reserve(1, next, "int8[*]", 0)->oldest, 1);
  EXPECT_REFUSED(table.clear(2), "is being put");
  EXPECT_REFUSED(table.reserve(1, {{0, 1}, 0}, "int8[*]", 0), "step 0 was cleared");
}

TEST(QueueTable, NoRowIsStalerThanItsTaskAllows) {
  Table table(small_spec());
  table.add_task({"fresh", {"prompt"}, 0});
  table.add_task({"one", {"prompt"}, 1});
  table.add_task({"any", {"prompt"}});
  table.publish(5);
  put(table, {0, 0}, "prompt", 3);
  put(table, {0, 1}, "prompt", 4);
  put(table, {0, 2}, "prompt", 5);
  EXPECT_EQ(table.counts("fresh").expired, 2);
  EXPECT_EQ(table.expired("one", 0), std::vector<QueueRow>({{0, 0}}));
  const auto held = table.claim(2, "one", claim_of(1), 0);
  EXPECT_EQ(held->versions.at(0), 4);
  table.publish(6);
  table.drop_owner(2);  // what comes back is too old by now
  EXPECT_EQ(table.counts("one").expired, 2);
  EXPECT_EQ(table.claim(2, "one", claim_of(1), 0)->versions.at(0), 5);
  EXPECT_EQ(table.claim(2, "any", claim_of(3), 0)->rows.size(), 3u);
  EXPECT_REFUSED(table.publish(6), "publish rising numbers");
  EXPECT_REFUSED(table.add_task({"t", {"prompt"}, -1}), "staleness of -1");
  // A second field may make a row older that was free.
  put(table, {0, 3}, "answer", 6);
  table.add_task({"late", {"answer"}, 0});
  EXPECT_EQ(table.counts("late").free, 1);
  put(table, {0, 3}, "prompt", 5);
  EXPECT_EQ(table.counts("late").free, 0);
  EXPECT_EQ(table.counts("late").expired, 1);
}

TEST(QueueTable, GroupsStayTogetherAndWindowsAreDealtByWeight) {
  QueueSpec spec = small_spec();
  spec.rows = 16;
  Table table(spec);
  table.add_task({"t", {"prompt"}});
  table.add_task({"grouped", {"prompt"}});
  const std::vector<int64_t> lengths = {21000, 16000, 9000, 8000, 4000, 3000, 2000, 1500,
                                        900,   700,   500,  400,  300,  200,  100,  50};
  for (int64_t r = 0; r < 16; ++r) put(table, {0, r}, "prompt", kAnyVersion, lengths[size_t(r)]);
  int64_t most = 0;
  for (int consumer = 0; consumer < 4; ++consumer) {
    // Each sees what the ones before have left.
    const auto batch = table.claim(2, "t", claim_of(4, 1, 16 - 4 * consumer), 0);
    ASSERT_EQ(batch->rows.size(), 4u);
    int64_t load = 0;
    for (const int64_t weight : batch->weights) load += weight;
    most = std::max(most, load);
  }
  EXPECT_LT(most, 1.45 * 16912.5) << "in order it is 3.19 times the mean";
  // One of a group is missing for a moment.
  const auto all = table.claim(2, "grouped", claim_of(16, 4), 0);
  ASSERT_TRUE(all);
  table.release(2, all->id);
  const auto first = table.claim(2, "grouped", claim_of(1), 0);
  EXPECT_EQ(table.claim(3, "grouped", claim_of(4, 4), 0)->rows.at(0).row, 4);
  table.release(2, first->id);
  EXPECT_EQ(table.claim(3, "grouped", claim_of(4, 4), 0)->rows.at(0).row, 0);
}

TEST(QueueTable, WrongWordsAreRefused) {
  EXPECT_REFUSED(Table([] {
                   auto s = small_spec();
                   s.fields.clear();
                   return s;
                 }()),
                 "no fields");
  EXPECT_REFUSED(Table([] {
                   auto s = small_spec();
                   s.rows = 0;
                   return s;
                 }()),
                 "0 rows");
  EXPECT_REFUSED(Table([] {
                   auto s = small_spec();
                   s.units.clear();
                   return s;
                 }()),
                 "no storage");
  EXPECT_REFUSED(Table([] {
                   auto s = small_spec();
                   s.ring_steps = 0;
                   return s;
                 }()),
                 "0 steps");
  Table table(small_spec());
  table.add_task({"t", {"prompt"}});
  EXPECT_REFUSED(table.add_task({"t", {"answer"}}), "with other fields");
  EXPECT_REFUSED(table.add_task({"u", {"image"}}), "no field 'image'; it has prompt, answer");
  EXPECT_REFUSED(table.claim(1, "nobody", claim_of(1), 0), "no task 'nobody'");
  EXPECT_REFUSED(table.claim(1, "t", claim_of(5), 0), "give 1 to 4");
  EXPECT_REFUSED(table.claim(1, "t", claim_of(3, 2), 0), "multiples of the group");
  EXPECT_REFUSED(table.claim(1, "t", claim_of(2, 1, 3), 0), "window of 3");
  EXPECT_REFUSED(table.reserve(1, {{0, 4}, 0}, "int8[*]", 0), "does not exist");
  put(table, {0, 0}, "prompt");
  EXPECT_REFUSED(table.reserve(1, {{0, 1}, 0}, "int16[*]", 0), "one form within a step");
  EXPECT_TRUE(table.reserve(1, {{1, 1}, 0}, "int16[*]", 0)) << "another step, another form";
}

/// Owners that die at any moment: every row of every task is acknowledged once. The oracle is a
/// count for each row of its own.
TEST(QueueTable, RandomDeathsLoseNothingAndDoubleNothing) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    std::mt19937 random(seed);
    QueueSpec spec = small_spec();
    spec.rows = 12;
    Table table(spec);
    for (const char* task : {"a", "b"}) table.add_task({task, {"prompt", "answer"}});
    std::map<std::pair<std::string, QueueRow>, int> acked;
    int64_t now = 0, owner = 0;
    for (int64_t step = 0; step < 5; ++step) {
      const auto done = [&] {
        return table.counts("a").consumed == 12 * (step + 1) &&
               table.counts("b").consumed == 12 * (step + 1);
      };
      for (int turn = 0; turn < 20'000 && !done(); ++turn) {
        ++owner;
        now += int64_t(random() % 3) * kMillisecond;
        table.expire(now);
        if (random() % 2 == 0) {
          const CellName cell{{step, int64_t(random() % 12)}, int64_t(random() % 2)};
          const auto put = table.reserve(owner, cell, "int8[*]", now);
          if (put && put->token != 0 && random() % 3 != 0) table.commit(owner, put->token, 0, -1);
        } else {
          const std::string task = random() % 2 == 0 ? "a" : "b";
          ClaimSpec wanted = claim_of(3);
          wanted.least = 1;
          const auto batch = table.claim(owner, task, wanted, now);
          if (batch && random() % 3 != 0) {
            table.ack(owner, batch->id);
            for (const QueueRow& row : batch->rows) ++acked[{task, row}];
          }
        }
        if (random() % 2 == 0) table.drop_owner(owner);
      }
      ASSERT_TRUE(done()) << "seed " << seed;
      // Puts of the step that are still under way find their cells there.
      now += 11 * kMillisecond;
      table.expire(now);
      EXPECT_EQ(table.clear(step), 0);
    }
    EXPECT_EQ(acked.size(), 2u * 5 * 12);
    for (const auto& [name, times] : acked) EXPECT_EQ(times, 1);
    EXPECT_GT(table.counts("a").lapsed, 0) << "nobody died";
  }
}

}  // namespace
}  // namespace tutti::runtime::queue
