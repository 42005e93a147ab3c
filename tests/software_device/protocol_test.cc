// A protocol of copy engines on the software device: the right one is never accused, and each
// planted fault is found.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "tests/software_device/protocol/rank.h"
#include "tests/software_device/run.h"
#include "tests/support/sanitizer.h"

namespace softdev {
namespace {

using tutti::testing_support::Outcome;
using Words = std::vector<std::string>;

Outcome protocol(const Words& arguments, const SoftdevSettings& settings = {}) {
  return run_on_software_device("device_protocol", arguments, settings);
}

/// With a checker's file of its own. The protocol tells the checker where its threads meet: no
/// other order between them counts, so that a verdict does not depend on when which one ran.
Outcome checked(const Words& arguments, SoftdevSettings settings = {}) {
  const std::string file = testing::TempDir() + "softdev_checker_" + std::to_string(getpid());
  std::remove(file.c_str());
  settings.emplace_back("CHECKER", file);
  settings.emplace_back("THREAD_CLOCKS", "1");
  const Outcome outcome = protocol(arguments, settings);
  std::remove(file.c_str());
  return outcome;
}

const std::vector<Words> kWays = {
    {},
    {"--copied-flags"},
    {"--host-flags"},
    {"--legacy-handles"},
    {"--graph"},
    {"--legacy-handles", "--graph"},
    {"--host-flags", "--graph"},
    {"--threads"},
    {"--threads", "--graph"},
    {"--threads", "--copied-flags"},
};

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::string text_of(const Words& words) {
  std::string text;
  for (const std::string& word : words) text += word + " ";
  return text;
}

TEST(DeviceProtocol, IsRightInEveryWay) {
  for (const Words& way : kWays) {
    for (const char* ranks : {"--ranks=2", "--ranks=4"}) {
      const Outcome outcome = protocol(with(way, {ranks}));
      EXPECT_EQ(outcome.exit_code, kRight) << text_of(way) << ranks << "\n" << outcome.output;
    }
  }
}

TEST(DeviceProtocol, UsesNoKernelAndLeavesNothing) {
  for (const Words& way : {Words{}, Words{"--legacy-handles"}, Words{"--host-flags", "--graph"}}) {
    const Outcome outcome = protocol(with(way, {"--ranks=2"}));
    EXPECT_EQ(outcome.exit_code, kRight) << outcome.output;
    const size_t first = outcome.output.find(" 0 kernels, 0 left");
    EXPECT_NE(first, std::string::npos) << outcome.output;
    EXPECT_NE(outcome.output.find(" 0 kernels, 0 left", first + 1), std::string::npos)
        << outcome.output;
  }
}

TEST(DeviceProtocol, IsRightWithTheCallForManyOf128AndWithout) {
  const Outcome of_128 = protocol({"--ranks=3"}, {{"VERSION", "12080"}});
  EXPECT_EQ(of_128.exit_code, kRight) << of_128.output;
  EXPECT_NE(of_128.output.find(" 4 batches"), std::string::npos) << of_128.output;
  const Outcome without = protocol({"--ranks=3"}, {{"VERSION", "12040"}});
  EXPECT_EQ(without.exit_code, kRight) << without.output;
  EXPECT_NE(without.output.find(" 0 batches"), std::string::npos) << without.output;
}

TEST(DeviceProtocol, OfProcessesNeedsOneHardwareQueue) {
  for (const char* channels : {"1", "2", "3"}) {
    const Outcome outcome = protocol({"--ranks=3"}, {{"CHANNELS", channels}, {"DEVICES", "1"}});
    EXPECT_EQ(outcome.exit_code, kRight) << channels << "\n" << outcome.output;
  }
}

TEST(DeviceProtocol, OfThreadsThatShareOneHardwareQueueHangs) {
  const Outcome outcome = protocol({"--ranks=3", "--threads", "--limit=1"}, {{"CHANNELS", "1"}});
  EXPECT_EQ(outcome.exit_code, kHang) << outcome.output;
}

TEST(DeviceProtocol, IsRightOnSeveralDevices) {
  for (const char* way : {"--threads", "--legacy-handles", "--host-flags"}) {
    const Outcome outcome = protocol({"--ranks=4", way}, {{"DEVICES", "3"}});
    EXPECT_EQ(outcome.exit_code, kRight) << way << "\n" << outcome.output;
  }
}

TEST(DeviceProtocol, IsNeverAccused) {
  for (const Words& way : kWays) {
    const Outcome outcome = checked(with(way, {"--ranks=3"}));
    EXPECT_EQ(outcome.exit_code, kRight) << text_of(way) << "\n" << outcome.output;
  }
  for (const char* seed : {"1", "2", "3"}) {
    const Outcome outcome =
        checked({"--ranks=3"}, {{"SEED", seed}, {"SKEW_US", "500"}, {"CHANNELS", "1"}});
    EXPECT_EQ(outcome.exit_code, kRight) << seed << "\n" << outcome.output;
  }
}

TEST(DeviceProtocol, EveryPlantedFaultIsFoundByTheChecker) {
  const int times = tutti::testing_support::kSanitized ? 1 : 3;
  for (const char* fault : {"no_ready", "no_done", "flag_in_batch", "one_wait_too_few"}) {
    for (const char* way : {"--copied-flags", "--host-flags", "--threads"}) {
      // The thread sanitizer finds these races itself, and ends the program its own way.
      if (tutti::testing_support::kThreadSanitized && std::string(way) == "--threads") continue;
      for (int i = 0; i < times; ++i) {
        const Outcome outcome = checked({"--fault=" + std::string(fault), way});
        EXPECT_EQ(outcome.exit_code, kRaces) << fault << " " << way << "\n" << outcome.output;
      }
    }
  }
}

TEST(DeviceProtocol, IsNotCalledRightByACheckerWhoseTablesAreFull) {
  const std::string file = testing::TempDir() + "softdev_full_" + std::to_string(getpid());
  std::remove(file.c_str());
  Outcome outcome;
  // Every run has six streams, and a file has room for 64.
  for (int i = 0; i < 11; ++i) outcome = protocol({"--bytes=512"}, {{"CHECKER", file}});
  std::remove(file.c_str());
  EXPECT_EQ(outcome.exit_code, kDriverFailed) << outcome.output;
  EXPECT_NE(outcome.output.find("overflowed"), std::string::npos) << outcome.output;
}

TEST(DeviceProtocol, RefusesWrongArguments) {
  for (const Words& wrong : {Words{"--ranks=1"}, Words{"--ranks=9"}, Words{"--fault=other"},
                             Words{"--threads", "--host-flags"}, Words{"nonsense"}}) {
    EXPECT_EQ(protocol(wrong).exit_code, kWrongArguments) << text_of(wrong);
  }
}

}  // namespace
}  // namespace softdev
