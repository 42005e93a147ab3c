// engines: by what calls on device memory run that somebody wants to run by one engine, on three
// processes, which take the devices in turn. Each of several calls is made twice, and its result is
// checked.
//
//   --config E   the communicator's engine, a number of tuttiEngine_t
//   --ask E      the one that the options of every call name
//   --odd E      rank 0's communicator has this one
//   --differ E   the options of rank 0 name this one: each rank prints what it hears of one call
//   --kind K     which is all_gather, all_to_all_v or send
//   --pinned R   rank R reads NCCL_P2P_DISABLE=1
//   --least N    its configuration's thread blocks, at least
//   --most N     and at most
//   --call-least N, --call-most N   the same by the options of every call
//
// Rank 0 prints a line for each call: its outcome, how many thread blocks its kernels had on
// the software device, and the line of tuttiExplain about device memory. Exit status: 0 what
// succeeded was right, 1 it was not, 2 the command line is wrong.
#include <cstdio>
#include <string>
#include <vector>

#include "tests/device/seat.h"
#include "tests/software_device/client.h"
#include "tests/support/options.h"

namespace tutti::device_programs {
namespace {

using testing_support::Member;

constexpr int kRanks = 3;
constexpr size_t kWords = 5000;  // from each rank

struct Wish {
  int config = tuttiEngineAuto;
  int ask = tuttiEngineAuto;
  int odd = tuttiEngineAuto;
  int differ = -1;
  std::string kind = "all_gather";
  int pinned = -1;
  int least = 0;
  int most = 0;
  int call_least = 0;
  int call_most = 0;
};

struct Rank {
  Rank(Member& of, Seat& at, const softdev::Client& driver, const Wish& wish)
      : member(of),
        seat(at),
        client(driver),
        ask(of.rank() == 0 && wish.differ >= 0 ? wish.differ : wish.ask),
        least(wish.call_least),
        most(wish.call_most),
        send(at.allocate(kWords * 8)),
        recv(at.allocate(kWords * kRanks * 8)) {}

  void run(tuttiCollective_t collective, const char* name) {
    seat.fill(send, Words(kWords, word_of(member.rank(), 0, 1)));
    seat.fill(recv, Words(kWords * kRanks, 0));
    tuttiResult_t outcome = tuttiSuccess;
    const SoftdevStatistics before = client.statistics();
    for (int time = 0; time < 2; ++time) outcome = call(collective);
    const SoftdevStatistics after = client.statistics();
    const uint64_t kernels = after.kernels - before.kernels;
    const uint64_t blocks = after.thread_blocks - before.thread_blocks;
    if (!seat.synchronize()) return member.fail("its stream failed");
    if (outcome == tuttiSuccess) check(collective);
    const std::string error = outcome == tuttiSuccess ? "" : tuttiGetLastError(seat.comm());
    if (member.rank() != 0) return;
    std::printf("%s: %s %s\n", name, tuttiGetErrorString(outcome), error.c_str());
    if (kernels > 0) std::printf("%s: %g blocks a kernel\n", name, 1.0 * blocks / kernels);
    explain(name);
  }

  tuttiResult_t call(tuttiCollective_t collective) {
    tuttiCall_t call = TUTTI_CALL_INITIALIZER;
    call.collective = collective;
    call.send = pointer(send);
    call.recv = pointer(recv);
    call.count = kWords;
    call.type = tuttiUint64;
    call.op = tuttiSum;
    tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
    options.engine = ask;
    options.least_ctas = least;
    options.most_ctas = most;
    return tuttiSubmit(&call, seat.comm(), seat.stream(), &options, nullptr);
  }

  /// One call whose options differ between the ranks.
  void differ(const std::string& kind) {
    tuttiCall_t call = TUTTI_CALL_INITIALIZER;
    call.send = pointer(send);
    call.recv = pointer(recv);
    call.count = kWords;
    call.type = tuttiUint64;
    call.collective = kind == "send"           ? tuttiCollSend
                      : kind == "all_to_all_v" ? tuttiCollAllToAllV
                                               : tuttiCollAllGather;
    const std::vector<size_t> counts(kRanks, kWords / kRanks);
    call.send_counts = call.recv_counts = counts.data();
    call.root = (member.rank() + 1) % kRanks;
    tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
    options.engine = ask;
    tuttiGroupStart();
    (void)tuttiSubmit(&call, seat.comm(), seat.stream(), &options, nullptr);
    if (kind == "send") {
      call.collective = tuttiCollRecv;
      call.root = (member.rank() + kRanks - 1) % kRanks;
      (void)tuttiSubmit(&call, seat.comm(), seat.stream(), &options, nullptr);
    }
    (void)tuttiGroupEnd();
    tuttiResult_t state = tuttiSuccess;
    while (state == tuttiSuccess) {
      if (!went(member, tuttiCommGetAsyncError(seat.comm(), &state), seat.comm(), "asking")) return;
    }
    if (!seat.synchronize()) return member.fail("its stream failed");
    std::printf("rank %d: %s\n", member.rank(), tuttiGetLastError(seat.comm()));
    std::fflush(stdout);
    member.meet();
  }

  void check(tuttiCollective_t collective) {
    const Words got = seat.read(recv, kWords * kRanks);
    uint64_t sum = 0;
    for (int from = 0; from < kRanks; ++from) {
      const uint64_t word = word_of(from, 0, 1);
      sum += word;
      const bool gathered = got[static_cast<size_t>(from) * kWords + kWords - 1] == word;
      if (collective == tuttiCollAllGather && !gathered) return member.fail("a wrong gather");
    }
    const bool summed = got[0] == sum && got[kWords - 1] == sum;
    if (collective == tuttiCollAllReduce && !summed) member.fail("a wrong sum");
  }

  void explain(const char* name) {
    std::vector<char> text(1 << 16);
    size_t needed = 0;
    if (!went(
            member,
            tuttiExplain(seat.comm(), name, kWords, tuttiUint64, text.data(), text.size(), &needed),
            seat.comm(), "tuttiExplain")) {
      return;
    }
    const std::string all = text.data();
    const size_t at = all.find("on device memory");
    std::printf("%s %s\n", name, at == std::string::npos ? "-" : all.substr(at).c_str());
  }

  Member& member;
  Seat& seat;
  const softdev::Client& client;
  const int ask, least, most;
  const drivers::cuda::DeviceMemory send, recv;
};

void run_rank(Member& member, const Wish& wish) {
  if (member.rank() == wish.pinned) setenv("NCCL_P2P_DISABLE", "1", 1);
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.engine = member.rank() == 0 && wish.odd != tuttiEngineAuto ? wish.odd : wish.config;
  config.least_ctas = wish.least;
  config.most_ctas = wish.most;
  const std::unique_ptr<Seat> seat = Seat::open(member, &config);
  if (seat == nullptr) return;
  const Result<softdev::Client> client = softdev::Client::open();
  if (!client.ok()) return member.fail(std::string(client.status().message()));
  Rank rank(member, *seat, client.value(), wish);
  if (wish.differ >= 0) return rank.differ(wish.kind);
  rank.run(tuttiCollAllGather, "all_gather");
  rank.run(tuttiCollAllReduce, "all_reduce");
  std::fflush(stdout);
  went(member, tuttiCommDestroy(seat->give_comm()), nullptr, "tuttiCommDestroy");
}

}  // namespace
}  // namespace tutti::device_programs

int main(int argc, char** argv) {
  using namespace tutti::testing_support;
  tutti::device_programs::Wish wish;
  if (!read_options(argc, argv,
                    {{"--config", into(wish.config)},
                     {"--ask", into(wish.ask)},
                     {"--odd", into(wish.odd)},
                     {"--differ", into(wish.differ)},
                     {"--kind", into(wish.kind)},
                     {"--pinned", into(wish.pinned)},
                     {"--least", into(wish.least)},
                     {"--most", into(wish.most)},
                     {"--call-least", into(wish.call_least)},
                     {"--call-most", into(wish.call_most)}})) {
    return 2;
  }
  const TeamResult result = run_team(
      TeamShape::processes(tutti::device_programs::kRanks),
      [&](Member& member) { tutti::device_programs::run_rank(member, wish); },
      [](uint64_t) { return std::string("its calls"); }, 60'000'000'000);
  std::printf("%s", result.report.c_str());
  return result.ok ? 0 : 1;
}
