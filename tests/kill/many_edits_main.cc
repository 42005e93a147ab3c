// many_edits: one handle is edited over and over, and holds no more than before.
//
//   --network default|tcp|mixed   --threads 0|1   --ranks N (default 3)   --edits E (default 60)
//   --compare C   afterwards, as often: an edit, and a communicator of the same ranks made anew
//
// Every edit reverses the ranks; a sum follows. After a tenth of the edits and after the last one
// every process counts its descriptors, threads and mappings. Exit status: 0 they are equal and all
// sums were right, 1 not so, 2 the command line is wrong.
#include <dirent.h>

#include <cstdio>
#include <fstream>
#include <mutex>
#include <string>
#include <vector>

#include "tests/support/options.h"
#include "tests/support/team.h"
#include "tests/support/team_rank.h"

namespace tutti::kill_test {
namespace {

using testing_support::Member;
using testing_support::now_ns;
using testing_support::TeamShape;

constexpr uint64_t kLimitNs = 600'000'000'000;

size_t entries_of(const char* folder) {
  size_t entries = 0;
  DIR* const opened = opendir(folder);
  if (opened == nullptr) return 0;
  while (readdir(opened) != nullptr) ++entries;
  closedir(opened);
  return entries;
}

/// Of a process: all that an edit could leave behind.
struct Holdings {
  size_t descriptors = 0, threads = 0, mappings = 0;
  long resident_pages = 0;

  static Holdings now() {
    // Ranks that are threads count one after the other: counting takes a descriptor.
    static std::mutex one;
    const std::lock_guard lock(one);
    Holdings found;
    found.descriptors = entries_of("/proc/self/fd");
    found.threads = entries_of("/proc/self/task");
    std::ifstream maps("/proc/self/maps");
    std::string line;
    while (std::getline(maps, line)) {
      found.mappings += line.find("tutti") != std::string::npos ? 1 : 0;
    }
    std::ifstream memory("/proc/self/statm");
    long all = 0;
    memory >> all >> found.resident_pages;
    return found;
  }
};

class EditedRank : public testing_support::TeamRank {
 public:
  EditedRank(Member& member, int edits, int compared)
      : TeamRank(member), edits_(edits), compared_(compared) {}

  void run() {
    if (!join()) return;
    Holdings early;
    const int early_at = edits_ / 10;
    uint64_t begun_ns = now_ns();
    for (int edit = 0; edit < edits_; ++edit) {
      if (edit == early_at) {
        if (!member_.meet()) return;
        early = Holdings::now();
        if (!member_.meet()) return;
        begun_ns = now_ns();
      }
      if (!turn() || !check_sum()) return;
    }
    const uint64_t took_ns = (now_ns() - begun_ns) / static_cast<uint64_t>(edits_ - early_at);
    if (!member_.meet()) return;
    compare(early, Holdings::now());
    if (member_.rank() == 0) {
      std::printf("%d edits of %d ranks: %.2f ms each\n", edits_, member_.ranks(),
                  static_cast<double>(took_ns) / 1e6);
    }
    for (int i = 0; i < compared_; ++i) {
      if (!compare_with_making()) return;
    }
    if (member_.rank() == 0 && compared_ > 0) {
      std::printf("an edit %.2f ms, a making %.2f ms: %.2f times as long\n",
                  static_cast<double>(edits_ns_) / 1e6 / compared_,
                  static_cast<double>(makings_ns_) / 1e6 / compared_,
                  static_cast<double>(makings_ns_) / static_cast<double>(edits_ns_));
    }
    if (!member_.meet()) return;
    (void)ok(tuttiCommDestroy(comm_));
  }

 private:
  bool turn() {
    std::vector<int> reversed;
    for (int rank = member_.ranks() - 1; rank >= 0; --rank) reversed.push_back(rank);
    tuttiEdit_t edit = TUTTI_EDIT_INITIALIZER;
    edit.order = reversed.data();
    edit.order_count = member_.ranks();
    return ok(tuttiCommEdit(comm_, &edit, nullptr));
  }

  /// Each until a first sum is known, so that lazy connections count.
  bool compare_with_making() {
    tuttiUniqueId id;
    if (!member_.meet()) return false;
    uint64_t begun_ns = now_ns();
    if (!turn() || !check_sum()) return false;
    edits_ns_ += now_ns() - begun_ns;
    int rank = -1;
    if (!ok(tuttiCommUserRank(comm_, &rank))) return false;
    if (rank == 0 && !ok(tuttiGetUniqueId(&id))) return false;
    if (!ok(tuttiBroadcast(&id, &id, sizeof id, tuttiInt8, 0, comm_, tuttiBlocking()))) {
      return false;
    }
    if (!member_.meet()) return false;
    begun_ns = now_ns();
    tuttiComm_t made = nullptr;
    if (!ok(tuttiCommInitRank(&made, member_.ranks(), id, rank))) return false;
    int sum = 0;
    if (!ok(tuttiAllReduce(&rank, &sum, 1, tuttiInt32, tuttiSum, made, tuttiBlocking()))) {
      return false;
    }
    makings_ns_ += now_ns() - begun_ns;
    return ok(tuttiCommDestroy(made));
  }

  bool check_sum() {
    int rank = -1;
    if (!ok(tuttiCommUserRank(comm_, &rank))) return false;
    int sum = 0;
    if (!ok(tuttiAllReduce(&rank, &sum, 1, tuttiInt32, tuttiSum, comm_, tuttiBlocking()))) {
      return false;
    }
    if (sum == member_.ranks() * (member_.ranks() - 1) / 2) return true;
    member_.fail("a sum is " + std::to_string(sum));
    return false;
  }

  void compare(const Holdings& early, const Holdings& late) {
    // Of memory the process's own allocator keeps some; an edit that left an arena would show.
    constexpr long kSlackPages = 512;
    const bool is_equal = early.descriptors == late.descriptors && early.threads == late.threads &&
                          early.mappings == late.mappings &&
                          late.resident_pages <= early.resident_pages + kSlackPages;
    if (is_equal) return;
    const auto text = [](const Holdings& held) {
      return std::to_string(held.descriptors) + " descriptors, " + std::to_string(held.threads) +
             " threads, " + std::to_string(held.mappings) + " mappings, " +
             std::to_string(held.resident_pages) + " pages";
    };
    member_.fail("held " + text(early) + " at first and " + text(late) + " in the end");
  }

  const int edits_;
  const int compared_;
  uint64_t edits_ns_ = 0, makings_ns_ = 0;
};

}  // namespace
}  // namespace tutti::kill_test

int main(int argc, char** argv) {
  using tutti::testing_support::into;
  int edits = 60, compared = 0;
  tutti::testing_support::TeamProgram program;
  program.limit_ns = tutti::kill_test::kLimitNs;
  program.body = [&](tutti::testing_support::Member& member) {
    tutti::kill_test::EditedRank(member, edits, compared).run();
  };
  program.name = [](uint64_t) { return std::string("edits"); };
  program.own = {{"--edits", into(edits, 10)}, {"--compare", into(compared, 0)}};
  return program.run(argc, argv);
}
