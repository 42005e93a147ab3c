// in_place: a communicator of processes is edited in place while ranks die, stop and join.
//
//   --network default|tcp|mixed   --scenario NAME   --seed S   --ranks N (default 6)
//
// kill     a random rank is killed at a random instant; the others remove whoever is dead
// twice    and another one shortly after, most likely while they do
// late     as kill, but the others have little time for each edit, and repeat it until it succeeds
// stop     a random rank is stopped, removed by its number, and woken up afterwards
// replace  as kill, and a newcomer takes the dead rank's number
// join     nobody dies; an edit waits in vain for a newcomer and changes nothing, the next one gets
//          two, and the one after that reverses all ranks
//
// Between these the ranks add up a bit each, over and over, and look at the sum. Where links are
// sockets, no connection between survivors may be closed or made. Exit status: 0 all was right, 1
// it was not, 2 the command line is wrong.
#include <bit>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "tests/kill/edit_driver.h"
#include "tests/support/connected_sockets.h"

namespace tutti::kill_test {
namespace {

using testing_support::connected_sockets;

constexpr int kMostNewcomers = 2;

struct InPlaceOptions : EditOptions {
  InPlaceOptions() { ranks = 6; }
  int newcomers() const { return scenario == "replace" ? 1 : scenario == "join" ? 2 : 0; }
  bool sockets_only() const { return network == testing_support::Network::kTcp; }
};

struct Stage : EditStage {
  std::atomic<uint32_t> gone;   // bits of ranks that were killed, or named as leaving
  std::atomic<uint32_t> named;  // 1 + the rank that an edit names
};

class InPlaceRank : EditedRank {
 public:
  InPlaceRank(Member member, const InPlaceOptions& options, Stage& stage)
      : EditedRank(member, stage), options_(options), stage_(stage) {}

  void run() {
    if (member_.rank() < options_.ranks ? !make() : !join()) return;
    if (options_.scenario == "join" && !grow_and_turn()) return;
    live();
  }

 private:
  bool make() {
    tuttiUniqueId id;
    if (!member_.take_id(id)) return false;
    if (!ok(tuttiCommInitRank(&comm_, options_.ranks, id, member_.rank()), "init")) return false;
    if (!expect_rank(member_.rank(), options_.ranks, 0)) return false;
    const bool shows = options_.newcomers() > 0 && member_.rank() == options_.keeper();
    return !shows || show_group_id();
  }

  bool join() {
    await_group_id();
    // One that comes early is let in when somebody waits for it; the first edit of `join` waits in
    // vain.
    while (options_.scenario == "join" && stage_.named.load() == 0) sleep_ns(1'000'000);
    if (!ok(tuttiCommJoin(&comm_, &stage_.group_id, nullptr), "join")) return false;
    return true;
  }

  /// Behind each edit; newcomers begin with the same call as the others then.
  bool expect_rank(int rank, int ranks, uint32_t epoch) {
    turn_ = 0;
    int is_rank = -1, is_ranks = -1;
    uint32_t is_epoch = ~0u;
    if (!ok(tuttiCommUserRank(comm_, &is_rank), "rank") ||
        !ok(tuttiCommCount(comm_, &is_ranks), "count") ||
        !ok(tuttiCommGetEpoch(comm_, &is_epoch), "epoch")) {
      return false;
    }
    if (is_rank == rank && is_ranks == ranks && is_epoch == epoch) return true;
    return fail("is rank " + std::to_string(is_rank) + " of " + std::to_string(is_ranks) +
                " in epoch " + std::to_string(is_epoch) + ", not " + std::to_string(rank) + " of " +
                std::to_string(ranks) + " in epoch " + std::to_string(epoch));
  }

  /// Adds up everybody's bit and who wants to end; long messages in turn with short ones.
  tuttiResult_t sum(int& bits, bool& ends) {
    const size_t count = turn_++ % 3 == 0 ? 50'000 : 2;
    std::vector<int> send(count, 0), recv(count, -1);
    send[0] = 1 << member_.rank();
    send[count - 1] += static_cast<int>(stage_.end.load());
    const tuttiResult_t result = tuttiAllReduce(send.data(), recv.data(), count, tuttiInt32,
                                                tuttiSum, comm_, tuttiBlocking());
    bits = recv[0];
    ends = recv[count - 1] != 0;
    return result;
  }

  bool check(int bits) {
    int ranks = 0;
    if (!ok(tuttiCommCount(comm_, &ranks), "count")) return false;
    const bool is_right = std::popcount(static_cast<unsigned>(bits)) == ranks &&
                          (bits & (1 << member_.rank())) != 0 &&
                          (!edited_ || (bits & static_cast<int>(gone_)) == 0);
    stage_.rounds[member_.rank()].fetch_add(1);
    return is_right || fail("the sum has the bits " + std::to_string(bits) + " of " +
                            std::to_string(ranks) + " ranks");
  }

  void live() {
    for (;;) {
      int bits = 0;
      bool ends = false;
      const std::set<ino_t> before = edited_ ? std::set<ino_t>() : connected_sockets();
      const tuttiResult_t result = sum(bits, ends);
      if (result == tuttiSuccess) {
        if (!edited_ && !before.empty()) sockets_ = before;
        if (!check(bits)) return;
        if (ends) break;
        continue;
      }
      if (is_removed()) return end(false);  // it was stopped, and has been woken up
      if (result != tuttiRemoteError && result != tuttiTimeout) {
        fail(std::string("sum: ") + tuttiGetLastError(comm_));
        return;
      }
      if (!edit()) return;
    }
    const bool counts = options_.sockets_only() && options_.scenario != "late";
    if (counts && !check_sockets()) return;
    // Nobody leaves before all have counted.
    if (ok(tuttiBarrier(comm_, tuttiBlocking()), "barrier")) end(true);
  }

  bool is_removed() const {
    return stage_.named.load() == static_cast<uint32_t>(member_.rank()) + 1;
  }

  // Repeated while it ends with an error that says that somebody died.
  bool edit() {
    const bool is_late = options_.scenario == "late";
    const int most_tries = is_late ? 200 : 5;
    Prng random(options_.seed * 64 + static_cast<uint64_t>(member_.rank()));
    tuttiEdit_t edit = TUTTI_EDIT_INITIALIZER;
    edit.timeout_ns = kEditNs;
    int named = 0;
    if (options_.scenario == "stop") {
      while (stage_.named.load() == 0) sleep_ns(1'000'000);
      named = static_cast<int>(stage_.named.load()) - 1;
      edit.removed = &named;
      edit.removed_count = 1;
    } else {
      edit.remove_dead = 1;
      edit.newcomers = options_.newcomers();
    }
    for (int tries = 0; tries < most_tries; ++tries) {
      if (is_late) edit.timeout_ns = 20'000'000 + random.below(500'000'000);
      report_ = {};
      report_.size = sizeof report_;
      const tuttiResult_t result = tuttiCommEdit(comm_, &edit, &report_);
      gone_ = stage_.gone.load();
      edited_ = true;
      if (result == tuttiSuccess) return check_report();
      const bool is_repeated = result == tuttiRemoteError || (is_late && result == tuttiTimeout);
      if (!is_repeated) return ok(result, "edit");
    }
    return fail(std::string("edit, again and again: ") + tuttiGetLastError(comm_));
  }

  bool check_report() {
    if (!expect_rank(report_.rank, report_.ranks, report_.epoch)) return false;
    // A try that ended late may have removed the dead rank already.
    const bool has_removed = report_.removed > 0 || options_.scenario == "late";
    const bool is_sound = report_.epoch > 0 && has_removed &&
                          report_.joined == options_.newcomers() &&
                          (report_.ranks == ranks_before_ - report_.removed + report_.joined ||
                           options_.scenario == "late");
    ranks_before_ = report_.ranks;
    // A try that ended late behind the decision has closed what it had made.
    const bool counts = options_.sockets_only() && options_.scenario != "late";
    if (counts && report_.links_made_again != 0) {
      return fail("connections were made again");
    }
    return is_sound ||
           fail("the report does not add up: epoch " + std::to_string(report_.epoch) + ", " +
                std::to_string(report_.removed) + " removed, " + std::to_string(report_.joined) +
                " joined, " + std::to_string(report_.ranks) + " ranks");
  }

  // With all pairs connected from the start, an edit among survivors makes no connection.
  bool check_sockets() {
    const std::set<ino_t> now = connected_sockets();
    size_t made = 0;
    for (const ino_t socket : now) made += sockets_.count(socket) == 0 ? 1 : 0;
    const auto allowed = static_cast<size_t>(options_.newcomers());
    const size_t wanted = static_cast<size_t>(ranks_before_) - 1;
    const bool is_newcomer = member_.rank() >= options_.ranks;
    if (is_newcomer || (made <= allowed && now.size() == wanted)) return true;
    return fail(std::to_string(now.size()) + " connections, " + std::to_string(made) +
                " of them made by edits; expected " + std::to_string(wanted) + " and at most " +
                std::to_string(allowed));
  }

  bool grow_and_turn() {
    const int old = options_.ranks, all = old + kMostNewcomers;
    const bool is_old = member_.rank() < old;
    tuttiEdit_t edit = TUTTI_EDIT_INITIALIZER;
    edit.newcomers = kMostNewcomers;
    if (is_old) {
      edit.timeout_ns = 300'000'000;
      if (tuttiCommEdit(comm_, &edit, nullptr) != tuttiTimeout) return fail("nobody has come");
      if (!expect_rank(member_.rank(), old, 0)) return false;
      int bits = 0;
      bool ends = false;
      if (!ok(sum(bits, ends), "sum after an edit in vain") || !check(bits)) return false;
      stage_.named.store(1);
      edit.timeout_ns = kEditNs;
      if (!ok(tuttiCommEdit(comm_, &edit, nullptr), "grow")) return false;
    }
    int rank = -1;
    if (!ok(tuttiCommUserRank(comm_, &rank), "rank")) return false;
    if (is_old && rank != member_.rank()) return fail("a rank changed where nobody left");
    if (!expect_rank(rank, all, 1)) return false;
    std::vector<int> reversed;
    for (int r = all - 1; r >= 0; --r) reversed.push_back(r);
    tuttiEdit_t turned = TUTTI_EDIT_INITIALIZER;
    turned.order = reversed.data();
    turned.order_count = all;
    tuttiMemberId mine, same;
    if (!ok(tuttiCommGetMemberId(comm_, rank, &mine), "member id")) return false;
    if (!ok(tuttiCommEdit(comm_, &turned, nullptr), "turn")) return false;
    if (!ok(tuttiCommGetMemberId(comm_, all - 1 - rank, &same), "member id")) return false;
    if (std::memcmp(&mine, &same, sizeof mine) != 0) return fail("a member id has changed");
    ranks_before_ = all;
    return expect_rank(all - 1 - rank, all, 2);
  }

  const InPlaceOptions& options_;
  Stage& stage_;
  tuttiEditReport_t report_{};
  std::set<ino_t> sockets_;
  uint32_t gone_ = 0;
  int ranks_before_ = options_.ranks;
  int turn_ = 0;
  bool edited_ = false;
};

/// The parent: it forks the ranks, and kills, stops and wakes them.
class Director : EditDriver {
 public:
  Director(const InPlaceOptions& options, Stage& stage)
      : EditDriver(options, stage), options_(options), stage_(stage), random_(options.seed) {}

  int run() {
    Settings settings;
    if (options_.sockets_only()) settings.emplace_back("TUTTI_LAZY_CONNECT", "0");
    if (options_.scenario == "stop") settings.emplace_back("TUTTI_TIMEOUT", "2");
    start(options_.ranks + options_.newcomers(), settings,
          [&](Member member) { InPlaceRank(member, options_, stage_).run(); });
    const int first = static_cast<int>(random_.below(static_cast<uint64_t>(options_.ranks)));
    if (options_.scenario != "join") act(first);
    await_rounds(20);
    stage_.end.store(1);
    const bool ended = reap();
    return judge("in_place", ended, [&](int rank) { return (killed_ >> rank & 1u) != 0; });
  }

 private:
  void mark_gone(int rank) { stage_.gone.fetch_or(1u << rank); }

  void act(int victim) {
    await_rounds(4);
    pause(30'000'000);
    mark_gone(victim);
    if (options_.scenario == "stop") {
      kill(pid_of(victim), SIGSTOP);
      stage_.named.store(static_cast<uint32_t>(victim) + 1);
      await_rounds(20);
      kill(pid_of(victim), SIGCONT);
      return;
    }
    kill(pid_of(victim), SIGKILL);
    killed_ |= 1u << victim;
    if (options_.scenario != "twice") return;
    pause(20'000'000);
    const int second =
        (victim + 1 + static_cast<int>(random_.below(static_cast<uint64_t>(options_.ranks - 1)))) %
        options_.ranks;
    mark_gone(second);
    kill(pid_of(second), SIGKILL);
    killed_ |= 1u << second;
  }

  pid_t pid_of(int rank) const { return pids_[static_cast<size_t>(rank)]; }
  void pause(uint64_t most_ns) { sleep_ns(random_.below(most_ns)); }

  void await_rounds(uint32_t more) const {
    EditDriver::await_rounds(more, [&](int rank) {
      const uint32_t gone = stage_.gone.load();
      // A newcomer has no sums before somebody died.
      return (gone >> rank & 1u) != 0 || (rank >= options_.ranks && gone == 0);
    });
  }

  const InPlaceOptions& options_;
  Stage& stage_;
  Prng random_;
  uint32_t killed_ = 0;
};

}  // namespace
}  // namespace tutti::kill_test

int main(int argc, char** argv) {
  using namespace tutti::kill_test;
  InPlaceOptions options;
  const bool understood =
      options.read(argc, argv, {"kill", "twice", "late", "stop", "replace", "join"});
  return understood ? run_edits<Director, Stage>(options) : 2;
}
