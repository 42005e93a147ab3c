// nccl_calls: calls on device memory by the engine nccl, each rank a process with a device of its
// own, over whichever NCCL the process finds. Eager calls and runs of graphs follow each other, and
// every result is checked.
//
//   --ranks N    (default 3)
//   --comms N    so many communicators, whose calls take turns (default 1)
//   --rounds N   of all calls (default 2)
//   --first WAY  the first call of all is "eager" (default) or "captured"
//   --ask E      the engine that the options of every call name, a number of tuttiEngine_t
//   --leave 1    afterwards the last rank leaves the others, who call on without it
//
// Rank 0 prints what tuttiExplain says of three calls. Exit status: 0 right, 1 not, 2 the command
// line.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "tests/device/graphs.h"
#include "tests/device/must.h"
#include "tests/support/options.h"

namespace tutti::device_programs {
namespace {

using testing_support::Member;

struct Options {
  int ranks = 3, comms = 1, rounds = 2, ask = tuttiEngineAuto, leave = 0;
  std::string first = "eager";
};

constexpr CallSpec::Kind kKinds[] = {CallSpec::kAllReduce, CallSpec::kAllGather,
                                     CallSpec::kBroadcast, CallSpec::kReduceScatter,
                                     CallSpec::kAllToAll,  CallSpec::kAllGatherV};
constexpr size_t kCounts[] = {1, 3000, 40'000};  // words

class Rank {
 public:
  Rank(Member& member, Seat& seat, const softdev::Client& client)
      : member_(member),
        seat_(seat),
        client_(client),
        stream_(must(drivers::cuda::CudaStream::create(client.cuda()))),
        comms_{seat.comm()} {}
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;
  ~Rank() {
    for (size_t i = 1; i < comms_.size(); ++i) tuttiCommAbort(comms_[i]);
  }

  bool open(const Options& options) {
    tuttiOptions_t wanted = TUTTI_OPTIONS_INITIALIZER;
    wanted.engine = options.ask;
    for (int i = 1; i < options.comms; ++i) {
      tuttiComm_t made = nullptr;
      if (!went(member_, tuttiCommSplit(seat_.comm(), 0, member_.rank(), &made, nullptr),
                seat_.comm(), "tuttiCommSplit")) {
        return false;
      }
      comms_.push_back(made);
    }
    for (tuttiComm_t comm : comms_) {
      if (!went(member_, tuttiCommSetOptions(comm, &wanted), comm, "its options")) return false;
    }
    for (const CallSpec::Kind kind : kKinds) {
      for (const size_t count : kCounts) calls_.push_back(make(kind, count));
    }
    return true;
  }

  void run(const Options& options) {
    std::unique_ptr<Graph> early = options.first == "captured" ? capture(calls_[1]) : nullptr;
    if (early != nullptr) run_once(calls_[1], [&] { early->launch(stream_.get()); });
    for (const PlacedCall& call : calls_) {
      if (call.spec.comm == 0) run_once(call, [&] { put(call); });
    }
    const std::unique_ptr<Graph> first = capture(calls_[1]), second = capture(calls_[10]),
                                 third = capture(calls_.back());
    for (int round = 0; round < options.rounds; ++round) {
      for (const PlacedCall& call : calls_) {
        run_once(call, [&] { put(call); });
        run_once(calls_[1], [&] { first->launch(stream_.get()); });
        run_once(calls_[10], [&] { second->launch(stream_.get()); });
        run_once(calls_.back(), [&] { third->launch(stream_.get()); });
        if (early != nullptr) run_once(calls_[1], [&] { early->launch(stream_.get()); });
      }
    }
    for (const char* const name : {"all_reduce", "all_gather_v", "all_to_all_v"}) explain(name);
  }

  /// The communicator without its last rank.
  void leave() {
    const int last = member_.ranks() - 1;
    tuttiComm_t made = nullptr;
    if (member_.rank() != last &&
        !went(member_, tuttiCommShrink(seat_.comm(), &last, 1, &made, nullptr, 0), seat_.comm(),
              "tuttiCommShrink")) {
      return;
    }
    if (made == nullptr) return;
    ranks_ = last;
    comms_.push_back(made);
    PlacedCall call = make(CallSpec::kAllReduce, kCounts[1]);
    call.spec.comm = static_cast<int>(comms_.size()) - 1;
    run_once(call, [&] { put(call); });
  }

 private:
  PlacedCall make(CallSpec::Kind kind, size_t count) {
    CallSpec spec;
    spec.kind = kind;
    spec.count = count;
    spec.root = static_cast<int>(count) % ranks_;
    spec.number = calls_.size();
    spec.comm = static_cast<int>(calls_.size() % comms_.size());
    return place_call(seat_, spec, ranks_);
  }

  void put(const PlacedCall& call) {
    tuttiComm_t comm = comms_[static_cast<size_t>(call.spec.comm)];
    went(member_, put_call(call.spec, call.at(), comm, tuttiStreamCuda(stream_.get())), comm,
         "a call");
  }

  std::unique_ptr<Graph> capture(const PlacedCall& call) {
    return std::make_unique<Graph>(client_, stream_.get(), [&] { put(call); });
  }

  template <class Work>
  void run_once(const PlacedCall& call, const Work& work) {
    const std::string found = check_run(seat_, call, {++runs_, member_.rank(), ranks_}, [&] {
      work();
      return stream_.synchronize().ok();
    });
    if (!found.empty()) member_.fail(found);
  }

  void explain(const char* name) {
    std::vector<char> text(1 << 16);
    size_t needed = 0;
    const tuttiResult_t told =
        tuttiExplain(seat_.comm(), name, 100, tuttiUint64, text.data(), text.size(), &needed);
    if (!went(member_, told, seat_.comm(), "tuttiExplain") || member_.rank() != 0) return;
    const std::string all = text.data();
    const size_t at = all.find("on device memory");
    std::printf("%s %s\n", name, at == std::string::npos ? "-" : all.substr(at).c_str());
    std::fflush(stdout);
  }

  Member& member_;
  Seat& seat_;
  const softdev::Client& client_;
  const drivers::cuda::CudaStream stream_;
  int ranks_ = member_.ranks();
  std::vector<tuttiComm_t> comms_;
  std::vector<PlacedCall> calls_;
  uint64_t runs_ = 0;
};

void run_rank(Member& member, const Options& options) {
  const std::unique_ptr<Seat> seat = Seat::open(member);
  if (seat == nullptr) return;
  Result<softdev::Client> client = softdev::Client::open();
  if (!client.ok()) return member.fail(std::string(client.status().message()));
  {
    Rank rank(member, *seat, client.value());
    if (!rank.open(options)) return;
    rank.run(options);
    if (options.leave != 0 && member.meet()) rank.leave();
    member.meet();
  }
  if (options.leave != 0) return;  // some ranks of it have gone on without the last one
  went(member, tuttiCommDestroy(seat->give_comm()), nullptr, "tuttiCommDestroy");
}

}  // namespace
}  // namespace tutti::device_programs

int main(int argc, char** argv) {
  using namespace tutti::testing_support;
  tutti::device_programs::Options options;
  if (!read_options(argc, argv,
                    {{"--ranks", into(options.ranks, 2, 8)},
                     {"--comms", into(options.comms, 1, 4)},
                     {"--rounds", into(options.rounds, 1)},
                     {"--first", into(options.first)},
                     {"--ask", into(options.ask)},
                     {"--leave", into(options.leave, 0, 1)}})) {
    return 2;
  }
  const TeamResult result = run_team(
      TeamShape::processes(options.ranks),
      [&](Member& member) { tutti::device_programs::run_rank(member, options); },
      [](uint64_t) { return std::string("its calls"); }, 120'000'000'000);
  std::printf("%s", result.report.c_str());
  return result.ok ? 0 : 1;
}
