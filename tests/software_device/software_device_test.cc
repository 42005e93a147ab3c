// The software device itself: what conformance says of it, and how it shows to programs.
#include <gtest/gtest.h>

#include <string>

#include "tests/software_device/run.h"
#include "tests/support/sanitizer.h"

namespace softdev {
namespace {

using tutti::testing_support::Outcome;

/// `wait_limit`: how many seconds a fact may take before it is called a hang.
Outcome conformance(const std::string& only, const SoftdevSettings& settings, int wait_limit = 1) {
  return run_on_software_device(
      "device_conformance",
      {"--patience=" + std::to_string(wait_limit), "--parallel=100", "--only=" + only}, settings);
}

TEST(DeviceConformance, EveryFactHoldsOnTheSoftwareDevice) {
  const Outcome outcome = conformance("", {});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_NE(outcome.output.find(" 0 differ"), std::string::npos) << outcome.output;
}

TEST(DeviceConformance, AStreamOfAnotherDeviceIsTakenWhateverIsCurrent) {
  const Outcome outcome = conformance("a stream of another context", {{"DEVICES", "2"}});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("its own"), std::string::npos) << outcome.output;
}

TEST(DeviceConformance, QueuesWithoutAnEndDiffer) {
  const Outcome outcome = conformance("5000 writes", {{"QUEUE_ENTRIES", "0"}});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
}

TEST(DeviceConformance, FactsOfBatchesHoldForTheInterfaceOf128AndForNone) {
  for (const char* version : {"12080", "12040"}) {
    const Outcome outcome = conformance("batch", {{"VERSION", version}});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  }
}

TEST(DeviceConformance, AFactThatDiffersIsPrintedAndFails) {
  const Outcome outcome = conformance("cuMemFree", {{"FREE_WAITS", "0"}});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
  EXPECT_NE(outcome.output.find("DIFFERS"), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("2 differ"), std::string::npos) << outcome.output;
}

TEST(DeviceConformance, StreamsThatShareQueuesHoldUpTheOneThatWouldEndTheirWait) {
  // Facts that are recorded are looked at once: a busy machine must not make a hang of one.
  const int wait_limit = tutti::testing_support::kSanitized ? 20 : 4;
  const Outcome outcome = conformance("ended by one more stream", {{"CHANNELS", "8"}}, wait_limit);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  const auto line_of = [&](const std::string& name) {
    const size_t begin = outcome.output.find(name);
    return begin == std::string::npos
               ? std::string()
               : outcome.output.substr(begin, outcome.output.find('\n', begin) - begin);
  };
  EXPECT_NE(line_of("waits in 4 streams").find("completes"), std::string::npos) << outcome.output;
  EXPECT_NE(line_of("waits in 16 streams").find("hang"), std::string::npos) << outcome.output;
}

TEST(DeviceConformance, WithoutADeviceIsSkipped) {
  EXPECT_EQ(conformance("", {{"DEVICES", "0"}}).exit_code, 77);
}

/// The line about the driver of `tutti version`.
std::string driver_line(const SoftdevSettings& settings) {
  const Outcome outcome = run_on_software_device("../tutti", {"version"}, settings);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  const size_t begin = outcome.output.find("CUDA driver");
  if (begin == std::string::npos) return outcome.output;
  return outcome.output.substr(begin, outcome.output.find('\n', begin) - begin);
}

TEST(TuttiVersion, SaysWhichDriverThereIs) {
  EXPECT_NE(driver_line({}).find("CUDA 13.0, 1 device"), std::string::npos) << driver_line({});
  const std::string two = driver_line({{"DEVICES", "2"}, {"VERSION", "12040"}});
  EXPECT_NE(two.find("CUDA 12.4, 2 devices"), std::string::npos) << two;
}

TEST(TuttiVersion, SaysWhyADriverCannotBeUsed) {
  const std::string old = driver_line({{"VERSION", "11080"}});
  EXPECT_NE(old.find("too old"), std::string::npos) << old;
  EXPECT_NE(old.find("11.8"), std::string::npos) << old;
  const std::string none = driver_line({{"DEVICES", "0"}});
  EXPECT_NE(none.find("CUDA_ERROR_NO_DEVICE"), std::string::npos) << none;
  EXPECT_NE(none.find("CUDA_VISIBLE_DEVICES"), std::string::npos) << none;
  const std::string forbidden = driver_line({{"INIT_RESULT", "304"}});
  EXPECT_NE(forbidden.find("CUDA_ERROR_OPERATING_SYSTEM"), std::string::npos) << forbidden;
  EXPECT_NE(forbidden.find("nvidia-smi"), std::string::npos) << forbidden;
}

TEST(SoftwareDevice, RefusesASettingThatItDoesNotKnow) {
  const std::string line = driver_line({{"DEVICE", "2"}});
  EXPECT_NE(line.find("CUDA_ERROR_INVALID_VALUE"), std::string::npos) << line;
}

}  // namespace
}  // namespace softdev
