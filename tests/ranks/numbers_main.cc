// numbers: small calls whose numbers pass the end of their 32 bits, all results checked, and what
// the flight recorder says of their numbers.
//
//   --kind collectives|pairs|windows|registrations (each of them without it)
//   --calls N        of each rank; the end is in the middle of them (default 2000). Registrations
//                    are ten, whatever it says
//   --ranks N (default 3)  --network default|tcp|mixed  --threads 0|1
//   --planted 1      numbers begin at 0 all the same, so that it must be noticed
//
// Exit status: 0 all was right, 1 it was not, 2 the command line is wrong.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/trace/reader.h"
#include "tests/support/options.h"
#include "tests/support/team.h"
#include "tests/support/team_rank.h"

namespace tutti::ranks_test {
namespace {

using testing_support::Member;
using testing_support::Network;
using trace::Series;

constexpr uint64_t kEnd = uint64_t{1} << 32;
constexpr uint64_t kRegistrations = 10;
constexpr size_t kMany = 3000;       // elements: more than a cell holds
constexpr uint64_t kLookedAt = 100;  // calls behind the end
constexpr uint64_t kLimitNs = 240'000'000'000;
constexpr uint64_t kCallLimitNs = 1'000'000;

enum class Kind : uint8_t { kCollectives, kPairs, kWindows, kRegistrations };
constexpr const char* kKinds[] = {"collectives", "pairs", "windows", "registrations"};

struct Plan {
  Kind kind = Kind::kCollectives;
  uint64_t calls = 2000;
  bool planted = false;

  /// How many calls there seem to have been.
  uint64_t before() const {
    return kEnd - (kind == Kind::kRegistrations ? kRegistrations / 2 : calls / 2);
  }
};

/// The value that rank `rank` brings as element `i` of call `call`.
int64_t element(uint64_t call, int rank, size_t i) {
  return static_cast<int64_t>(call) + 1000 * rank + static_cast<int64_t>(i);
}

class Rank : testing_support::TeamRank {
 public:
  Rank(Member& member, const Plan& plan)
      : TeamRank(member),
        plan_(plan),
        ranks_(static_cast<size_t>(member.ranks())),
        next_((member.rank() + 1) % member.ranks()),
        previous_((member.rank() + member.ranks() - 1) % member.ranks()),
        send_(kMany * ranks_),
        recv_(kMany * ranks_) {}

  void run() {
    if (!join()) return;
    bool good = true;
    switch (plan_.kind) {
      case Kind::kCollectives:
        good = all([this](uint64_t call) { return collective(call); }, 1, Series::kCollective);
        break;
      case Kind::kPairs:
        good = all([this](uint64_t call) { return pair(call); }, 1, Series::kTransfers);
        break;
      case Kind::kWindows:
        good = windows();
        break;
      case Kind::kRegistrations:
        for (uint64_t i = 0; i < kRegistrations && good; ++i)
          good = in_window(i) && in_registered(i);
        break;
    }
    if (good) ok(tuttiBarrier(comm_, tuttiBlocking()));
    ok(tuttiCommDestroy(comm_));
  }

 private:
  bool right(bool condition, std::string_view what) {
    if (!condition) member_.fail(std::string(what));
    return condition;
  }

  /// Turns of `calls_each` calls each, until there were enough.
  template <class Turn>
  bool all(Turn turn, uint64_t calls_each, Series series) {
    const uint64_t turns = plan_.calls / calls_each;
    const uint64_t behind = std::min(turns - 1, turns / 2 + kLookedAt);
    for (uint64_t i = 0; i < turns; ++i) {
      member_.at(i);
      if (!turn(i)) return false;
      const bool look = i == behind || i + 1 == turns;
      if (look && !recorded((i + 1) * calls_each, series)) return false;
    }
    return true;
  }

  // ---- collectives ------------------------------------------------------------------------------

  void fill(uint64_t call, size_t elements) {
    for (size_t i = 0; i < elements; ++i) send_[i] = element(call, member_.rank(), i);
  }
  template <class Wanted>
  bool received(uint64_t call, size_t elements, Wanted wanted) {
    for (size_t i = 0; i < elements; ++i) {
      if (recv_[i] == wanted(i)) continue;
      return right(false, "turn " + std::to_string(call) + " element " + std::to_string(i) + ": " +
                              std::to_string(recv_[i]) + " instead of " +
                              std::to_string(wanted(i)));
    }
    return true;
  }
  int64_t sum(uint64_t call, size_t i) const {
    int64_t total = 0;
    for (int rank = 0; rank < member_.ranks(); ++rank) total += element(call, rank, i);
    return total;
  }

  // Most of them sums of one element: those are superinstructions where they can be.
  bool collective(uint64_t call) {
    const size_t count = call % 97 == 50 ? kMany : 1;
    const int64_t* const send = send_.data();
    int64_t* const recv = recv_.data();
    const auto mine = static_cast<size_t>(member_.rank()) * count;
    const auto rank_at = [&](size_t i) { return static_cast<int>(i / count); };
    const int root = static_cast<int>(call % ranks_);
    fill(call, count * ranks_);
    switch (call % 16) {
      case 1:
        return ok(tuttiBroadcast(send, recv, count, tuttiInt64, root, comm_, tuttiBlocking())) &&
               received(call, count, [&](size_t i) { return element(call, root, i); });
      case 4:
        return ok(tuttiAllGather(send, recv, count, tuttiInt64, comm_, tuttiBlocking())) &&
               received(call, count * ranks_,
                        [&](size_t i) { return element(call, rank_at(i), i % count); });
      case 7:
        return ok(tuttiReduceScatter(send, recv, count, tuttiInt64, tuttiSum, comm_,
                                     tuttiBlocking())) &&
               received(call, count, [&](size_t i) { return sum(call, mine + i); });
      case 10:
        return ok(tuttiAllToAll(send, recv, count, tuttiInt64, comm_, tuttiBlocking())) &&
               received(call, count * ranks_,
                        [&](size_t i) { return element(call, rank_at(i), mine + i % count); });
      case 13:
        return ok(tuttiBarrier(comm_, tuttiBlocking()));
      default:
        return ok(tuttiAllReduce(send, recv, count, tuttiInt64, tuttiSum, comm_,
                                 tuttiBlocking())) &&
               received(call, count, [&](size_t i) { return sum(call, i); });
    }
  }

  // ---- sends and receives -----------------------------------------------------------------------

  bool pair(uint64_t call) {
    const size_t count = call % 61 == 50 ? kMany : 1;
    fill(call, count);
    return ok(tuttiGroupStart()) &&
           ok(tuttiSend(send_.data(), count, tuttiInt64, next_, comm_, tuttiBlocking())) &&
           ok(tuttiRecv(recv_.data(), count, tuttiInt64, previous_, comm_, tuttiBlocking())) &&
           ok(tuttiGroupEnd()) &&
           received(call, count, [&](size_t i) { return element(call, previous_, i); });
  }

  // ---- windows ----------------------------------------------------------------------------------

  /// Four accesses: a put that arrives by its signal, and one that says it was taken.
  bool put_on(uint64_t call, tuttiWindow_t window, const int64_t* part) {
    const int64_t mine = element(call, member_.rank(), 0);
    return ok(tuttiPutSignal(&mine, sizeof mine, next_, window, 0, 0, tuttiBlocking())) &&
           ok(tuttiWaitSignal(previous_, window, 0, 1, tuttiBlocking())) &&
           right(*part == element(call, previous_, 0), "what was put is not there") &&
           ok(tuttiSignal(previous_, window, 1, tuttiBlocking())) &&
           ok(tuttiWaitSignal(next_, window, 1, 1, tuttiBlocking()));
  }

  template <class Use>
  bool with_window(Use use) {
    void* part = nullptr;
    tuttiWindow_t window = nullptr;
    if (!ok(tuttiMemAlloc(&part, sizeof(int64_t)))) return false;
    bool good = ok(tuttiCommWindowRegister(comm_, part, sizeof(int64_t), &window, 0)) &&
                use(window, static_cast<const int64_t*>(part)) &&
                ok(tuttiBarrier(comm_, tuttiBlocking()));
    good = good && ok(tuttiCommWindowDeregister(comm_, window));
    ok(tuttiMemFree(part));
    return good;
  }

  bool windows() {
    constexpr uint64_t kAccesses = 4;
    return with_window([&](tuttiWindow_t window, const int64_t* part) {
      return all([&](uint64_t call) { return put_on(call, window, part); }, kAccesses,
                 Series::kOneSided);
    });
  }

  // ---- names of memory --------------------------------------------------------------------------

  bool in_window(uint64_t turn) {
    return with_window(
        [&](tuttiWindow_t window, const int64_t* part) { return put_on(turn, window, part); });
  }

  bool in_registered(uint64_t turn) {
    void* base = nullptr;
    void* handle = nullptr;
    const size_t bytes = 2 * kMany * sizeof(int64_t);
    if (!ok(tuttiMemAlloc(&base, bytes))) return false;
    if (!ok(tuttiCommRegister(comm_, base, bytes, &handle))) return false;
    auto* const memory = static_cast<int64_t*>(base);
    for (size_t i = 0; i < kMany; ++i) memory[i] = element(turn, member_.rank(), i);
    const bool good =
        ok(tuttiAllReduce(memory, memory + kMany, kMany, tuttiInt64, tuttiSum, comm_,
                          tuttiBlocking())) &&
        right(memory[kMany] == sum(turn, 0) && memory[2 * kMany - 1] == sum(turn, kMany - 1),
              "a wrong sum in registered memory");
    return ok(tuttiCommDeregister(comm_, handle)) && ok(tuttiMemFree(base)) && good;
  }

  // ---- what the recorder says -------------------------------------------------------------------

  std::optional<trace::Snapshot> recorder() const {
    auto found = trace::read_process(getpid());
    if (!found.ok()) return std::nullopt;
    for (trace::Snapshot& snapshot : found.value().snapshots) {
      if (snapshot.rank == member_.rank()) return std::move(snapshot);
    }
    return std::nullopt;
  }

  /// The last call has the number that `made` calls have brought it to, and the numbers of those
  /// before it lead there.
  bool recorded(uint64_t made, Series series) {
    const auto snapshot = recorder();
    if (!right(snapshot.has_value(), "no flight recorder")) return false;
    auto number = static_cast<uint32_t>(plan_.before() + made);
    uint64_t seen = 0;
    for (auto call = snapshot->calls.rbegin(); call != snapshot->calls.rend(); ++call) {
      if (call->series != series) continue;
      const std::string text = trace::to_line(*call, 0);
      if (!right(call->number == number, "not number " + std::to_string(number) + ": " + text) ||
          !right(call->state == trace::RecordState::kDone, "not done: " + text)) {
        return false;
      }
      const bool same =
          std::all_of(call->exchanges.begin(), call->exchanges.end(),
                      [&](const trace::ExchangeRecord& transfer) {
                        return series != Series::kTransfers || transfer.number == number;
                      });
      if (!right(same, "a transfer of another number: " + text)) return false;
      --number;
      if (++seen == made) break;
    }
    return right(seen > std::min(made, kLookedAt), "few calls are recorded");
  }

  const Plan plan_;
  const size_t ranks_;
  const int next_, previous_;
  std::vector<int64_t> send_, recv_;
};

struct Options {
  std::optional<Kind> only;
  Plan plan;
  int ranks = 3;
  Network network = Network::kDefault;
  bool threads = false;
};

bool run(const Options& options, const Plan& plan) {
  auto shape = testing_support::TeamShape::of(options.ranks, options.threads, options.network);
  shape.set("TUTTI_CALLS_BEFORE", std::to_string(plan.planted ? 0 : plan.before()));
  const uint64_t begin_ns = testing_support::now_ns();
  const auto result = testing_support::run_team(
      shape, [&](Member& member) { Rank(member, plan).run(); },
      [](uint64_t step) { return "turn " + std::to_string(step); },
      kLimitNs + plan.calls * kCallLimitNs);
  const double seconds = static_cast<double>(testing_support::now_ns() - begin_ns) * 1e-9;
  const char* kind = kKinds[static_cast<size_t>(plan.kind)];
  if (!result.ok) std::printf("FAILED %s\n%s", kind, result.report.c_str());
  std::printf("%s: %d ranks as %s, network %s, %.1f s\n", kind, options.ranks,
              options.threads ? "threads" : "processes", name_of(options.network), seconds);
  std::fflush(stdout);
  return result.ok;
}

bool read(int argc, char** argv, Options& options) {
  using testing_support::into;
  const auto kind = [&](const std::string& text) {
    const auto* const found = std::find(std::begin(kKinds), std::end(kKinds), text);
    if (found != std::end(kKinds)) options.only = static_cast<Kind>(found - kKinds);
    return options.only.has_value();
  };
  constexpr int kLeastRanks = 2;
  return testing_support::read_options(
             argc, argv,
             {{"--kind", kind},
              {"--calls", into(options.plan.calls)},
              {"--ranks", into(options.ranks, kLeastRanks, testing_support::kMaxRanks)},
              {"--network", into(options.network)},
              {"--threads", into(options.threads)},
              {"--planted", into(options.plan.planted)}}) &&
         options.plan.calls >= 2 * kLookedAt && options.plan.calls < kEnd;
}

int run_all(const Options& options) {
  bool good = true;
  for (size_t i = 0; i < std::size(kKinds); ++i) {
    Plan plan = options.plan;
    plan.kind = static_cast<Kind>(i);
    if (!options.only || *options.only == plan.kind) good = run(options, plan) && good;
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace tutti::ranks_test

int main(int argc, char** argv) {
  tutti::ranks_test::Options options;
  if (!tutti::ranks_test::read(argc, argv, options)) return 2;
  return tutti::ranks_test::run_all(options);
}
