// device_habits: the habits of NCCL's own tests. Ranks are processes, threads, and devices of one
// thread, each with a device of its own; every call of a thread's ranks is made in one group,
// whatever device is current, on streams of any kind; calls are captured into graphs, lie in
// registered memory, and are of communicators that were split. A job is a function of the seed and
// the shape; every output is compared.
//
//   --seed S        (default 1)
//   --processes N   (default 2)
//   --threads N     of each process (default 1)
//   --devices N     of each thread (default 1); there are at most 8 ranks
//   --rounds N      calls of each rank, all of which are under way at once (default 12)
//   --batches N     so often, and all streams are waited for in between (default 3)
//   --words N       at most so many words of 8 bytes in a call (default 6000)
//   --busy 0        no stream has long work before a call; under the checker, which would see that
//                   this work of several streams goes to one place (default 1)
//   --streams WHICH all; or one kind: own, reborn (destroyed behind its call; the next one may get
//                   its handle), null, legacy, per_thread
//
// The first thread prints what its job had. Exit status: 0 all was right, 1 it was not, 2 the
// command line.
#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/device/graphs.h"
#include "tests/device/must.h"
#include "tests/support/dice.h"
#include "tests/support/options.h"

namespace tutti::device_programs {
namespace {

namespace driver = drivers::cuda;
using testing_support::Dice;
using testing_support::Member;
using testing_support::mix;

constexpr int kMostRanks = 8, kComms = 2;
constexpr std::array<const char*, 5> kStreamKinds = {"own", "reborn", "null", "legacy",
                                                     "per_thread"};
enum StreamKind : size_t { kOwn, kReborn, kNull, kLegacy, kPerThread };

struct Settings {
  uint64_t seed = 1;
  int processes = 2, threads = 1, devices = 1;
  int rounds = 12, batches = 3, most_words = 6000;
  int busy = 1;
  std::string streams = "all";

  int members() const { return processes * threads; }
  int ranks() const { return members() * devices; }
};

/// One call, which all ranks make in a round.
struct Round {
  CallSpec call;
  bool captured = false;
  int launches = 1;
  int busy = 0;  // copies that the stream does before the call
};

/// One rank of a thread: its device, communicators, streams and memory.
struct DeviceSeat {
  DeviceSeat(const softdev::Client& client, int rank_number, size_t bytes)
      : rank(rank_number),
        context(must(driver::PrimaryContext::retain(client.cuda(), rank_number))),
        current(std::make_unique<driver::ContextScope>(client.cuda(), context.get())),
        memory(std::make_unique<Pieces>(client.cuda(), rank_number, bytes)),
        busy(must(driver::DeviceMemory::allocate(client.cuda(), rank_number, 2 * kBusyBytes))),
        own(must(driver::CudaStream::create(client.cuda()))) {
    client.more.cuStreamCreate(&reborn, driver::kStreamNonBlocking);
    current.reset();
  }

  static constexpr size_t kBusyBytes = size_t{8} << 20;

  const int rank;
  const driver::PrimaryContext context;
  std::unique_ptr<driver::ContextScope> current;
  std::unique_ptr<Pieces> memory;
  const driver::DeviceMemory busy;  // for work that takes long
  const driver::CudaStream own;
  driver::CUstream reborn = nullptr;
  std::array<tuttiComm_t, kComms> comms = {};
  std::array<int, kComms> ranks = {}, ranks_there = {};  // this rank's number, and how many
  void* registration = nullptr;
};

/// An output that is to be compared when the streams have been waited for.
struct Output {
  const DeviceSeat* seat;
  CallSpec call;
  uint64_t number;
  const uint64_t* words;
};

/// A thread with all its ranks.
class Habits {
 public:
  Habits(Member& member, const Settings& settings)
      : member_(member),
        settings_(settings),
        client_(must(softdev::Client::open())),
        dice_(settings.seed) {
    for (int i = 0; i < settings.devices; ++i) {
      const int rank = member.rank() * settings.devices + i;
      seats_.push_back(std::make_unique<DeviceSeat>(client_, rank, kBytes));
    }
  }

  void run() {
    if (!make_communicators() || !register_memory()) return;
    for (int batch = 0; batch < settings_.batches; ++batch) {
      member_.at(static_cast<uint64_t>(batch));
      if (!run_batch() || !meet()) return;
    }
    end_communicators();
    if (member_.rank() == 0) {
      std::printf("%d ranks, %d calls, %d in graphs, %d streams made again, %d races\n",
                  settings_.ranks(), calls_, captured_, reborn_, races());
      std::fflush(stdout);
    }
    if (races() > 0) member_.fail("there are races");
  }

 private:
  static constexpr size_t kBytes = size_t{48} << 20;

  DeviceSeat& seat(size_t i) { return *seats_[i]; }
  size_t count() const { return seats_.size(); }

  int races() const {
    if (client_.hooks.races == nullptr) return 0;
    return static_cast<int>(client_.hooks.races() + client_.hooks.checker_overflows());
  }

  /// All ranks, with what they know of each other's streams.
  bool meet() {
    constexpr uint64_t kKey = 4711;
    if (client_.hooks.release != nullptr) client_.hooks.release(kKey);
    const bool met = member_.meet();
    if (client_.hooks.acquire != nullptr) client_.hooks.acquire(kKey);
    return met;
  }

  bool went(tuttiResult_t result, const char* call) {
    return device_programs::went(member_, result, nullptr, call);
  }

  bool make_communicators() {
    tuttiUniqueId id;
    if (!member_.take_id(id)) return false;
    tuttiGroupStart();
    for (auto& one : seats_) {
      const driver::ContextScope scope(client_.cuda(), one->context.get());
      tuttiCommInitRank(&one->comms[0], settings_.ranks(), id, one->rank);
      one->ranks[0] = one->rank;
      one->ranks_there[0] = settings_.ranks();
    }
    if (!went(tuttiGroupEnd(), "tuttiCommInitRank")) return false;
    tuttiGroupStart();
    for (auto& one : seats_) {
      const int color = one->rank % 2;
      tuttiCommSplit(one->comms[0], color, one->rank, &one->comms[1], nullptr);
      one->ranks[1] = one->rank / 2;
      one->ranks_there[1] = (settings_.ranks() + 1 - color) / 2;
    }
    return went(tuttiGroupEnd(), "tuttiCommSplit");
  }

  bool register_memory() {
    if (!dice_.one_in(2)) return true;
    tuttiGroupStart();
    for (auto& one : seats_) {
      void* const begin = reinterpret_cast<void*>(one->memory->on_device(0));
      tuttiCommRegister(one->comms[0], begin, kBytes, &one->registration);
    }
    return went(tuttiGroupEnd(), "tuttiCommRegister");
  }

  void end_communicators() {
    for (int which = kComms - 1; which >= 0; --which) {
      tuttiGroupStart();
      for (auto& one : seats_) tuttiCommDestroy(one->comms[static_cast<size_t>(which)]);
      if (!went(tuttiGroupEnd(), "tuttiCommDestroy")) return;
    }
  }

  Round draw() {
    Round round;
    constexpr int kEqual = CallSpec::kAllGatherV;  // kinds below have equal counts
    round.call.kind = static_cast<int>(dice_.below(kEqual));
    round.call.count = dice_.log_uniform(static_cast<uint64_t>(settings_.most_words));
    round.call.number = ++number_;
    const bool split = dice_.one_in(3);
    round.call.comm = split ? 1 : 0;
    round.call.root = static_cast<int>(
        dice_.below(static_cast<uint64_t>(std::max(settings_.ranks() / (split ? 2 : 1), 1))));
    round.captured = dice_.one_in(4);
    round.launches = round.captured ? 1 + static_cast<int>(dice_.below(2)) : 1;
    if (dice_.one_in(3)) round.busy = settings_.busy * (2 + static_cast<int>(dice_.below(6)));
    return round;
  }

  StreamKind draw_kind(const Round& round) {
    if (round.captured) return kOwn;
    for (size_t kind = 0; kind < kStreamKinds.size(); ++kind) {
      if (settings_.streams == kStreamKinds[kind]) return static_cast<StreamKind>(kind);
    }
    return static_cast<StreamKind>(mix(number_, static_cast<uint64_t>(member_.rank())) %
                                   kStreamKinds.size());
  }

  static driver::CUstream stream_of(const DeviceSeat& one, StreamKind kind) {
    switch (kind) {
      case kOwn:
        return one.own.get();
      case kReborn:
        return one.reborn;
      case kNull:
        return nullptr;
      case kLegacy:
        return reinterpret_cast<driver::CUstream>(driver::kStreamLegacy);
      default:
        return reinterpret_cast<driver::CUstream>(driver::kStreamPerThread);
    }
  }

  void copy(driver::CUdeviceptr target, driver::CUdeviceptr source, size_t words,
            driver::CUstream stream) {
    if (words == 0) return;
    const auto done =
        client_.call().cuMemcpyAsync(target, source, words * sizeof(uint64_t), stream);
    if (done != driver::kSuccess) member_.fail("a copy failed");
  }

  // The same places on all ranks, also of halves that differ in size.
  CallBuffers place(DeviceSeat& one, const Round& round) {
    const int all = settings_.ranks();
    CallBuffers at;
    at.send = one.memory->on_device(round.call.send_words(all));
    at.recv = one.memory->on_device(round.call.recv_words(all));
    return at;
  }

  void fill(DeviceSeat& one, const Round& round, const CallBuffers& at, driver::CUstream stream) {
    const driver::ContextScope scope(client_.cuda(), one.context.get());
    const auto comm = static_cast<size_t>(round.call.comm);
    const size_t words = round.call.send_words(one.ranks_there[comm]);
    uint64_t* const from = one.memory->pinned(words);
    const uint64_t run = color_of(one, round);
    for (size_t i = 0; i < words; ++i) from[i] = sent_word(round.call, run, one.ranks[comm], i);
    copy(at.send, reinterpret_cast<driver::CUdeviceptr>(from), words, stream);
    constexpr size_t kHalf = DeviceSeat::kBusyBytes;
    for (int i = 0; i < round.busy; ++i) {
      copy(one.busy.address(), one.busy.address() + kHalf, kHalf / sizeof(uint64_t), stream);
    }
  }

  void fetch(DeviceSeat& one, const Round& round, const CallBuffers& at, driver::CUstream stream) {
    const driver::ContextScope scope(client_.cuda(), one.context.get());
    const size_t words =
        round.call.recv_words(one.ranks_there[static_cast<size_t>(round.call.comm)]);
    uint64_t* const to = one.memory->pinned(words);
    copy(reinterpret_cast<driver::CUdeviceptr>(to), at.recv, words, stream);
    outputs_.push_back({&one, round.call, color_of(one, round), to});
  }

  /// The halves of a split bring different words.
  static uint64_t color_of(const DeviceSeat& one, const Round& round) {
    return round.call.comm == 0 ? 0 : 1 + static_cast<uint64_t>(one.rank % 2);
  }

  bool call(const Round& round, const std::vector<CallBuffers>& at, StreamKind kind) {
    // Any device of the thread is current, as NCCL's own tests leave it.
    const driver::ContextScope scope(client_.cuda(), seat(number_ % count()).context.get());
    tuttiGroupStart();
    for (size_t i = 0; i < count(); ++i) {
      const tuttiComm_t comm = seat(i).comms[static_cast<size_t>(round.call.comm)];
      put_call(round.call, at[i], comm, tuttiStreamCuda(stream_of(seat(i), kind)));
    }
    ++calls_;
    return went(tuttiGroupEnd(), "a call");
  }

  bool call_in_graphs(const Round& round, const std::vector<CallBuffers>& at) {
    for (auto& one : seats_) {
      const driver::ContextScope scope(client_.cuda(), one->context.get());
      client_.more.cuStreamBeginCapture(one->own.get(), driver::kCaptureThreadLocal);
    }
    const bool called = call(round, at, kOwn);
    for (auto& one : seats_) {
      const driver::ContextScope scope(client_.cuda(), one->context.get());
      driver::CUgraph graph = nullptr;
      if (client_.more.cuStreamEndCapture(one->own.get(), &graph) != driver::kSuccess) {
        member_.fail("a capture failed");
        return false;
      }
      graphs_.emplace_back();
      client_.more.cuGraphInstantiateWithFlags(&graphs_.back(), graph, 0);
      client_.more.cuGraphDestroy(graph);
    }
    for (int launch = 0; called && launch < round.launches; ++launch) {
      for (size_t i = 0; i < count(); ++i) {
        const driver::ContextScope scope(client_.cuda(), seat(i).context.get());
        client_.more.cuGraphLaunch(graphs_[graphs_.size() - count() + i], seat(i).own.get());
      }
    }
    ++captured_;
    return called;
  }

  void make_again(DeviceSeat& one) {
    const driver::ContextScope scope(client_.cuda(), one.context.get());
    client_.call().cuStreamDestroy(one.reborn);
    client_.more.cuStreamCreate(&one.reborn, driver::kStreamNonBlocking);
    ++reborn_;
  }

  bool run_round() {
    const Round round = draw();
    const StreamKind kind = draw_kind(round);
    std::vector<CallBuffers> at;
    for (auto& one : seats_) {
      at.push_back(place(*one, round));
      fill(*one, round, at.back(), stream_of(*one, kind));
    }
    const bool called = round.captured ? call_in_graphs(round, at) : call(round, at, kind);
    if (!called) return false;
    for (size_t i = 0; i < count(); ++i) fetch(seat(i), round, at[i], stream_of(seat(i), kind));
    for (auto& one : seats_) {
      if (kind == kReborn) make_again(*one);
    }
    return true;
  }

  bool run_batch() {
    for (int round = 0; round < settings_.rounds; ++round) {
      if (!run_round()) return false;
    }
    for (auto& one : seats_) {
      const driver::ContextScope scope(client_.cuda(), one->context.get());
      if (client_.more.cuCtxSynchronize() != driver::kSuccess) {
        member_.fail("the device failed");
        return false;
      }
      one->memory->reset();
    }
    for (const driver_graph graph : graphs_) client_.more.cuGraphExecDestroy(graph);
    graphs_.clear();
    return compare();
  }

  bool compare() {
    for (const Output& output : outputs_) {
      const auto comm = static_cast<size_t>(output.call.comm);
      const int rank = output.seat->ranks[comm], ranks = output.seat->ranks_there[comm];
      for (size_t i = 0; i < output.call.recv_words(ranks); ++i) {
        if (output.words[i] == got_word(output.call, output.number, rank, ranks, i)) continue;
        member_.fail("WRONG: call " + std::to_string(output.call.number) + " of kind " +
                     std::to_string(output.call.kind) + ", word " + std::to_string(i) + " of " +
                     std::to_string(output.call.count));
        return false;
      }
    }
    outputs_.clear();
    return true;
  }

  using driver_graph = softdev::CUgraphExec;

  Member& member_;
  const Settings& settings_;
  const softdev::Client client_;
  Dice dice_;  // the same numbers on all ranks
  std::vector<std::unique_ptr<DeviceSeat>> seats_;
  std::vector<driver_graph> graphs_;
  std::vector<Output> outputs_;
  uint64_t number_ = 0;
  int calls_ = 0, captured_ = 0, reborn_ = 0;
};

}  // namespace
}  // namespace tutti::device_programs

int main(int argc, char** argv) {
  using namespace tutti::testing_support;
  using namespace tutti::device_programs;
  Settings settings;
  uint64_t limit_s = 120;
  if (!read_options(argc, argv,
                    {{"--seed", into(settings.seed)},
                     {"--processes", into(settings.processes, 1, kMostRanks)},
                     {"--threads", into(settings.threads, 1, kMostRanks)},
                     {"--devices", into(settings.devices, 1, kMostRanks)},
                     {"--rounds", into(settings.rounds, 1, 100)},
                     {"--batches", into(settings.batches, 1)},
                     {"--words", into(settings.most_words, 1, 20000)},
                     {"--busy", into(settings.busy, 0, 1)},
                     {"--streams", into(settings.streams)},
                     {"--limit", into(limit_s)}}) ||
      settings.ranks() > kMostRanks) {
    return 2;
  }
  TeamShape shape;
  for (int member = 0; member < settings.members(); ++member) {
    shape.process_of.push_back(member / settings.threads);
  }
  const TeamResult result = run_team(
      shape, [&](Member& member) { Habits(member, settings).run(); },
      [](uint64_t batch) { return "batch " + std::to_string(batch); }, limit_s * 1'000'000'000);
  std::printf("%s", result.report.c_str());
  return result.ok ? 0 : 1;
}
