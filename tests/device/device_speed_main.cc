// Collectives on a device's memory between processes that take the devices in turn: every result is
// checked once, then timed by the wall clock around the stream's synchronization, beside plain
// copies of the same bytes that all processes make at the same time.
//
//   --ranks N      processes (default 2)
//   --divide N     all sizes are so many times smaller, for the software device (default 1)
//   --repeats N    timed calls, of which the median is printed (default 7)
//   --reductions   all_reduce and reduce_scatter from 64 KiB to 256 MiB, and nothing else; GB/s are
//                  of the bus: of what each rank must send at least
//   --registered   the buffers are registered, so that peers read long ones where they lie
//
// Prints rows of a Markdown table: collective, processes, bytes a rank receives, us, GB/s, us of
// the copy, copy / collective. Exit status: 0 all was right, 1 it was not, 2 the command line.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <span>

#include "tests/device/seat.h"
#include "tests/support/options.h"

namespace tutti::device_programs {
namespace {

using testing_support::Member;
using testing_support::now_ns;

struct Options {
  int ranks = 2;
  int divide = 1;
  int repeats = 7;
  bool reductions = false;
  bool registered = false;
};

enum class Kind : uint8_t { kAllGather, kAllToAll, kBroadcast, kAllReduce, kReduceScatter };

struct Case {
  Kind kind;
  const char* name;
  size_t bytes;  // that a rank receives; of a reduce_scatter: sends
};

constexpr size_t kMiB = 1 << 20;
constexpr Case kCases[] = {
    {Kind::kAllGather, "all_gather", 64 * kMiB}, {Kind::kAllToAll, "all_to_all", 64 * kMiB},
    {Kind::kAllGather, "all_gather", 64},        {Kind::kAllReduce, "all_reduce", 8},
    {Kind::kBroadcast, "broadcast", 64 * kMiB},  {Kind::kAllGather, "all_gather", kMiB},
    {Kind::kAllGather, "all_gather", 16 * kMiB}, {Kind::kAllGather, "all_gather", 256 * kMiB},
    {Kind::kAllToAll, "all_to_all", kMiB},       {Kind::kAllToAll, "all_to_all", 16 * kMiB},
    {Kind::kAllToAll, "all_to_all", 256 * kMiB}, {Kind::kAllReduce, "all_reduce", kMiB},
    {Kind::kAllReduce, "all_reduce", 64 * kMiB},
};

constexpr Case kReductions[] = {
    {Kind::kAllReduce, "all_reduce", 64 << 10},
    {Kind::kAllReduce, "all_reduce", kMiB},
    {Kind::kAllReduce, "all_reduce", 16 * kMiB},
    {Kind::kAllReduce, "all_reduce", 256 * kMiB},
    {Kind::kReduceScatter, "reduce_scatter", 64 << 10},
    {Kind::kReduceScatter, "reduce_scatter", kMiB},
    {Kind::kReduceScatter, "reduce_scatter", 16 * kMiB},
    {Kind::kReduceScatter, "reduce_scatter", 256 * kMiB},
};

std::span<const Case> cases_of(const Options& options) {
  if (options.reductions) return kReductions;
  return kCases;
}

/// Of what nccl-tests calls the bus bandwidth, as a part of the bytes by the time.
double bus_factor(const Case& one, const Options& options) {
  if (!options.reductions) return 1;
  const double others = static_cast<double>(options.ranks - 1) / options.ranks;
  return one.kind == Kind::kAllReduce ? 2 * others : others;
}

bool sums(Kind kind) { return kind == Kind::kAllReduce || kind == Kind::kReduceScatter; }

size_t words_of(const Case& one, const Options& options) {
  const auto ranks = static_cast<size_t>(options.ranks);
  const size_t words = one.bytes / sizeof(uint64_t);
  if (words <= 8) return one.kind == Kind::kAllGather ? ranks : words;
  return std::max(ranks, words / static_cast<size_t>(options.divide) / ranks * ranks);
}

class Measurement {
 public:
  Measurement(Member& member, Seat& seat, const Options& options, const Case& one)
      : member_(member),
        seat_(seat),
        options_(options),
        one_(one),
        words_(words_of(one, options)),
        block_(words_ / static_cast<size_t>(member.ranks())),
        send_(seat.allocate(words_ * sizeof(uint64_t))),
        recv_(seat.allocate(words_ * sizeof(uint64_t))) {}

  bool run() {
    if (options_.registered && !(hold(send_) && hold(recv_))) return false;
    const bool measured = measure();
    for (void* handle : handles_) tuttiCommDeregister(seat_.comm(), handle);
    return measured;
  }

 private:
  /// Registers it until the end of the measurement.
  bool hold(const drivers::cuda::DeviceMemory& memory) {
    void* handle = nullptr;
    const tuttiResult_t result =
        tuttiCommRegister(seat_.comm(), pointer(memory), memory.bytes(), &handle);
    if (!good(result)) return false;
    handles_.push_back(handle);
    return true;
  }
  bool measure() {
    if (!is_right()) return false;
    const double call_us = median_us([&] { return enqueue(); });
    const size_t bytes = words_ * sizeof(uint64_t);
    const double copy_us = median_us([&] { return seat_.copy(recv_, send_, bytes); });
    if (call_us <= 0 || copy_us <= 0) return false;
    if (member_.rank() == 0) {
      std::printf("| %s | %d | %zu | %.1f | %.2f | %.1f | %.2f |\n", one_.name, member_.ranks(),
                  bytes, call_us,
                  static_cast<double>(bytes) / call_us * 1e-3 * bus_factor(one_, options_), copy_us,
                  copy_us / call_us);
      std::fflush(stdout);
    }
    return true;
  }
  uint64_t sent(int from, int to, size_t place) const {
    return sums(one_.kind) ? place + static_cast<size_t>(from) : word_of(from, to, place);
  }
  uint64_t expected(size_t at) const {
    const int block = static_cast<int>(at / std::max<size_t>(block_, 1));
    const auto ranks = static_cast<uint64_t>(member_.ranks());
    switch (one_.kind) {
      case Kind::kAllGather:
        return word_of(block, 0, at % block_);
      case Kind::kAllToAll:
        return word_of(block, member_.rank(), at % block_);
      case Kind::kBroadcast:
        return word_of(0, 0, at);
      case Kind::kAllReduce:
        return ranks * at + ranks * (ranks - 1) / 2;
      case Kind::kReduceScatter: {
        const size_t first = static_cast<size_t>(member_.rank()) * block_;
        return ranks * (first + at) + ranks * (ranks - 1) / 2;
      }
    }
    return 0;
  }
  bool is_right() {
    Words words(words_);
    for (size_t at = 0; at < words_; ++at) {
      const bool blocks = one_.kind == Kind::kAllToAll;
      const int to = blocks ? static_cast<int>(at / block_) : 0;
      words[at] = sent(member_.rank(), to, blocks ? at % block_ : at);
    }
    seat_.fill(send_, words);
    seat_.fill(recv_, Words(words_, ~uint64_t{0}));
    if (!member_.meet() || !enqueue()) return false;
    if (!seat_.synchronize()) return fail("its stream failed");
    const size_t received = one_.kind == Kind::kReduceScatter ? block_ : words_;
    const Words got = seat_.read(recv_, received);
    for (size_t at = 0; at < received; ++at) {
      if (got[at] != expected(at)) return fail("wrong word " + std::to_string(at));
    }
    return true;
  }
  bool enqueue() {
    void* send = pointer(send_);
    void* recv = pointer(recv_);
    const tuttiComm_t comm = seat_.comm();
    const tuttiStream_t on = seat_.stream();
    switch (one_.kind) {
      case Kind::kAllGather:
        return good(tuttiAllGather(send, recv, block_, tuttiUint64, comm, on));
      case Kind::kAllToAll:
        return good(tuttiAllToAll(send, recv, block_, tuttiUint64, comm, on));
      case Kind::kBroadcast:
        return good(tuttiBroadcast(send, recv, words_, tuttiUint64, 0, comm, on));
      case Kind::kAllReduce:
        return good(tuttiAllReduce(send, recv, words_, tuttiUint64, tuttiSum, comm, on));
      case Kind::kReduceScatter:
        return good(tuttiReduceScatter(send, recv, block_, tuttiUint64, tuttiSum, comm, on));
    }
    return false;
  }
  bool good(tuttiResult_t result) { return went(member_, result, seat_.comm(), one_.name); }
  bool fail(const std::string& why) {
    member_.fail(std::string(one_.name) + ": " + why);
    return false;
  }
  /// 0 after a failure.
  double median_us(const std::function<bool()>& begin) {
    constexpr int kWarmUps = 2;
    std::vector<double> times;
    for (int call = 0; call < kWarmUps + options_.repeats; ++call) {
      if (!member_.meet()) return 0;
      const uint64_t start_ns = now_ns();
      if (!begin()) return 0;
      if (!seat_.synchronize()) return fail("its stream failed") ? 1 : 0;
      if (call >= kWarmUps) times.push_back(static_cast<double>(now_ns() - start_ns) * 1e-3);
    }
    std::nth_element(times.begin(), times.begin() + options_.repeats / 2, times.end());
    return times[static_cast<size_t>(options_.repeats) / 2];
  }

  Member& member_;
  Seat& seat_;
  const Options& options_;
  const Case& one_;
  const size_t words_;
  const size_t block_;
  const drivers::cuda::DeviceMemory send_;
  const drivers::cuda::DeviceMemory recv_;
  std::vector<void*> handles_;
};

void run_rank(Member& member, const Options& options) {
  const std::unique_ptr<Seat> seat = Seat::open(member);
  if (seat == nullptr) return;
  const std::span<const Case> cases = cases_of(options);
  for (const Case& one : cases) {
    member.at(static_cast<uint64_t>(&one - cases.data()));
    if (!Measurement(member, *seat, options, one).run()) return;
  }
  went(member, tuttiCommDestroy(seat->give_comm()), nullptr, "tuttiCommDestroy");
}

}  // namespace
}  // namespace tutti::device_programs

int main(int argc, char** argv) {
  using namespace tutti::testing_support;
  tutti::device_programs::Options options;
  if (!read_options(
          argc, argv,
          {{"--ranks", into(options.ranks, 2, 8)},
           {"--divide", into(options.divide, 1)},
           {"--repeats", into(options.repeats, 1)}},
          {{"--reductions", &options.reductions}, {"--registered", &options.registered}})) {
    return 2;
  }
  const TeamResult result = run_team(
      TeamShape::processes(options.ranks),
      [&](Member& member) { tutti::device_programs::run_rank(member, options); },
      [&](uint64_t step) {
        const auto& one = tutti::device_programs::cases_of(options)[step];
        return std::string(one.name) + " of " + std::to_string(one.bytes) + " bytes";
      },
      60'000'000'000);
  std::printf("%s", result.report.c_str());
  return result.ok ? 0 : 1;
}
