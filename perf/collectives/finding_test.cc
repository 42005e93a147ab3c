#include "perf/collectives/finding.h"

#include <gtest/gtest.h>

namespace tutti::perf {
namespace {

// Rank 2 has wrong output, rank 1 a changed input.
int check_what_all_see(const RankContext& context) {
  BufferMistakes own;
  if (context.rank == 1) own.input.add(5, 7, 8);
  if (context.rank == 2) {
    own.output.add(17, 3, 1);
    own.output.add(18, 3, 1);
  }
  const std::optional<Finding> found = first_finding(context, own);
  const bool right = found && found->rank == 1 && found->in_input && found->first.element == 5 &&
                     found->wrong_elements == 3 && found->wrong_ranks == 2;
  return right ? 0 : 1;
}

TEST(Finding, IsTheSameOnEveryRank) {
  EXPECT_EQ(run_crew({3, 1}, check_what_all_see), 0);
  EXPECT_EQ(run_crew({1, 3}, check_what_all_see), 0);
}

TEST(Finding, IsEmptyWhereNothingIsWrong) {
  const int result = run_crew(
      {1, 2}, [](const RankContext& context) { return first_finding(context, {}) ? 1 : 0; });
  EXPECT_EQ(result, 0);
}

TEST(Finding, SaysRankElementAndValues) {
  Finding finding;
  finding.rank = 2;
  finding.wrong_ranks = 1;
  finding.wrong_elements = 5;
  finding.first.add(17, 3, 0.5);
  EXPECT_EQ(sentence_of(finding),
            "rank 2, element 17 of its output: expected 3, got 0.5; 5 wrong elements on 1 ranks");
}

}  // namespace
}  // namespace tutti::perf
