// Four ranks work and make communicators while strangers attack every door they have: `siege
// [CONNECTIONS]`. Exit code 0: no call failed, nobody came in, and the bound of half-open
// connections held.
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <new>
#include <string>
#include <thread>

#include "src/transport/gate.h"
#include "tests/security/siege.h"
#include "tests/support/team.h"

namespace tutti::siege {
namespace {

using testing_support::Member;
using testing_support::now_ns;

constexpr int kNobody = 65534;
// A door may hold, beside the callers that have not proved themselves, the ranks that have. And the
// kernel's table is no snapshot: who was closed and who was accepted meanwhile may both be in it.
constexpr uint64_t kMostAccepted =
    transport::Gate::kMaxHalfOpen + transport::Gate::kMaxHalfOpen / 4 + 2 * kRanks;

Field& map_field() {
  void* memory =
      mmap(nullptr, sizeof(Field), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  return *new (memory) Field();
}

pid_t start(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  body();
  _exit(0);
}

long peak_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

/// One rank's part. The first call that fails ends it.
class Rank {
 public:
  Rank(Field& field, Member& member, uint64_t connections)
      : field_(field), member_(member), connections_(connections) {}

  void run() {
    tuttiUniqueId id{};
    if (!member_.take_id(id) || !make(id, comm_)) return;
    const std::jthread scout([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        field_.publish(member_.rank(), find_doors());
        testing_support::sleep_ns(2'000'000);
      }
    });
    std::vector<double> quiet, besieged;
    if (!work(quiet, [&](size_t calls) { return calls >= 500; })) return;
    if (!set_bait()) return;
    const long before_kib = peak_kib();
    field_.begun.store(1);
    const auto over = [&](size_t) { return field_.attempts.load() >= connections_; };
    if (!work(besieged, over)) return;
    if (!meet_again(field_.bait)) return;
    tell(quiet, besieged, peak_kib() - before_kib);
    check(tuttiCommDestroy(comm_), "destroy");
  }

 private:
  bool check(tuttiResult_t result, const char* what) {
    if (result != tuttiSuccess) member_.fail(std::string(what) + ": " + tuttiGetLastError(nullptr));
    return result == tuttiSuccess;
  }

  bool make(const tuttiUniqueId& id, tuttiComm_t& comm) {
    return check(tuttiCommInitRank(&comm, kRanks, id, member_.rank()), "init");
  }

  /// The sum over all ranks.
  bool sum(tuttiComm_t comm, int32_t mine, int32_t& total) {
    return check(tuttiAllReduce(&mine, &total, 1, tuttiInt32, tuttiSum, comm, tuttiBlocking()),
                 "all_reduce");
  }

  bool share(tuttiUniqueId& id) {
    if (member_.rank() == 0 && !check(tuttiGetUniqueId(&id), "id")) return false;
    return check(tuttiBroadcast(&id, &id, sizeof id, tuttiUint8, 0, comm_, tuttiBlocking()),
                 "broadcast");
  }

  /// Calls until rank 0 says that it is over, and now and then another communicator.
  bool work(std::vector<double>& times_us, const std::function<bool(size_t)>& over) {
    constexpr size_t kBetweenMeetings = 400;
    for (size_t calls = 1;; ++calls) {
      const int32_t vote = member_.rank() == 0 && over(calls) ? 100 : 1;
      int32_t total = 0;
      const uint64_t begin_ns = now_ns();
      if (!sum(comm_, vote, total)) return false;
      times_us.push_back(static_cast<double>(now_ns() - begin_ns) / 1000);
      if (total > kRanks) return true;
      tuttiUniqueId id{};
      if (calls % kBetweenMeetings == 0 && !(share(id) && meet_again(id))) return false;
    }
  }

  /// Another communicator of the same ranks, used and ended.
  bool meet_again(const tuttiUniqueId& id) {
    tuttiComm_t other = nullptr;
    int32_t total = 0;
    if (!make(id, other) || !sum(other, 1, total)) return false;
    if (total != kRanks) {
      member_.fail("a sum is wrong");
      return false;
    }
    if (member_.rank() == 0) meetings_ += 1;
    return check(tuttiCommDestroy(other), "destroy");
  }

  bool set_bait() {
    if (member_.rank() == 0) {
      if (!check(tuttiGetUniqueId(&field_.bait), "bait")) return false;
      field_.publish(0, find_doors());
    }
    return member_.meet();
  }

  void tell(std::vector<double>& quiet, std::vector<double>& besieged, long grown_kib) const {
    if (member_.rank() != 0) return;
    const auto p99 = [](std::vector<double>& times) {
      std::sort(times.begin(), times.end());
      return times[times.size() * 99 / 100];
    };
    std::printf("p99 of all_reduce: %.1f us without, %.1f us with the siege (%zu calls)\n",
                p99(quiet), p99(besieged), besieged.size());
    std::printf("%d communicators made meanwhile; rank 0's memory grew by %ld KiB\n", meetings_,
                grown_kib);
    std::fflush(stdout);
  }

  Field& field_;
  Member& member_;
  const uint64_t connections_;
  tuttiComm_t comm_ = nullptr;
  int meetings_ = 0;
};

/// Pairs share memory, the pairs talk over TCP: every kind of door is there.
testing_support::TeamShape shape() {
  auto shape = testing_support::TeamShape::processes(kRanks);
  for (int rank = 0; rank < kRanks; ++rank) {
    shape.environment.push_back({{"TUTTI_SOCKET_IFNAME", "lo"},
                                 {"TUTTI_HOST_ID", rank < 2 ? "a" : "b"},
                                 {"TUTTI_INIT_TIMEOUT", "250"}});
  }
  return shape;
}

int judge(const Field& field, const testing_support::TeamResult& result) {
  std::printf("%llu connections, %llu let in; most accepted at one door %llu of %llu\n",
              static_cast<unsigned long long>(field.attempts.load()),
              static_cast<unsigned long long>(field.let_in.load()),
              static_cast<unsigned long long>(field.most_half_open.load()),
              static_cast<unsigned long long>(kMostAccepted));
  if (field.foreign.load() == 0) {
    std::printf("SKIPPED: attacks by another user (only root can become one)\n");
  }
  if (!result.ok) std::printf("%s", result.report.c_str());
  const bool bounded = field.most_half_open.load() <= kMostAccepted;
  return result.ok && bounded && field.let_in.load() == 0 ? 0 : 1;
}

int siege_main(uint64_t connections) {
  constexpr uint64_t kLimitNs = 250'000'000'000;
  Field& field = map_field();
  std::vector<pid_t> children;
  children.push_back(start([&] { watch_doors(field); }));
  children.push_back(start([&] { besiege(field, 1, 0); }));
  if (geteuid() == 0) children.push_back(start([&] { besiege(field, 2, kNobody); }));
  const auto result = run_team(
      shape(), [&](Member& member) { Rank(field, member, connections).run(); },
      [](uint64_t) { return std::string("the siege"); }, kLimitNs);
  field.ended.store(1);
  for (const pid_t child : children) waitpid(child, nullptr, 0);
  return judge(field, result);
}

}  // namespace
}  // namespace tutti::siege

int main(int argc, char** argv) {
  return tutti::siege::siege_main(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 500);
}
