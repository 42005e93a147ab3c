// device_parts: windows whose parts lie in device memory. Each rank puts into the next rank's part
// and gets out of the part of the rank before, on CUDA streams; every word is checked.
//
//   --case right    rounds of puts, gets, signals and waits
//   --case refused  what cannot be is refused, with the reason, and the communicator goes on
//   --case held     a rank ends its part while another one's stream holds a put to it
//   --case ended    a graph that holds a put to a part is launched when that part has ended
//   --ranks N (default 4)  --threads T: as threads of one process  --hosts H: that they are on
//   --words W (default 3000)  --rounds R (default 2)
//   --mixed 1     the parts of odd ranks lie in host memory
//   --pinned 1    what is put and got lies in pinned memory
//   --graph 1     each round is captured, and its graph launched three times
//
// Exit status: 0 all was right, 1 it was not, 2 the command line is wrong.
#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/device/graphs.h"
#include "tests/device/must.h"
#include "tests/device/seat.h"
#include "tests/software_device/client.h"
#include "tests/support/options.h"

namespace tutti::device_programs {
namespace {

using testing_support::Member;
using testing_support::sleep_ns;

struct Wish {
  std::string scenario = "right";
  int ranks = 4, threads = 0, hosts = 1;
  size_t words = 3000;
  int rounds = 2, mixed = 0, pinned = 0, graph = 0;
};

/// A buffer of words in device or host memory.
class WordBuffer {
 public:
  enum class Place : uint8_t { kDevice, kPinned, kShared };

  WordBuffer(Seat& seat, size_t words, Place place) : seat_(seat), words_(words) {
    const size_t bytes = words * sizeof(uint64_t);
    if (place == Place::kDevice) {
      device_.emplace(seat.allocate(bytes));
      memory_ = pointer(*device_);
    } else if (place == Place::kPinned) {
      const Result<drivers::cuda::Cuda>& cuda = drivers::cuda::find();
      pinned_.emplace(must(drivers::cuda::PinnedMemory::allocate(cuda.value(), bytes)));
      memory_ = pinned_->data();
    } else if (tuttiMemAlloc(&shared_, bytes) == tuttiSuccess) {
      memory_ = shared_;
    }
  }
  WordBuffer(const WordBuffer&) = delete;
  WordBuffer& operator=(const WordBuffer&) = delete;
  ~WordBuffer() {
    if (shared_ != nullptr) tuttiMemFree(shared_);
  }

  void* memory() const { return memory_; }
  size_t bytes() const { return words_ * sizeof(uint64_t); }
  void fill(const Words& words) {
    if (device_) {
      seat_.fill(*device_, words);
    } else {
      std::memcpy(memory_, words.data(), bytes());
    }
  }
  Words read() {
    if (device_) return seat_.read(*device_, words_);
    Words words(words_);
    std::memcpy(words.data(), memory_, bytes());
    return words;
  }

 private:
  Seat& seat_;
  const size_t words_;
  std::optional<drivers::cuda::DeviceMemory> device_;
  std::optional<drivers::cuda::PinnedMemory> pinned_;
  void* shared_ = nullptr;
  void* memory_ = nullptr;
};

class PartRank {
 public:
  PartRank(Member& member, Seat& seat, const softdev::Client& client, const Wish& wish)
      : member_(member),
        seat_(seat),
        client_(client),
        wish_(wish),
        part_(seat, 2 * wish.words, place_of_part()),
        put_(seat, wish.words, place_of_local()),
        got_(seat, wish.words, place_of_local()) {}

  void run() {
    if (!ok(tuttiCommWindowRegister(seat_.comm(), part_.memory(), part_.bytes(), &window_, 0),
            "register")) {
      return;
    }
    if (wish_.scenario == "refused") return try_refusals();
    if (wish_.scenario == "held") return end_while_held();
    if (wish_.scenario == "ended") return launch_when_ended();
    for (int round = 0; round < wish_.rounds; ++round) {
      if (!(wish_.graph != 0 ? run_graph(round) : run_once(round, [&] { return put_calls(); }))) {
        return;
      }
    }
    if (!member_.meet()) return;
    ok(tuttiCommWindowDeregister(seat_.comm(), window_), "deregister");
  }

 private:
  WordBuffer::Place place_of_part() const {
    const bool in_host = wish_.mixed != 0 && member_.rank() % 2 == 1;
    return in_host ? WordBuffer::Place::kShared : WordBuffer::Place::kDevice;
  }
  WordBuffer::Place place_of_local() const {
    return wish_.pinned != 0 ? WordBuffer::Place::kPinned : WordBuffer::Place::kDevice;
  }
  int next() const { return (member_.rank() + 1) % member_.ranks(); }
  int before() const { return (member_.rank() + member_.ranks() - 1) % member_.ranks(); }
  bool ok(tuttiResult_t result, const char* call) {
    return went(member_, result, seat_.comm(), call);
  }
  static uint64_t word(int run, int rank, size_t place, bool offered) {
    const auto number = static_cast<uint64_t>(run) * 64 + static_cast<uint64_t>(rank);
    return number * 0x9e3779b97f4a7c15u + place + (offered ? 7 : 0);
  }

  /// The second half of the put has no signal of its own, and comes behind the first.
  bool put_calls() {
    const tuttiStream_t stream = seat_.stream();
    const size_t half = put_.bytes() / 2 / 8 * 8;
    auto* const local = static_cast<std::byte*>(put_.memory());
    return ok(tuttiPut(local, half, next(), window_, 0, stream), "put") &&
           ok(tuttiPutSignal(local + half, put_.bytes() - half, next(), window_, half, 3, stream),
              "put with a signal") &&
           ok(tuttiGet(got_.memory(), got_.bytes(), before(), window_, got_.bytes(), stream),
              "get") &&
           ok(tuttiWaitSignal(before(), window_, 3, 1, stream), "wait");
  }

  template <class Put>
  bool run_once(int run, Put put) {
    Words own(2 * wish_.words, 0), sent(wish_.words);
    for (size_t i = 0; i < sent.size(); ++i) {
      sent[i] = word(run, member_.rank(), i, false);
      own[wish_.words + i] = word(run, member_.rank(), i, true);
    }
    put_.fill(sent);
    got_.fill(Words(wish_.words, 0));
    part_.fill(own);
    if (!member_.meet() || !put()) return false;
    if (!seat_.synchronize()) {
      member_.fail("its stream failed");
      return false;
    }
    const Words part = part_.read(), got = got_.read();
    for (size_t i = 0; i < wish_.words; ++i) {
      if (part[i] != word(run, before(), i, false)) return wrong("was put", i);
      if (got[i] != word(run, before(), i, true)) return wrong("was got", i);
    }
    return member_.meet();
  }

  bool run_graph(int round) {
    auto* const stream = static_cast<drivers::cuda::CUstream>(seat_.stream().handle);
    bool is_put = false;
    const Graph graph(client_, stream, [&] { is_put = put_calls(); });
    for (int run = 0; is_put && run < 3; ++run) {
      is_put = run_once(3 * round + run, [&] { return graph.launch(stream), true; });
    }
    return is_put;
  }

  bool expect(tuttiResult_t result, tuttiResult_t expected, const std::string& reason) {
    const std::string said = tuttiGetLastError(seat_.comm());
    if (result == expected && said.find(reason) != std::string::npos) return true;
    member_.fail("not refused with '" + reason + "', but " + std::to_string(result) + ": " + said);
    return false;
  }

  void try_refusals() {
    const tuttiStream_t stream = seat_.stream();
    std::vector<std::byte> pageable(64);
    if (!expect(tuttiPut(put_.memory(), 8, next(), window_, part_.bytes() - 4, stream),
                tuttiInvalidArgument, "of the")) {
      return;
    }
    const bool is_far = wish_.hosts > 1 && (member_.rank() + 1) % (wish_.ranks / wish_.hosts) == 0;
    if (is_far) {
      if (!expect(tuttiPut(put_.memory(), 8, next(), window_, 0, stream), tuttiUnsupported,
                  "which is on another host")) {
        return;
      }
    } else {
      if (!expect(tuttiPut(pageable.data(), 64, next(), window_, 0, stream), tuttiUnsupported,
                  "pageable host memory") ||
          !expect(tuttiGet(pageable.data(), 64, next(), window_, 0, tuttiBlocking()),
                  tuttiUnsupported, "pass one (tuttiStreamCuda)")) {
        return;
      }
    }
    // Signals go everywhere.
    if (!ok(tuttiSignal(next(), window_, 1, stream), "signal") ||
        !ok(tuttiWaitSignal(before(), window_, 1, 1, stream), "wait") || !seat_.synchronize()) {
      return member_.fail("signals do not go");
    }
    if (!member_.meet()) return;
    if (!ok(tuttiCommWindowDeregister(seat_.comm(), window_), "deregister")) return;
    try_other_memory();
  }

  /// Memory that other processes cannot be given.
  void try_other_memory() {
    drivers::cuda::CUdeviceptr memory = 0;
    if (client_.more.cuMemAlloc(&memory, 4096) != drivers::cuda::kSuccess) {
      return member_.fail("cuMemAlloc failed");
    }
    tuttiWindow_t window = nullptr;
    void* const base = member_.rank() == 1 ? reinterpret_cast<void*>(memory) : put_.memory();
    expect(tuttiCommWindowRegister(seat_.comm(), base, 4096, &window, 0), tuttiUnsupported,
           "rank 1 (process");
    if (member_.rank() == 1) std::printf("%s\n", tuttiGetLastError(seat_.comm()));
    std::fflush(stdout);
    // It is as usable as before.
    if (!ok(tuttiBarrier(seat_.comm(), tuttiBlocking()), "barrier")) return;
    client_.more.cuMemFree(memory);
  }

  /// Rank 0 ends its part while the stream of rank 1, which is held up, has a put to it.
  void end_while_held() {
    const int run = 5;
    drivers::cuda::PinnedMemory gate =
        must(drivers::cuda::PinnedMemory::allocate(client_.cuda(), 4096));
    auto& word_of_gate = *new (gate.data()) std::atomic<uint64_t>(0);
    part_.fill(Words(2 * wish_.words, 0));
    if (member_.rank() == 1) {
      Words sent(wish_.words);
      for (size_t i = 0; i < sent.size(); ++i) sent[i] = word(run, 1, i, false);
      put_.fill(sent);
      drivers::cuda::MemoryOps words;
      words.wait_at_least_64(gate.address(), 1);
      auto* const stream = static_cast<drivers::cuda::CUstream>(seat_.stream().handle);
      if (!words.submit(client_.cuda(), stream).ok()) return member_.fail("no wait in its stream");
      if (!ok(tuttiPut(put_.memory(), put_.bytes(), 0, window_, 0, seat_.stream()), "put")) return;
    }
    if (!member_.meet()) return;
    if (member_.rank() == 1) {
      sleep_ns(300'000'000);
      word_of_gate.store(1, std::memory_order_release);
    }
    if (member_.rank() == 0) {
      if (!ok(tuttiCommWindowDeregister(seat_.comm(), window_), "deregister")) return;
      const Words part = part_.read();
      for (size_t i = 0; i < wish_.words; ++i) {
        if (part[i] != word(run, 1, i, false)) return (void)wrong("was held", i);
      }
    }
    if (!member_.meet()) return;
    if (member_.rank() == 1) {
      if (!seat_.synchronize()) return member_.fail("its stream failed");
      if (!expect(tuttiPut(put_.memory(), 8, 0, window_, 0, seat_.stream()), tuttiInvalidUsage,
                  "deregistered")) {
        return;
      }
    }
    member_.meet();
  }

  /// The run fails rank 1's communicator, and so everybody's, with the rank's name.
  void launch_when_ended() {
    auto* const stream = static_cast<drivers::cuda::CUstream>(seat_.stream().handle);
    bool is_put = true;
    std::optional<Graph> graph;
    if (member_.rank() == 1) {
      graph.emplace(client_, stream, [&] {
        is_put = ok(tuttiPutSignal(put_.memory(), put_.bytes(), 0, window_, 0, 3, seat_.stream()),
                    "put");
      });
    }
    if (!is_put || !member_.meet()) return;
    if (member_.rank() == 0 &&
        !ok(tuttiCommWindowDeregister(seat_.comm(), window_), "deregister")) {
      return;
    }
    if (!member_.meet()) return;
    if (member_.rank() != 1) return (void)member_.meet();
    graph->launch(stream);
    if (!seat_.synchronize()) return member_.fail("its stream failed");
    tuttiResult_t error = tuttiSuccess;
    while (error == tuttiSuccess) {
      tuttiCommGetAsyncError(seat_.comm(), &error);
      sleep_ns(1'000'000);
    }
    std::printf("%s\n", tuttiGetLastError(seat_.comm()));
    std::fflush(stdout);
    member_.meet();
  }

  bool wrong(const char* what, size_t word) {
    member_.fail("word " + std::to_string(word) + " of what " + what + " is wrong");
    return false;
  }

  Member& member_;
  Seat& seat_;
  const softdev::Client& client_;
  const Wish wish_;
  WordBuffer part_, put_, got_;
  tuttiWindow_t window_ = nullptr;
};

void run_rank(Member& member, const Wish& wish) {
  const std::unique_ptr<Seat> seat = Seat::open(member);
  if (seat == nullptr) return;
  const Result<softdev::Client> client = softdev::Client::open();
  if (!client.ok()) return member.fail(std::string(client.status().message()));
  PartRank(member, *seat, client.value(), wish).run();
}

}  // namespace
}  // namespace tutti::device_programs

int main(int argc, char** argv) {
  using namespace tutti::testing_support;
  using tutti::device_programs::Wish;
  Wish wish;
  if (!read_options(argc, argv,
                    {{"--case", into(wish.scenario)},
                     {"--ranks", into(wish.ranks, 2, 8)},
                     {"--threads", into(wish.threads, 0, 1)},
                     {"--hosts", into(wish.hosts, 1, 8)},
                     {"--words", into(wish.words)},
                     {"--rounds", into(wish.rounds, 1)},
                     {"--mixed", into(wish.mixed, 0, 1)},
                     {"--pinned", into(wish.pinned, 0, 1)},
                     {"--graph", into(wish.graph, 0, 1)}})) {
    return 2;
  }
  TeamShape shape =
      wish.threads != 0 ? TeamShape::threads(wish.ranks) : TeamShape::processes(wish.ranks);
  for (int rank = 0; wish.hosts > 1 && rank < wish.ranks; ++rank) {
    const std::string host = "host-" + std::to_string(rank * wish.hosts / wish.ranks);
    shape.environment.push_back({{"TUTTI_HOST_ID", host}});
  }
  const TeamResult result = run_team(
      shape, [&](Member& member) { tutti::device_programs::run_rank(member, wish); },
      [](uint64_t) { return std::string("its calls"); }, 100'000'000'000);
  std::printf("%s", result.report.c_str());
  return result.ok ? 0 : 1;
}
