// device_windows: puts from device memory into the next rank's part of a window, and gets into
// device memory out of the part of the rank before, on CUDA streams, eager and in graphs. Parts lie
// in host memory; signals are sent and waited for on the same streams. Every word is checked.
//
//   --ranks N (default 4)  --hosts H (default 1): that the ranks are told to be on
//   --words W     that a rank puts and gets (default 3000)
//   --rounds R    (default 2)
//   --graph 1     each round is captured, and its graph launched three times
//
// Exit status: 0 all was right, 1 it was not, 2 the command line is wrong.
#include <cstdio>
#include <cstring>
#include <string>

#include "tests/device/graphs.h"
#include "tests/device/seat.h"
#include "tests/software_device/client.h"
#include "tests/support/options.h"

namespace tutti::device_programs {
namespace {

using testing_support::Member;

struct Wish {
  int ranks = 4, hosts = 1;
  size_t words = 3000;
  int rounds = 2, graph = 0;
};

class Rank {
 public:
  Rank(Member& member, Seat& seat, const softdev::Client& client, const Wish& wish)
      : member_(member),
        seat_(seat),
        client_(client),
        wish_(wish),
        bytes_(wish.words * 8),
        put_(seat.allocate(bytes_)),
        got_(seat.allocate(bytes_)) {}

  /// A part has room for what is put there, and behind it what the owner offers to be got.
  void run() {
    void* memory = nullptr;
    if (!ok(tuttiMemAlloc(&memory, 2 * bytes_), "tuttiMemAlloc")) return;
    part_ = static_cast<uint64_t*>(memory);
    if (!ok(tuttiCommWindowRegister(seat_.comm(), memory, 2 * bytes_, &window_, 0), "register")) {
      return;
    }
    for (int round = 0; round < wish_.rounds; ++round) {
      if (!(wish_.graph != 0 ? run_graph(round) : run_once(round, [&] { return put_calls(); }))) {
        return;
      }
    }
    if (!member_.meet()) return;
    ok(tuttiCommWindowDeregister(seat_.comm(), window_), "deregister");
    ok(tuttiMemFree(memory), "tuttiMemFree");
  }

 private:
  int next() const { return (member_.rank() + 1) % member_.ranks(); }
  int before() const { return (member_.rank() + member_.ranks() - 1) % member_.ranks(); }
  bool ok(tuttiResult_t result, const char* call) {
    return went(member_, result, seat_.comm(), call);
  }
  static uint64_t word(uint64_t run, int rank, size_t place, bool offered) {
    return (run * 64 + static_cast<uint64_t>(rank)) * 0x9e3779b97f4a7c15u + place +
           (offered ? 7 : 0);
  }

  bool put_calls() {
    const tuttiStream_t stream = seat_.stream();
    return ok(tuttiPutSignal(pointer(put_), bytes_, next(), window_, 0, 3, stream), "put") &&
           ok(tuttiGet(pointer(got_), bytes_, before(), window_, bytes_, stream), "get") &&
           ok(tuttiWaitSignal(before(), window_, 3, 1, stream), "wait");
  }

  template <class Put>
  bool run_once(int run, Put put) {
    const auto number = static_cast<uint64_t>(run);
    Words words(wish_.words);
    for (size_t i = 0; i < words.size(); ++i) {
      words[i] = word(number, member_.rank(), i, false);
      part_[wish_.words + i] = word(number, member_.rank(), i, true);
    }
    seat_.fill(put_, words);
    seat_.fill(got_, Words(wish_.words, 0));
    std::memset(part_, 0, bytes_);
    if (!member_.meet() || !put()) return false;
    if (!seat_.synchronize()) {
      member_.fail("its stream failed");
      return false;
    }
    const Words got = seat_.read(got_, wish_.words);
    for (size_t i = 0; i < wish_.words; ++i) {
      if (part_[i] != word(number, before(), i, false)) return wrong("was put", i);
      if (got[i] != word(number, before(), i, true)) return wrong("was got", i);
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

  bool wrong(const char* what, size_t word) {
    member_.fail("word " + std::to_string(word) + " of what " + what + " is wrong");
    return false;
  }

  Member& member_;
  Seat& seat_;
  const softdev::Client& client_;
  const Wish wish_;
  const size_t bytes_;
  const drivers::cuda::DeviceMemory put_, got_;
  uint64_t* part_ = nullptr;
  tuttiWindow_t window_ = nullptr;
};

void run_rank(Member& member, const Wish& wish) {
  const std::unique_ptr<Seat> seat = Seat::open(member);
  if (seat == nullptr) return;
  const Result<softdev::Client> client = softdev::Client::open();
  if (!client.ok()) return member.fail(std::string(client.status().message()));
  Rank rank(member, *seat, client.value(), wish);
  rank.run();
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
                     {"--graph", into(wish.graph, 0, 1)}})) {
    return 2;
  }
  TeamShape shape = TeamShape::processes(wish.ranks);
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
