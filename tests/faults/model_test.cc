// A rank that chooses by another model than the others is found out in its first call, by name.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/faults/thread_group.h"

namespace tutti::faults {
namespace {

std::vector<Status> outcomes(const GroupOptions& options) {
  std::vector<Status> statuses(static_cast<size_t>(options.ranks));
  const std::string none = with_group(options, [&](int rank, comm::Communicator& communicator) {
    std::vector<float> input(64, 1), output(64);
    comm::Request request{.collective = schedule::Collective::kAllReduce,
                          .type = types::DataType::kFloat32,
                          .count = input.size()};
    request.send = input.data();
    request.recv = output.data();
    statuses[static_cast<size_t>(rank)] = communicator.run(request);
  });
  EXPECT_EQ(none, "");
  return statuses;
}

class ModelOfOne : public testing::TestWithParam<int> {};

// Whose message it is that does not fit depends on who comes first; the others hear of the two.
TEST_P(ModelOfOne, IsNamedWhereCallsDiffer) {
  GroupOptions options;
  options.hosts = GetParam();
  options.models.resize(4);
  for (const Status& status : outcomes(options)) EXPECT_TRUE(status.ok()) << status.message();
  options.models[2].levels = {{"a level that nobody has", 1, 1}};
  std::string all;
  for (const Status& status : outcomes(options)) {
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.message().find("rank 2"), std::string::npos) << status.message();
    all += std::string(status.message()) + "\n";
  }
  EXPECT_NE(all.find(": model"), std::string::npos) << all;
}

INSTANTIATE_TEST_SUITE_P(OnHosts, ModelOfOne, testing::Values(1, 2));

}  // namespace
}  // namespace tutti::faults
