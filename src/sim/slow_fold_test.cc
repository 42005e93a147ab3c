#include "src/sim/fold_cases_test.h"

namespace tutti::sim {
namespace {

TEST(ManyFolds, GiveTheTimesOfEveryRankOn300RandomSymmetricTopologies) {
  EXPECT_GT(tests::compare_folds(33, 300), 100);
}

}  // namespace
}  // namespace tutti::sim
