// mismatch: one rank makes another call than the others (collective, count, type, root or
// operation), or two calls in another order. Every rank must end with an error that names two
// ranks; nobody may hang, and nobody may be told that a call succeeded whose result is not what its
// arguments say. A call that can be finished without the odd rank may be; then the calls after it
// must tell.
//
//   --ranks N (2 to 4: all of them without it)  --network default|tcp|mixed  --threads 0|1
//   --patient 0|1
//
// Exit status: 0 all was right, 1 it was not, 2 the command line is wrong.
#include <cctype>
#include <cstdio>
#include <cstdlib>
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

constexpr uint64_t kDeadlineNs = 8'000'000'000;  // what takes so long hangs
constexpr uint64_t kLimitNs = 30'000'000'000;

struct Options {
  int least_ranks = 2;
  int most_ranks = 4;
  testing_support::Network network = testing_support::Network::kDefault;
  bool threads = false;
  bool patient = false;  // a rank keeps its failed communicator until all ranks have failed
};

struct Case {
  std::string name;
  Call usual;
  Call odd;              // what the last rank calls
  bool swapped = false;  // both calls on every rank; the last rank in the other order
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

void add_odd(std::vector<Case>& cases, const Call& usual, const std::string& what, Call odd) {
  const std::string name = std::string(reference::name_of(usual.problem.collective)) + " of " +
                           std::to_string(usual.problem.count) + " floats on " +
                           std::to_string(usual.problem.ranks) + " ranks, other " + what;
  cases.push_back({name, usual, std::move(odd), what == "order"});
}

// Every entry of the counts that the odd rank shares with others, one more than they say, and some
// with nothing in place of something.
void add_odd_counts(std::vector<Case>& cases, const Call& usual) {
  const reference::Problem& p = usual.problem;
  const auto ranks = static_cast<size_t>(p.ranks), odd_rank = ranks - 1;
  const bool is_private = p.collective == Collective::kAllToAllV;
  const auto add = [&](size_t entry, uint64_t count, const char* what) {
    Call odd = usual;
    odd.problem.counts[entry] = count;
    add_odd(cases, usual, what + (" " + std::to_string(entry)), odd);
  };
  for (size_t entry = 0; entry < p.counts.size(); ++entry) {
    const bool sends = entry / ranks == odd_rank, expects = entry % ranks == odd_rank;
    if (is_private && sends == expects) continue;  // between others, or between it and itself
    add(entry, p.counts[entry] + 1, "count");
    if (p.counts[entry] > 0 && entry % 2 == 1) add(entry, 0, "(no) count");
  }
  Call odd = usual;  // of shared counts: no call at all, which the next one tells
  odd.problem.counts.assign(p.counts.size(), 0);
  add_odd(cases, usual, "counts, all 0", odd);
  if (is_private) return;
  odd = usual;  // no size of the plan differs, nor the sum
  std::swap(odd.problem.counts[0], odd.problem.counts[1]);
  if (odd.problem.counts != p.counts) add_odd(cases, usual, "order of counts", odd);
}

std::vector<Case> cases_of(int ranks) {
  std::vector<Case> cases;
  for (int i = 0; i < reference::kCollectives; ++i) {
    const auto collective = static_cast<Collective>(i);
    for (const uint64_t count : {uint64_t{7}, uint64_t{100'000}}) {
      const Call usual = make_call(collective, ranks, count);
      const auto other = static_cast<Collective>((i + 1) % reference::kCollectives);
      add_odd(cases, usual, "collective", make_call(other, ranks, count));
      if (collective == Collective::kBarrier) break;
      if (reference::has_counts(collective)) {
        add_odd_counts(cases, usual);
      } else {
        add_odd(cases, usual, "count", make_call(collective, ranks, count + 1));
      }
      Call odd = usual;
      odd.problem.type = tuttiInt32;
      odd.values = random_calls::Values::kAny;
      add_odd(cases, usual, "type", odd);
      if (reference::reduces(collective)) {
        odd = usual;
        odd.problem.op = tuttiMax;
        add_odd(cases, usual, "operation", odd);
      }
      if (reference::is_rooted(collective)) {
        odd = usual;
        odd.problem.root = ranks - 1;
        add_odd(cases, usual, "root", odd);
      }
      add_odd(cases, usual, "order", make_call(collective, ranks, count / 2));
    }
  }
  return cases;
}

tuttiResult_t issue(const Call& call, const CallMemory& memory, tuttiComm_t comm) {
  return random_calls::issue(call.problem, memory.send(), memory.recv(), comm, tuttiBlocking());
}

bool names_two_ranks(const std::string& message) {
  std::set<int> named;
  for (size_t at = message.find("rank "); at != std::string::npos;
       at = message.find("rank ", at + 1)) {
    const size_t digit = at + 5;
    if (digit < message.size() && std::isdigit(static_cast<unsigned char>(message[digit]))) {
      named.insert(std::atoi(message.c_str() + digit));
    }
  }
  return named.size() > 1;
}

std::string judge_error(tuttiResult_t result, tuttiComm_t comm) {
  const std::string message = tuttiGetLastError(comm);
  if (result != tuttiInvalidUsage && result != tuttiRemoteError) {
    return std::string(tuttiGetErrorString(result)) + ": " + message;
  }
  return names_two_ranks(message) ? "" : "the error does not name two ranks: " + message;
}

// Ranks that agree can finish the call only if they do not need the odd one; then the calls that
// follow must tell them.
std::string run_calls(const Case& c, CallMemory& memory, Member& member, tuttiComm_t comm) {
  const bool odd = member.rank() == member.ranks() - 1;
  const tuttiResult_t first = issue(odd ? c.odd : c.usual, memory, comm);
  if (first != tuttiSuccess) return judge_error(first, comm);
  if (std::string wrong = memory.check(); !wrong.empty()) return "silently: " + wrong;
  if (c.swapped) {
    const Call& second = odd ? c.usual : c.odd;
    CallMemory more(second, member.rank(), nullptr);
    const tuttiResult_t result = issue(second, more, comm);
    if (result != tuttiSuccess) return judge_error(result, comm);
    if (std::string wrong = more.check(); !wrong.empty()) return "silently: " + wrong;
  }
  const Call next = make_call(Collective::kAllReduce, member.ranks(), 50);
  for (uint64_t turn = 1; turn <= 3; ++turn) {
    member.at(turn);
    CallMemory more(next, member.rank(), nullptr);
    const tuttiResult_t later = issue(next, more, comm);
    if (later != tuttiSuccess) return judge_error(later, comm);
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
  const bool odd = member.rank() == member.ranks() - 1;
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
  const auto result = testing_support::run_team(
      testing_support::TeamShape::of(ranks, options.threads, options.network),
      [&](Member& member) { run_rank(options, c, member); }, name, kLimitNs);
  if (!result.ok) std::printf("FAILED %s\n%s", c.name.c_str(), result.report.c_str());
  std::fflush(stdout);
  return result.ok;
}

int run(const Options& options) {
  int failed = 0, all = 0;
  for (int ranks = options.least_ranks; ranks <= options.most_ranks; ++ranks) {
    for (const Case& c : cases_of(ranks)) {
      ++all;
      if (!run_case(options, c)) ++failed;
    }
  }
  std::printf("%d mismatches, %d not handled (network %s, %s)\n", all, failed,
              name_of(options.network), options.threads ? "threads" : "processes");
  return failed == 0 ? 0 : 1;
}

bool read(int argc, char** argv, Options& options) {
  using testing_support::into;
  int ranks = 0;
  const bool understood =
      testing_support::read_options(argc, argv,
                                    {{"--ranks", into(ranks, 2, testing_support::kMaxRanks)},
                                     {"--network", into(options.network)},
                                     {"--threads", into(options.threads)},
                                     {"--patient", into(options.patient)}});
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
