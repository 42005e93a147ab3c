// suspended: communicators that give their device memory back and take it again, each rank a
// process. Calls and runs of graphs that were captured before are compared with what they must be,
// before and behind, and on the software device it is counted what memory there is.
//
//   --ranks N       (default 3)
//   --hosts H       so many hosts, which are processes of one machine (default 1): as many ranks on
//                   each, or one more
//   --rounds N      of suspending and resuming (default 3)
//   --gives 0       there is no device memory to give back: the rings are pinned, or there are none
//   --fault full    another one takes the memory meanwhile: resuming fails on all ranks, and later
//                   succeeds
//   --leaves MB     so much memory stays free then (default 0)
//   --lacks R       this rank takes the library that TUTTI_OLDER_NCCL names
//   --fault broken  suspending or resuming fails on all ranks, and all say that it is rank 1's
//   NCCL,
//                   or what they wait for
//   --fault busy    a graph of rank 0 runs: nobody suspends
//
// Rank 0 prints how much memory the communicator says that it gives back. Exit status: 0 right, 1
// not, 2 the command line.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/device/graphs.h"
#include "tests/device/must.h"
#include "tests/support/options.h"

namespace tutti::device_programs {
namespace {

using testing_support::Member;

struct Options {
  int ranks = 3, hosts = 1, rounds = 3, gives = 1, leaves = 0, lacks = -1;

  int host_of(int rank) const { return rank * hosts / ranks; }
  uint64_t ranks_beside(int rank) const {
    uint64_t beside = 0;
    for (int other = 0; other < ranks; ++other) beside += host_of(other) == host_of(rank) ? 1 : 0;
    return beside;
  }
  std::string fault;
};

constexpr size_t kCounts[] = {100, 40'000};  // words: one kernel, and several slices by streams

class Rank {
 public:
  Rank(Member& member, Seat& seat, const softdev::Client& client, const Options& options)
      : member_(member),
        seat_(seat),
        client_(client),
        options_(options),
        stream_(must(drivers::cuda::CudaStream::create(client.cuda()))) {
    for (int kind = 0; kind < CallSpec::kKinds; ++kind) {
      for (const size_t count : kCounts) calls_.push_back(make(kind, count));
    }
    put(calls_[0]);  // before captures: some engines want that
    if (!stream_.synchronize().ok()) member_.fail("its stream failed");
    for (const PlacedCall& call : calls_) graphs_.push_back(capture(call));
  }

  void run() {
    run_all();
    tell_memory();
    for (int round = 0; round < options_.rounds; ++round) {
      if (!suspend()) return;
      if (!did(tuttiCommResume(seat_.comm()), "tuttiCommResume") || !is_suspended(0)) return;
      if (client_.statistics().live_device_bytes != before_.live_device_bytes) {
        return member_.fail("it has not taken as much memory again as it gave back");
      }
      run_all();
    }
    if (suspend()) went(member_, tuttiCommDestroy(seat_.give_comm()), nullptr, "destroy");
  }

  void find_no_memory() {
    run_all();
    if (!suspend()) return;
    std::vector<drivers::cuda::DeviceMemory> all = take_memory();
    member_.meet();
    const tuttiResult_t resumed = tuttiCommResume(seat_.comm());
    if (resumed != tuttiSystemError || !is_suspended(1)) {
      return member_.fail("it was resumed without memory: " + std::to_string(resumed) + " " +
                          tuttiGetLastError(seat_.comm()));
    }
    const std::string why = tuttiGetLastError(seat_.comm());
    if (why.find("rank 0") == std::string::npos) return member_.fail("whose is it? " + why);
    refused(tuttiCommSuspend(seat_.comm(), TUTTI_SUSPEND_MEMORY), "to suspend again");
    all.clear();
    member_.meet();
    if (did(tuttiCommResume(seat_.comm()), "tuttiCommResume")) run_all();
  }

  void be_broken() {
    run_all();
    tuttiResult_t result = tuttiCommSuspend(seat_.comm(), TUTTI_SUSPEND_MEMORY);
    if (result == tuttiSuccess) result = tuttiCommResume(seat_.comm());
    const std::string why = tuttiGetLastError(seat_.comm());
    tuttiResult_t state = tuttiSuccess;
    (void)tuttiCommGetAsyncError(seat_.comm(), &state);
    if (result == tuttiSuccess || state == tuttiSuccess) member_.fail("it works");
    const bool is_known = why.find("rank 1") != std::string::npos;
    if (!is_known && why.find("waits for the other ranks in NCCL") == std::string::npos) {
      member_.fail("whose is it? " + why);
    }
  }

  void be_busy() {
    tuttiOptions_t limit = TUTTI_OPTIONS_INITIALIZER;
    limit.timeout_ns = 4'000'000'000;
    if (!did(tuttiCommSetOptions(seat_.comm(), &limit), "tuttiCommSetOptions")) return;
    if (member_.rank() == 0) graphs_[0]->launch(stream_.get());
    if (tuttiCommSuspend(seat_.comm(), TUTTI_SUSPEND_MEMORY) != tuttiTimeout || !is_suspended(0)) {
      return member_.fail("it was suspended beside a graph that runs");
    }
    const std::string why = tuttiGetLastError(seat_.comm());
    if (why.find("rank 0") == std::string::npos) return member_.fail("whose is it? " + why);
    if (!did(tuttiCommSetOptions(seat_.comm(), nullptr), "tuttiCommSetOptions")) return;
    if (member_.rank() != 0) graphs_[0]->launch(stream_.get());
    if (!stream_.synchronize().ok()) return member_.fail("its stream failed");
    if (!suspend()) return;
    if (did(tuttiCommResume(seat_.comm()), "tuttiCommResume")) run_all();
  }

 private:
  void tell_memory() {
    size_t bytes = 0;
    if (!did(tuttiCommGetDeviceMemory(seat_.comm(), &bytes, nullptr), "memory")) return;
    if (member_.rank() == 0) std::printf("gives back %zu\n", bytes);
    std::fflush(stdout);
  }

  /// On rank 0, all but what the options leave.
  std::vector<drivers::cuda::DeviceMemory> take_memory() {
    std::vector<drivers::cuda::DeviceMemory> all;
    if (member_.rank() != 0) return all;
    size_t unused = 0, whole = 0;
    (void)client_.cuda().call.cuMemGetInfo(&unused, &whole);
    const size_t left = static_cast<size_t>(options_.leaves) << 20;
    for (size_t bytes = unused > left ? unused - left : 1; bytes >= 1;) {
      auto taken = drivers::cuda::DeviceMemory::allocate(client_.cuda(), seat_.device(), bytes);
      if (taken.ok()) all.push_back(std::move(taken).value());
      if (taken.ok() && left > 0) break;
      if (!taken.ok()) bytes = bytes > 1 ? bytes / 2 : 0;
    }
    return all;
  }

  PlacedCall make(int kind, size_t count) {
    CallSpec spec;
    spec.kind = kind;
    spec.count = count;
    spec.root = static_cast<int>(count) % member_.ranks();
    spec.number = calls_.size();
    return place_call(seat_, spec, member_.ranks());
  }

  bool did(tuttiResult_t result, const char* call) {
    return went(member_, result, seat_.comm(), call);
  }

  void put(const PlacedCall& call) {
    did(put_call(call.spec, call.at(), seat_.comm(), tuttiStreamCuda(stream_.get())), "a call");
  }

  std::unique_ptr<Graph> capture(const PlacedCall& call) {
    return std::make_unique<Graph>(client_, stream_.get(), [&] { put(call); });
  }

  bool is_suspended(int expected) {
    size_t bytes = 0;
    int suspended = -1;
    if (!did(tuttiCommGetDeviceMemory(seat_.comm(), &bytes, &suspended), "memory")) return false;
    if (suspended != expected) member_.fail("it is not what it should be: suspended, or not");
    if ((bytes > 0) != (options_.gives != 0)) member_.fail("it says that its memory is other");
    return suspended == expected;
  }

  void refused(tuttiResult_t result, const std::string& what) {
    if (result == tuttiInvalidUsage) return;
    member_.fail("a suspended communicator let this pass: " + what);
  }

  /// With runs of graphs and a call under way, which it waits for.
  bool suspend() {
    size_t bytes = 0;
    if (!did(tuttiCommGetDeviceMemory(seat_.comm(), &bytes, nullptr), "memory")) return false;
    before_ = client_.statistics();
    graphs_[0]->launch(stream_.get());
    put(calls_[3]);
    graphs_[1]->launch(stream_.get());
    if (!did(tuttiCommSuspend(seat_.comm(), TUTTI_SUSPEND_MEMORY), "tuttiCommSuspend")) {
      return false;
    }
    const SoftdevStatistics during = client_.statistics();
    if (client_.on_software_device()) {
      const uint64_t handles = bytes > 0 ? options_.ranks_beside(member_.rank()) : 0;
      if (before_.live_device_bytes - during.live_device_bytes != bytes ||
          before_.live_mappings - during.live_mappings < handles ||
          before_.live_handles - during.live_handles < handles) {
        member_.fail("it has kept memory of a device");
      }
    }
    refuse_calls();
    return is_suspended(1);
  }

  void refuse_calls() {
    tuttiComm_t const comm = seat_.comm();
    tuttiComm_t other = nullptr;
    void* handle = nullptr;
    int ranks = 0;
    tuttiResult_t state = tuttiSystemError;
    const CallBuffers at{calls_[0].send.address(), calls_[0].recv.address()};
    refused(put_call(calls_[0].spec, at, comm, tuttiStreamCuda(stream_.get())), "a call");
    refused(tuttiBarrier(comm, tuttiBlocking()), "a barrier of the host");
    refused(tuttiCommRegister(comm, pointer(calls_[0].send), 64, &handle), "a registration");
    refused(tuttiCommSplit(comm, 0, 0, &other, nullptr), "a split");
    refused(tuttiCommSuspend(comm, TUTTI_SUSPEND_MEMORY), "to suspend again");
    did(tuttiCommCount(comm, &ranks), "tuttiCommCount");
    did(tuttiCommGetAsyncError(comm, &state), "tuttiCommGetAsyncError");
    if (ranks != member_.ranks() || state != tuttiSuccess) member_.fail("questions are answered");
  }

  void run_all() {
    for (size_t i = 0; i < calls_.size(); ++i) {
      run_once(calls_[i], [&] { put(calls_[i]); });
      run_once(calls_[i], [&] { graphs_[i]->launch(stream_.get()); });
    }
  }

  template <class Work>
  void run_once(const PlacedCall& call, const Work& work) {
    const std::string found =
        check_run(seat_, call, {++runs_, member_.rank(), member_.ranks()}, [&] {
          work();
          return stream_.synchronize().ok();
        });
    if (!found.empty()) member_.fail(found);
  }

  Member& member_;
  Seat& seat_;
  const softdev::Client& client_;
  const Options options_;
  const drivers::cuda::CudaStream stream_;
  std::vector<PlacedCall> calls_;
  std::vector<std::unique_ptr<Graph>> graphs_;
  SoftdevStatistics before_{};
  uint64_t runs_ = 0;
};

void run_rank(Member& member, const Options& options) {
  const std::unique_ptr<Seat> seat = Seat::open(member);
  if (seat == nullptr) return;
  Result<softdev::Client> client = softdev::Client::open();
  if (!client.ok()) return member.fail(std::string(client.status().message()));
  {
    Rank rank(member, *seat, client.value(), options);
    if (options.fault == "full") rank.find_no_memory();
    if (options.fault == "busy") rank.be_busy();
    if (options.fault == "broken") rank.be_broken();
    if (options.fault.empty()) return rank.run();
  }
  if (options.fault == "broken") return;
  went(member, tuttiCommDestroy(seat->give_comm()), nullptr, "tuttiCommDestroy");
}

}  // namespace
}  // namespace tutti::device_programs

int main(int argc, char** argv) {
  using namespace tutti::testing_support;
  tutti::device_programs::Options options;
  if (!read_options(argc, argv,
                    {{"--ranks", into(options.ranks, 2, 16)},
                     {"--hosts", into(options.hosts, 1, 8)},
                     {"--rounds", into(options.rounds, 1)},
                     {"--gives", into(options.gives, 0, 1)},
                     {"--leaves", into(options.leaves, 0, 4096)},
                     {"--lacks", into(options.lacks, -1, 15)},
                     {"--fault", into(options.fault)}})) {
    return 2;
  }
  TeamShape shape = TeamShape::processes(options.ranks);
  for (int rank = 0; rank < options.ranks; ++rank) {
    const std::string host = "host-" + std::to_string(options.host_of(rank));
    shape.environment.push_back({{"TUTTI_HOST_ID", host}});
    const char* const older = std::getenv("TUTTI_OLDER_NCCL");
    if (rank == options.lacks && older != nullptr) {
      shape.environment.back()["TUTTI_NCCL"] = older;
    }
  }
  const TeamResult result = run_team(
      shape, [&](Member& member) { tutti::device_programs::run_rank(member, options); },
      [](uint64_t) { return std::string("its calls"); }, 120'000'000'000);
  std::printf("%s", result.report.c_str());
  return result.ok ? 0 : 1;
}
