// Times calls of 8 bytes on a device's memory between processes that share device 0, and shows
// where the time goes: until the call returns (the host enqueues), until one call's stream is
// synchronized, and a call's share of many that were enqueued one behind the other.
//
//   --ranks N      processes (default 2)
//   --repeats N    rounds, of which the median is printed (default 50)
//   --calls N      calls enqueued one behind the other in a round (default 50)
//
// Prints rows of a Markdown table: call, processes, us of enqueueing, us of one call, us of each
// of many. The first row is no collective: a copy of 8 bytes on the device, which every stream
// pays. Exit status: 0 all went well, 1 it did not, 2 the command line.
#include <algorithm>
#include <cstdio>
#include <functional>

#include "tests/device/seat.h"
#include "tests/support/options.h"

namespace tutti::device_programs {
namespace {

using testing_support::Member;
using testing_support::now_ns;

struct Options {
  int ranks = 2;
  int repeats = 50;
  int calls = 50;
};

struct Case {
  const char* name;
  std::function<bool()> enqueue;
};

double median(std::vector<double> times) {
  const auto middle = times.begin() + static_cast<ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

double us_since(uint64_t start_ns) { return static_cast<double>(now_ns() - start_ns) * 1e-3; }

class Measurement {
 public:
  Measurement(Member& member, Seat& seat, const Options& options)
      : member_(member),
        seat_(seat),
        options_(options),
        send_(seat.allocate(kBytes)),
        recv_(seat.allocate(kBytes)) {}

  void run() {
    uint64_t step = 0;
    for (const Case& one : cases()) {
      member_.at(step++);
      if (!measure(one)) return;
    }
  }

 private:
  static constexpr size_t kBytes = 1024;

  std::vector<Case> cases() {
    void* send = pointer(send_);
    void* recv = pointer(recv_);
    const tuttiComm_t comm = seat_.comm();
    const tuttiStream_t on = seat_.stream();
    const auto good = [this](tuttiResult_t result, const char* name) {
      return went(member_, result, seat_.comm(), name);
    };
    return {
        {"copy of 8 bytes, no call", [this] { return seat_.copy(recv_, send_, 8); }},
        {"all_reduce",
         [=] {
           return good(tuttiAllReduce(send, recv, 1, tuttiUint64, tuttiSum, comm, on),
                       "all_reduce");
         }},
        {"reduce_scatter",
         [=] {
           return good(tuttiReduceScatter(send, recv, 1, tuttiUint64, tuttiSum, comm, on),
                       "reduce_scatter");
         }},
        {"all_gather",
         [=] { return good(tuttiAllGather(send, recv, 1, tuttiUint64, comm, on), "all_gather"); }},
        {"broadcast",
         [=] {
           return good(tuttiBroadcast(send, recv, 1, tuttiUint64, 0, comm, on), "broadcast");
         }},
    };
  }
  bool measure(const Case& one) {
    constexpr int kWarmUps = 3;
    std::vector<double> enqueued;
    std::vector<double> alone;
    std::vector<double> queued;
    for (int round = 0; round < kWarmUps + options_.repeats; ++round) {
      if (!member_.meet()) return false;
      uint64_t start_ns = now_ns();
      if (!one.enqueue()) return false;
      const double enqueued_us = us_since(start_ns);
      if (!seat_.synchronize()) return stream_failed(one);
      const double alone_us = us_since(start_ns);
      if (!member_.meet()) return false;
      start_ns = now_ns();
      for (int call = 0; call < options_.calls; ++call) {
        if (!one.enqueue()) return false;
      }
      if (!seat_.synchronize()) return stream_failed(one);
      if (round < kWarmUps) continue;
      enqueued.push_back(enqueued_us);
      alone.push_back(alone_us);
      queued.push_back(us_since(start_ns) / options_.calls);
    }
    if (member_.rank() == 0) {
      std::printf("| %s | %d | %.1f | %.1f | %.1f |\n", one.name, member_.ranks(), median(enqueued),
                  median(alone), median(queued));
      std::fflush(stdout);
    }
    return true;
  }
  bool stream_failed(const Case& one) {
    member_.fail(std::string(one.name) + ": its stream failed");
    return false;
  }

  Member& member_;
  Seat& seat_;
  const Options& options_;
  const drivers::cuda::DeviceMemory send_;
  const drivers::cuda::DeviceMemory recv_;
};

void run_rank(Member& member, const Options& options) {
  const std::unique_ptr<Seat> seat = Seat::open(member);
  if (seat == nullptr) return;
  Measurement(member, *seat, options).run();
  went(member, tuttiCommDestroy(seat->give_comm()), nullptr, "tuttiCommDestroy");
}

}  // namespace
}  // namespace tutti::device_programs

int main(int argc, char** argv) {
  using namespace tutti::testing_support;
  tutti::device_programs::Options options;
  if (!read_options(argc, argv,
                    {{"--ranks", into(options.ranks, 2, 8)},
                     {"--repeats", into(options.repeats, 1)},
                     {"--calls", into(options.calls, 1)}},
                    {})) {
    return 2;
  }
  const TeamResult result = run_team(
      TeamShape::processes(options.ranks),
      [&](Member& member) { tutti::device_programs::run_rank(member, options); },
      [](uint64_t step) { return "case " + std::to_string(step); }, 60'000'000'000);
  std::printf("%s", result.report.c_str());
  return result.ok ? 0 : 1;
}
