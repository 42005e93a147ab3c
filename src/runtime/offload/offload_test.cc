// Activations on a disk: the plan by arithmetic, the cache on a file system with a shaped rate.
#include "tutti/runtime/offload.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

#include "src/runtime/crew_test.h"
#include "src/runtime/offload/spill_file.h"

namespace tutti::runtime {
namespace {

OffloadItem item(int64_t bytes, int64_t forward, int64_t backward) {
  return {Bytes(bytes), Nanoseconds(forward), Nanoseconds(backward)};
}

/// 10 layers of 1000 bytes, 1000 ns forward and 2000 ns backward each.
std::vector<OffloadItem> layers() { return std::vector<OffloadItem>(10, item(1000, 1000, 2000)); }

// The rate that a step needs: 1000 bytes in 1000 ns.
constexpr double kEnough = 1e9;

TEST(OffloadPlan, TheAmountGivesWayAndNotTheTime) {
  const OffloadPlan full = plan_offload(layers(), {kEnough, kEnough}, Bytes(10'000));
  EXPECT_EQ(full.without.value, 30'000);
  EXPECT_LE(full.step.value, 30'600) << "within 2%";
  const OffloadPlan half = plan_offload(layers(), {kEnough / 2, kEnough / 2}, Bytes(10'000));
  EXPECT_LE(half.step.value, 30'600);
  EXPECT_LT(half.written, full.written);
  EXPECT_GT(half.written.value, 0);
  EXPECT_GT(half.peak, full.peak);
  EXPECT_LT(full.peak.value, 10'000);
}

// By hand: writes end at 2000, 3000 ... and each frees what the next layer takes.
TEST(OffloadPlan, MemoryIsWhatAReplayOfItsEventsHas) {
  for (const double rate : {kEnough / 3, kEnough / 2, kEnough, 4 * kEnough}) {
    for (int count = 0; count <= 10; ++count) {
      const OffloadPlan plan = simulate_offload(layers(), {rate, rate}, Bytes(10'000), count);
      int64_t held = 0, peak = 0;
      Nanoseconds before{0};
      for (const OffloadEvent& event : plan.events) {
        EXPECT_GE(event.time, before);
        before = event.time;
        held += event.change.value;
        EXPECT_GE(held, 0);
        peak = std::max(peak, held);
      }
      EXPECT_EQ(held, 0);
      EXPECT_EQ(peak, plan.peak.value);
    }
  }
  EXPECT_EQ(simulate_offload(layers(), {kEnough, kEnough}, Bytes(10'000), 0).peak.value, 10'000);
  const auto peak = [](int count) {
    return simulate_offload(layers(), {kEnough, kEnough}, Bytes(10'000), count).peak.value;
  };
  EXPECT_EQ(peak(5), 5'000) << "five stay; each of the others leaves when the next one comes";
  EXPECT_EQ(peak(10), 3'000) << "one that was handed back, and two that are read ahead";
}

TEST(OffloadPlan, TheBudgetCostsTimeAndIsKept) {
  const OffloadPlan tight = plan_offload(layers(), {kEnough / 4, kEnough / 4}, Bytes(3'000));
  EXPECT_LE(tight.peak.value, 3'000);
  EXPECT_GT(tight.step, tight.without);
  EXPECT_INFEASIBLE(plan_offload(layers(), {kEnough, kEnough}, Bytes(999)), "raise the budget");
}

TEST(OffloadPlan, WrongNumbersAreRefused) {
  EXPECT_REFUSED(plan_offload(layers(), {0, 1}, Bytes(1)), "a rate of 0");
  EXPECT_REFUSED(plan_offload(layers(), {1, 1}, Bytes(0)), "a budget of 0");
  EXPECT_REFUSED(plan_offload(layers(), {1, 1}, Bytes(1), 2), "a slack of 2");
  EXPECT_REFUSED(simulate_offload(layers(), {1, 1}, Bytes(1), 11), "11 of 10");
  EXPECT_REFUSED(plan_offload(std::vector{item(-1, 0, 0)}, {1, 1}, Bytes(1)), "negative");
}

TEST(OffloadFile, GivesBackWhatItTook) {
  offload::SpillFile file(std::filesystem::temp_directory_path());
  const int64_t a = file.take(5000), b = file.take(1), c = file.take(4096);
  EXPECT_EQ(std::vector<int64_t>({a, b, c}), std::vector<int64_t>({0, 8192, 12288}));
  file.give_back(a, 5000);
  EXPECT_EQ(file.take(8193), 16384) << "12 KiB do not fit into 8";
  file.give_back(b, 1);
  EXPECT_EQ(file.take(8193), 0) << "they do into 8 and 4 that are neighbours";
  EXPECT_INFEASIBLE(offload::SpillFile("/nowhere"), "no file can be made in /nowhere");
}

/// A folder of the test's own.
struct Folder {
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "tutti_offload_XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::filesystem::path path;
};

class Cache : public testing::TestWithParam<bool> {
 protected:
  OffloadSpec spec(int64_t budget) const {
    OffloadSpec given;
    given.folder = folder_.path;
    given.budget = Bytes(budget);
    given.io_uring = GetParam();
    return given;
  }
  Folder folder_;
};

/// Memory that knows its content.
struct Tensor {
  explicit Tensor(size_t bytes, unsigned seed)
      : data(std::make_shared<std::vector<unsigned char>>(bytes)),
        version(std::make_shared<int64_t>(0)) {
    for (size_t i = 0; i < bytes; ++i) (*data)[i] = (unsigned char)((i * 31 + seed * 97) >> 3);
  }
  OffloadMemory memory() const {
    return {data->data(), Bytes(int64_t(data->size())), data, [v = version] { return *v; }};
  }
  std::shared_ptr<std::vector<unsigned char>> data;
  std::shared_ptr<int64_t> version;
};
bool is_equal(const OffloadMemory& memory, const Tensor& tensor) {
  return memory.bytes.value == std::ssize(*tensor.data) &&
         std::memcmp(memory.data, tensor.data->data(), tensor.data->size()) == 0;
}

/// Waits until nothing is held: writes that had begun end though nobody needs them.
void wait_until_empty(OffloadCache& cache) {
  while (cache.counters().held.value != 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

/// Waits until the writes are on the disk.
void settle(OffloadCache& cache, int64_t written) {
  while (cache.counters().written.value < written) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST_P(Cache, BytesComeBackAndMemoryGoes) {
  OffloadCache cache(spec(int64_t{8} << 20));
  EXPECT_STREQ(cache.io(), GetParam() ? cache.io() : "threads");
  const size_t sizes[] = {3'000'001, 1, 0, 4096, 2 << 20};
  std::vector<int64_t> handles;
  int64_t sum = 0;
  for (unsigned t = 0; t < 5; ++t) {
    const Tensor tensor(sizes[t], t);
    handles.push_back(cache.pack(t, tensor.memory()));
    sum += int64_t(sizes[t]);
  }
  const int64_t keeps_the_step = handles[0];
  settle(cache, sum);
  EXPECT_EQ(cache.counters().held.value, 0);
  for (unsigned t = 5; t-- > 0;) {
    EXPECT_TRUE(is_equal(cache.unpack(handles[t]), Tensor(sizes[t], t))) << t;
    if (handles[t] != keeps_the_step) cache.drop(handles[t]);
  }
  const OffloadCounters counters = cache.counters();
  EXPECT_EQ(counters.reads, 5);
  EXPECT_EQ(counters.forwarded, 0);
  EXPECT_EQ(counters.read.value, sum);
  EXPECT_LE(counters.peak.value, 8 << 20);
  EXPECT_REFUSED(cache.unpack(handles[3]), "unknown or was dropped");
  EXPECT_REFUSED(cache.drop(handles[3]), "unknown or was dropped");
  cache.drop(keeps_the_step);
  wait_until_empty(cache);
}

// (e): two handles of one storage are one write; what is asked for while it is written is not read.
TEST_P(Cache, OneStorageIsOneWriteAndForwardingReadsNothing) {
  OffloadSpec slow = spec(1 << 24);
  slow.limit.write = 1e3;  // a quarter of an hour: it is under way until the cache ends
  slow.threads = 1;
  OffloadCache cache(slow);
  const Tensor first(1 << 20, 1), second(1 << 20, 2);
  const int64_t a = cache.pack(1, first.memory()), b = cache.pack(1, first.memory());
  const int64_t c = cache.pack(2, second.memory());
  EXPECT_EQ(cache.counters().writes, 2);
  EXPECT_TRUE(is_equal(cache.unpack(c), second));
  EXPECT_TRUE(is_equal(cache.unpack(a), first));
  EXPECT_EQ(cache.unpack(b).data, first.data->data()) << "the memory itself";
  // The second write had not begun, and was taken back; so was the first one on a slow machine, and
  // then its other handle is the memory itself.
  EXPECT_EQ(cache.counters().forwarded, 2 + cache.counters().writes);
  EXPECT_EQ(cache.counters().reads, 0);
  EXPECT_LE(cache.counters().writes, 1);
  cache.drop(c);
  cache.drop(a);
  EXPECT_TRUE(is_equal(cache.unpack(b), first));
  cache.drop(b);
}

TEST_P(Cache, MemoryThatIsChangedInPlaceIsRefused) {
  OffloadSpec slow = spec(1 << 24);
  slow.limit.write = 1e6;
  OffloadCache cache(slow);
  Tensor tensor(200'000, 1);
  const int64_t before = cache.pack(1, tensor.memory());
  (*tensor.data)[5] ^= 1;
  ++*tensor.version;
  const int64_t after = cache.pack(1, tensor.memory());
  EXPECT_EQ(cache.counters().writes, 2) << "another version, another storage";
  EXPECT_REFUSED(cache.unpack(before),
                 "changed in place after it was saved: version 1 instead of 0");
  EXPECT_TRUE(is_equal(cache.unpack(after), tensor));
  settle(cache, 200'000);
  EXPECT_REFUSED(cache.unpack(before), "changed in place");
  cache.drop(before);
  cache.drop(after);
}

TEST_P(Cache, TheBudgetIsNeverExceeded) {
  constexpr int64_t kBytes = 100'000, kBudget = 250'000;
  OffloadSpec slow = spec(kBudget);
  slow.limit = {2e7, 2e7};
  OffloadCache cache(slow);
  for (int step = 0; step < 4; ++step) {
    std::vector<int64_t> handles;
    for (unsigned t = 0; t < 12; ++t) {
      handles.push_back(cache.pack(t, Tensor(kBytes, t).memory()));
      EXPECT_LE(cache.counters().held.value, kBudget);
    }
    for (unsigned t = 12; t-- > 0;) {
      EXPECT_TRUE(is_equal(cache.unpack(handles[t]), Tensor(kBytes, t)));
      cache.drop(handles[t]);
    }
  }
  // A read that the step waits for is the caller's memory; it may come on top.
  EXPECT_LE(cache.counters().peak.value, kBudget + kBytes);
  EXPECT_GE(cache.counters().planned, 0);
  EXPECT_INFEASIBLE(cache.pack(99, Tensor(kBudget + 1, 0).memory()), "raise the budget");
  wait_until_empty(cache);
  const int64_t next = cache.pack(1, Tensor(10, 0).memory());
  EXPECT_TRUE(is_equal(cache.unpack(next), Tensor(10, 0))) << "it goes on";
  cache.drop(next);
}

/// A descriptor of the cache's file, as an administrator would find it.
std::string path_of_file(const Folder& folder) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code unreadable;
    const std::string target = std::filesystem::read_symlink(entry.path(), unreadable);
    if (target.starts_with(folder.path.string())) return entry.path();
  }
  return "";
}

// M3: the folder goes, rights go: the file has no name that they could reach.
TEST_P(Cache, ARemovedFolderAndLostRightsHarmNothing) {
  OffloadCache cache(spec(1 << 24));
  const int64_t first = cache.pack(1, Tensor(300'000, 1).memory());
  settle(cache, 300'000);
  chmod(folder_.path.c_str(), 0);
  std::filesystem::remove_all(folder_.path);
  const int64_t second = cache.pack(2, Tensor(300'000, 2).memory());
  settle(cache, 600'000);
  EXPECT_TRUE(is_equal(cache.unpack(second), Tensor(300'000, 2)));
  EXPECT_TRUE(is_equal(cache.unpack(first), Tensor(300'000, 1)));
  cache.drop(first);
  cache.drop(second);
  EXPECT_INFEASIBLE(OffloadCache(spec(1)), "no file can be made in");
}

TEST_P(Cache, BytesThatTheDiskLostOrChangedAreAnError) {
  OffloadCache cache(spec(1 << 24));
  const int64_t first = cache.pack(1, Tensor(300'000, 1).memory());
  const int64_t second = cache.pack(2, Tensor(300'000, 2).memory());
  settle(cache, 600'000);
  const std::string file = path_of_file(folder_);
  ASSERT_NE(file, "");
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(1000) << "garbage";
  ASSERT_EQ(truncate(file.c_str(), 310'000), 0);
  EXPECT_INFEASIBLE(cache.unpack(second), "cannot be read back");
  EXPECT_INFEASIBLE(cache.unpack(first), "not those that were written");
  cache.drop(first);
  cache.drop(second);
}

// M3: the disk is full in the middle of a step.
TEST_P(Cache, AFullDiskIsAnErrorAndLosesNothing) {
  if (mount("none", folder_.path.c_str(), "tmpfs", 0, "size=1m") != 0) {
    GTEST_SKIP() << "a small file system needs root: " << std::strerror(errno);
  }
  {
    OffloadCache cache(spec(1 << 24));
    std::vector<int64_t> handles;
    std::string said;
    for (unsigned t = 0; t < 100 && said.empty(); ++t) {
      said = refusal([&] { handles.push_back(cache.pack(t, Tensor(300'000, t).memory())); },
                     ErrorKind::kInfeasible);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_NE(said.find("No space left on device"), std::string::npos) << said;
    EXPECT_NE(said.find(folder_.path.string()), std::string::npos);
    EXPECT_GE(handles.size(), 4u);
    for (size_t t = handles.size(); t-- > 0;) {
      EXPECT_TRUE(is_equal(cache.unpack(handles[t]), Tensor(300'000, unsigned(t)))) << t;
    }
    for (const int64_t handle : handles) cache.drop(handle);
  }
  umount(folder_.path.c_str());
}

TEST_P(Cache, WrongWordsAreRefused) {
  EXPECT_REFUSED(OffloadCache(spec(0)), "a budget of 0");
  OffloadSpec wrong = spec(1);
  wrong.threads = 0;
  EXPECT_REFUSED(OffloadCache{wrong}, "0 threads");
  OffloadCache cache(spec(1000));
  EXPECT_REFUSED(cache.pack(1, {}), "a hold that keeps it alive");
  const int64_t handle = cache.pack(1, Tensor(10, 0).memory());
  EXPECT_REFUSED(cache.pack(1, Tensor(11, 0).memory()), "a number of its own");
  EXPECT_REFUSED(cache.unpack(handle + 1), "unknown");
  cache.drop(handle);
}

INSTANTIATE_TEST_SUITE_P(Offload, Cache, testing::Bool(),
                         [](const auto& info) { return info.param ? "ring" : "threads"; });

}  // namespace
}  // namespace tutti::runtime
