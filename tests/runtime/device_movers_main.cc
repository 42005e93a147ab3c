// device_movers: the movers of the runtime layer on device memory, between processes, each on a
// stream of its device. Every word that arrives is checked.
//
//   --ranks N    processes (default 4)
//
// Exit status: 0 right, 1 not, 2 the command line.
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/device/seat.h"
#include "tests/support/options.h"
#include "tutti/runtime/exchange.h"
#include "tutti/runtime/generators.h"
#include "tutti/runtime/narrow.h"
#include "tutti/runtime/ragged_fsdp.h"
#include "tutti/runtime/run_timeline.h"

namespace tutti::device_programs {
namespace {

using namespace runtime;
using testing_support::Member;

/// The words of a rank's local buffer where word i of the sequence is i + 1.
Words local(const Sharding& sharding, int rank) {
  Words words;
  for (const Shard& shard : sharding.shards) {
    for (int64_t i = 0; shard.rank == rank && i < shard.length; ++i) {
      words.push_back(static_cast<uint64_t>(shard.begin + i + 1));
    }
  }
  return words;
}

class Movers {
 public:
  Movers(Member& member, Seat& seat) : member_(member), seat_(seat) {}

  void run() {
    const int n = member_.ranks();
    const int64_t size = int64_t{64} * n * n;
    exchange("all_gather", even(size, n), replicated(size, n));
    exchange("all_to_all", even(size, n), striped(size, n, size / n / n));
    exchange("rounds, and some of it stays", even(size, n), striped(size, n, 8));
    exchange("from one root", single_root(size, n, 0), even(size, n));
    sums_together();
    bucket();
    timeline();
    refusals();
  }

 private:
  void expect(const char* what, const drivers::cuda::DeviceMemory& memory, const Words& expected) {
    if (!seat_.synchronize()) return member_.fail(std::string(what) + ": the stream failed");
    if (seat_.read(memory, expected.size()) != expected) {
      member_.fail(std::string(what) + ": other words than expected");
    }
  }

  void exchange(const char* what, const Sharding& from, const Sharding& to) {
    const Words source = local(from, member_.rank()), expected = local(to, member_.rank());
    const auto out = seat_.allocate(8 * source.size() + 8),
               in = seat_.allocate(8 * expected.size());
    seat_.fill(out, source);
    Exchange moves(reshard(from, to), Bytes(8));
    for (int i = 0; i < 2; ++i) {
      moves.run(seat_.comm(), pointer(out), pointer(in), seat_.stream());
    }
    expect(what, in, expected);
  }

  void sums_together() {
    const auto a = seat_.allocate(8 * 100), b = seat_.allocate(8 * 7);
    const auto ranks = static_cast<uint64_t>(member_.ranks());
    seat_.fill(a, Words(100, 3));
    seat_.fill(b, Words(7, 5));
    const SumPart parts[] = {{pointer(a), 100, tuttiUint64}, {pointer(b), 7, tuttiInt64}};
    all_reduce_together(seat_.comm(), parts, false, seat_.stream());
    expect("sums together", a, Words(100, 3 * ranks));
    expect("sums together", b, Words(7, 5 * ranks));
  }

  void bucket() {
    const int n = member_.ranks();
    const BucketPlan plan = plan_bucket(std::vector<BucketTensor>{{64 * n, 1}}, n, 1);
    const auto memory = seat_.allocate(at(plan.share * n) * 8);
    Words own(at(plan.share * n), 0), all;
    for (size_t i = 0; i < own.size(); ++i) {
      const size_t owner = i / at(plan.share);
      all.push_back(word_of(static_cast<int>(owner), 0, i));
      if (static_cast<int>(owner) == member_.rank()) own[i] = all.back();
    }
    seat_.fill(memory, own);
    BucketBuffer given(seat_.comm(), plan, tuttiUint64, seat_.stream(), pointer(memory));
    given.all_gather();
    expect("a bucket in the caller's memory", memory, all);
    BucketBuffer made(seat_.comm(), plan, tuttiBfloat16, seat_.stream());
    made.all_gather();
    if (!seat_.synchronize()) member_.fail("a bucket of bfloat16: the stream failed");
  }

  void timeline() {
    DdpSpec spec;
    spec.ranks = member_.ranks();
    spec.buckets.assign(3, DdpBucket{Nanoseconds(1), Nanoseconds(1), Bytes(8 * 50)});
    const auto memory = seat_.allocate(3 * 8 * 50);
    seat_.fill(memory, Words(150, 2));
    RunOptions options;
    options.streams.fill(seat_.stream());
    TimelineRunner runner(seat_.comm(), ddp(spec), options);
    runner.run({[](const TimelineTask&) {},
                [&](const TimelineTask& task) {
                  void* bucket = static_cast<char*>(pointer(memory)) + task.tag * 8 * 50;
                  return Payload{bucket, bucket, 50, tuttiUint64, tuttiSum};
                }});
    expect("a timeline", memory, Words(150, 2 * static_cast<uint64_t>(member_.ranks())));
  }

  /// Device memory without its stream is refused, also where a rank keeps something.
  void refusals() {
    const auto memory = seat_.allocate(1024);
    Resharding stays{member_.ranks(), {}, {}, {}};
    for (int r = 0; r < member_.ranks(); ++r) {
      stays.source_sizes.push_back(8);
      stays.target_sizes.push_back(8);
      stays.parcels.push_back({r, r, 0, 4, 2});
      stays.parcels.push_back({r, r, 4, 0, 2});
    }
    char* bytes = static_cast<char*>(pointer(memory));
    try {
      Exchange(stays, Bytes(8)).run(seat_.comm(), bytes, bytes + 512);
      member_.fail("device memory on the BLOCKING stream was accepted");
    } catch (const Error& error) {
      const std::string said = error.what();
      if (said.find("stream") == std::string::npos) member_.fail("it only says: " + said);
    }
  }

  static size_t at(int64_t index) { return static_cast<size_t>(index); }

  Member& member_;
  Seat& seat_;
};

}  // namespace
}  // namespace tutti::device_programs

int main(int argc, char** argv) {
  using namespace tutti::testing_support;
  using namespace tutti::device_programs;
  int ranks = 4;
  if (!read_options(argc, argv, {{"--ranks", into(ranks, 1, kMaxRanks)}})) return 2;
  const auto body = [](Member& member) {
    const std::unique_ptr<Seat> seat = Seat::open(member);
    if (seat == nullptr) return;
    try {
      Movers(member, *seat).run();
    } catch (const std::exception& error) {
      member.fail(error.what());
    }
    member.meet();
  };
  const TeamResult result = run_team(
      TeamShape::processes(ranks), body, [](uint64_t) { return std::string("a mover"); },
      120'000'000'000);
  std::printf("%s", result.report.c_str());
  return result.ok ? 0 : 1;
}
