// mismatch: one rank makes another call than the others (collective, count, type, root or
// operation), or two calls in another order; blocking, on a stream and in a group, in turns. Every
// rank must end with an error that names the odd rank and another one (of two, neither can know who
// is odd); nobody may hang, and nobody may be told that a call succeeded whose result is not what
// its arguments say. A call that can be finished without the odd rank may be; then the calls after
// it must tell.
//
//   --ranks N (2 to 6: all of them without it)  --network default|tcp|mixed  --threads 0|1
//   --patient 0|1  --every 0|1 (each mismatch for the first, a middle and the last rank; otherwise
//   in turns)  --jobs N (side by side: ranks that have failed wait for each other)
//   --planted 1 (nobody differs, so that every case must fail)
//   --calls-before N (TUTTI_CALLS_BEFORE of every rank)
//
// Exit status: 0 all was right, 1 it was not, 2 the command line is wrong.
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <new>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/random/issue.h"
#include "tests/random/memory.h"
#include "tests/support/options.h"
#include "tests/support/team.h"

namespace tutti::kill_test {
namespace {

using random_calls::Call;
using random_calls::CallMemory;
using reference::Collective;
using testing_support::Member;

constexpr uint64_t kDeadlineNs = 25'000'000'000;  // what takes so long hangs
constexpr uint64_t kLimitNs = 60'000'000'000;

struct Options {
  int least_ranks = 2;
  int most_ranks = 6;
  int jobs = 6;
  testing_support::Network network = testing_support::Network::kDefault;
  bool threads = false;
  bool patient = false;  // a rank keeps its failed communicator until all ranks have failed
  bool every = false;    // place of the odd rank
  bool planted = false;
  std::string calls_before = "0";
};

/// How the ranks make the call that differs.
enum class Way { kBlocking, kStream, kGroup };
constexpr size_t kWays = 3;

struct Case {
  std::string name;
  Way way = Way::kBlocking;
  Call usual;
  Call odd;  // what the odd rank calls
  int odd_rank = 0;
  bool swapped = false;  // both calls on every rank; the odd rank in the other order
};

Call make_call(Collective collective, int ranks, uint64_t count) {
  Call call;
  call.problem.collective = collective;
  call.problem.ranks = ranks;
  call.problem.count = collective == Collective::kBarrier ? 0 : count;
  reference::spread_counts(call.problem, false);
  call.problem.exact = true;
  call.values = random_calls::Values::kExact;
  call.seed = count;
  return call;
}

/// All mismatches of some number of ranks.
class Cases {
 public:
  Cases(int ranks, bool every) : ranks_(ranks), every_(every) {
    std::set<int> places = {0, ranks / 2, ranks - 1};
    places_.assign(places.begin(), places.end());
    next_ = static_cast<size_t>(ranks);
  }

  std::vector<Case> make() {
    for (int i = 0; i < reference::kCollectives; ++i) {
      for (const uint64_t count : {uint64_t{7}, uint64_t{100'000}}) {
        usual_ = make_call(static_cast<Collective>(i), ranks_, count);
        add_calls(static_cast<Collective>((i + 1) % reference::kCollectives), count);
        if (usual_.problem.collective == Collective::kBarrier) break;
        add_arguments();
        if (reference::has_counts(usual_.problem.collective)) {
          add_vectors();
        } else {
          add_counts(count);
        }
      }
    }
    return std::move(cases_);
  }

 private:
  /// Changes the call that the odd rank makes.
  using Change = std::function<void(Call& odd, int odd_rank)>;

  void add(const std::string& what, const Change& change) {
    const size_t times = every_ ? places_.size() : 1;
    for (size_t i = 0; i < times; ++i) {
      Case made;
      made.odd_rank = places_[next_++ % places_.size()];
      made.usual = made.odd = usual_;
      made.swapped = what == "order" || what == "order of collectives";
      made.way = static_cast<Way>((cases_.size() / times + i) % kWays);
      made.name = std::string(reference::name_of(usual_.problem.collective)) + " of " +
                  std::to_string(usual_.problem.count) + " floats on " + std::to_string(ranks_) +
                  " ranks, on rank " + std::to_string(made.odd_rank) + " other " + what;
      change(made.odd, made.odd_rank);
      if (made.odd.problem.counts != usual_.problem.counts || !is_vector_change(what)) {
        cases_.push_back(std::move(made));
      }
    }
  }

  /// Where entries are 0 or equal, there may be nothing to change.
  bool is_vector_change(const std::string& what) const {
    return reference::has_counts(usual_.problem.collective) &&
           what.find("count") != std::string::npos;
  }

  void add_calls(Collective other, uint64_t count) {
    add("collective", [&](Call& odd, int) { odd = make_call(other, ranks_, count); });
    if (usual_.problem.collective == Collective::kBarrier) return;
    const Collective same = usual_.problem.collective;
    add("order", [&](Call& odd, int) { odd = make_call(same, ranks_, count / 2); });
    add("order of collectives", [&](Call& odd, int) { odd = make_call(other, ranks_, count); });
  }

  void add_arguments() {
    for (const tuttiDataType_t type : {tuttiInt32, tuttiBfloat16}) {  // of one size, and of two
      add("type, " + std::string(reference::name_of(type)), [=](Call& odd, int) {
        odd.problem.type = type;
        odd.values = random_calls::Values::kAny;
      });
    }
    if (reference::reduces(usual_.problem.collective)) {
      constexpr tuttiRedOp_t kOthers[] = {tuttiMax, tuttiProd, tuttiMin, tuttiAvg};
      const tuttiRedOp_t op = kOthers[next_op_++ % std::size(kOthers)];
      add("operation, " + std::string(reference::name_of(op)),
          [=](Call& odd, int) { odd.problem.op = op; });
    }
    if (!reference::is_rooted(usual_.problem.collective)) return;
    add("root", [this](Call& odd, int odd_rank) {
      odd.problem.root = odd_rank != usual_.problem.root ? odd_rank : ranks_ - 1;
    });
  }

  void add_counts(uint64_t count) {
    const Collective same = usual_.problem.collective;
    for (const uint64_t other : {count + 1, count / 2, uint64_t{0}}) {
      add("count, " + std::to_string(other),
          [&](Call& odd, int) { odd = make_call(same, ranks_, other); });
    }
  }

  // Every entry of the counts that the odd rank shares with others.
  void add_vectors() {
    const bool is_private = usual_.problem.collective == Collective::kAllToAllV;
    for (size_t entry = 0; entry < usual_.problem.counts.size(); ++entry) {
      const uint64_t count = usual_.problem.counts[entry];
      add_entry(entry, count + 1, "");
      if (entry % 2 == 1) add_entry(entry, 0, "(no) ");
      if (entry % 2 == 0) add_entry(entry, count / 2, "(half) ");
    }
    // Of shared counts: no call at all, which the next one tells.
    add("counts, all 0",
        [](Call& odd, int) { odd.problem.counts.assign(odd.problem.counts.size(), 0); });
    if (is_private) return;
    add("order of counts", [](Call& odd, int) {  // no size of the plan differs, nor the sum
      std::swap(odd.problem.counts[0], odd.problem.counts[1]);
    });
  }

  void add_entry(size_t entry, uint64_t count, const std::string& how) {
    const bool is_private = usual_.problem.collective == Collective::kAllToAllV;
    add(how + "count " + std::to_string(entry), [=, this](Call& odd, int odd_rank) {
      const auto ranks = static_cast<size_t>(ranks_), place = static_cast<size_t>(odd_rank);
      const bool sends = entry / ranks == place, expects = entry % ranks == place;
      // Not between others, nor between it and itself.
      if (!is_private || sends != expects) odd.problem.counts[entry] = count;
    });
  }

  const int ranks_;
  const bool every_;
  std::vector<int> places_;
  size_t next_ = 0;  // of places_
  size_t next_op_ = 0;
  Call usual_;
  std::vector<Case> cases_;
};

tuttiResult_t issue(const Call& call, const CallMemory& memory, tuttiComm_t comm) {
  return random_calls::issue(call.problem, memory.send(), memory.recv(), comm, tuttiBlocking());
}

/// Until it is complete.
tuttiResult_t issue(Way way, const Call& call, const CallMemory& memory, tuttiComm_t comm) {
  if (way == Way::kBlocking) return issue(call, memory, comm);
  if (way == Way::kGroup) {
    tuttiGroupStart();
    const tuttiResult_t issued = issue(call, memory, comm);
    const tuttiResult_t ended = tuttiGroupEnd();
    return issued != tuttiSuccess ? issued : ended;
  }
  tuttiStream_t stream{};
  if (const tuttiResult_t made = tuttiStreamCreate(&stream); made != tuttiSuccess) return made;
  tuttiResult_t result =
      random_calls::issue(call.problem, memory.send(), memory.recv(), comm, stream);
  if (result == tuttiSuccess) result = tuttiStreamSynchronize(stream);
  tuttiStreamDestroy(stream);
  return result;
}

std::set<int> ranks_in(const std::string& message) {
  std::set<int> named;
  for (size_t at = message.find("rank "); at != std::string::npos;
       at = message.find("rank ", at + 1)) {
    const size_t digit = at + 5;
    if (digit < message.size() && std::isdigit(static_cast<unsigned char>(message[digit]))) {
      named.insert(std::atoi(message.c_str() + digit));
    }
  }
  return named;
}

/// An error that names the odd rank and another one, also where a rank hears of it from a third
/// one.
std::string judge_error(const Case& c, tuttiResult_t result) {
  const std::string message = tuttiGetLastError(nullptr);
  if (result != tuttiInvalidUsage && result != tuttiRemoteError) {
    return std::string(tuttiGetErrorString(result)) + ": " + message;
  }
  const std::set<int> named = ranks_in(message);
  if (named.size() > 1 && named.contains(c.odd_rank)) return "";
  return "the error does not name rank " + std::to_string(c.odd_rank) + " and another: " + message;
}

// Ranks that agree can finish the call only if they do not need the odd one; then the calls that
// follow must tell them.
std::string run_calls(const Case& c, CallMemory& memory, Member& member, tuttiComm_t comm) {
  const bool odd = member.rank() == c.odd_rank;
  const tuttiResult_t first = issue(c.way, odd ? c.odd : c.usual, memory, comm);
  if (first != tuttiSuccess) return judge_error(c, first);
  if (std::string wrong = memory.check(); !wrong.empty()) return "silently: " + wrong;
  if (c.swapped) {
    const Call& second = odd ? c.usual : c.odd;
    CallMemory more(second, member.rank(), nullptr);
    const tuttiResult_t result = issue(c.way, second, more, comm);
    if (result != tuttiSuccess) return judge_error(c, result);
    if (std::string wrong = more.check(); !wrong.empty()) return "silently: " + wrong;
  }
  const Call next = make_call(Collective::kAllReduce, member.ranks(), 50);
  for (uint64_t turn = 1; turn <= 3; ++turn) {
    member.at(turn);
    CallMemory more(next, member.rank(), nullptr);
    const tuttiResult_t later = issue(next, more, comm);
    if (later != tuttiSuccess) return judge_error(c, later);
    if (std::string wrong = more.check(); !wrong.empty()) return "silently: " + wrong;
  }
  return "nobody noticed";
}

void run_rank(const Options& how, const Case& c, Member& member) {
  tuttiUniqueId id;
  tuttiComm_t comm = nullptr;
  if (!member.take_id(id)) return;
  if (tuttiCommInitRank(&comm, member.ranks(), id, member.rank()) != tuttiSuccess) {
    return member.fail(tuttiGetLastError(nullptr));
  }
  tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
  options.timeout_ns = kDeadlineNs;
  tuttiCommSetOptions(comm, &options);
  const bool odd = member.rank() == c.odd_rank;
  CallMemory memory(odd ? c.odd : c.usual, member.rank(), nullptr);
  const std::string wrong = run_calls(c, memory, member, comm);
  // Threads read each other's buffers, and one that has not failed yet may still do so.
  if (how.threads || how.patient) member.meet();
  if (!wrong.empty()) member.fail(wrong);
  tuttiCommDestroy(comm);
}

bool run_case(const Options& options, const Case& c) {
  const int ranks = c.usual.problem.ranks;
  const auto name = [](uint64_t step) {
    return step == 0 ? std::string("the odd call") : "call " + std::to_string(step) + " after it";
  };
  auto shape = testing_support::TeamShape::of(ranks, options.threads, options.network);
  shape.set("TUTTI_CALLS_BEFORE", options.calls_before);
  const auto result = testing_support::run_team(
      shape, [&](Member& member) { run_rank(options, c, member); }, name, kLimitNs);
  if (!result.ok) std::printf("FAILED %s\n%s", c.name.c_str(), result.report.c_str());
  std::fflush(stdout);
  return result.ok;
}

/// Counts for all jobs, in memory that they share.
struct Counts {
  std::atomic<int> done;
  std::atomic<int> failed;
};

/// Says after each tenth of all cases how many are done: there may be minutes between two.
void count_done(Counts& counts, size_t cases) {
  const auto done = static_cast<size_t>(counts.done.fetch_add(1)) + 1;
  if (done * 10 / cases == (done - 1) * 10 / cases) return;
  std::fprintf(stderr, "%zu of %zu, %d not handled\n", done, cases, counts.failed.load());
}

Counts& map_counts() {
  void* memory =
      mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  return *new (memory) Counts();
}

int run(const Options& options) {
  std::vector<Case> cases;
  for (int ranks = options.least_ranks; ranks <= options.most_ranks; ++ranks) {
    for (Case& made : Cases(ranks, options.every).make()) cases.push_back(std::move(made));
  }
  for (Case& c : cases) {
    if (!options.planted) break;
    c.odd = c.usual;
    c.swapped = false;
  }
  Counts& counts = map_counts();
  std::vector<pid_t> jobs;
  for (int job = 0; job < options.jobs; ++job) {
    jobs.push_back(fork());
    if (jobs.back() != 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (auto i = static_cast<size_t>(job); i < cases.size();
         i += static_cast<size_t>(options.jobs)) {
      if (!run_case(options, cases[i])) counts.failed.fetch_add(1);
      count_done(counts, cases.size());
    }
    _exit(0);
  }
  for (const pid_t job : jobs) waitpid(job, nullptr, 0);
  const int done = counts.done.load(), failed = counts.failed.load();
  std::printf("%d of %zu mismatches, %d not handled (network %s, %s)\n", done, cases.size(), failed,
              name_of(options.network), options.threads ? "threads" : "processes");
  return failed == 0 && done == static_cast<int>(cases.size()) ? 0 : 1;
}

bool read(int argc, char** argv, Options& options) {
  using testing_support::into;
  int ranks = 0;
  const bool understood =
      testing_support::read_options(argc, argv,
                                    {{"--ranks", into(ranks, 2, testing_support::kMaxRanks)},
                                     {"--network", into(options.network)},
                                     {"--threads", into(options.threads)},
                                     {"--patient", into(options.patient)},
                                     {"--every", into(options.every)},
                                     {"--planted", into(options.planted)},
                                     {"--calls-before", into(options.calls_before)},
                                     {"--jobs", into(options.jobs, 1, 64)}});
  if (ranks > 0) options.least_ranks = options.most_ranks = ranks;
  return understood;
}

}  // namespace
}  // namespace tutti::kill_test

int main(int argc, char** argv) {
  tutti::kill_test::Options options;
  if (!tutti::kill_test::read(argc, argv, options)) return 2;
  setenv("TUTTI_LOG", "off", 0);  // every case is an error
  return tutti::kill_test::run(options);
}
