// Four ranks work and make communicators while strangers attack every door they have: `siege
// [CONNECTIONS [open-door]]`. Exit code 0: no call failed, nobody came in, and the bounds of
// connections and of memory held. With `open-door` a rank has a door that is none of ours, without
// any bound: both checks must notice.
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/io.h"
#include "src/transport/door/gate.h"
#include "tests/security/siege.h"
#include "tests/support/team.h"

namespace tutti::siege {
namespace {

using testing_support::Member;
using testing_support::now_ns;

constexpr int kNobody = 65534;
constexpr size_t kQuietCalls = 3000;  // enough for a p99
// A door may hold, beside the callers that have not proved themselves, the ranks that have: one
// connection each, and a second one where two ranks call each other or one calls again.
constexpr uint64_t kMostAccepted = transport::door::Gate::kMaxHalfOpen + 2 * kRanks;
// The memory that the siege may cost a rank: every door full of callers, and the loop's own needs
// for one communicator more than it had in the quiet. The bound is below what a thousand callers
// cost that are not forgotten, or ten thousand with 200 bytes each.
constexpr long kMostBytesOfCaller = 1024;  // state, place in the lists of a gate that grew
constexpr long kMostGrownKib =
    static_cast<long>(Field::kMostDoors * transport::door::Gate::kMaxHalfOpen) *
        kMostBytesOfCaller / 1024 +
    1024;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kJudgesMemory = false;  // the sanitizer keeps what was freed
#else
constexpr bool kJudgesMemory = true;
#endif

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

/// A door that keeps everybody who comes, and much about each.
class OpenDoor {
 public:
  OpenDoor() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        listen(listener_.get(), SOMAXCONN) != 0) {
      std::abort();
    }
    keeper_ = std::jthread([this](const std::stop_token& stop) { keep(stop); });
  }

 private:
  void keep(const std::stop_token& stop) {
    constexpr size_t kMuch = 64 << 10;
    while (!stop.stop_requested()) {
      Fd fd(accept(listener_.get(), nullptr, nullptr));
      if (!fd.valid()) {
        testing_support::sleep_ns(1'000'000);
        continue;
      }
      kept_.emplace_back(std::move(fd), std::string(kMuch, 'x'));
    }
  }

  const Fd listener_;
  std::vector<std::pair<Fd, std::string>> kept_;
  std::jthread keeper_;
};

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
    for (std::vector<double>* times : {&quiet, &besieged}) times->reserve(kMostTimes);
    if (!work(quiet, [&](size_t calls) { return calls >= kQuietCalls; })) return;
    meetings_ = 0;
    if (!set_bait()) return;
    const long before_kib = peak_kib();
    field_.begun.store(1);
    const auto over = [&](size_t) {
      return field_.attempts.load() >= connections_ || field_.given_up.load() != 0;
    };
    if (!work(besieged, over)) return;
    if (!meet_again(field_.bait)) return;
    tell(quiet, besieged, peak_kib() - before_kib);
    check(tuttiCommDestroy(comm_), "destroy");
  }

 private:
  static constexpr size_t kMostTimes = 20'000;  // the list does not grow under the siege

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
      const uint64_t took_ns = now_ns() - begin_ns;
      if (times_us.size() < kMostTimes) {
        times_us.push_back(static_cast<double>(took_ns) / 1000);
      }
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
      field_.attempts.store(0);  // of a run before this one, which the machine did not let end
    }
    return member_.meet();
  }

  void tell(std::vector<double>& quiet, std::vector<double>& besieged, long grown_kib) {
    uint64_t most_kib = field_.most_grown_kib.load();
    const auto grown = static_cast<uint64_t>(grown_kib);
    while (most_kib < grown && !field_.most_grown_kib.compare_exchange_weak(most_kib, grown)) {
    }
    if (member_.rank() != 0) return;
    const auto p99 = [](std::vector<double>& times) {
      std::sort(times.begin(), times.end());
      return times[times.size() * 99 / 100];
    };
    const double without_us = p99(quiet), with_us = p99(besieged);
    std::printf(
        "p99 of all_reduce: %.1f us without (%zu calls), %.1f us with the siege (%zu calls): "
        "%.2f times\n%d communicators made meanwhile\n",
        without_us, quiet.size(), with_us, besieged.size(), with_us / without_us, meetings_);
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

bool within(const char* what, uint64_t seen, uint64_t bound, bool judged = true) {
  const bool good = seen <= bound;
  std::printf("%s: %llu of %llu%s\n", what, static_cast<unsigned long long>(seen),
              static_cast<unsigned long long>(bound),
              good     ? ""
              : judged ? ": TOO MUCH"
                       : " (not judged)");
  return good || !judged;
}

int judge(const Field& field, const testing_support::TeamResult& result) {
  std::printf("%llu connections\n", static_cast<unsigned long long>(field.attempts.load()));
  bool good = within("let in", field.let_in.load(), 0);
  good &= within("most accepted at one door", field.most_accepted.load(), kMostAccepted);
  good &= within("KiB that a rank grew", field.most_grown_kib.load(), kMostGrownKib, kJudgesMemory);
  if (field.foreign.load() == 0) {
    std::printf("SKIPPED: attacks by another user (only root can become one)\n");
  }
  if (!result.ok) std::printf("%s", result.report.c_str());
  return result.ok && good ? 0 : 1;
}

int siege_main(uint64_t connections, bool open_door) {
  constexpr uint64_t kLimitNs = 500'000'000'000;
  Field& field = map_field();
  std::vector<pid_t> children;
  children.push_back(start([&] { watch_doors(field); }));
  children.push_back(start([&] { besiege(field, 1, 0); }));
  if (geteuid() == 0) children.push_back(start([&] { besiege(field, 2, kNobody); }));
  const auto body = [&](Member& member) {
    std::optional<OpenDoor> open;
    if (open_door && member.rank() == kRanks - 1) open.emplace();
    Rank(field, member, connections).run();
  };
  const auto result = run_team(
      shape(), body, [](uint64_t) { return std::string("the siege"); }, kLimitNs);
  field.ended.store(1);
  for (const pid_t child : children) waitpid(child, nullptr, 0);
  return judge(field, result);
}

}  // namespace
}  // namespace tutti::siege

int main(int argc, char** argv) {
  const uint64_t connections = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 500;
  return tutti::siege::siege_main(connections, argc > 2 && std::string(argv[2]) == "open-door");
}
