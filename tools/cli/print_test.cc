// `tutti verify --text` proves the output of `tutti print`.
#include "tools/cli/print.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "tools/cli/verify.h"

namespace tutti::cli {
namespace {

int call(int (*command)(int, char**), std::vector<std::string> words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return command(static_cast<int>(words.size()), argv.data());
}

std::string output_of(int (*command)(int, char**), const std::vector<std::string>& words,
                      int exit_code = 0) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(call(command, words), exit_code) << words.back();
  return testing::internal::GetCapturedStdout();
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Print, ASchedulesTextIsProved) {
  const std::string text =
      output_of(print_main, {"print", "all_reduce/ring", "--ranks", "3", "--lanes", "2"});
  EXPECT_TRUE(has(text, "collective all_reduce\nranks 3\n")) << text;
  EXPECT_TRUE(has(text, "lane 1 send")) << text;
  const std::string path = testing::TempDir() + "tutti_print_test.txt";
  std::ofstream(path) << text;
  const std::string verdict = output_of(verify_main, {"verify", "--text", path});
  EXPECT_TRUE(has(verdict, "separate: proved")) << verdict;
  std::ofstream(path) << text.substr(0, text.rfind("send"));
  output_of(verify_main, {"verify", "--text", path}, 1);
  std::remove(path.c_str());
}

TEST(Print, APlanOfEveryRank) {
  const std::vector<std::string> words = {"print", "broadcast/binomial", "--ranks", "3", "--plan"};
  for (const char* more : {"--tree", "--root=1", "--lanes=1"}) {
    const std::string list =
        output_of(print_main, {"print", "broadcast/binomial", "--plans", more});
    EXPECT_TRUE(has(list, "--plan 0: broadcast/binomial ranks 4")) << list;
  }
  std::vector<std::string> first = words;
  first.push_back("0");
  const std::string text = output_of(print_main, first);
  for (const char* part : {"\nrank 0: ", "\nrank 2: ", " elements: ", " <- input"}) {
    EXPECT_TRUE(has(text, part)) << part << " is not in\n" << text;
  }
  std::vector<std::string> none = words;
  none.push_back("1000");
  output_of(print_main, none, 2);
}

TEST(Print, RefusesWhatThereIsNot) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"print"},
           {"print", "all_reduce"},
           {"print", "all_reduce/rings"},
           {"print", "all_reduce/ring", "--ranks", "0"},
           {"print", "broadcast/binomial", "--ranks", "2", "--root", "2"},
           {"print", "all_reduce/ring", "--lanes", "60"},
           {"print", "all_reduce/ring", "--ranks", "33", "--plans"}}) {
    output_of(print_main, words, 2);
  }
}

// Two sites of three hosts; of the hosts' share of an all_reduce 4/3 stay in the site.
TEST(Print, WhatCrossesTheLinksOfACluster) {
  const std::string path = testing::TempDir() + "tutti_print_cluster.json";
  std::ofstream(path) << R"({"tutti_topology": 1,
      "levels": [{"name": "wan"}, {"name": "site"}, {"name": "host"}],
      "tree": {"children": [{"count": 2, "children": [{"count": 3, "ranks": 2}]}]}})";
  const auto loads_of = [&](const char* algorithm) {
    return output_of(print_main, {"print", algorithm, "--topology", path, "--loads"});
  };
  const std::string hierarchical = loads_of("all_reduce/hierarchical");
  for (const char* part : {"12 ranks, declared", "\nwan: depth 2\n", "\n  site 1: out 1, in 1\n",
                           "\n  host 5: out 5/3, in 5/3\n"}) {
    EXPECT_TRUE(has(hierarchical, part)) << part << " is not in\n" << hierarchical;
  }
  const std::string ring = loads_of("all_reduce/ring");
  for (const char* part : {"12 ranks, counted", "\n  site 0: out 11/6, in 11/6\n"}) {
    EXPECT_TRUE(has(ring, part)) << part << " is not in\n" << ring;
  }
  const std::string schedule =
      output_of(print_main, {"print", "all_reduce/hierarchical", "--topology", path});
  EXPECT_TRUE(has(schedule, "ranks 12\n")) << schedule;
  output_of(print_main, {"print", "all_reduce/ring", "--loads"}, 2);
  output_of(print_main, {"print", "all_reduce/ring", "--topology", path + ".none"}, 2);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace tutti::cli
