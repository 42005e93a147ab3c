#include "src/schedule/builder.h"

#include <gtest/gtest.h>

#include <vector>

#include "src/schedule/text.h"

namespace tutti::schedule {
namespace {

TEST(Builder, WritesWhatItIsTold) {
  Builder b(2);
  const Block kept = b.scratch(output(1));
  EXPECT_EQ(kept, Block::of(Space::kScratch, 0));
  const int peers[] = {0, 3};
  const Block pair[] = {input(0), output(4)};
  EXPECT_EQ(b.send(pair, peers), 0u);
  EXPECT_EQ(b.copy(kept, input(1)), 1u);
  b.lane(1);
  EXPECT_EQ(b.receive(pair, 3), 2u);
  b.after(2, 0);
  b.after(2, 1);
  const Schedule schedule = std::move(b).finish();

  EXPECT_EQ(schedule.rank, 2);
  EXPECT_EQ(schedule.lanes, 2);
  EXPECT_EQ(schedule.scratch, std::vector<Block>{output(1)});
  EXPECT_EQ(print_step(schedule, 0), "lane 0 send input[0] output[4] -> 0,3");
  EXPECT_EQ(print_step(schedule, 1), "lane 0 move scratch[0] <- input[1]");
  EXPECT_EQ(print_step(schedule, 2), "lane 1 move input[0] output[4] <- message 3 after 0,1");
}

TEST(Builder, KeepsTheOrderOfSources) {
  Builder b(1);
  const Block target[] = {output(0), output(1)};
  const Block first[] = {input(0), input(1)};
  const Block second[] = {input(3), input(2)};
  const MoveSource sources[] = {MoveSource::message(4), MoveSource::local(first),
                                MoveSource::message(0), MoveSource::local(second)};
  b.move(target, sources, Fold::kTree);
  const Schedule schedule = std::move(b).finish();
  EXPECT_EQ(print_step(schedule, 0),
            "move output[0:2] <- message 4 + input[0:2] + message 0 + input[3,2] (tree)");
}

TEST(Builder, EmptyLists) {
  Builder b(0);
  b.send(std::span<const Block>{}, 1);
  b.receive(std::span<const Block>{}, 1);
  const Schedule schedule = std::move(b).finish();
  EXPECT_EQ(print_step(schedule, 0), "send nothing -> 1");
  EXPECT_EQ(print_step(schedule, 1), "move nothing <- message 1");
}

TEST(Builder, ARankWithNothingToDoHasOneLane) { EXPECT_EQ(Builder(3).finish().lanes, 1); }

}  // namespace
}  // namespace tutti::schedule
