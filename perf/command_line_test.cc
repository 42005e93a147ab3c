// The commands of the tools accept what they should, and say what is wrong with other arguments.
#include "perf/command_line.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "perf/collectives/error.h"

namespace tutti::perf {
namespace {

struct Values {
  std::string what;
  std::string file;
  std::vector<std::string> list;
  int ranks = 4;
  bool deep = false;
};

std::optional<int> parse(std::vector<const char*> words, Values& values) {
  CommandLine line("Tests.", "tutti test");
  Argument what{"what", "NAME", "a name"};
  what.required = true;
  line.add(what, values.what);
  line.add({"-f,--file", "FILE", "a file"}, values.file);
  line.add({"--list", "NAME,...", "names"},
           [&](const std::string& value) { values.list.push_back(value); });
  line.add({"--ranks", "N", "ranks", "4"}, values.ranks, 1, 64);
  line.add({"--deep", "", "longer"}, values.deep);
  words.insert(words.begin(), "test");
  return line.parse(static_cast<int>(words.size()), words.data());
}

TEST(CommandLine, TakesWhatItIsGiven) {
  Values values;
  EXPECT_EQ(
      parse({"ring", "-f", "a", "--file=b", "--list", "x,y", "--ranks", "0x10", "--deep"}, values),
      std::nullopt);
  EXPECT_EQ(values.what, "ring");
  EXPECT_EQ(values.file, "b") << "the last of two";
  EXPECT_EQ(values.list, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(values.ranks, 16);
  EXPECT_TRUE(values.deep);
}

TEST(CommandLine, LeavesWhatItIsNotGiven) {
  Values values;
  EXPECT_EQ(parse({"ring"}, values), std::nullopt);
  EXPECT_TRUE(values.file.empty() && values.list.empty());
  EXPECT_EQ(values.ranks, 4);
  EXPECT_FALSE(values.deep);
}

TEST(CommandLine, HelpIsNoMistake) {
  Values values;
  testing::internal::CaptureStdout();
  EXPECT_EQ(parse({"--help"}, values), kExitOk);
  const std::string help = testing::internal::GetCapturedStdout();
  for (const char* part : {"tutti test", "-f,--file FILE", "--ranks N=4", "--list NAME,..."}) {
    EXPECT_NE(help.find(part), std::string::npos) << part << " is not in\n" << help;
  }
}

TEST(CommandLine, SaysWhichArgumentIsWrong) {
  const std::vector<std::pair<std::vector<const char*>, std::string>> mistakes = {
      {{}, "what"},
      {{"ring", "more"}, "more"},
      {{"ring", "--fast"}, "--fast"},
      {{"ring", "--file"}, "--file"},
      {{"ring", "--ranks", "0"}, "tutti test: --ranks: '0' is not a number from 1 to 64"},
      {{"ring", "--ranks", "65"}, "'65'"},
      {{"ring", "--ranks", "-1"}, "'-1'"},
      {{"ring", "--ranks", "3x"}, "'3x'"},
  };
  for (const auto& [words, sentence] : mistakes) {
    Values values;
    testing::internal::CaptureStderr();
    EXPECT_EQ(parse(words, values), kExitUsage) << sentence;
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find(sentence), std::string::npos) << sentence << " is not in\n" << said;
  }
}

TEST(CommandLine, WholeNumbers) {
  EXPECT_EQ(whole_number("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(whole_number("0XfF", 255, 255), 255u);
  for (const char* text : {"", "0x", "-1", "+1", "1.5", "1 ", " 1", "18446744073709551616"}) {
    EXPECT_THROW(whole_number(text), PerfError) << text;
  }
}

TEST(CommandLine, SizesHaveUnits) {
  EXPECT_EQ(byte_count("8"), 8u);
  EXPECT_EQ(byte_count("2K"), 2048u);
  EXPECT_EQ(byte_count("1.5G"), 1610612736u);
  for (const char* text : {"", "K", "1T", "-1", "nan", "8x", "1e30"}) {
    EXPECT_THROW(byte_count(text), PerfError) << text;
  }
}

}  // namespace
}  // namespace tutti::perf
