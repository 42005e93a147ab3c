// Each check of the doctor on a host that is right, and on one that is wrong.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tools/cli/doctor_checks.h"
#include "tools/cli/doctor_reach.h"

namespace tutti::cli {
namespace {

using Verdict = DoctorFinding::Verdict;

constexpr uint64_t kPatienceNs = 3'000'000'000;

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

TEST_F(Doctor, AHostThatAnswersIsReached) {
  const DoctorFinding found = look_at_way("127.0.0.1", ports_of_ranks(sources_.proc), kPatienceNs);
  EXPECT_EQ(found.verdict, Verdict::kRight) << found.found;
  EXPECT_NE(found.found.find("answers at all of 8 ports"), std::string::npos) << found.found;
}

// A listener whose line is full answers as little as a firewall that drops.
TEST_F(Doctor, APortThatDoesNotAnswerIsNamed) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const place = reinterpret_cast<sockaddr*>(&address);
  socklen_t bytes = sizeof address;
  ASSERT_EQ(bind(listener, place, bytes), 0);
  ASSERT_EQ(listen(listener, 0), 0);
  ASSERT_EQ(getsockname(listener, place, &bytes), 0);
  std::vector<int> waiting;
  for (int i = 0; i < 4; ++i) {
    waiting.push_back(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    (void)connect(waiting.back(), place, bytes);
  }
  const uint16_t port = ntohs(address.sin_port);
  const DoctorFinding found = look_at_way("127.0.0.1", {port}, kPatienceNs / 4);
  EXPECT_EQ(found.verdict, Verdict::kWrong);
  EXPECT_EQ(found.found, "no answer at " + std::to_string(port) + " of 1 ports that ranks may get");
  EXPECT_NE(found.remedy.find("ip_local_port_range"), std::string::npos);
  for (const int fd : waiting) close(fd);
  close(listener);
}

TEST_F(Doctor, AHostWithoutAnAddressIsNamed) {
  const DoctorFinding found = look_at_way("nowhere.invalid", {1}, kPatienceNs);
  EXPECT_EQ(found.verdict, Verdict::kWrong);
  EXPECT_NE(found.found.find("it has no address"), std::string::npos) << found.found;
}

TEST_F(Doctor, PortsAreThoseOfTheKernelsRange) {
  write("proc/sys/net/ipv4/ip_local_port_range", "20000\t20700");
  const auto ports = ports_of_ranks(sources_.proc);
  ASSERT_EQ(ports.size(), 8u);
  EXPECT_EQ(ports.front(), 20000);
  EXPECT_EQ(ports.back(), 20700);
  write("proc/sys/net/ipv4/ip_local_port_range", "0 0");
  EXPECT_TRUE(ports_of_ranks(sources_.proc).empty());
}

}  // namespace
}  // namespace tutti::cli
