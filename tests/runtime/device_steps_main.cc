// device_steps: ranks train by the all_reduce that survives, with what it reduces in the memory of
// their devices, on a stream of each. The last one is killed in step 4; newcomers take its
// replica's place in step 7, and have no state until step 10. In each step every word is compared
// with what the members that the report counts have brought.
//
//   --ranks N   of the first epoch (default 3)    --shards K  ranks of each replica (default 1)
//   --hosts H   that the ranks are told to be on (default 1)
//   --dies      calls      between two calls of the step, which are in its stream
//               worked     behind them, before its word of the commit
//               committed  when it has seen the commit, of which others are made not to know
//   --says TEXT that tuttiExplain must say of a short all_reduce in the first step and the last one
//
// Exit status: 0 right, 1 not, 2 the command line.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "tests/device/newcomers.h"
#include "tests/device/seat.h"
#include "tests/support/options.h"
#include "tutti/runtime/fault_tolerant.h"

namespace tutti::device_programs {
namespace {

using namespace runtime;
using testing_support::Member;

constexpr int64_t kDiesIn = 4, kComeBehind = 6, kCatchesUpIn = 9, kLastStep = 13;
constexpr uint64_t kMinuteNs = 60'000'000'000;
constexpr int64_t kWords = 40'000, kFloats = 30'000, kIntegers = 100;  // short, and several slices

struct Options {
  int ranks = 3, shards = 1, hosts = 1;
  std::string dies = "calls", says = "on device memory: by ";

  int all() const { return ranks + shards; }
  int victim() const { return ranks - 1; }
  int replica_of(int process) const {
    return process < ranks ? process / shards
                           : victim() / shards;  // they take the dead one's place
  }
};

/// 60 divides by every number of replicas here, so that averages are whole.
int64_t value_of(int64_t step, int64_t replica, int shard, int64_t i) {
  return 60 * ((step * 31 + replica * 7 + shard * 3 + i) % 11);
}

class Trainer {
 public:
  Trainer(Member& member, Seat& seat, const Options& options)
      : member_(member),
        seat_(seat),
        options_(options),
        words_(seat.allocate(8 * kWords)),
        sums_(seat.allocate(8 * kWords)),
        floats_(seat.allocate(4 * kFloats)),
        integers_(seat.allocate(8 * kIntegers)),
        reduce_(seat.comm(), spec()) {}

  void run() {
    const int64_t first = reduce_.step();
    if (joins() && first != kComeBehind + 1) return wrong("it joins in another step");
    if (!joins()) expect_says();
    while (reduce_.step() <= kLastStep && !has_failed_) step();
    if (!has_failed_) expect_says();
    if (!saw_fewer_ || !saw_all_) wrong("the divisors are others than they must be");
  }

 private:
  FaultTolerantSpec spec() {
    FaultTolerantSpec made;
    made.group.shards = options_.shards;
    made.group.replica = options_.replica_of(member_.rank());
    made.group.shard = member_.rank() % options_.shards;
    made.group.joins = joins();
    made.group.newcomers_ns = kMinuteNs;
    made.group.at_instant = [this](StepInstant instant) { return at(instant); };
    made.stream = seat_.stream();
    return made;
  }

  bool joins() const { return member_.rank() >= options_.ranks; }
  int shard() const { return member_.rank() % options_.shards; }
  int replicas() const { return options_.ranks / options_.shards; }
  void wrong(const std::string& what) {
    has_failed_ = true;
    member_.fail("step " + std::to_string(step_) + ": " + what);
  }

  void die_if(bool now) {
    if (!now || step_ != kDiesIn || member_.rank() != options_.victim() || joins()) return;
    member_.die();
  }

  bool at(StepInstant instant) {
    die_if(options_.dies == "worked" && instant == StepInstant::kWorked);
    if (options_.dies != "committed" || instant != StepInstant::kCommitted || step_ != kDiesIn) {
      return true;
    }
    die_if(true);
    return member_.rank() != 0;
  }

  void expect_says() {
    std::vector<char> text(1 << 16);
    size_t needed = 0;
    if (!went(member_,
              tuttiExplain(reduce_.group().across(), "all_reduce", 100, tuttiUint64, text.data(),
                           text.size(), &needed),
              seat_.comm(), "tuttiExplain")) {
      return;
    }
    const std::string all = text.data();
    if (all.find(options_.says) == std::string::npos) {
      wrong("it does not say '" + options_.says + "': " + all);
    }
  }

  template <class Number>
  void bring(const drivers::cuda::DeviceMemory& memory, int64_t count) {
    std::vector<Number> values(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      const int64_t replica = options_.replica_of(member_.rank());
      values[static_cast<size_t>(i)] =
          static_cast<Number>(is_without_state() ? -1 : value_of(step_, replica, shard(), i));
    }
    Words words(values.size() * sizeof(Number) / sizeof(uint64_t));
    std::memcpy(words.data(), values.data(), words.size() * sizeof(uint64_t));
    seat_.fill(memory, words);
  }

  bool is_without_state() { return joins() && !reduce_.group().counted(); }

  void step() {
    step_ = reduce_.step();
    member_.at(static_cast<uint64_t>(step_));
    bring<uint64_t>(words_, kWords);
    bring<float>(floats_, kFloats);
    bring<int64_t>(integers_, kIntegers);
    reduce_.all_reduce(pointer(words_), pointer(sums_), kWords, tuttiUint64, tuttiSum);
    reduce_.all_reduce(pointer(floats_), pointer(floats_), kFloats, tuttiFloat32, tuttiAvg);
    die_if(options_.dies == "calls");
    reduce_.all_reduce(pointer(integers_), pointer(integers_), kIntegers, tuttiInt64, tuttiAvg);
    if (step_ == kComeBehind && member_.rank() == 0) {
      reduce_.group().expect_newcomers(options_.shards);
    }
    if (step_ == kCatchesUpIn && joins()) reduce_.group().caught_up();
    const StepReport report = reduce_.step_commit();
    if (report.step != step_) return wrong("the report is of step " + std::to_string(report.step));
    judge(report);
  }

  /// Of what the counted members with this rank's shard have brought.
  int64_t sum_of(const StepReport& report, int64_t i) const {
    int64_t sum = 0;
    for (const StepMember& one : report.members) {
      if (one.counted && one.shard == shard()) sum += value_of(step_, one.replica, one.shard, i);
    }
    return sum;
  }

  template <class Number, class IsRight>
  void expect(const char* what, const drivers::cuda::DeviceMemory& memory, int64_t count,
              const IsRight& is_right) {
    const Words words = seat_.read(memory, static_cast<size_t>(count) * sizeof(Number) / 8);
    std::vector<Number> values(static_cast<size_t>(count));
    std::memcpy(values.data(), words.data(), words.size() * sizeof(uint64_t));
    for (int64_t i = 0; i < count; ++i) {
      const Number value = values[static_cast<size_t>(i)];
      if (is_right(value, i)) continue;
      return wrong(std::string(what) + ": element " + std::to_string(i) + " is " +
                   std::to_string(value));
    }
  }

  void judge(const StepReport& report) {
    const auto counted = std::count_if(report.members.begin(), report.members.end(),
                                       [](const StepMember& one) { return one.counted; });
    if (report.divisor * options_.shards != counted) return wrong("the divisor is another one");
    const bool has_all = step_ < kDiesIn || step_ > kCatchesUpIn;
    const int64_t fewer = replicas() - 1;
    const bool may_be_either = step_ == kDiesIn;
    if (!may_be_either && report.divisor != (has_all ? replicas() : fewer)) {
      return wrong("the divisor is " + std::to_string(report.divisor));
    }
    saw_fewer_ = saw_fewer_ || report.divisor == fewer;
    saw_all_ = saw_all_ || (step_ > kCatchesUpIn && report.divisor == replicas());
    expect<uint64_t>("sums", sums_, kWords, [&](uint64_t value, int64_t i) {
      return value == static_cast<uint64_t>(sum_of(report, i));
    });
    expect<float>("averages", floats_, kFloats, [&](float value, int64_t i) {
      const auto exact = static_cast<float>(sum_of(report, i) / report.divisor);
      return std::abs(value - exact) <= 1e-5f * exact;
    });
    expect<int64_t>("averages of integers", integers_, kIntegers, [&](int64_t value, int64_t i) {
      return value == sum_of(report, i) / report.divisor;
    });
  }

  Member& member_;
  Seat& seat_;
  const Options& options_;
  const drivers::cuda::DeviceMemory words_, sums_, floats_, integers_;
  int64_t step_ = -1;
  bool has_failed_ = false, saw_fewer_ = false, saw_all_ = false;
  FaultTolerantAllReduce reduce_;
};

tuttiComm_t make(Member& member, const Options& options) {
  if (member.rank() >= options.ranks) return come(member);
  tuttiUniqueId id;
  tuttiComm_t comm = nullptr;
  if (!member.take_id(id) ||
      !went(member, tuttiCommInitRank(&comm, options.ranks, id, member.rank()), nullptr,
            "tuttiCommInitRank")) {
    return nullptr;
  }
  if (member.rank() == 0 &&
      went(member, tuttiCommGetUniqueId(comm, &id), comm, "tuttiCommGetUniqueId")) {
    show_id(member, id);
  }
  return comm;
}

void run_rank(Member& member, const Options& options) {
  const std::unique_ptr<Seat> seat = Seat::open_alone(member);
  if (seat == nullptr) return;
  seat->take_comm(make(member, options));
  if (seat->comm() == nullptr) return;
  const bool is_mate = member.rank() < options.ranks &&
                       options.replica_of(member.rank()) == options.replica_of(options.victim());
  try {
    Trainer(member, *seat, options).run();
    if (is_mate) member.fail("its replica has lost a rank, and it goes on");
    went(member, tuttiBarrier(seat->comm(), tuttiBlocking()), seat->comm(), "the last barrier");
  } catch (const std::exception& error) {
    const std::string said = error.what();
    if (!is_mate || said.find("and leaves") == std::string::npos) member.fail(said);
  }
}

}  // namespace
}  // namespace tutti::device_programs

int main(int argc, char** argv) {
  using namespace tutti::testing_support;
  tutti::device_programs::Options options;
  if (!read_options(argc, argv,
                    {{"--ranks", into(options.ranks, 2, 8)},
                     {"--shards", into(options.shards, 1, 4)},
                     {"--hosts", into(options.hosts, 1, 8)},
                     {"--dies", into(options.dies)},
                     {"--says", into(options.says)}})) {
    return 2;
  }
  const bool is_known =
      options.dies == "calls" || options.dies == "worked" || options.dies == "committed";
  if (!is_known || options.ranks % options.shards != 0 || options.ranks < 2 * options.shards) {
    return 2;
  }
  TeamShape shape = TeamShape::processes(options.all());
  for (int rank = 0; options.hosts > 1 && rank < options.all(); ++rank) {
    const std::string host = "host-" + std::to_string(rank * options.hosts / options.all());
    shape.environment.push_back({{"TUTTI_HOST_ID", host}});
  }
  const TeamResult result = run_team(
      shape, [&](Member& member) { tutti::device_programs::run_rank(member, options); },
      [](uint64_t step) { return "step " + std::to_string(step); }, 120'000'000'000);
  // The rank that was killed by its own hand has done what it should.
  const std::string expected =
      "  process " + std::to_string(options.victim()) + " ended by signal 9\n";
  if (result.report == expected) return 0;
  std::printf("%s", result.report.c_str());
  return 1;
}
