#include "tools/topology/link_table.h"

#include <gtest/gtest.h>

namespace tutti::topology {
namespace {

const LinkTable kTable{{"a", "b"}, {{0, 1500.25}, {1500.25, 0}}, {{0, 12.5}, {11, 0}}};

TEST(LinkTable, IsReadAsItWasWritten) {
  EXPECT_EQ(parse_links(write_links(kTable), "f").value(), kTable);
}

TEST(LinkTable, BrokenFilesAreRefused) {
  const auto why = [](const std::string& was, const std::string& is) {
    std::string text = write_links(kTable);
    text.replace(text.find(was), was.size(), is);
    const auto links = parse_links(text, "f");
    return links.ok() ? "" : std::string(links.status().message());
  };
  EXPECT_EQ(why("\"tutti_links\": 1", "\"tutti_links\": 2"),
            "f:1: this is no table of links of format 1");
  EXPECT_EQ(why("\"hosts\"", "\"guests\""), "f:1: there are no 'hosts'");
  EXPECT_EQ(why("\"bytes_per_ns\"", "\"bytes\""), "f:1: there is no 'bytes_per_ns'");
  const std::string matrix =
      "'latency_ns' is no matrix of 2 rows with as many numbers of at least 0";
  EXPECT_EQ(why("1500.25", "-1"), "f:5: " + matrix);
  EXPECT_EQ(why("0, 1500.25", "0"), "f:5: " + matrix);
  EXPECT_EQ(why("\"a\", ", ""),
            "f:4: 'latency_ns' is no matrix of 1 rows with as many numbers of "
            "at least 0");
}

TEST(LinkTable, ItsFileIsThatOfASetOfHosts) {
  const Variables home = {{"HOME", "/home/x"}};
  const std::string path = links_path({"a", "b"}, home);
  EXPECT_EQ(path.rfind("/home/x/.cache/tutti/links-", 0), 0u) << path;
  EXPECT_EQ(links_path({"b", "a"}, home), path);
  EXPECT_NE(links_path({"a", "c"}, home), path);
  EXPECT_EQ(links_path({"a"}, {{"XDG_CACHE_HOME", "/c"}, {"HOME", "/h"}}).rfind("/c/tutti/", 0),
            0u);
  EXPECT_EQ(links_path({"a"}, {}), "");
}

TEST(LinkTable, IsPrintedForPeople) {
  const std::string text = print_links(kTable);
  EXPECT_NE(text.find("a                         -       1.50\n"), std::string::npos) << text;
  EXPECT_NE(text.find("b                     11.00          -\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace tutti::topology
