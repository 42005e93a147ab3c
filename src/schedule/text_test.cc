#include "src/schedule/text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>

#include "src/schedule/builder.h"
#include "src/schedule/verify.h"
#include "src/schedule/verify_examples_test.h"

namespace tutti::schedule {
namespace {

using namespace examples;

bool same_bytes(const Schedule& a, const Schedule& b) {
  return a.words == b.words && a.scratch == b.scratch && a.lanes == b.lanes &&
         a.steps.size() == b.steps.size() &&
         (a.steps.empty() ||
          std::memcmp(a.steps.data(), b.steps.data(), a.steps.size() * sizeof(Step)) == 0);
}

void expect_round_trip(const ScheduleSet& set) {
  const std::string text = print(set.shape, set.schedules);
  const auto back = parse(text);
  ASSERT_TRUE(back.ok()) << back.status().message() << "\n" << text;
  EXPECT_TRUE(back.value().shape == set.shape) << text;
  ASSERT_EQ(back.value().schedules.size(), set.schedules.size());
  for (size_t i = 0; i < set.schedules.size(); ++i) {
    EXPECT_TRUE(same_program(back.value().schedules[i], set.schedules[i])) << text;
    EXPECT_TRUE(same_bytes(back.value().schedules[i], set.schedules[i])) << text;
  }
  EXPECT_EQ(print(back.value().shape, back.value().schedules), text);
}

TEST(Text, RoundTripsWhatBuildersWrite) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    expect_round_trip(one_shot(ranks));
    expect_round_trip(two_shot(ranks, Fold::kList));
    expect_round_trip(ring(ranks, 3));
    expect_round_trip(exchange_direct(ranks));
    expect_round_trip(barrier(ranks));
  }
  expect_round_trip(exchange_relayed());
}

TEST(Text, RoundTripsEverythingAStepCanSay) {
  Shape shape = shape_of(Collective::kReduceScatter, 3, 6, 1, 4);
  shape.root = 2;
  shape.output.bounds = {{0, 1}, {1, 3}, {7, 9}, {1, 1}};
  shape.output.blocks = 3;
  const Block mixed[] = {input(5), input(0), input(1), output(2), input(2)};
  const Block locals[] = {output(0), output(1), output(2), input(3), input(4)};
  const MoveSource sources[] = {MoveSource::message(1), MoveSource::local(locals),
                                MoveSource::message(2)};
  Builder b(0);
  b.scratch(output(1));
  b.scratch(input(4));
  b.move(mixed, sources, Fold::kTree);
  b.lane(3);
  const int peers[] = {2, 1};
  b.after(b.send(mixed, peers), 0);
  b.send(std::span<const Block>{}, std::span<const int>{});
  b.move(std::span<const Block>{}, std::span<const MoveSource>{});
  const MoveSource empty[] = {MoveSource::message(1), MoveSource::local(std::span<const Block>{})};
  b.move(std::span<const Block>{}, empty);
  b.lane(1);
  const StepIndex last = b.receive(Block::of(Space::kScratch, 1), 1);
  b.after(last, 0);
  b.after(last, 1);
  ScheduleSet set{shape, {}};
  set.schedules.push_back(std::move(b).finish());
  expect_round_trip(set);
  const std::string text = print(shape, set.schedules);
  EXPECT_NE(text.find("output at 0 1/3 7/9 1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 0 lanes 4\n  scratch output[1] input[4]\n"
                      "  0: lane 0 move input[5,0:2] output[2] input[2] <- message 1 + "
                      "output[0:3] input[3:5] + message 2 (tree)\n"
                      "  1: lane 3 send input[5,0:2] output[2] input[2] -> 2,1 after 0\n"
                      "  2: lane 3 send nothing -> nobody\n"
                      "  3: lane 3 move nothing <- none\n"),
            std::string::npos)
      << text;
}

const std::string kHeader =
    "tutti-schedule 1\ncollective broadcast\nranks 2\nroot 0\nlanes 1\ninput 1\noutput 1\n";

TEST(Text, ForgivesSpacesCommentsAndMissingNumbers) {
  const auto set = parse("# mine\n\n" + kHeader +
                         "rank 0   # root\r\n\tsend input[ 0 ]->1\r\n"
                         "   1 : move output[0:1]<-input[0]\n\nrank 1\nmove output[0]<-message 0");
  ASSERT_TRUE(set.ok()) << set.status().message();
  EXPECT_TRUE(verify(set.value().shape, set.value().schedules).ok());
}

TEST(Text, NamesTheLineAndColumnOfAMistake) {
  const struct {
    const char* lines;
    const char* error;
  } cases[] = {
      {"rank\n", "line 8, column 5: expected a number"},
      {"send input[0] -> 1\n", "line 8, column 1: expected 'rank'"},
      {"rank 0\n 7: send input[0] -> 1\n", "line 9, column 3: expected step 0"},
      {"rank 0\n receive output[0]\n", "line 9, column 2: expected 'send' or 'move'"},
      {"rank 0\n send input[0] 1\n", "line 9, column 16: expected '->'"},
      {"rank 0\n send input[0] -> \n", "expected a number"},
      {"rank 0\n send input[0] -> 1 2\n", "line 9, column 21: expected the end of the line"},
      {"rank 0\n send input[] -> 1\n", "line 9, column 13: expected a number"},
      {"rank 0\n send input[3:3] -> 1\n", "the range is empty"},
      {"rank 0\n send input[0 -> 1\n", "expected ',' or ']'"},
      {"rank 0\n send user[0] -> 1\n", "expected 'input', 'output', 'scratch' or 'nothing'"},
      {"rank 0\n send input[0:999999999] -> 1\n", "the schedules are too large"},
      {"rank 0\n send input[99999999999999999999] -> 1\n", "expected a number"},
      {"rank 0\n send input[-1] -> 1\n", "expected a number"},
      {"rank 0\n move output[0] <- input[0:2]\n", "a source of 2 blocks for a target of 1"},
      {"rank 0\n move output[0] <- message 1 +\n", "expected 'input'"},
      {"rank 0\n move output[0] <- input[0] (wood)\n", "expected the end of the line"},
      {"rank 0\n send input[0] -> 1 after\n", "expected a number"},
      {"rank 0\n lane 1 send input[0] -> 1\n", "this rank has fewer lanes"},
      {"rank 0\n send input[0] -> 1\n scratch input[0]\n", "must come before the steps"},
      {"rank 0 sends\n", "expected the end of the line"},
  };
  for (const auto& c : cases) {
    const auto set = parse(kHeader + c.lines);
    ASSERT_FALSE(set.ok()) << c.lines;
    EXPECT_NE(set.status().message().find(c.error), std::string::npos)
        << c.lines << set.status().message();
  }
}

TEST(Text, RefusesIncompleteHeaders) {
  for (size_t i = 0; i + 1 < kHeader.size(); ++i) {
    if (kHeader[i] != '\n') continue;
    EXPECT_FALSE(parse(kHeader.substr(0, i)).ok());
  }
  EXPECT_FALSE(parse("").ok());
  EXPECT_FALSE(parse("tutti-schedule 2\n").ok());
  EXPECT_FALSE(parse("tutti-schedule 1\ncollective all_reduced\n").ok());
  EXPECT_FALSE(parse("tutti-schedule 1\ncollective sort\n").ok());
}

TEST(Text, PrintsWhatIsNoSchedule) {
  Schedule schedule;
  schedule.steps.resize(3);
  schedule.steps[0].blocks = 0xfffffff0;
  schedule.steps[0].block_count = 100;
  schedule.steps[1].kind = static_cast<StepKind>(99);
  schedule.steps[2].kind = StepKind::kMove;
  schedule.steps[2].operand_count = 1;
  schedule.words = {0x40000000};
  EXPECT_EQ(print_step(schedule, 0), "a step whose offsets lie outside the schedule");
  EXPECT_EQ(print_step(schedule, 1), "a step of unknown kind");
  EXPECT_EQ(print_step(schedule, 3), "no such step");
  Shape shape;
  shape.collective = static_cast<Collective>(77);
  EXPECT_NE(print(shape, {&schedule, 1}), "");
}

// Mostly a digit for another: what still parses is the interesting part.
void damage(std::string& text, std::mt19937& random) {
  static constexpr char kBytes[] = "0123456789[]:,+-><ab \n#";
  const size_t at = random() % text.size();
  const size_t digit = text.find_first_of("0123456789", at);
  switch (random() % 8) {
    case 0:
      text[at] = static_cast<char>(random());
      break;
    case 1:
      text[at] = kBytes[random() % (sizeof kBytes - 1)];
      break;
    case 2:
      text.erase(at, std::min<size_t>(1 + random() % 8, text.size() - 1));
      break;
    case 3:
      text.insert(at, text.substr(random() % text.size(), random() % 12));
      break;
    default:
      if (digit != std::string::npos) text[digit] = static_cast<char>('0' + random() % 10);
  }
}

// Whatever the bytes are: no crash, no hang; and what parses round-trips and can be verified.
TEST(Text, SurvivesDamage) {
  std::mt19937 random(20240607);
  const ScheduleSet sets[] = {one_shot(3), ring(3, 2), two_shot(3), exchange_relayed(), barrier(5)};
  size_t parsed = 0;
  size_t verified = 0;
  for (int round = 0; round < 6000; ++round) {
    const ScheduleSet& set = sets[static_cast<size_t>(round) % std::size(sets)];
    std::string text = print(set.shape, set.schedules);
    const auto changes = static_cast<size_t>(round % 3);
    for (size_t i = 0; i <= changes; ++i) damage(text, random);
    const auto result = parse(text);
    if (!result.ok()) continue;
    ++parsed;
    expect_round_trip(result.value());
    VerifyOptions options;
    options.placement = round % 2 == 0 ? Placement::kSeparate : Placement::kInPlace;
    verified += verify(result.value().shape, result.value().schedules, options).ok() ? 1 : 0;
  }
  EXPECT_GT(parsed, 500u);
  EXPECT_LT(verified, parsed);
}

// The same one level below: flipped bits in the arrays themselves, as a file or a peer could hold
// them.
TEST(Text, SurvivesDamagedArrays) {
  std::mt19937 random(42);
  const ScheduleSet sets[] = {one_shot(3), ring(3, 2), two_shot(3), exchange_relayed()};
  for (int round = 0; round < 8000; ++round) {
    ScheduleSet set = sets[static_cast<size_t>(round) % std::size(sets)];
    Schedule& schedule = set.schedules[random() % set.schedules.size()];
    const uint32_t flip = 1u << random() % 32;
    const size_t words = schedule.steps.size() * sizeof(Step) / 4;
    const size_t at = random() % (words + schedule.words.size());
    if (at < words) {
      uint32_t word = 0;
      auto* bytes = reinterpret_cast<unsigned char*>(schedule.steps.data()) + at * 4;
      std::memcpy(&word, bytes, 4);
      word ^= flip;
      std::memcpy(bytes, &word, 4);
    } else {
      schedule.words[at - words] ^= flip;
    }
    print(set.shape, set.schedules);
    (void)verify(set.shape, set.schedules);
  }
}

}  // namespace
}  // namespace tutti::schedule
