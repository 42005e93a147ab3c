#include "src/bootstrap/host.h"

#include <gtest/gtest.h>

#include <string>

#include "src/base/config.h"

namespace tutti::bootstrap {
namespace {

TEST(Host, FingerprintIsStableAndOneWord) {
  const std::string id = host_fingerprint();
  EXPECT_EQ(id, host_fingerprint());
  EXPECT_EQ(id.find(' '), std::string::npos);
  EXPECT_LE(id.size(), 256u);
  Config config;
  config.host_id = "mine";
  EXPECT_EQ(host_id(config), "mine");
  EXPECT_EQ(host_id(Config{}), id);
}

}  // namespace
}  // namespace tutti::bootstrap
