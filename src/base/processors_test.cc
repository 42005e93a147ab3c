// How many processors the ranks of a host have together.
#include "src/base/processors.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace tutti {
namespace {

Processors of(std::vector<uint32_t> numbers, uint32_t quota_percent = 0, std::string group = "") {
  return {std::move(numbers), quota_percent, std::move(group)};
}

TEST(Processors, RanksThatAreBoundToOneEachHaveOneEach) {
  EXPECT_EQ(count_together(std::array{of({0}), of({1})}), 2);
  EXPECT_EQ(count_together(std::array{of({0}), of({0})}), 1);
  EXPECT_EQ(count_together(std::array{of({0, 1, 2}), of({2, 3})}), 4);
}

TEST(Processors, AQuotaCountsOnceForAllThatHaveIt) {
  const Processors half = of({0, 1, 2, 3}, 150, "a"), other = of({0, 1, 2, 3}, 200, "b");
  EXPECT_EQ(count_together(std::array{half, half, half}), 1);
  EXPECT_EQ(count_together(std::array{half, other}), 3);
  EXPECT_EQ(count_together(std::array{other, of({0, 1, 2, 3})}), 4);
  EXPECT_EQ(count_together(std::array{of({0}, 1000, "a")}), 1);
  EXPECT_EQ(count_together(std::array{of({0, 1}, 5, "a")}), 1);
}

TEST(Processors, TextsGoBothWays) {
  for (const Processors& one : {of({0, 1, 2, 3, 8}, 150, "17:42"), of({7}), of({0, 2, 4})}) {
    EXPECT_EQ(read_processors(to_text(one)), one) << to_text(one);
  }
  EXPECT_EQ(to_text(of({0, 1, 2, 3, 8}, 150, "17:42")), "0-3,8 150 17:42");
  for (const char* wrong : {"", "0", "0 0", "3-1 0 ", "1,0 0 ", "0-1-2 0 ", "x 0 ", "0 x ",
                            "0-4294967295 0 ", " 0 ", "0 0  "}) {
    EXPECT_FALSE(read_processors(wrong)) << wrong;
  }
}

class Groups {
 public:
  Groups() {
    std::string name = testing::TempDir() + "groups-XXXXXX";
    path_ = mkdtemp(name.data()) == nullptr ? "" : name;
  }
  ~Groups() { std::filesystem::remove_all(path_); }

  void write(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = path_ + "/" + file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }
  uint32_t quota(const std::string& groups) const {
    std::istringstream text(groups);
    Processors found;
    find_quota(text, path_, found);
    EXPECT_EQ(found.group.empty(), found.quota_percent == 0);
    return found.quota_percent;
  }

 private:
  std::string path_;
};

// As containerd names its groups where systemd drives them.
TEST(Processors, AGroupsNameMayHoldColons) {
  const Groups groups;
  const std::string name = "kubepods.slice/pod7.slice:cri-containerd:5f3e";
  groups.write(name + "/cpu.max", "150000 100000");
  EXPECT_EQ(groups.quota("0::/" + name + "\n"), 150u);
  groups.write("cpu/" + name + "/cpu.cfs_quota_us", "50000");
  groups.write("cpu/" + name + "/cpu.cfs_period_us", "100000");
  EXPECT_EQ(groups.quota("3:cpu,cpuacct:/" + name + "\n"), 50u);
  EXPECT_EQ(groups.quota("1:name=systemd:/" + name + "\n"), 0u);
}

TEST(Processors, TheLeastQuotaOfTheGroupsAroundCounts) {
  const Groups groups;
  EXPECT_EQ(groups.quota("0::/pod/box\n"), 0u);
  groups.write("pod/box/cpu.max", "max 100000");
  groups.write("pod/cpu.max", "250000 100000");
  EXPECT_EQ(groups.quota("0::/pod/box\n"), 250u);
  groups.write("pod/box/cpu.max", "75000 50000");
  EXPECT_EQ(groups.quota("0::/pod/box\n"), 150u);
  EXPECT_EQ(groups.quota("0::/pod\n"), 250u);
}

TEST(Processors, AContainerThatSeesOnlyItsOwnGroupHasItsQuota) {
  const Groups groups;
  groups.write("cpu.max", "50000 100000");
  EXPECT_EQ(groups.quota("0::/\n"), 50u);
  EXPECT_EQ(groups.quota("0::/docker/4711\n"), 50u);
}

TEST(Processors, QuotasOfTheFirstVersionCount) {
  const Groups groups;
  groups.write("cpu/box/cpu.cfs_quota_us", "300000");
  groups.write("cpu/box/cpu.cfs_period_us", "100000");
  groups.write("cpu/free/cpu.cfs_quota_us", "-1");
  groups.write("cpu/free/cpu.cfs_period_us", "100000");
  EXPECT_EQ(groups.quota("4:memory:/x\n3:cpu,cpuacct:/box\n0::/\n"), 300u);
  EXPECT_EQ(groups.quota("3:cpu,cpuacct:/free\n"), 0u);
}

TEST(Processors, AreThoseOfTheCallingThreadsMask) {
  const Processors all = own_processors();
  ASSERT_FALSE(all.numbers.empty());
  Processors bound;
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(all.numbers.back(), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    bound = own_processors();
  }).join();
  EXPECT_EQ(bound.numbers, std::vector<uint32_t>{all.numbers.back()});
  EXPECT_EQ(bound.quota_percent, all.quota_percent);
}

}  // namespace
}  // namespace tutti
