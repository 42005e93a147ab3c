// Where the outcome of operations is told.
#include "src/operation/completion.h"

#include <gtest/gtest.h>

namespace tutti::operation {
namespace {

// One thread asks whether a request is done while another one takes its outcome.
TEST(Completion, AnOutcomeStaysForWhoAsksBesides) {
  Completion completion;
  completion.add();
  Status seen;
  EXPECT_FALSE(completion.is_done(seen));
  completion.finish(Status::remote_error("lost"));
  EXPECT_EQ(completion.outcome().code(), Code::kRemoteError);
  EXPECT_TRUE(completion.is_done(seen));
  EXPECT_EQ(seen.code(), Code::kRemoteError);
}

TEST(Completion, AWaitForgetsTheError) {
  Completion completion;
  for (const char* error : {"first", "second"}) {
    completion.add();
    completion.finish(Status::remote_error(error));
  }
  EXPECT_EQ(completion.wait().message(), "first");
  EXPECT_TRUE(completion.wait().ok());
}

}  // namespace
}  // namespace tutti::operation
