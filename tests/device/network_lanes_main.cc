// network_lanes: collectives on the devices of several hosts, which are processes of one machine
// that are told to be on different ones. Every collective, all_to_all_v, and a group of sends and
// receives between all ranks (exchange), eager and in a graph, out of place; each result is
// checked.
//
//   --ranks N (default 4)  --hosts H (default 2): as many ranks on each, or one more
//   --words W      from each rank (default 5000)
//   --rounds R     times that all are called (default 2)
//   --graph 1      each call is captured, and its graph launched twice as well
//   --only NAME    this collective alone
//   --bound B      it is wrong if the process has had more than so many bytes of pinned memory
//                  (faults: of an all_reduce, or of this one)
//   --fault F      kill: the last rank dies before its call; late: it makes none, and the others
//                  have a deadline; abort: it aborts the communicator; differ: it calls another
//                  count. Each of the others prints what it hears. overlap: the other host comes
//                  late to a reduce, when the first rank's next slice has come to the host while
//                  the one before it is on its way (else it never comes)
//   --expect 0     calls may go by the host as a whole
//   --patience S   it is wrong if all of it takes longer (default 100)
//   --cards NAME   the ranks of host H use the RDMA card NAME<H>, and nothing else between hosts
//
// Rank 0 prints for each collective the line of tuttiExplain about device memory. Exit status: 0
// all was right, 1 it was not, 2 the command line is wrong.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <unistd.h>
#include <csignal>

#include "tests/device/graphs.h"
#include "tests/device/seat.h"
#include "tests/software_device/client.h"
#include "tests/support/options.h"

namespace tutti::device_programs {
namespace {

using testing_support::Member;

struct Wish {
  int ranks = 4, hosts = 2;
  size_t words = 5000;
  int rounds = 2, graph = 0, expect = 1, patience = 100;
  std::string only, fault, cards;
  uint64_t bound = 0;
};

enum class Manner : uint8_t { kCollective, kShares, kExchange };
struct Kind {
  const char* name;
  tuttiCollective_t collective;
  bool many_in, many_out;  // a part for each rank
  Manner manner = Manner::kCollective;
};
constexpr Kind kKinds[] = {
    {"all_reduce", tuttiCollAllReduce, false, false},
    {"all_gather", tuttiCollAllGather, false, true},
    {"reduce_scatter", tuttiCollReduceScatter, true, false},
    {"broadcast", tuttiCollBroadcast, false, false},
    {"all_to_all", tuttiCollAllToAll, true, true},
    {"reduce", tuttiCollReduce, false, false},
    {"gather", tuttiCollGather, false, true},
    {"scatter", tuttiCollScatter, true, false},
    {"all_to_all_v", tuttiCollAllToAllV, true, true, Manner::kShares},
    {"exchange", tuttiCollAllToAll, true, true, Manner::kExchange},
};

class Rank {
 public:
  Rank(Member& member, Seat& seat, softdev::Client client, const Wish& wish)
      : member_(member),
        seat_(seat),
        client_(std::move(client)),
        wish_(wish),
        words_(wish.words),
        send_(seat.allocate(all_words() * 8)),
        recv_(seat.allocate(all_words() * 8)) {}

  bool run(const Kind& kind, uint64_t round) {
    const int root = static_cast<int>((round + 1) % static_cast<uint64_t>(member_.ranks()));
    fill(kind, round);
    if (!went(member_, call(kind, root), seat_.comm(), kind.name) || !check(kind, root, round)) {
      return false;
    }
    return wish_.graph == 0 || replay(kind, root, round);
  }

  bool check_pinned() {
    const uint64_t pinned = client_.statistics().live_pinned_bytes;
    if (wish_.bound == 0 || !client_.on_software_device() || pinned <= wish_.bound) return true;
    member_.fail("its calls have taken " + std::to_string(pinned) + " bytes of pinned memory");
    return false;
  }

  void explain(const Kind& kind) {
    if (kind.manner == Manner::kExchange) return;  // with each rank in its own way
    std::vector<char> text(1 << 16);
    size_t needed = 0;
    const tuttiResult_t done = tuttiExplain(seat_.comm(), kind.name, words_, tuttiUint64,
                                            text.data(), text.size(), &needed);
    if (!went(member_, done, seat_.comm(), "tuttiExplain")) return;
    const std::string all = text.data();
    const size_t at = all.find("on device memory");
    const std::string said = at == std::string::npos ? "nothing" : all.substr(at);
    std::printf("%s %s", kind.name, said.c_str());
    std::fflush(stdout);  // whole, though others write to the same place
    const bool by_lanes = said.find("within hosts and messages between them") != std::string::npos;
    if (by_lanes != (wish_.expect != 0)) member_.fail(std::string(kind.name) + ": " + said);
  }

  // Nothing of a slice is out before its receiver has come. That is known on the software device.
  // The first rank prints what the flight recorder has of it.
  void overlap() {
    const Kind& kind = kKinds[5];
    const int root = member_.ranks() - 1;
    fill(kind, 0);
    if (!member_.meet()) return;
    const uint64_t before = client_.statistics().copy_bytes;
    if (member_.rank() == 0 && !went(member_, call(kind, root), seat_.comm(), kind.name)) return;
    // A slice is shorter than that.
    const uint64_t more_than_one = words_ * 8 / kLeastSlices;
    while (member_.rank() == 0 && client_.statistics().copy_bytes - before < more_than_one) {
      testing_support::sleep_ns(100'000);
    }
    if (!member_.meet()) return;
    if (member_.rank() != 0 && !went(member_, call(kind, root), seat_.comm(), kind.name)) return;
    (void)check(kind, root, 0);
    if (!member_.meet()) return;  // a rank that leaves gives up what it has not sent
    if (member_.rank() == 0) std::printf("%s", traced().c_str());
    std::fflush(stdout);
  }

  // The last rank does not do its part, and all others hear why.
  void fail_one() {
    const Kind& kind = *std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& one) {
      return wish_.only.empty() || wish_.only == one.name;
    });
    const bool is_last = member_.rank() == member_.ranks() - 1;
    fill(kind, 0);
    if (!went(member_, call(kind, 0), seat_.comm(), kind.name) || !seat_.synchronize()) return;
    if (!member_.meet()) return;
    if (is_last && wish_.fault == "kill") kill(getpid(), SIGKILL);
    if (is_last && wish_.fault == "abort") {
      testing_support::sleep_ns(200'000'000);
      (void)tuttiCommAbort(seat_.give_comm());
      member_.meet();
      return;
    }
    tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
    if (wish_.fault == "late") options.timeout_ns = 700'000'000;
    if (is_last && wish_.fault == "differ") --words_;
    const bool calls = !is_last || wish_.fault == "differ";
    if (calls) {
      (void)submit(kind, 0, &options);
      tuttiResult_t state = tuttiSuccess;
      while (state == tuttiSuccess || state == tuttiInProgress) {
        if (!went(member_, tuttiCommGetAsyncError(seat_.comm(), &state), nullptr, "asking")) return;
        testing_support::sleep_ns(1'000'000);
      }
      if (!seat_.synchronize()) return member_.fail("its stream failed");
      std::printf("rank %d: %s\n", member_.rank(), tuttiGetLastError(seat_.comm()));
      std::fflush(stdout);
    }
    if (wish_.fault != "kill") member_.meet();
  }

 private:
  static constexpr uint64_t kLeastSlices = 4;  // of the call that overlaps

  /// As `tutti trace dump` shows it.
  std::string traced() {
    const std::string path = "/tmp/tutti-lanes-" + std::to_string(getpid());
    if (!went(member_, tuttiTraceDump(path.c_str()), nullptr, "tuttiTraceDump")) return {};
    std::ifstream file(path);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    unlink(path.c_str());
    return text;
  }
  size_t all_words() const { return words_ * static_cast<size_t>(member_.ranks()); }
  static uint64_t sent(uint64_t round, int from, size_t place) {
    return (round * 31 + static_cast<uint64_t>(from) + 1) * 0x9e3779b97f4a7c15u + place;
  }

  void fill(const Kind& kind, uint64_t round) {
    Words words(kind.many_in ? all_words() : words_);
    for (size_t i = 0; i < words.size(); ++i) words[i] = sent(round, member_.rank(), i);
    seat_.fill(send_, words);
    seat_.fill(recv_, Words(all_words(), 0));
  }

  tuttiResult_t exchange(const tuttiOptions_t* options) {
    (void)tuttiGroupStart();
    tuttiResult_t first =
        options == nullptr ? tuttiSuccess : tuttiCommSetOptions(seat_.comm(), options);
    for (int peer = 0; peer < member_.ranks(); ++peer) {
      const size_t at = static_cast<size_t>(peer) * words_;
      const tuttiResult_t sent = tuttiSend(static_cast<uint64_t*>(pointer(send_)) + at, words_,
                                           tuttiUint64, peer, seat_.comm(), seat_.stream());
      const tuttiResult_t received = tuttiRecv(static_cast<uint64_t*>(pointer(recv_)) + at, words_,
                                               tuttiUint64, peer, seat_.comm(), seat_.stream());
      for (const tuttiResult_t one : {sent, received}) first = first == tuttiSuccess ? one : first;
    }
    const tuttiResult_t ended = tuttiGroupEnd();
    return first == tuttiSuccess ? ended : first;
  }

  tuttiResult_t submit(const Kind& kind, int root, const tuttiOptions_t* options) {
    if (kind.manner == Manner::kExchange) return exchange(options);
    const std::vector<size_t> counts(static_cast<size_t>(member_.ranks()), words_);
    tuttiCall_t call = TUTTI_CALL_INITIALIZER;
    call.collective = kind.collective;
    call.send = pointer(send_);
    call.recv = pointer(recv_);
    call.count = words_;
    call.type = tuttiUint64;
    call.op = tuttiSum;
    call.root = root;
    if (kind.manner == Manner::kShares) {
      call.count = 0;
      call.send_counts = call.recv_counts = counts.data();
    }
    return tuttiSubmit(&call, seat_.comm(), seat_.stream(), options, nullptr);
  }
  tuttiResult_t call(const Kind& kind, int root) { return submit(kind, root, nullptr); }

  bool replay(const Kind& kind, int root, uint64_t round) {
    auto* const stream = static_cast<drivers::cuda::CUstream>(seat_.stream().handle);
    const Graph graph(client_, stream,
                      [&] { went(member_, call(kind, root), seat_.comm(), kind.name); });
    for (int run = 0; run < 2; ++run) {
      fill(kind, round + 7);
      graph.launch(stream);
      if (!check(kind, root, round + 7)) return false;
    }
    return true;
  }

  uint64_t expected(const Kind& kind, int root, uint64_t round, size_t i) const {
    const size_t mine = static_cast<size_t>(member_.rank()) * words_;
    const int of_block = static_cast<int>(i / words_);
    switch (kind.collective) {
      case tuttiCollAllGather:
      case tuttiCollGather:
        return sent(round, of_block, i % words_);
      case tuttiCollBroadcast:
        return sent(round, root, i);
      case tuttiCollAllToAll:
      case tuttiCollAllToAllV:
        return sent(round, of_block, mine + i % words_);
      case tuttiCollScatter:
        return sent(round, root, mine + i);
      default:
        break;
    }
    uint64_t sum = 0;
    const size_t at = kind.collective == tuttiCollReduceScatter ? mine + i : i;
    for (int from = 0; from < member_.ranks(); ++from) sum += sent(round, from, at);
    return sum;
  }

  bool check(const Kind& kind, int root, uint64_t round) {
    if (!seat_.synchronize()) {
      member_.fail("its stream failed");
      return false;
    }
    const bool at_root = kind.collective == tuttiCollReduce || kind.collective == tuttiCollGather;
    if (at_root && member_.rank() != root) return true;
    const size_t count = kind.many_out ? all_words() : words_;
    const Words got = seat_.read(recv_, count);
    for (size_t i = 0; i < count; ++i) {
      if (got[i] == expected(kind, root, round, i)) continue;
      member_.fail(std::string(kind.name) + ": word " + std::to_string(i) + " of round " +
                   std::to_string(round) + " is wrong");
      return false;
    }
    return true;
  }

  Member& member_;
  Seat& seat_;
  softdev::Client client_;
  const Wish wish_;
  size_t words_;
  const drivers::cuda::DeviceMemory send_, recv_;
};

void run_rank(Member& member, const Wish& wish) {
  const std::unique_ptr<Seat> seat = Seat::open(member);
  if (seat == nullptr) return;
  Result<softdev::Client> client = softdev::Client::open();
  if (!client.ok()) return member.fail(std::string(client.status().message()));
  Rank rank(member, *seat, std::move(client).value(), wish);
  if (wish.fault == "overlap") return rank.overlap();
  if (!wish.fault.empty()) return rank.fail_one();
  for (const Kind& kind : kKinds) {
    if (!wish.only.empty() && wish.only != kind.name) continue;
    if (member.rank() == 0) rank.explain(kind);
    for (int round = 0; round < wish.rounds; ++round) {
      if (!rank.run(kind, static_cast<uint64_t>(round))) return;
    }
  }
  std::fflush(stdout);
  if (!rank.check_pinned()) return;
  went(member, tuttiCommDestroy(seat->give_comm()), nullptr, "tuttiCommDestroy");
}

}  // namespace
}  // namespace tutti::device_programs

int main(int argc, char** argv) {
  using namespace tutti::testing_support;
  using tutti::device_programs::Wish;
  Wish wish;
  if (!read_options(argc, argv,
                    {{"--ranks", into(wish.ranks, 2, 8)},
                     {"--hosts", into(wish.hosts, 1, 8)},
                     {"--words", into(wish.words)},
                     {"--rounds", into(wish.rounds, 1)},
                     {"--graph", into(wish.graph, 0, 1)},
                     {"--only", into(wish.only)},
                     {"--bound", into(wish.bound)},
                     {"--fault", into(wish.fault)},
                     {"--expect", into(wish.expect, 0, 1)},
                     {"--patience", into(wish.patience, 1)},
                     {"--cards", into(wish.cards)}})) {
    return 2;
  }
  TeamShape shape = TeamShape::processes(wish.ranks);
  for (int rank = 0; rank < wish.ranks; ++rank) {
    const std::string host = std::to_string(rank * wish.hosts / wish.ranks);
    Environment environment{{"TUTTI_HOST_ID", "host-" + host}};
    if (!wish.cards.empty()) {
      environment["TUTTI_RDMA_DEVICES"] = "=" + wish.cards + host;
      environment["TUTTI_TRANSPORTS"] = "shm,verbs";
    }
    shape.environment.push_back(std::move(environment));
  }
  const TeamResult result = run_team(
      shape, [&](Member& member) { tutti::device_programs::run_rank(member, wish); },
      [](uint64_t) { return std::string("its calls"); },
      static_cast<uint64_t>(wish.patience) * 1'000'000'000);
  std::printf("%s", result.report.c_str());
  const bool expected_death =
      wish.fault == "kill" && result.report.find("ended by signal 9") != std::string::npos;
  return result.ok || expected_death ? 0 : 1;
}
