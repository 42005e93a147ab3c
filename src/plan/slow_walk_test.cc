#include <gtest/gtest.h>

#include "src/plan/walk_machines_test.h"

namespace tutti::plan::machines {
namespace {

INSTANTIATE_TEST_SUITE_P(LargerGroups, Machines, testing::Values(5, 6, 7, 8, 9));

}  // namespace
}  // namespace tutti::plan::machines
