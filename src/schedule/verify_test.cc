#include "src/schedule/verify.h"

#include <gtest/gtest.h>

#include <string>

#include "src/schedule/builder.h"
#include "src/schedule/text.h"
#include "src/schedule/verify_examples_test.h"
#include "src/schedule/verify_geometry.h"

namespace tutti::schedule {
namespace {

using namespace examples;

constexpr Placement kBoth[] = {Placement::kSeparate, Placement::kInPlace};

VerifyOptions placed(Placement placement) {
  VerifyOptions options;
  options.placement = placement;
  return options;
}

Verdict accept(const ScheduleSet& set, Placement placement = Placement::kSeparate) {
  const auto result = verify(set.shape, set.schedules, placed(placement));
  EXPECT_TRUE(result.ok()) << result.status().message() << "\n" << print(set.shape, set.schedules);
  return result.ok() ? result.value() : Verdict{};
}

// Refused, and for this reason.
void refuse(const ScheduleSet& set, const std::string& reason,
            Placement placement = Placement::kSeparate) {
  const auto result = verify(set.shape, set.schedules, placed(placement));
  ASSERT_FALSE(result.ok()) << "expected: " << reason << "\n" << print(set.shape, set.schedules);
  EXPECT_NE(result.status().message().find(reason), std::string::npos)
      << result.status().message() << "\nexpected: " << reason;
}

// Two ranks unless said otherwise; the text is what follows the header.
ScheduleSet two(const std::string& header, const std::string& ranks) {
  const auto set = parse("tutti-schedule 1\ncollective " + header + "\n" + ranks);
  EXPECT_TRUE(set.ok()) << set.status().message();
  return set.ok() ? set.value() : ScheduleSet{};
}

const std::string kReduce = "all_reduce\nranks 2\nroot 0\nlanes 1\ninput 1\noutput 1";
const std::string kScatter = "reduce_scatter\nranks 2\nroot 0\nlanes 1\ninput 2\noutput 1";
const std::string kReduce2 = "all_reduce\nranks 2\nroot 0\nlanes 1\ninput 2\noutput 2";
const std::string kLanes = "all_reduce\nranks 2\nroot 0\nlanes 2\ninput 1\noutput 1";
const std::string kGather = "all_gather\nranks 2\nroot 0\nlanes 1\ninput 1\noutput 2";
const std::string kBroadcast = "broadcast\nranks 2\nroot 0\nlanes 1\ninput 1\noutput 1";

// ---- what is right is accepted --------------------------------------------------------------

TEST(Verify, AcceptsGoodSchedules) {
  for (int ranks = 1; ranks <= 17; ++ranks) {
    for (Placement placement : kBoth) {
      accept(one_shot(ranks), placement);
      accept(two_shot(ranks), placement);
      accept(ring(ranks, 1), placement);
      accept(ring(ranks, 2), placement);
      accept(ring(ranks, 3), placement);
      accept(gather_direct(ranks), placement);
      accept(scatter_direct(ranks), placement);
      accept(exchange_direct(ranks), placement);
      for (int root : {0, ranks - 1}) accept(broadcast_chain(ranks, root), placement);
      accept(barrier(ranks), placement);
    }
  }
}

TEST(Verify, CountsTheCost) {
  const Cost ring_cost = accept(ring(5, 2)).cost;
  EXPECT_EQ(ring_cost.depth, 8u);
  EXPECT_EQ(ring_cost.messages, 16u);
  EXPECT_EQ(ring_cost.bytes, Fraction::of(8, 5));
  EXPECT_EQ(ring_cost.published, Fraction::of(8, 5));
  const Cost flat = accept(one_shot(5)).cost;
  EXPECT_EQ(print(flat),
            "depth 1, 4 messages, bytes 4, published 1, moved 5, work 25, scratch 0, widest 5");
  Cost declared = flat;
  const VerifyOptions options{.declared = &declared};
  const ScheduleSet set = one_shot(5);
  EXPECT_TRUE(verify(set.shape, set.schedules, options).ok());
  for (int field = 0; field < 6; ++field) {
    declared = flat;
    if (field == 0) ++declared.depth;
    if (field == 1) ++declared.messages;
    if (field == 2) declared.bytes = {3, 1};
    if (field == 3) declared.published = {3, 1};
    if (field == 4) declared.scratch = {1, 2};
    if (field == 5) ++declared.widest;
    EXPECT_FALSE(verify(set.shape, set.schedules, options).ok()) << field;
  }
}

// ---- values ---------------------------------------------------------------------------------

TEST(Verify, RefusesAMissingContribution) {
  refuse(two(kReduce,
             "rank 0\n send input[0] -> 1\n move output[0] <- message 1 + input[0]\n"
             "rank 1\n send input[0] -> 0\n move output[0] <- message 0\n"),
         "rank 1, elements [0, 1) of the output: expected ranks 0-1 of input [0, 1), found rank 0");
}

TEST(Verify, RefusesADoubleContribution) {
  refuse(two(kReduce,
             "rank 0\n send input[0] -> 1\n move output[0] <- message 1 + input[0]\n"
             "rank 1\n send input[0] -> 0\n move output[0] <- message 0 + input[0] + input[0]\n"),
         "found rank 0 + 2 times rank 1");
}

TEST(Verify, RefusesTheRightSumAtTheWrongPlace) {
  refuse(two(kScatter,
             "rank 0\n send input[0] -> 1\n move output[0] <- message 1 + input[0]\n"
             "rank 1\n send input[0] -> 0\n move output[0] <- message 0 + input[0]\n"),
         "expected ranks 0-1 of input [1/2, 1), found ranks 0-1 of input [0, 1/2)");
}

TEST(Verify, RefusesSumsOfDifferentElements) {
  refuse(two(kScatter,
             "rank 0\n send input[0] -> 1\n move output[0] <- message 1 + input[0]\n"
             "rank 1\n send input[0] -> 0\n move output[0] <- message 0 + input[1]\n"),
         "holds elements [1/2, 1) of the input, the sources before it hold [0, 1/2)");
}

TEST(Verify, RefusesOutputNeverWritten) {
  refuse(two(kGather,
             "rank 0\n send input[0] -> 1\n move output[1] <- message 1\n"
             "rank 1\n send input[0] -> 0\n move output[0] <- message 0\n"),
         "found nothing (never written)");
}

TEST(Verify, RefusesReadingWhatWasNeverWritten) {
  refuse(two(kGather,
             "rank 0\n scratch output[1]\n send output[0] -> 1\n"
             "rank 1\n move output[0] <- message 0\n"),
         "reads output[0], which was never written");
  refuse(two(kGather, "rank 0\n scratch output[1]\n move output[0] <- scratch[0]\nrank 1\n"),
         "reads scratch[0], which was never written");
  // In place the same output is the input.
  const auto in_place = two(kGather,
                            "rank 0\n send output[0] -> 1\n move output[1] <- message 1\n"
                            "rank 1\n send output[1] -> 0\n move output[0] <- message 0\n");
  accept(in_place, Placement::kInPlace);
  refuse(in_place, "never written");
}

TEST(Verify, RefusesReducingWithoutAnOperation) {
  refuse(two(kGather,
             "rank 0\n send input[0] -> 1\n move output[0] <- input[0] + message 1\n"
             "rank 1\n send input[0] -> 0\n move output[0] <- message 0\n"),
         "the collective has no operation");
}

TEST(Verify, RefusesInputWhereThereIsNone) {
  refuse(two(kBroadcast,
             "rank 0\n move output[0] <- input[0]\n"
             "rank 1\n move output[0] <- input[0]\n"),
         "only the root has input");
}

TEST(Verify, RefusesWritingTheCallersInput) {
  const auto set = two(kReduce,
                       "rank 0\n move input[0] <- message 1 + input[0]\n"
                       " send input[0] -> 1\n"
                       "rank 1\n send input[0] -> 0\n move input[0] <- message 0\n");
  refuse(set, "writes input[0], which belongs to the caller");
  accept(set, Placement::kInPlace);
  refuse(two(kScatter, "rank 0\n move input[1] <- input[0]\nrank 1\n"),
         "writes input[1], which belongs to the caller", Placement::kInPlace);
}

TEST(Verify, RefusesBlocksThatDifferInSize) {
  const std::string thirds = "all_reduce\nranks 2\nroot 0\nlanes 1\ninput 3\noutput 3";
  refuse(two(thirds, "rank 0\n move output[0] <- input[1]\nrank 1\n"), "differ in size");
  refuse(two(thirds, "rank 0\n send input[0] -> 1\nrank 1\n move output[1] <- message 0\n"),
         "differs in size");
}

TEST(Verify, RefusesOverlapInsideOneStep) {
  refuse(two(kGather, "rank 0\n move output[0,0] <- input[0,0]\nrank 1\n"), "writes twice");
  refuse(two(kGather,
             "rank 0\n move output[0:2] <- input[0,0]\n"
             " move output[0:2] <- output[1,0]\nrank 1\n"),
         "reads output[1], which it also writes");
}

TEST(Verify, ExactFractionsOfUnevenBlocks) {
  // Rank 0 gathers [0, 1/3), rank 1 the rest, cut once more for two messages.
  const std::string header =
      "all_reduce\nranks 2\nroot 0\nlanes 1\ninput at 0 1/3 1/2 1\noutput at 0 1/3 1/2 1";
  const auto set = two(header,
                       "rank 0\n send input[1:3] -> 1\n move output[0] <- input[0] + message 1\n"
                       " send output[0] -> 1\n move output[1:3] <- message 1\n"
                       "rank 1\n send input[0] -> 0\n move output[1:3] <- message 0 + input[1:3]\n"
                       " send output[1:3] -> 0\n move output[0] <- message 0\n");
  for (Placement placement : kBoth) {
    const Verdict verdict = accept(set, placement);
    EXPECT_TRUE(verdict.canonical);
    EXPECT_EQ(verdict.cost.bytes, Fraction::of(1, 1));  // 2/3 + 1/3, both of them
  }
}

TEST(Verify, BarrierNeedsEverybody) {
  const std::string header = "barrier\nranks 2\nroot 0\nlanes 1\ninput 0\noutput 0";
  refuse(two(header, "rank 0\n send nothing -> 1\nrank 1\n move nothing <- message 0\n"),
         "rank 0 can leave the barrier before rank 1 has entered it");
  refuse(two("barrier\nranks 2\nroot 0\nlanes 1\ninput 1\noutput 1", "rank 0\nrank 1\n"),
         "a barrier has no blocks");
}

// ---- matching -------------------------------------------------------------------------------

TEST(Verify, RefusesMessagesThatDoNotMatch) {
  refuse(two(kReduce, "rank 0\n send input[0] -> 1\nrank 1\n"), "is never received");
  refuse(two(kReduce, "rank 0\nrank 1\n move output[0] <- message 0\n"), "sends only 0 messages");
  refuse(two(kReduce2, "rank 0\n send input[0:2] -> 1\nrank 1\n move output[0] <- message 0\n"),
         "has 1 blocks for the 2 of");
  refuse(two(kLanes,
             "rank 0 lanes 2\n lane 1 send input[0] -> 1\n"
             "rank 1 lanes 2\n lane 0 move output[0] <- message 0\n"),
         "sends only 0 messages to this rank on lane 0");
}

// ---- deadlock and credit --------------------------------------------------------------------

TEST(Verify, RefusesACircle) {
  refuse(two(kReduce,
             "rank 0\n move output[0] <- message 1 + input[0]\n send input[0] -> 1\n"
             "rank 1\n move output[0] <- message 0 + input[0]\n send input[0] -> 0\n"),
         "deadlock, with any credit");
}

TEST(Verify, RefusesACircleOfTheArrayOrderOnly) {
  // Lanes by themselves would come through; one thread would not.
  refuse(two(kLanes,
             "rank 0 lanes 2\n lane 1 move output[0] <- message 1 + input[0]\n"
             " lane 0 send input[0] -> 1\n"
             "rank 1 lanes 2\n lane 0 move output[0] <- message 0 + input[0]\n"
             " lane 1 send input[0] -> 0\n"),
         "deadlock, with any credit");
}

TEST(Verify, FindsTheLeastCredit) {
  EXPECT_EQ(accept(broadcast_chain(5, 2)).least_credit, 0u);
  EXPECT_EQ(accept(one_shot(3)).least_credit, 1u);
  EXPECT_EQ(accept(ring(4, 2)).least_credit, 1u);
  // k messages each way before the first is taken need credit k.
  for (uint32_t k = 1; k <= 9; ++k) {
    std::string ranks;
    for (int rank = 0; rank < 2; ++rank) {
      const std::string other = std::to_string(1 - rank);
      ranks += "rank " + std::to_string(rank) + "\n";
      for (uint32_t i = 0; i < k; ++i) ranks += " send input[0] -> " + other + "\n";
      for (uint32_t i = 0; i < k; ++i)
        ranks += " move output[0] <- message " + other + " + input[0]\n";
    }
    EXPECT_EQ(accept(two(kReduce, ranks)).least_credit, k);
  }
}

TEST(Verify, AMoveTakesItsMessagesTogether) {
  // Two messages of one channel as operands: never both offered at rendezvous, never both inside
  // credit 1.
  const auto twice =
      two("barrier\nranks 2\nroot 0\nlanes 1\ninput 0\noutput 0",
          "rank 0\n send nothing -> 1\n send nothing -> 1\n move nothing <- message 1\n"
          "rank 1\n move nothing <- message 0 + message 0\n send nothing -> 0\n");
  EXPECT_EQ(accept(twice).least_credit, 2u);
  // Rank 2 hears 0 and 1 in one MOVE; 0 must be released before it lets 1 go. Only taking them one
  // by one would do at rendezvous.
  const auto three =
      two("barrier\nranks 3\nroot 0\nlanes 1\ninput 0\noutput 0",
          "rank 0\n send nothing -> 2\n send nothing -> 1\n move nothing <- message 2\n"
          "rank 1\n move nothing <- message 0\n send nothing -> 2\n move nothing <- message 2\n"
          "rank 2\n move nothing <- message 0 + message 1\n send nothing -> 0,1\n");
  EXPECT_EQ(accept(three).least_credit, 1u);
}

// ---- hazards --------------------------------------------------------------------------------

TEST(Verify, RefusesRacesBetweenLanes) {
  const std::string rank1 =
      "rank 1 lanes 2\n lane 1 send input[0] -> 0\n lane 0 move output[0] <- message 0 + "
      "input[0]\n";
  refuse(two(kLanes,
             "rank 0 lanes 2\n scratch output[0]\n lane 1 move scratch[0] <- message 1\n"
             " lane 0 move output[0] <- scratch[0] + input[0]\n"
             " lane 0 send input[0] -> 1\n" +
                 rank1),
         "reads scratch[0] without coming after");
  accept(two(kLanes,
             "rank 0 lanes 2\n scratch output[0]\n lane 1 move scratch[0] <- message 1\n"
             " lane 0 move output[0] <- scratch[0] + input[0] after 0\n"
             " lane 0 send input[0] -> 1\n" +
                 rank1));
}

TEST(Verify, RefusesOverwritingWhatAnotherLaneSends) {
  const std::string start =
      "rank 0 lanes 2\n 0: lane 0 move output[0] <- message 1 + input[0]\n"
      " 1: lane 1 send output[0] -> 1 after 0\n";
  const std::string rank1 =
      "rank 1 lanes 2\n lane 0 send input[0] -> 0\n"
      " lane 1 move output[0] <- message 0\n";
  accept(two(kLanes, start + rank1));
  refuse(two(kLanes, start + " 2: lane 0 move output[0] <- output[0]\n" + rank1),
         "writes output[0] without coming after");
  accept(two(kLanes, start + " 2: lane 0 move output[0] <- output[0] after 1\n" + rank1));
}

TEST(Verify, AMessageProvesWhatCameBeforeItsSend) {
  // Lane 0 reads scratch, then sends; the answer comes on lane 1, which overwrites scratch.
  const std::string tail =
      " 3: lane 1 move nothing <- message 1\n"
      " 4: lane 1 move scratch[0] <- input[0]\n";
  const std::string rank1 =
      "rank 1 lanes 2\n lane 0 send input[0] -> 0\n"
      " lane 0 move output[0] <- message 0\n"
      " lane 1 send nothing -> 0";
  const std::string rank0 =
      "rank 0 lanes 2\n scratch output[0]\n"
      " 0: lane 0 move scratch[0] <- message 1 + input[0]\n"
      " 1: lane 0 move output[0] <- scratch[0]\n"
      " 2: lane 0 send output[0] -> 1\n";
  accept(two(kLanes, rank0 + tail + rank1 + " after 1\n"));
  refuse(two(kLanes, rank0 + tail + rank1 + "\n"), "writes scratch[0] without coming after");
}

TEST(Verify, HazardsCanBeTrusted) {
  const auto set =
      two(kLanes,
          "rank 0 lanes 2\n scratch output[0]\n lane 1 move scratch[0] <- message 1\n"
          " lane 0 move output[0] <- scratch[0] + input[0]\n lane 0 send input[0] -> 1\n"
          "rank 1 lanes 2\n lane 1 send input[0] -> 0\n"
          " lane 0 move output[0] <- message 0 + input[0]\n");
  VerifyOptions options;
  EXPECT_FALSE(verify(set.shape, set.schedules, options).ok());
  options.hazards = false;
  EXPECT_TRUE(verify(set.shape, set.schedules, options).ok());
}

TEST(Verify, RefusesBlocksThatSlicesWouldMix) {
  // In place, input[0] is both blocks of the output, and one of them is written.
  const std::string wide = "all_reduce\nranks 1\nroot 0\nlanes 1\ninput 1\noutput 2";
  refuse(two(wide,
             "rank 0\n scratch input[0]\n move scratch[0] <- input[0]\n"
             " move output[0] <- output[0]\n"),
         "overlaps a block that is not the same interval", Placement::kInPlace);
}

// ---- what a verdict says --------------------------------------------------------------------

TEST(Verify, KnowsTheCanonicalOrder) {
  for (int ranks = 2; ranks <= 9; ++ranks) {
    EXPECT_TRUE(accept(one_shot(ranks, Fold::kTree)).canonical) << ranks;
    EXPECT_EQ(accept(one_shot(ranks, Fold::kList)).canonical, ranks == 2) << ranks;
    EXPECT_EQ(accept(two_shot(ranks, Fold::kList)).canonical, ranks == 2) << ranks;
    EXPECT_EQ(accept(ring(ranks)).canonical, ranks == 2) << ranks;
  }
  for (int ranks : {2, 4, 8, 16}) EXPECT_TRUE(accept(doubling(ranks)).canonical) << ranks;
  EXPECT_FALSE(accept(doubling(8, false)).canonical);
}

TEST(Verify, KnowsWhetherRanksAgree) {
  EXPECT_TRUE(accept(one_shot(4, Fold::kList)).agrees);
  EXPECT_TRUE(accept(ring(4)).agrees);
  // Everybody adds its own contribution last.
  const auto own_last = make(shape_of(Collective::kAllReduce, 3, 1, 1), [](Builder& b, int rank) {
    b.send(input(0), others(3, rank));
    std::vector<MoveSource> sources;
    for (int peer : others(3, rank)) sources.push_back(MoveSource::message(peer));
    const Block mine = input(0);
    sources.push_back(MoveSource::local(mine));
    b.move(output(0), sources);
  });
  EXPECT_FALSE(accept(own_last).agrees);
}

TEST(Verify, KnowsWhoForwards) {
  EXPECT_FALSE(accept(exchange_direct(4)).forwards);
  EXPECT_FALSE(accept(exchange_direct(4)).needs_equal_counts);
  // Rank 0 passes its block for 2 through 1.
  const std::string header = "all_to_all\nranks 2\nroot 0\nlanes 1\ninput 2\noutput 2";
  const auto odd = two(header,
                       "rank 0\n send input[1] -> 1\n move output[1] <- message 1\n"
                       " move output[0] <- input[0]\n"
                       "rank 1\n scratch input[0]\n send input[0] -> 0\n"
                       " move scratch[0] <- message 0\n move output[0] <- scratch[0]\n"
                       " move output[1] <- input[1]\n");
  const Verdict verdict = accept(odd);  // rank 1's scratch has the size of what it sends
  EXPECT_FALSE(verdict.forwards);
  EXPECT_TRUE(verdict.needs_equal_counts);
  // Through scratch, whose size a size round tells.
  EXPECT_TRUE(accept(exchange_relayed()).forwards);
  EXPECT_FALSE(accept(exchange_relayed()).needs_equal_counts);
}

// ---- the form of a schedule -----------------------------------------------------------------

TEST(Verify, RefusesWhatIsNotThere) {
  refuse(two(kReduce, "rank 0\n send input[1] -> 1\nrank 1\n"), "there is no input[1]");
  refuse(two(kReduce, "rank 0\n send scratch[0] -> 1\nrank 1\n"), "there is no scratch[0]");
  refuse(two(kReduce, "rank 0\n send input[0] -> 2\nrank 1\n"), "there is no rank 2");
  refuse(two(kReduce, "rank 0\n send input[0] -> 0\nrank 1\n"), "sends to itself");
  refuse(two(kReduce, "rank 0\n send input[0] -> 1,1\nrank 1\n"), "sends twice to rank 1");
  refuse(two(kReduce, "rank 0\n send input[0] -> nobody\nrank 1\n"), "sends to nobody");
  refuse(two(kReduce, "rank 0\n move output[0] <- none\nrank 1\n"), "has no source");
  refuse(two(kReduce, "rank 0\n move output[0] <- message 0\nrank 1\n"), "receives from itself");
  refuse(two(kReduce, "rank 0\n move output[0] <- message 5\nrank 1\n"), "there is no rank 5");
  refuse(two(kReduce, "rank 0\n scratch output[7]\nrank 1\n"), "no input or output block");
  refuse(two(kReduce, "rank 0\n scratch scratch[0]\nrank 1\n"), "no input or output block");
  refuse(two(kReduce, "rank 0\nrank 0\n"), "its schedule is that of rank 0");
  refuse(two(kReduce, "rank 0\n"), "1 schedules for 2 ranks");
  refuse(two(kReduce, "rank 0 lanes 2\nrank 1\n"), "uses 2 lanes, the shape has 1");
}

TEST(Verify, RefusesWrongAfters) {
  const std::string move = "rank 0 lanes 2\n move output[0] <- input[0]\n";
  refuse(two(kLanes, move + " move output[0] <- input[0] after 0\nrank 1\n"), "of its own lane");
  refuse(two(kLanes, move + " lane 1 move output[0] <- input[0] after 1\nrank 1\n"),
         "not an earlier step");
  refuse(two(kLanes, move + " lane 1 move output[0] <- input[0] after 9\nrank 1\n"),
         "not an earlier step");
}

TEST(Verify, RefusesOffsetsOutside) {
  const auto wrong = [](auto change, const std::string& reason) {
    ScheduleSet set = one_shot(2);
    change(set.schedules[0].steps[1]);
    refuse(set, reason);
  };
  wrong([](Step& s) { s.blocks = 1000; }, "outside the schedule");
  wrong(
      [](Step& s) {
        s.blocks = 0xffffffff;
        s.block_count = 0xffffffff;
      },
      "outside the schedule");
  wrong([](Step& s) { s.operands = 1000; }, "outside the schedule");
  wrong(
      [](Step& s) {
        s.afters = 1000;
        s.after_count = 1;
      },
      "outside the schedule");
  wrong([](Step& s) { s.kind = static_cast<StepKind>(7); }, "unknown kind");
  wrong([](Step& s) { s.fold = static_cast<Fold>(7); }, "unknown fold");
  wrong([](Step& s) { s.lane = 7; }, "lane 7 of 1");
  ScheduleSet set = one_shot(2);
  set.schedules[0].words[0] = 0xffffffff;
  refuse(set, "there is no invalid[");
}

TEST(Verify, RefusesWrongShapes) {
  const auto wrong = [](auto change, const std::string& reason) {
    ScheduleSet set = one_shot(2);
    change(set.shape);
    refuse(set, reason);
  };
  wrong([](Shape& s) { s.ranks = 0; }, "number of ranks");
  wrong([](Shape& s) { s.ranks = -5; }, "number of ranks");
  wrong([](Shape& s) { s.root = 2; }, "the root is not a rank");
  wrong([](Shape& s) { s.lanes = 0; }, "number of lanes");
  wrong([](Shape& s) { s.collective = static_cast<Collective>(9); }, "no such collective");
  wrong([](Shape& s) { s.input.bounds = {{0, 1}}; }, "one boundary more");
  wrong([](Shape& s) { s.input.bounds = {{0, 1}, {1, 2}}; }, "does not reach from 0 to 1");
  wrong([](Shape& s) { s.input.bounds = {{0, 1}, {3, 2}}; }, "outside [0, 1]");
  wrong([](Shape& s) { s.input.bounds = {{0, 1}, {1, 0}}; }, "outside [0, 1]");
  wrong([](Shape& s) { s.input = {3, {{0, 1}, {1, 2}, {1, 3}, {1, 1}}}; }, "before the one");
  wrong([](Shape& s) { s.input = {2, {{0, 1}, {1, ~0ull}, {1, 1}}}; }, "too fine");
  wrong([](Shape& s) { s.input.blocks = 1u << 29; }, "too many blocks");
}

TEST(Geometry, PairingImpliesEqualLengthsForEveryCount) {
  size_t compared = 0;
  for (const auto collective : {Collective::kAllReduce, Collective::kAllGather}) {
    for (uint32_t in : {1u, 2u, 3u, 6u}) {
      for (uint32_t out : {1u, 4u, 5u, 12u}) {
        const Shape shape = shape_of(collective, 4, in, out);
        const auto geometry = verifier::Geometry::of(shape).value();
        for (uint32_t i = 0; i < in; ++i) {
          for (uint32_t j = 0; j < out; ++j) {
            const bool pairs = geometry.region(input(i)).pairs(geometry.region(output(j)));
            for (uint64_t count = 0; pairs && count <= 100; ++count, ++compared) {
              const Layout layout(shape, count);
              EXPECT_EQ(layout.extent(input(i)).length, layout.extent(output(j)).length);
            }
          }
        }
      }
    }
  }
  EXPECT_GT(compared, 0u);
}

}  // namespace
}  // namespace tutti::schedule
