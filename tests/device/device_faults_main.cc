// Faults while calls wait in CUDA streams of four processes, which take the devices in turn.
//
//   --fault kill    one rank is killed before it calls: the others' streams go on, with an error
//   --fault midway  one rank is killed while the streams of all are at work
//   --fault abort   another thread of one rank aborts while the streams wait
//   --fault full    1,500 calls behind a rank that comes 2 s late all complete
//   --fault late    one rank never calls: the deadline of the others passes
//   --memory registered  the calls are direct: peers read the inputs where they lie
//   --call pairs    the calls are groups of sends and receives with all ranks; all: all_gathers
//   --fault slow    three calls behind a rank that comes 2.5 s late; meanwhile rank 0 prints what
//                   the flight recorder has
//
// A line for each rank says how long it took. Exit status: 0 right, 1 not, 2 the command line.
#include <atomic>
#include <cstdio>
#include <thread>

#include "tests/device/seat.h"
#include "tests/support/options.h"

namespace tutti::device_programs {
namespace {

using testing_support::Member;
using testing_support::now_ns;
using testing_support::sleep_ns;

constexpr int kRanks = 4;
constexpr int kLate = kRanks - 1;
constexpr uint64_t kMsNs = 1'000'000;
constexpr size_t kWords = 1 << 15;  // from each rank
constexpr size_t kAll = kWords * kRanks;

struct Rank {
  Rank(Member& of, Seat& at, bool calls_pairs)
      : member(of),
        seat(at),
        pairs(calls_pairs),
        send(at.allocate(kWords * 8)),
        recv(at.allocate(kAll * 8)) {}

  tuttiResult_t try_gather(size_t words) {
    if (pairs) return exchange(words);
    return tuttiAllGather(pointer(send), pointer(recv), words, tuttiUint64, seat.comm(),
                          seat.stream());
  }
  bool gather(size_t words) {
    return went(member, try_gather(words), seat.comm(), pairs ? "a group" : "tuttiAllGather");
  }
  /// The same bytes as an all_gather.
  tuttiResult_t exchange(size_t words) {
    tuttiResult_t first = tuttiGroupStart();
    for (int peer = 0; peer < kRanks && first == tuttiSuccess; ++peer) {
      auto* const from = static_cast<uint64_t*>(pointer(recv)) + static_cast<size_t>(peer) * words;
      first = tuttiSend(pointer(send), words, tuttiUint64, peer, seat.comm(), seat.stream());
      if (first != tuttiSuccess) break;
      first = tuttiRecv(from, words, tuttiUint64, peer, seat.comm(), seat.stream());
    }
    const tuttiResult_t ended = tuttiGroupEnd();
    return first != tuttiSuccess ? first : ended;
  }
  void check_time(uint64_t since_ns) {
    const uint64_t took_ms = (now_ns() - since_ns) / kMsNs;
    std::printf("rank %d: its stream went on after %d ms\n", member.rank(),
                static_cast<int>(took_ms));
    if (took_ms > 3000) member.fail("its stream stood still for more than 3 s");
  }

  Member& member;
  Seat& seat;
  const bool pairs;
  const drivers::cuda::DeviceMemory send;
  const drivers::cuda::DeviceMemory recv;
};

void die(Member& member) {
  sleep_ns(300 * kMsNs);
  member.board().numbers[0].store(now_ns());
  member.die();
}

void kill_one(Rank& rank) {
  if (rank.member.rank() == kLate) die(rank.member);
  if (!rank.gather(kWords)) return;
  rank.seat.synchronize();
  const uint64_t killed_ns = rank.member.board().numbers[0].load();
  if (killed_ns == 0) return rank.member.fail("its stream went on before a rank was killed");
  rank.check_time(killed_ns);
  tuttiResult_t error = tuttiSuccess;
  tuttiCommGetAsyncError(rank.seat.comm(), &error);
  if (error == tuttiSuccess) rank.member.fail("tuttiCommGetAsyncError knows of no error");
}

void kill_midway(Rank& rank) {
  constexpr int kCalls = 400;
  if (rank.member.rank() == kLate) {
    std::thread death([&] { die(rank.member); });
    for (int call = 0; call < kCalls && tuttiSuccess == rank.try_gather(kWords); ++call) {
    }
    death.join();
  }
  tuttiResult_t called = tuttiSuccess;
  while (called == tuttiSuccess) {
    called = rank.try_gather(kWords);
    rank.seat.synchronize();
  }
  rank.check_time(rank.member.board().numbers[0].load());
}

// One rank aborts: the calls of all ranks end by that.
void abort_one(Rank& rank) {
  std::atomic<uint64_t>& aborted_ns = rank.member.board().numbers[0];
  if (rank.member.rank() != kLate) {
    if (!rank.gather(kWords)) return;
    std::thread other([&] {
      if (rank.member.rank() != 0) return;
      sleep_ns(300 * kMsNs);
      aborted_ns.store(now_ns());
      tuttiCommAbort(rank.seat.give_comm());
    });
    rank.seat.synchronize();
    const uint64_t began_ns = aborted_ns.load();
    if (began_ns != 0) rank.check_time(began_ns);
    other.join();
    if (began_ns == 0) return rank.member.fail("its stream did not wait");
  }
  rank.member.meet();
}

void fill_queue(Rank& rank) {
  constexpr int kCalls = 1500;
  const uint64_t start_ns = now_ns();
  if (rank.member.rank() == kLate) sleep_ns(2000 * kMsNs);
  for (int call = 0; call < kCalls; ++call) {
    if (!rank.gather(1)) return;
  }
  if (!rank.seat.synchronize()) return rank.member.fail("its stream failed");
  tuttiResult_t error = tuttiSuccess;
  tuttiCommGetAsyncError(rank.seat.comm(), &error);
  if (!went(rank.member, error, rank.seat.comm(), "a queued call")) return;
  const Words got = rank.seat.read(rank.recv, kRanks);
  for (int from = 0; from < kRanks; ++from) {
    if (got[static_cast<size_t>(from)] != word_of(from, 0, 0)) rank.member.fail("wrong bytes");
  }
  std::printf("rank %d: %d calls in %d ms\n", rank.member.rank(), kCalls,
              static_cast<int>((now_ns() - start_ns) / kMsNs));
  rank.member.meet();
}

void come_slowly(Rank& rank) {
  constexpr int kCalls = 3;
  if (rank.member.rank() == kLate) sleep_ns(2500 * kMsNs);
  for (int call = 0; call < kCalls; ++call) {
    if (!rank.gather(kWords)) return;
  }
  if (rank.member.rank() == 0) {
    sleep_ns(1500 * kMsNs);
    if (tuttiTraceDump(nullptr) != tuttiSuccess) rank.member.fail("tuttiTraceDump");
  }
  if (!rank.seat.synchronize()) return rank.member.fail("its stream failed");
  rank.member.meet();
  if (rank.member.rank() == 0) tuttiTraceDump(nullptr);
  rank.member.meet();
}

// The rank that does not call is named.
void wait_for_late(Rank& rank) {
  if (rank.member.rank() == kLate) {
    rank.member.meet();
    return;
  }
  tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
  options.timeout_ns = 300 * kMsNs;
  const tuttiResult_t set = tuttiCommSetOptions(rank.seat.comm(), &options);
  if (!went(rank.member, set, rank.seat.comm(), "tuttiCommSetOptions")) return;
  const uint64_t start_ns = now_ns();
  if (!rank.gather(kWords)) return;
  rank.seat.synchronize();
  rank.check_time(start_ns);
  tuttiResult_t error = tuttiSuccess;
  tuttiCommGetAsyncError(rank.seat.comm(), &error);
  const std::string text = tuttiGetLastError(rank.seat.comm());
  if (error == tuttiSuccess || text.find("rank " + std::to_string(kLate)) == std::string::npos) {
    rank.member.fail("does not name the rank that is late: " + text);
  }
  rank.member.meet();
}

void run_rank(Member& member, bool pairs, bool registers, void (*fault)(Rank&)) {
  const std::unique_ptr<Seat> seat = Seat::open(member);
  if (seat == nullptr) return;
  Rank rank(member, *seat, pairs);
  rank.seat.fill(rank.send, Words(kWords, word_of(member.rank(), 0, 0)));
  void* handle = nullptr;
  if (registers &&
      !went(member, tuttiCommRegister(seat->comm(), pointer(rank.send), kWords * 8, &handle),
            seat->comm(), "tuttiCommRegister")) {
    return;
  }
  if (!rank.gather(kWords)) return;
  if (!seat->synchronize()) return member.fail("its stream failed");
  if (member.meet()) fault(rank);
  std::fflush(stdout);
}

}  // namespace
}  // namespace tutti::device_programs

int main(int argc, char** argv) {
  using namespace tutti::testing_support;
  using namespace tutti::device_programs;
  std::string fault, call = "all", memory = "ordinary";
  if (!read_options(
          argc, argv,
          {{"--fault", into(fault)}, {"--call", into(call)}, {"--memory", into(memory)}})) {
    return 2;
  }
  const bool pairs = call == "pairs", registers = memory == "registered";
  if ((!pairs && call != "all") || (!registers && memory != "ordinary")) return 2;
  const std::map<std::string, void (*)(Rank&)> faults = {
      {"kill", kill_one},   {"midway", kill_midway}, {"abort", abort_one},
      {"full", fill_queue}, {"late", wait_for_late}, {"slow", come_slowly}};
  const auto found = faults.find(fault);
  if (found == faults.end()) return 2;
  const TeamResult result = run_team(
      TeamShape::processes(kRanks),
      [&](Member& member) { run_rank(member, pairs, registers, found->second); },
      [&](uint64_t) { return "--fault " + fault; }, 20'000'000'000);
  std::printf("%s", result.report.c_str());
  const bool expected_death =
      (fault == "kill" || fault == "midway") &&
      result.report == "  process " + std::to_string(kLate) + " ended by signal 9\n";
  return result.ok || expected_death ? 0 : 1;
}
