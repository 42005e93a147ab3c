// counted: a call on device memory puts into its stream what tuttiExplain says, no more and no
// less, and no kernel; and it is not too much. Each process has statistics of its own.
//
//   --ranks N      (default 4)
//   --most-mib M   0 (default): calls of up to 4 MiB are made and counted; else what calls of up to
//                  M MiB would put there is compared with the limits
//   --long         what calls of 1 GiB, the larger buffer, would put there is compared with theirs
//   --legacy       calls are made on the legacy stream, where they are lists of copies all the same
//   --counts       what tuttiExplain says of calls of 8 KiB to 1 GiB, as "NAME N bytes: TEXT"
//
// Exit status: 0 right, 1 not, 2 the command line, 77 this is not the software device.
#include <dlfcn.h>

#include <array>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "tests/device/seat.h"
#include "tests/software_device/hooks.h"
#include "tests/support/options.h"

namespace tutti::device_programs {
namespace {

using testing_support::Member;

constexpr uint64_t kMostCopies = 64;
constexpr uint64_t kMostGroups = 32;
constexpr const char *kStaged = "by copy engines, staged", *kDirect = "in registered memory direct";

/// Of a call of 1 GiB. A stream takes some 1000 operations behind a wait before the call blocks.
constexpr uint64_t kStreams = 2;
constexpr uint64_t kMostLongGroups = 32, kMostLongSlices = 40, kMostInAStream = 900;

struct Case {
  tuttiCollective_t collective;
  const char* name;
  bool has_blocks;  // its larger buffer has one of each rank
};
constexpr Case kCases[] = {{tuttiCollAllGather, "all_gather", true},
                           {tuttiCollAllToAll, "all_to_all", true},
                           {tuttiCollBroadcast, "broadcast", false},
                           {tuttiCollGather, "gather", true},
                           {tuttiCollScatter, "scatter", true}};

constexpr Case kReductions[] = {{tuttiCollAllReduce, "all_reduce", false},
                                {tuttiCollReduceScatter, "reduce_scatter", true},
                                {tuttiCollReduce, "reduce", false}};

struct Counts {
  unsigned long slices = 0, copies = 0, batches = 0, operations = 0, groups = 0, kernels = 0,
                crossing = 0;
};

using Statistics = decltype(&softdev_statistics);

class Rank {
 public:
  Rank(Member& member, Seat& seat, Statistics statistics, bool legacy)
      : member_(member), seat_(seat), statistics_(statistics), legacy_(legacy) {}

  /// Both buffers of the larger size: more than a rank of a rooted call needs. `registered`: as a
  /// direct call, where that is one; its root is in place.
  void make_and_count(const Case& one, size_t bytes, bool registered) {
    const auto send = seat_.allocate(bytes), other = seat_.allocate(bytes);
    const bool in_place = registered && one.collective == tuttiCollBroadcast;
    const auto& recv = in_place ? send : other;
    const std::optional<Counts> direct = explain(one, bytes, kDirect);
    if (registered && !direct) return;
    const Counts told = registered ? *direct : explain(one, bytes, kStaged).value_or(Counts());
    void* handle = nullptr;
    if (registered && !went(member_, tuttiCommRegister(seat_.comm(), pointer(send), bytes, &handle),
                            seat_.comm(), "tuttiCommRegister")) {
      return;
    }
    if (!member_.meet()) return;
    const SoftdevStatistics before = now();
    tuttiCall_t call = TUTTI_CALL_INITIALIZER;
    call.collective = one.collective;
    call.send = pointer(send);
    call.recv = pointer(recv);
    call.count = words(one, bytes);
    call.type = tuttiUint64;
    const tuttiStream_t stream = legacy_ ? tuttiStreamCuda(nullptr) : seat_.stream();
    if (!went(member_, tuttiSubmit(&call, seat_.comm(), stream, nullptr, nullptr), seat_.comm(),
              one.name) ||
        !(legacy_ ? seat_.synchronize_all() : seat_.synchronize())) {
      return member_.fail("its stream failed");
    }
    const SoftdevStatistics after = now();
    const uint64_t kernels = after.kernels - before.kernels + after.memsets - before.memsets +
                             after.host_functions - before.host_functions;
    const uint64_t copies = after.copies - before.copies;
    if (one.collective == tuttiCollAllGather && after.batches == before.batches) {
      member_.fail("an all_gather is no list of copies");
    }
    if (after.overlapping_copies - before.overlapping_copies > told.crossing) {
      member_.fail(std::string(one.name) + " has the hint on copies within the device");
    }
    const uint64_t operations = after.memory_operations - before.memory_operations;
    if (registered) tuttiCommDeregister(seat_.comm(), handle);
    if (copies == told.copies && operations == told.operations && kernels == 0) return;
    member_.fail(std::string(one.name) + " of " + std::to_string(bytes) +
                 " bytes: " + std::to_string(copies) + " copies, " + std::to_string(operations) +
                 " operations and " + std::to_string(kernels) + " kernels, where " +
                 std::to_string(told.copies) + ", " + std::to_string(told.operations) +
                 " and none were told");
  }

  void print_counts(const Case& one) {
    for (const size_t kib : {8, 512, 1 << 10, 16 << 10, 128 << 10, 1 << 20}) {
      const size_t bytes = kib << 10;
      const std::string all = explanation(one, bytes);
      const size_t at = all.find("on device memory: ");
      if (at == std::string::npos) return member_.fail(std::string(one.name) + ": " + all);
      if (member_.rank() != 0) continue;
      const std::string line = all.substr(at, all.find('\n', at) - at);
      std::printf("%s %zu bytes: %s\n", one.name, bytes, line.c_str());
      std::fflush(stdout);
    }
  }

  void compare_long(const Case& one, bool folds) {
    constexpr size_t kBytes = size_t{1} << 30;
    const Counts told = explain(one, kBytes, kStaged).value_or(Counts());
    if (member_.rank() == 0) {
      print(one, kBytes, "staged", told);
      std::printf("%-10s %lu slices, %lu kernels\n", one.name, told.slices, told.kernels);
    }
    const bool gathers = one.collective == tuttiCollAllGather;
    // Before the first slice and behind the last one there is a group of each stream.
    const bool has_root = one.collective == tuttiCollGather || one.collective == tuttiCollScatter ||
                          one.collective == tuttiCollBroadcast;
    // Where messages flow one way a turn ends at each wait.
    const uint64_t each = has_root ? static_cast<uint64_t>(member_.ranks()) : 3;
    const uint64_t most = gathers ? kMostLongGroups : each * told.slices + kStreams;
    const uint64_t in_all = told.copies + told.operations + told.kernels;
    if (told.slices <= kMostLongSlices && told.batches <= most && told.groups <= most &&
        in_all / kStreams <= kMostInAStream && told.kernels >= (folds ? 1u : 0u)) {
      return;
    }
    member_.fail(std::string(one.name) + " of 1 GiB is " + std::to_string(told.slices) +
                 " slices, " + std::to_string(told.batches) + " batches and " +
                 std::to_string(told.groups) + " groups, " + std::to_string(in_all) +
                 " operations in all");
  }

  void compare(const Case& one, size_t bytes) {
    const Counts told = explain(one, bytes, kStaged).value_or(Counts());
    if (member_.rank() == 0) print(one, bytes, "staged", told);
    if (const std::optional<Counts> direct = explain(one, bytes, kDirect)) {
      if (member_.rank() == 0) print(one, bytes, "direct", *direct);
      if (direct->copies > static_cast<unsigned long>(member_.ranks()) ||
          direct->groups > 2 * static_cast<unsigned long>(member_.ranks()) + 1) {
        member_.fail(std::string(one.name) + " is more than a copy and two waits for each peer");
      }
    }
    if (told.copies > kMostCopies || told.groups > kMostGroups) {
      member_.fail(std::string(one.name) + " of " + std::to_string(bytes) + " bytes is " +
                   std::to_string(told.copies) + " copies and " + std::to_string(told.groups) +
                   " groups of operations");
    }
  }

 private:
  size_t words(const Case& one, size_t bytes) const {
    return bytes / 8 / static_cast<size_t>(one.has_blocks ? member_.ranks() : 1);
  }

  SoftdevStatistics now() {
    SoftdevStatistics all{};
    statistics_(&all);
    return all;
  }

  static void print(const Case& one, size_t bytes, const char* how, const Counts& told) {
    std::printf(
        "%-10s %s %11zu bytes: %3lu copies in %2lu batches, %3lu operations in %2lu groups\n",
        one.name, how, bytes, told.copies, told.batches, told.operations, told.groups);
    std::fflush(stdout);
  }

  /// "": the member has failed.
  std::string explanation(const Case& one, size_t bytes) {
    std::vector<char> text(1 << 16);
    size_t needed = 0;
    const bool said = went(member_,
                           tuttiExplain(seat_.comm(), one.name, words(one, bytes), tuttiUint64,
                                        text.data(), text.size(), &needed),
                           seat_.comm(), "tuttiExplain");
    return said ? text.data() : "";
  }

  /// None: what is asked for is not said.
  std::optional<Counts> explain(const Case& one, size_t bytes, const char* how) {
    const std::string all = explanation(one, bytes);
    if (all.empty()) return std::nullopt;
    size_t at = all.find(how);
    at = at == std::string::npos ? at : all.find(" slice", at);
    Counts counts;
    if (at != std::string::npos &&
        std::sscanf(all.c_str() + all.rfind(' ', at - 1), " %lu", &counts.slices) == 1 &&
        std::sscanf(all.c_str() + all.find(' ', at + 1),
                    " %lu copies in %lu batches, %lu waits and writes in %lu groups, %lu kernel",
                    &counts.copies, &counts.batches, &counts.operations, &counts.groups,
                    &counts.kernels) == 5) {
      const size_t crossing = all.find("of them in ", at);
      std::sscanf(all.c_str() + crossing, "of them in %lu", &counts.crossing);
      return counts;
    }
    if (how == kStaged) member_.fail(std::string(one.name) + " is not explained: " + all);
    return std::nullopt;
  }

  Member& member_;
  Seat& seat_;
  const Statistics statistics_;
  const bool legacy_;
};

struct Wanted {
  uint64_t most_mib = 0;
  bool is_long = false, counts = false, legacy = false;
};

void run_rank(Member& member, const Wanted& wanted) {
  const std::unique_ptr<Seat> seat = Seat::open(member);
  if (seat == nullptr) return;
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  const auto statistics = reinterpret_cast<Statistics>(dlsym(driver, "softdev_statistics"));
  if (statistics == nullptr) return member.fail("this is not the software device");
  const auto& [most_mib, is_long, counts, legacy] = wanted;
  Rank rank(member, *seat, statistics, legacy);
  for (const Case& one : kReductions) {
    // A reduce has a root, and shorter slices, since it needs scratch memory.
    if (is_long && one.collective != tuttiCollReduce) rank.compare_long(one, true);
    if (counts) rank.print_counts(one);
  }
  for (const Case& one : kCases) {
    if (counts) {
      rank.print_counts(one);
    } else if (is_long) {
      rank.compare_long(one, false);
    } else if (most_mib == 0) {
      for (const size_t bytes : {size_t{64}, size_t{300'000}, size_t{4} << 20}) {
        for (const bool registered : {false, true}) rank.make_and_count(one, bytes, registered);
      }
    } else {
      for (size_t mib = 1; mib <= most_mib; mib *= 4) rank.compare(one, mib << 20);
    }
  }
  if (member.meet()) went(member, tuttiCommDestroy(seat->give_comm()), nullptr, "tuttiCommDestroy");
}

}  // namespace
}  // namespace tutti::device_programs

int main(int argc, char** argv) {
  using namespace tutti::testing_support;
  int ranks = 4;
  tutti::device_programs::Wanted wanted;
  if (!read_options(argc, argv,
                    {{"--ranks", into(ranks, 2, 16)}, {"--most-mib", into(wanted.most_mib)}},
                    {{"--long", &wanted.is_long},
                     {"--counts", &wanted.counts},
                     {"--legacy", &wanted.legacy}})) {
    return 2;
  }
  const TeamResult result = run_team(
      TeamShape::processes(ranks),
      [&](Member& member) { tutti::device_programs::run_rank(member, wanted); },
      [](uint64_t) { return std::string("its calls"); }, 120'000'000'000);
  std::printf("%s", result.report.c_str());
  return result.ok ? 0 : 1;
}
