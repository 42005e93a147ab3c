#include "src/topology/name_range.h"

#include <gtest/gtest.h>

namespace tutti::topology {
namespace {

using Names = std::vector<std::string>;

TEST(NameRange, ExpandsAsSchedulersWriteIt) {
  EXPECT_EQ(expand_names("alpha", 10).value(), (Names{"alpha"}));
  EXPECT_EQ(expand_names("n[08-10,3]", 10).value(), (Names{"n08", "n09", "n10", "n3"}));
  EXPECT_EQ(expand_names("r[0-1]n[0-1].x", 10).value(),
            (Names{"r0n0.x", "r0n1.x", "r1n0.x", "r1n1.x"}));
}

TEST(NameRange, RefusesWhatIsNoRange) {
  const auto why = [](std::string_view text) {
    const auto names = expand_names(text, 100);
    return names.ok() ? "" : std::string(names.status().message());
  };
  EXPECT_NE(why("n[1-3").find("not closed"), std::string::npos);
  EXPECT_NE(why("n1]").find("closes nothing"), std::string::npos);
  EXPECT_NE(why("n[]").find("neither a number"), std::string::npos);
  EXPECT_NE(why("n[1-x]").find("neither a number"), std::string::npos);
  EXPECT_NE(why("n[3-1]").find("backwards"), std::string::npos);
  EXPECT_NE(why("n[0-100]").find("more than 100 names"), std::string::npos);
  EXPECT_NE(why("n[0-10]m[0-10]").find("more than 100 names"), std::string::npos);
  EXPECT_NE(why("n[0-4294967295]").find("more than 100 names"), std::string::npos);
}

TEST(NameRange, FoldsWhatItExpands) {
  EXPECT_TRUE(follows("n9", "n10"));
  EXPECT_TRUE(follows("n09", "n10"));
  EXPECT_FALSE(follows("n09", "n010"));
  EXPECT_FALSE(follows("n9", "n11"));
  EXPECT_FALSE(follows("m9", "n10"));
  EXPECT_FALSE(follows("n", "n1"));
  for (const char* text : {"n[9-12]", "n[08-11]", "n[099-101]"}) {
    const Names names = expand_names(text, 100).value();
    for (size_t i = 1; i < names.size(); ++i) EXPECT_TRUE(follows(names[i - 1], names[i])) << text;
    EXPECT_EQ(fold_names(names.front(), names.back()), text);
  }
  EXPECT_EQ(fold_names("alpha", "alpha"), "alpha");
}

}  // namespace
}  // namespace tutti::topology
