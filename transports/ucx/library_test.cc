// The words where UCX cannot be used, and the process after it has been loaded.
#include "transports/ucx/library.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "transports/ucx/context.h"
#include "transports/ucx/ucx.h"

namespace tutti::transports::ucx {
namespace {

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

TEST(UcxLibrary, AFileThatIsNoneIsNamed) {
  const auto loaded = load_library_from("libucp.so.nowhere");
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.status().code(), Code::kUnsupported);
  EXPECT_TRUE(has(loaded.status().message(), "libucp.so.nowhere")) << loaded.status().message();
}

TEST(UcxLibrary, ALibraryWithoutItsFunctionsIsNamedWithTheFirst) {
  const auto loaded = load_library_from("libm.so.6");
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.status().message(), "libm.so.6 has no ucp_get_version");
}

TEST(UcxLibrary, OtherVersionsThanTheKnownOnesAreRefused) {
  api::UcxFunctions functions;
  functions.ucp_get_version = [](unsigned* major, unsigned* minor, unsigned*) {
    *major = 2;
    *minor = 0;
  };
  EXPECT_TRUE(has(check_version(functions).message(), "version 2.0"));
  functions.ucp_get_version = [](unsigned* major, unsigned* minor, unsigned*) {
    *major = 1;
    *minor = 12;
  };
  EXPECT_EQ(check_version(functions).code(), Code::kUnsupported);
  functions.ucp_get_version = [](unsigned* major, unsigned* minor, unsigned*) {
    *major = 1;
    *minor = 30;
  };
  EXPECT_TRUE(check_version(functions).ok());
}

TEST(UcxLibrary, LoadingItLeavesTheHandlersOfSignals) {
  const auto handler = [](int) { _exit(3); };
  // In a process of its own, since the library stays.
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    signal(SIGSEGV, handler);
    signal(SIGFPE, handler);
    setenv("UCX_HANDLE_ERRORS", "bt", 1);  // as UCX would
    const auto loaded = load_library_from("libucp.so.0");
    if (!loaded.ok()) _exit(2);
    struct sigaction segv {
    }, fpe{}, bus{};
    sigaction(SIGSEGV, nullptr, &segv);
    sigaction(SIGFPE, nullptr, &fpe);
    sigaction(SIGBUS, nullptr, &bus);
    const bool same = segv.sa_handler == +handler && fpe.sa_handler == +handler;
    _exit(same && bus.sa_handler == SIG_DFL ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "there is no libucp";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(UcxContexts, AChildOfAProcessThatUsesUcxIsRefused) {
  transport::Member member;
  member.bind_address = "127.0.0.1";
  member.insecure = true;
  const auto mine = make(member);
  ASSERT_TRUE(mine.ok()) << mine.status().message();
  const std::string why = mine.value()->absence(mine.value()->card());
  if (!why.empty()) GTEST_SKIP() << why;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto made = make(member);
    const bool refused = made.status().code() == Code::kInvalidUsage;
    _exit(refused && has(made.status().message(), "forked") ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(make(member).ok()) << "the parent goes on";
}

class UcxNetworks : public testing::Test {
 protected:
  UcxNetworks() { member_.bind_address = "127.0.0.1"; }
  ~UcxNetworks() override { std::filesystem::remove_all(folder_); }
  void add_card(const std::string& state) {
    const std::filesystem::path port = folder_ / "mlx5_0" / "ports" / "1";
    std::filesystem::create_directories(port);
    std::ofstream(port / "state") << state << "\n";
  }

  const std::filesystem::path folder_ =
      testing::TempDir() + "tutti-ucx-cards-" + std::to_string(getpid());
  transport::Member member_;
};

TEST_F(UcxNetworks, AreCardsAlone) {
  Result<UcxNetwork> chosen = choose_network(member_, folder_);
  ASSERT_FALSE(chosen.ok());
  EXPECT_EQ(chosen.status().code(), Code::kUnsupported);
  EXPECT_TRUE(has(chosen.status().message(), "TUTTI_INSECURE=1")) << chosen.status().message();
  add_card("1: DOWN");
  EXPECT_FALSE(choose_network(member_, folder_).ok());
  add_card("4: ACTIVE");
  chosen = choose_network(member_, folder_);
  ASSERT_TRUE(chosen.ok()) << chosen.status().message();
  EXPECT_EQ(chosen.value().devices, "mlx5_0:1");
  EXPECT_FALSE(has(chosen.value().methods, "tcp"));
}

TEST_F(UcxNetworks, OfAJobWithoutProtectionMayBeTcpOnItsOwnInterface) {
  member_.insecure = true;
  Result<UcxNetwork> chosen = choose_network(member_, folder_);
  ASSERT_TRUE(chosen.ok()) << chosen.status().message();
  EXPECT_EQ(chosen.value().devices, "lo");
  EXPECT_EQ(chosen.value().methods, "tcp");
  EXPECT_FALSE(chosen.value().is_rdma());
  member_.bind_address = "192.0.2.77";
  chosen = choose_network(member_, folder_);
  ASSERT_FALSE(chosen.ok());
  EXPECT_TRUE(has(chosen.status().message(), "192.0.2.77")) << chosen.status().message();
  add_card("4: ACTIVE");
  EXPECT_EQ(choose_network(member_, folder_).value().devices, "mlx5_0:1");
}

}  // namespace
}  // namespace tutti::transports::ucx
