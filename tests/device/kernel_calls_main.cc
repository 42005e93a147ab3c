// kernel_calls: short calls on device memory that one kernel runs by itself, each rank a process
// with a device of its own, or on a device that MPS shares. Eager calls and runs of graphs follow
// each other; every result is checked, and on the software device it is counted that a call is one
// kernel and nothing else: no wait or write of the stream, no copy, no function of the host.
//
//   --ranks N      (default 3)
//   --rounds N     each of all calls and of two graphs in turns (default 3)
//   --late WAY     the last rank does not come to a call: "eager", or "captured" to a run of a
//                  graph. The others print what they hear at the deadline
//   --differs WAY  the last rank runs another call than the others, whose graph is an all_reduce:
//                  "captured" as a graph with a word more, "replayed" as the second of two graphs
//                  that all ranks have, "eager" outside of a graph; or "silent": an all_to_all in
//                  a graph where the others' is an all_gather, for which nobody waits. Each prints
//                  what it hears
//   --first 1      the last rank comes to a first call only when the others have made another one,
//                  of another type
//   --swapped 1    rank 0 makes an all_reduce and then an all_gather of another communicator, the
//                  others the other way round. Each prints what it hears at the deadline. 2: by
//                  graphs
//
// Exit status: 0 right, 1 not, 2 the command line.
#include <dlfcn.h>

#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "tests/device/graphs.h"
#include "tests/device/must.h"
#include "tests/software_device/hooks.h"
#include "tests/support/options.h"

namespace tutti::device_programs {
namespace {

using testing_support::Member;

struct Options {
  int ranks = 3, rounds = 3;
  std::string late, differs;
  int swapped = 0, first = 0;
};

using Statistics = decltype(&softdev_statistics);

constexpr CallSpec::Kind kKernelKinds[] = {CallSpec::kAllReduce, CallSpec::kAllGather,
                                           CallSpec::kBroadcast, CallSpec::kReduceScatter,
                                           CallSpec::kAllToAll};
constexpr size_t kCounts[] = {1, 100, 3000};  // words

class Rank {
 public:
  Rank(Member& member, Seat& seat, const softdev::Client& client)
      : member_(member),
        seat_(seat),
        client_(client),
        stream_(must(drivers::cuda::CudaStream::create(client.cuda()))),
        statistics_(reinterpret_cast<Statistics>(dlsym(RTLD_DEFAULT, "softdev_statistics"))) {
    void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (statistics_ == nullptr && driver != nullptr) {
      statistics_ = reinterpret_cast<Statistics>(dlsym(driver, "softdev_statistics"));
    }
  }

  void run(int rounds) {
    for (const CallSpec::Kind kind : kKernelKinds) {
      for (const size_t count : kCounts) calls_.push_back(make(kind, count));
    }
    const std::unique_ptr<Graph> first = capture(calls_[1]), second = capture(calls_[9]);
    for (int round = 0; round < rounds; ++round) {
      for (const PlacedCall& call : calls_) {
        run_once(call, [&] { put(call); });
        run_once(calls_[1], [&] { first->launch(stream_.get()); });
        run_once(calls_[9], [&] { second->launch(stream_.get()); });
      }
      const auto meet = [&] { tuttiBarrier(seat_.comm(), tuttiStreamCuda(stream_.get())); };
      if (!count("barrier", meet)) member_.fail("its stream failed at a barrier");
    }
  }

  /// No rank's host waits for a kernel when it launches one of a kind that it never has before.
  void call_first() {
    constexpr uint64_t kMomentNs = 300'000'000;
    if (!set_deadline(seat_.comm())) return;
    const drivers::cuda::DeviceMemory memory = seat_.allocate(4096);
    const auto reduce = [&](tuttiDataType_t type) {
      went(member_,
           tuttiAllReduce(pointer(memory), pointer(memory), 100, type, tuttiMax, seat_.comm(),
                          tuttiStreamCuda(stream_.get())),
           seat_.comm(), "an all_reduce");
    };
    const bool is_last = member_.rank() + 1 == member_.ranks();
    if (!is_last) reduce(tuttiFloat32);
    // By then that kernel waits for the last rank, on a busy machine as well.
    testing_support::sleep_ns(kMomentNs);
    if (!is_last) reduce(tuttiInt64);
    member_.meet();
    if (is_last) reduce(tuttiFloat32);
    if (is_last) reduce(tuttiInt64);
    tuttiResult_t state = tuttiSuccess;
    if (!stream_.synchronize().ok()) return member_.fail("its stream failed");
    went(member_, tuttiCommGetAsyncError(seat_.comm(), &state), seat_.comm(), "asking");
    if (state != tuttiSuccess) member_.fail(tuttiGetLastError(seat_.comm()));
  }

  void swap(bool in_graphs) {
    tuttiComm_t other = nullptr;
    if (!went(member_, tuttiCommSplit(seat_.comm(), 0, member_.rank(), &other, nullptr),
              seat_.comm(), "tuttiCommSplit") ||
        !set_deadline(seat_.comm()) || !set_deadline(other)) {
      return;
    }
    calls_.push_back(make(CallSpec::kAllReduce, kCounts[1]));
    calls_.push_back(make(CallSpec::kAllGather, kCounts[1]));
    tuttiComm_t const comms[] = {seat_.comm(), other};
    std::vector<std::unique_ptr<Graph>> graphs;
    for (size_t i = 0; in_graphs && i < calls_.size(); ++i) {
      graphs.push_back(
          std::make_unique<Graph>(client_, stream_.get(), [&, i] { put(calls_[i], comms[i]); }));
    }
    if (!member_.meet()) return;
    for (const size_t first : {size_t{0}, size_t{1}}) {
      const size_t one = member_.rank() == 0 ? first : 1 - first;
      if (in_graphs) graphs[one]->launch(stream_.get());
      if (!in_graphs) put(calls_[one], comms[one]);
    }
    // The other one may be over as it should, once the first has let its streams go on.
    if (!await_failure(comms)) return;
    if (!stream_.synchronize().ok()) return member_.fail("its stream failed");
    for (tuttiComm_t const comm : comms) {
      std::printf("rank %d: %s\n", member_.rank(), tuttiGetLastError(comm));
    }
    std::fflush(stdout);
    member_.meet();
    (void)tuttiCommAbort(other);
  }

  void be_late(const std::string& way) {
    if (!set_deadline(seat_.comm())) return;
    calls_.push_back(make(CallSpec::kAllReduce, kCounts[1]));
    const std::unique_ptr<Graph> graph = way == "captured" ? capture(calls_[0]) : nullptr;
    if (!is_last() && graph != nullptr) graph->launch(stream_.get());
    if (!is_last() && graph == nullptr) put(calls_[0]);
    tell_failure(!is_last());
  }

  void differ(const std::string& way) {
    const bool is_silent = way == "silent";
    calls_.push_back(make(is_silent ? CallSpec::kAllGather : CallSpec::kAllReduce, kCounts[1]));
    calls_.push_back(is_silent ? make(CallSpec::kAllToAll, kCounts[1])
                               : make(CallSpec::kAllReduce, kCounts[1] + 1));
    const PlacedCall& mine = calls_[is_last() ? 1 : 0];
    std::vector<std::unique_ptr<Graph>> graphs;
    if (way == "replayed") {
      for (const PlacedCall& call : calls_) graphs.push_back(capture(call));
      if (!is_last()) graphs.pop_back();
    } else if (way != "eager" || !is_last()) {
      graphs.push_back(capture(mine));
    }
    if (!member_.meet()) return;
    if (graphs.empty()) {
      put(mine);
    } else {
      graphs.back()->launch(stream_.get());
    }
    tell_failure(true);
  }

 private:
  bool is_last() const { return member_.rank() + 1 == member_.ranks(); }

  void tell_failure(bool awaits) {
    tuttiComm_t const comm = seat_.comm();
    if (awaits && !await_failure({&comm, 1})) return;
    if (!stream_.synchronize().ok()) return member_.fail("its stream failed");
    if (awaits) std::printf("rank %d: %s\n", member_.rank(), tuttiGetLastError(seat_.comm()));
    std::fflush(stdout);
    member_.meet();
  }

  /// Until one of them has failed.
  bool await_failure(std::span<const tuttiComm_t> comms) {
    tuttiResult_t state = tuttiSuccess;
    for (size_t i = 0; state == tuttiSuccess; i = (i + 1) % comms.size()) {
      if (!went(member_, tuttiCommGetAsyncError(comms[i], &state), comms[i], "asking")) {
        return false;
      }
    }
    return true;
  }

  bool set_deadline(tuttiComm_t comm) {
    tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
    constexpr uint64_t kTimeoutNs = 500'000'000;
    options.timeout_ns = kTimeoutNs;
    return went(member_, tuttiCommSetOptions(comm, &options), comm, "its options");
  }

  PlacedCall make(CallSpec::Kind kind, size_t count) {
    CallSpec spec;
    spec.kind = kind;
    spec.count = count;
    spec.root = static_cast<int>(count) % member_.ranks();
    spec.number = calls_.size();
    return place_call(seat_, spec, member_.ranks());
  }

  void put(const PlacedCall& call) { put(call, seat_.comm()); }
  void put(const PlacedCall& call, tuttiComm_t comm) {
    went(member_, put_call(call.spec, call.at(), comm, tuttiStreamCuda(stream_.get())), comm,
         "a call");
  }

  std::unique_ptr<Graph> capture(const PlacedCall& call) {
    return std::make_unique<Graph>(client_, stream_.get(), [&] { put(call); });
  }

  template <class Work>
  void run_once(const PlacedCall& call, const Work& work) {
    const RunOfCall which{++runs_, member_.rank(), member_.ranks()};
    const auto counted = [&] { return count("call " + std::to_string(call.spec.kind), work); };
    const std::string wrong = check_run(seat_, call, which, counted);
    if (!wrong.empty()) member_.fail(wrong);
  }

  template <class Work>
  bool count(const std::string& name, const Work& work) {
    const SoftdevStatistics before = now();
    work();
    if (!stream_.synchronize().ok()) return false;
    const SoftdevStatistics after = now();
    const uint64_t others = after.memory_operations - before.memory_operations + after.copies -
                            before.copies + after.host_functions - before.host_functions +
                            after.memsets - before.memsets;
    const uint64_t kernels = after.kernels - before.kernels;
    if (statistics_ == nullptr ||
        (kernels <= 1 && others == 0 && kernels + in_graphs(after, before) == 1)) {
      return true;
    }
    member_.fail(name + " is " + std::to_string(kernels) + " kernels and " +
                 std::to_string(others) + " other operations");
    return true;
  }

  /// A run's kernel was counted when it was captured.
  static uint64_t in_graphs(const SoftdevStatistics& after, const SoftdevStatistics& before) {
    return after.graph_launches - before.graph_launches;
  }

  SoftdevStatistics now() const {
    SoftdevStatistics all{};
    if (statistics_ != nullptr) statistics_(&all);
    return all;
  }

  Member& member_;
  Seat& seat_;
  const softdev::Client& client_;
  const drivers::cuda::CudaStream stream_;
  Statistics statistics_ = nullptr;
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
    if (!options.late.empty()) return rank.be_late(options.late);
    if (options.swapped != 0) return rank.swap(options.swapped == 2);
    if (!options.differs.empty()) return rank.differ(options.differs);
    if (options.first != 0) return rank.call_first();
    rank.run(options.rounds);
  }
  went(member, tuttiCommDestroy(seat->give_comm()), nullptr, "tuttiCommDestroy");
}

}  // namespace
}  // namespace tutti::device_programs

int main(int argc, char** argv) {
  using namespace tutti::testing_support;
  tutti::device_programs::Options options;
  if (!read_options(argc, argv,
                    {{"--ranks", into(options.ranks, 2, 16)},
                     {"--rounds", into(options.rounds, 1)},
                     {"--late", into(options.late)},
                     {"--differs", into(options.differs)},
                     {"--first", into(options.first, 0, 1)},
                     {"--swapped", into(options.swapped, 0, 2)}})) {
    return 2;
  }
  const TeamResult result = run_team(
      TeamShape::processes(options.ranks),
      [&](Member& member) { tutti::device_programs::run_rank(member, options); },
      [](uint64_t) { return std::string("its calls"); }, 120'000'000'000);
  std::printf("%s", result.report.c_str());
  return result.ok ? 0 : 1;
}
