// Each check of the doctor on a host that is right, and on one that is wrong.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "tools/cli/doctor_checks.h"

namespace tutti::cli {
namespace {

using Verdict = DoctorFinding::Verdict;

/// A folder that stands for /sys and /proc.
class Doctor : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = (std::filesystem::temp_directory_path() / "tutti-doctor-XXXXXX").string();
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    sources_.sys = folder_ + "/sys";
    sources_.proc = folder_ + "/proc";
    sources_.equipment.cards_folder = folder_ + "/cards";
    sources_.lockable_bytes = 8 << 20;
    sources_.open_files = 1 << 20;
    sources_.interface = "eth0";
    write("sys/class/net/eth0/mtu", "9000");
    write("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc");
    write("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t33554432");
    write("proc/sys/kernel/yama/ptrace_scope", "0");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& file, const char* line) const {
    const std::filesystem::path place = std::filesystem::path(folder_) / file;
    std::filesystem::create_directories(place.parent_path());
    std::ofstream(place) << line << "\n";
  }
  DoctorFinding finding(const std::string& subject) const {
    const auto all = examine(config_, sources_);
    const auto found = std::find_if(
        all.begin(), all.end(), [&](const DoctorFinding& one) { return one.subject == subject; });
    return found == all.end() ? DoctorFinding() : *found;
  }
  void expect(const std::string& subject, Verdict verdict, const char* part) const {
    const DoctorFinding found = finding(subject);
    EXPECT_EQ(found.verdict, verdict) << subject << ": " << found.found;
    EXPECT_NE(found.found.find(part), std::string::npos) << found.found;
    EXPECT_EQ(found.remedy.empty(), verdict != Verdict::kWrong) << "what to do: " << found.remedy;
  }

  Config config_;
  DoctorSources sources_;
  std::string folder_;
};

TEST_F(Doctor, WithoutCardsNothingOfThemIsWrong) {
  expect("RDMA", Verdict::kNote, "no card");
  sources_.lockable_bytes = 64 << 10;
  expect("locked memory", Verdict::kNote, "64 KiB, which only RDMA would need");
  expect("network", Verdict::kRight, "eth0, MTU 9000");
  expect("TCP buffers", Verdict::kRight, "up to 32768 KiB");
  expect("open files", Verdict::kRight, "1048576");
  expect("memory of other processes", Verdict::kRight, "ptrace_scope");
  expect("clock", Verdict::kRight, "tsc");
}

TEST_F(Doctor, ACardThatIsDownOrForbiddenIsWrong) {
  write("cards/rxe0/ports/1/state", "1: DOWN");
  expect("RDMA", Verdict::kWrong, "rxe0:1 (DOWN)");
  write("cards/rxe0/ports/1/state", "4: ACTIVE");
  config_.rdma.devices = "mlx5";
  expect("RDMA", Verdict::kWrong, "TUTTI_RDMA_DEVICES=mlx5");
}

TEST_F(Doctor, WithACardALowLimitOfLockedMemoryIsWrong) {
  write("cards/rxe0/ports/1/state", "4: ACTIVE");
  sources_.lockable_bytes = 64 << 10;
  expect("locked memory", Verdict::kWrong, "64 KiB");
  sources_.lockable_bytes = uint64_t{1} << 30;
  expect("locked memory", Verdict::kRight, "1048576 KiB");
  sources_.lockable_bytes = ~uint64_t{0};
  expect("locked memory", Verdict::kRight, "no limit");
}

TEST_F(Doctor, EachOtherFaultIsWrongAndSaysWhatToDo) {
  write("sys/class/net/eth0/mtu", "1000");
  expect("network", Verdict::kWrong, "MTU 1000");
  write("sys/class/net/eth0/mtu", "1500");
  expect("network", Verdict::kNote, "9000, on all hosts");
  sources_.interface.clear();
  sources_.no_interface = "there is no interface 'ib0'";
  expect("network", Verdict::kWrong, "'ib0'");
  write("proc/sys/net/ipv4/tcp_rmem", "4096 131072 212992");
  expect("TCP buffers", Verdict::kWrong, "up to 208 KiB");
  sources_.open_files = 1024;
  expect("open files", Verdict::kWrong, "1024");
  write("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet");
  expect("clock", Verdict::kWrong, "hpet");
  write("proc/sys/kernel/yama/ptrace_scope", "1");
  expect("memory of other processes", Verdict::kNote, "ptrace_scope is 1");
}

TEST_F(Doctor, WhereNothingCanBeReadItSaysSo) {
  std::filesystem::remove_all(folder_ + "/sys");
  std::filesystem::remove_all(folder_ + "/proc");
  expect("network", Verdict::kRight, "MTU not known");
  expect("TCP buffers", Verdict::kNote, "not known");
  expect("clock", Verdict::kNote, "not known");
}

}  // namespace
}  // namespace tutti::cli
