#include <gtest/gtest.h>

#include <string>

#include "src/schedule/verify.h"
#include "src/schedule/verify_examples_test.h"

namespace tutti::schedule {
namespace {

using namespace examples;

// One rank, and so many scratch blocks of nearly 2^43 units each.
Result<Verdict> with_scratch(uint32_t blocks) {
  const uint64_t fine = 1ull << 43;
  Shape shape = shape_of(Collective::kAllReduce, 1, 2, 2);
  shape.input.bounds = {Fraction{0, 1}, Fraction{1, fine}, Fraction{1, 1}};
  shape.output.bounds = shape.input.bounds;
  const ScheduleSet set = make(shape, [&](Builder& b, int) {
    for (uint32_t i = 0; i < 2; ++i) b.copy(output(i), input(i));
    for (uint32_t i = 0; i < blocks; ++i) b.scratch(input(1));
  });
  return verify(set.shape, set.schedules);
}

TEST(VerifyCost, RefusesWhatExceeds64Bits) {
  EXPECT_TRUE(with_scratch(1u << 20).ok());
  const auto result = with_scratch((1u << 20) + 1);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.status().message().find("exceed 64 bits"), std::string::npos)
      << result.status().message();
}

}  // namespace
}  // namespace tutti::schedule
