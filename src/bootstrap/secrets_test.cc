#include "src/bootstrap/secrets.h"

#include <gtest/gtest.h>

namespace tutti::bootstrap {
namespace {

TEST(Secrets, DerivedKeysDependOnKeyAndPurpose) {
  const transport::JobKey one{1}, two{2};
  EXPECT_EQ(derive_key(one, "a"), derive_key(one, "a"));
  EXPECT_NE(derive_key(one, "a"), derive_key(one, "b"));
  EXPECT_NE(derive_key(one, "a"), derive_key(two, "a"));
  EXPECT_NE(derive_job(one, "a"), derive_job(two, "a"));
  EXPECT_NE(new_nonce(), new_nonce());
}

TEST(Secrets, OnlyTheKeyOpensAndOnlyWhatWasSealed) {
  const transport::JobKey key{1}, other{2};
  std::string sealed = seal(key, "secret");
  EXPECT_EQ(sealed.find("secret"), std::string::npos);
  const Result<std::string> opened = open(key, sealed);
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(opened.value(), "secret");
  EXPECT_EQ(open(other, sealed).status().code(), Code::kRemoteError);
  EXPECT_EQ(open(key, "short").status().code(), Code::kRemoteError);
  sealed.back() = static_cast<char>(sealed.back() ^ 1);
  EXPECT_EQ(open(key, sealed).status().code(), Code::kRemoteError);
}

}  // namespace
}  // namespace tutti::bootstrap
