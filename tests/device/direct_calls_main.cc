// Calls whose buffers lie in registered device memory, in ordinary memory, or each in another kind,
// on processes that share device 0.
//
//   --ranks N --rounds R --seed S --kib K
//                   random calls of up to K KiB a block, each compared with what it must be; the
//                   input is written over right behind each call, memory is deregistered while
//                   calls read it, and freed memory is replaced at its address. Some are captured
//                   and run twice, for the second time behind the end of their registration
//   --captured 1    all of them are
//   --fault differ  one rank passes a buffer at another place: all ranks learn which
//   --fault sizes   one rank registers fewer bytes than the others: all ranks are refused
//   --race 1        one rank writes to its input in another stream, which nothing orders
//
// Exit status: 0 right, 1 not, 2 the command line.
#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "tests/device/graphs.h"
#include "tests/device/must.h"
#include "tests/device/seat.h"
#include "tests/software_device/client.h"
#include "tests/support/dice.h"
#include "tests/support/options.h"

namespace tutti::device_programs {
namespace {

namespace driver = drivers::cuda;
using testing_support::Dice;
using testing_support::Member;

constexpr uint64_t kGarbage = 0xdead'beef'dead'beef;
constexpr size_t kRegions = 2;

struct Options {
  int ranks = 3, rounds = 40;
  uint64_t seed = 1;
  int kib = 64;
  int race = 0, captured = 0;
  std::string fault;
  size_t most_words() const { return static_cast<size_t>(kib) * 1024 / 8; }
};

struct Case {
  tuttiCollective_t collective;
  const char* name;
  bool input_parts, output_parts, rooted, reduces;
  bool has_counts = false;  // for each rank
};
constexpr Case kCases[] = {
    {tuttiCollAllGather, "all_gather", false, true, false, false},
    {tuttiCollAllToAll, "all_to_all", true, true, false, false},
    {tuttiCollBroadcast, "broadcast", false, false, true, false},
    {tuttiCollAllReduce, "all_reduce", false, false, false, true},
    {tuttiCollReduceScatter, "reduce_scatter", true, false, false, true},
    {tuttiCollReduce, "reduce", false, false, true, true},
    {tuttiCollGather, "gather", false, true, true, false},
    {tuttiCollScatter, "scatter", true, false, true, false},
    {tuttiCollAllGatherV, "all_gather_v", false, true, false, false, true},
    {tuttiCollReduceScatterV, "reduce_scatter_v", true, false, false, true, true}};

/// A round of random calls, the same on all ranks.
struct Round {
  const Case* one = nullptr;
  size_t words = 0;            // of a block
  std::vector<size_t> counts;  // by rank: the same
  int root = 0;
  bool in_place = false;
  bool is_registered = false;  // the buffer that peers read, and of all_reduce both
  size_t region = 0, at = 0;   // where, in words
  int late = -1;
  bool deregisters = false, replaces = false, captured = false;
};

class Rank {
 public:
  Rank(Member& member, Seat& seat, const softdev::Client& client, const Options& options)
      : member_(member),
        seat_(seat),
        client_(client),
        options_(options),
        ranks_(static_cast<size_t>(member.ranks())),
        self_(static_cast<size_t>(member.rank())),
        most_(ranks_ * options.most_words()),
        ordinary_(seat.allocate(4 * most_ * 8)),
        garbage_(seat.allocate(most_ * 8)) {
    seat.fill(garbage_, Words(most_, kGarbage));
  }

  void run() {
    for (size_t region = 0; region < kRegions; ++region) {
      if (!allocate(region) || !enroll(region)) return;
    }
    for (int number = 0; number < options_.rounds; ++number) {
      member_.at(static_cast<uint64_t>(number));
      if (!run_round(draw(static_cast<uint64_t>(number)), static_cast<uint64_t>(number))) return;
    }
    if (options_.race != 0 && !race()) return;
    if (!check_races() || !member_.meet()) return;
    went(member_, tuttiCommDestroy(seat_.give_comm()), nullptr, "tuttiCommDestroy");
  }

  /// All ranks must learn which two calls differ, and in what.
  void differ() {
    for (size_t region = 0; region < kRegions; ++region) {
      if (!allocate(region) || !enroll(region)) return;
    }
    const size_t at = self_ == 1 ? 16 : 0;
    (void)tuttiAllGather(region(0) + at, ordinary(0), options_.most_words(), tuttiUint64,
                         seat_.comm(), seat_.stream());
    seat_.synchronize();
    member_.meet();
    tuttiResult_t error = tuttiSuccess;
    tuttiCommGetAsyncError(seat_.comm(), &error);
    const std::string text = tuttiGetLastError(seat_.comm());
    if (error == tuttiSuccess || text.find("rank 1") == std::string::npos ||
        (text.find("at byte 128 of registered") == std::string::npos && self_ < 2)) {
      member_.fail("does not say how the calls differ: " + text);
    }
    member_.meet();
  }

  void differ_in_size() {
    if (!allocate(0)) return;
    void* handle = nullptr;
    const tuttiResult_t result =
        tuttiCommRegister(seat_.comm(), regions_[0], most_ * 8 - self_ % 2 * 8, &handle);
    const std::string text = tuttiGetLastError(seat_.comm());
    if (result != tuttiInvalidUsage || text.find("of equal size") == std::string::npos) {
      member_.fail("is not refused: " + text);
    }
    member_.meet();
  }

 private:
  uint64_t* region(size_t index) const { return static_cast<uint64_t*>(regions_[index]); }
  uint64_t* ordinary(size_t at) const { return static_cast<uint64_t*>(pointer(ordinary_)) + at; }
  size_t region_words() const { return 4 * most_; }

  bool allocate(size_t index) {
    return went(member_, tuttiMemAllocFor(&regions_[index], region_words() * 8, seat_.stream()),
                seat_.comm(), "tuttiMemAllocFor");
  }
  bool enroll(size_t index) {
    return went(
        member_,
        tuttiCommRegister(seat_.comm(), regions_[index], region_words() * 8, &handles_[index]),
        seat_.comm(), "tuttiCommRegister");
  }

  Round draw(uint64_t number) const {
    Dice dice(testing_support::mix(options_.seed, number));
    Round round;
    round.one = &kCases[dice.below(std::size(kCases))];
    round.words = dice.one_in(4) ? dice.log_uniform(options_.most_words()) : options_.most_words();
    round.counts.assign(ranks_, round.words);
    for (size_t& count : round.counts) {
      if (round.one->has_counts) count -= dice.below(round.words / 2 + 1);
    }
    if (round.one->has_counts && dice.one_in(6)) round.counts[dice.below(ranks_)] = 0;
    round.root = static_cast<int>(dice.below(ranks_));
    round.in_place = dice.one_in(3);
    round.is_registered = !dice.one_in(4);
    round.region = dice.below(kRegions);
    round.at = dice.below(most_);
    if (dice.one_in(4)) round.late = static_cast<int>(dice.below(ranks_));
    round.deregisters = dice.one_in(4);
    round.replaces = dice.one_in(8);
    round.captured = dice.one_in(3) || options_.captured != 0;
    return round;
  }

  struct Buffers {
    uint64_t* send = nullptr;
    uint64_t* recv = nullptr;
  };

  /// The buffers that no peer reads are each rank's own affair.
  Buffers place(const Round& round, uint64_t number) const {
    Dice own(testing_support::mix(options_.seed + 77 + self_, number));
    const Case& one = *round.one;
    uint64_t* const known =
        round.is_registered ? region(round.region) + round.at : ordinary(own.below(most_));
    const bool both = one.collective == tuttiCollAllReduce && round.is_registered;
    uint64_t* const elsewhere = both            ? region(round.region) + 2 * most_ + round.at
                                : own.one_in(2) ? region(1 - round.region) + own.below(most_)
                                                : ordinary(2 * most_ + own.below(most_));
    const bool reads_output = one.collective == tuttiCollBroadcast;
    Buffers buffers{reads_output ? elsewhere : known, reads_output ? known : elsewhere};
    if (!round.in_place) return buffers;
    // In place the inputs of an all_gather are parts of what lies at the known place.
    const size_t part = begin_of(round, self_);
    if (one.output_parts && !one.input_parts) return {known + part, known};
    if (one.input_parts && !one.output_parts) return {known, known + part};
    return {known, known};
  }

  bool holds(const Round& round, bool output) const {
    if (!round.one->rooted || member_.rank() == round.root) return true;
    const tuttiCollective_t which = round.one->collective;
    const bool root_sends = which == tuttiCollBroadcast || which == tuttiCollScatter;
    return output ? root_sends : !root_sends;
  }

  /// The shares of a buffer of parts are packed.
  size_t begin_of(const Round& round, size_t share) const {
    const auto begin = round.counts.begin();
    return std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(share), size_t{0});
  }
  size_t input_words(const Round& round) const {
    return round.one->input_parts ? begin_of(round, ranks_) : round.counts[self_];
  }
  size_t output_words(const Round& round) const {
    return round.one->output_parts ? begin_of(round, ranks_) : round.counts[self_];
  }

  /// Rank `from` brings this at a place of its input.
  static uint64_t value(uint64_t number, size_t from, size_t at) {
    return testing_support::mix(number * 64 + from, at);
  }

  uint64_t expected(const Round& round, uint64_t number, size_t at) const {
    size_t block = 0, within = at;
    while (within >= round.counts[block]) within -= round.counts[block++];
    const auto root = static_cast<size_t>(round.root);
    switch (round.one->collective) {
      case tuttiCollAllGather:
      case tuttiCollAllGatherV:
      case tuttiCollGather:
        return value(number, block, within);
      case tuttiCollAllToAll:
        return value(number, block, self_ * round.words + within);
      case tuttiCollBroadcast:
        return value(number, root, at);
      case tuttiCollScatter:
        return value(number, root, self_ * round.words + at);
      default:
        break;
    }
    const size_t from = round.one->input_parts ? begin_of(round, self_) : 0;
    uint64_t sum = 0;
    for (size_t rank = 0; rank < ranks_; ++rank) sum += value(number, rank, from + at);
    return sum;
  }

  bool copy(void* target, const void* source, size_t words) {
    const driver::Cuda& cuda = driver::find().value();
    const auto done =
        cuda.call.cuMemcpyAsync(reinterpret_cast<driver::CUdeviceptr>(target),
                                reinterpret_cast<driver::CUdeviceptr>(source), words * 8,
                                static_cast<driver::CUstream>(seat_.stream().handle));
    if (cuda.check(done, "cuMemcpyAsync").ok()) return true;
    member_.fail("a copy failed");
    return false;
  }

  bool submit(const Round& round, const Buffers& buffers) {
    tuttiCall_t call = TUTTI_CALL_INITIALIZER;
    call.collective = round.one->collective;
    call.send = holds(round, false) ? buffers.send : nullptr;
    call.recv = holds(round, true) ? buffers.recv : nullptr;
    call.count = round.one->input_parts ? round.words : round.counts[self_];
    call.send_counts = call.recv_counts = round.counts.data();
    call.type = tuttiUint64;
    call.op = tuttiSum;
    call.root = round.root;
    return went(member_, tuttiSubmit(&call, seat_.comm(), seat_.stream(), nullptr, nullptr),
                seat_.comm(), round.one->name);
  }

  bool run_round(const Round& round, uint64_t number) {
    const Buffers buffers = place(round, number);
    bool right = true;
    if (round.captured) {
      const Graph graph(client_, static_cast<driver::CUstream>(seat_.stream().handle),
                        [&] { right = submit(round, buffers); });
      const auto launch = [&] {
        graph.launch(static_cast<driver::CUstream>(seat_.stream().handle));
        return true;
      };
      right = right && run_once(round, 2 * number, buffers, launch) && deregister(round) &&
              run_once(round, 2 * number + 1, buffers, launch);
    } else {
      const auto work = [&] { return submit(round, buffers) && deregister(round); };
      right = run_once(round, 2 * number, buffers, work);
    }
    return right && renew(round);
  }

  bool deregister(const Round& round) {
    if (!round.deregisters) return true;
    return went(member_, tuttiCommDeregister(seat_.comm(), handles_[round.region]), seat_.comm(),
                "tuttiCommDeregister");
  }

  template <class Work>
  bool run_once(const Round& round, uint64_t number, const Buffers& buffers, const Work& work) {
    Words words(input_words(round));
    for (size_t i = 0; i < words.size(); ++i) words[i] = value(number, self_, i);
    const bool sends = holds(round, false), receives = holds(round, true);
    if (sends && !copy(buffers.send, words.data(), words.size())) return false;
    if (!seat_.synchronize()) return false;
    if (member_.rank() == round.late) testing_support::sleep_ns(20'000'000);
    if (!work()) return false;
    // The peers have read it when the stream is here.
    const bool separate = !round.in_place;
    if (sends && separate && !copy(buffers.send, pointer(garbage_), words.size())) return false;
    if (!seat_.synchronize()) return false;
    return !receives || check(round, number, buffers);
  }

  bool check(const Round& round, uint64_t number, const Buffers& buffers) {
    Words got(output_words(round));
    if (!copy(got.data(), buffers.recv, got.size()) || !seat_.synchronize()) return false;
    for (size_t i = 0; i < got.size(); ++i) {
      if (got[i] == expected(round, number, i)) continue;
      char text[160];
      std::snprintf(text, sizeof text, "run %d, %s of %zu words%s%s: word %zu is %016llx",
                    static_cast<int>(number), round.one->name, round.words,
                    round.in_place ? ", in place" : "", round.is_registered ? ", registered" : "",
                    i, static_cast<unsigned long long>(got[i]));
      member_.fail(text);
      return false;
    }
    return true;
  }

  /// Memory that is freed while it is registered is not what lies at its address later.
  bool renew(const Round& round) {
    const size_t index = round.region;
    if (round.deregisters) return enroll(index);
    if (!round.replaces) return true;
    if (!member_.meet()) return false;
    if (!went(member_, tuttiMemFree(regions_[index]), nullptr, "tuttiMemFree")) return false;
    return allocate(index);
  }

  bool race() {
    const auto other = must(driver::CudaStream::create(driver::find().value()));
    Round round;
    round.one = &kCases[0];
    round.words = options_.most_words();
    round.counts.assign(ranks_, round.words);
    const Buffers buffers{region(0), ordinary(0)};
    if (!submit(round, buffers)) return false;
    if (self_ == 0) {
      const driver::Cuda& cuda = driver::find().value();
      (void)cuda.call.cuMemcpyAsync(reinterpret_cast<driver::CUdeviceptr>(region(0)),
                                    garbage_.address(), 64, other.get());
    }
    return seat_.synchronize() && other.synchronize().ok();
  }

  /// Where the software device's checker looks for them (SOFTDEV_CHECKER).
  bool check_races() {
    if (!member_.meet()) return false;
    const auto client = softdev::Client::open();
    if (!client.ok() || client.value().hooks.races == nullptr) return true;
    if (client.value().hooks.checker_overflows() > 0)
      member_.fail("the checker's tables are too small");
    if (client.value().hooks.races() > 0) member_.fail("a race");
    return client.value().hooks.races() == 0;
  }

  Member& member_;
  Seat& seat_;
  const softdev::Client& client_;
  const Options options_;
  const size_t ranks_, self_, most_;
  const driver::DeviceMemory ordinary_, garbage_;
  std::array<void*, kRegions> regions_{}, handles_{};
};

void run_rank(Member& member, const Options& options) {
  const std::unique_ptr<Seat> seat = Seat::open(member);
  if (seat == nullptr) return;
  const Result<softdev::Client> client = softdev::Client::open();
  if (!client.ok()) return member.fail(std::string(client.status().message()));
  Rank rank(member, *seat, client.value(), options);
  if (options.fault == "differ") return rank.differ();
  if (options.fault == "sizes") return rank.differ_in_size();
  rank.run();
}

}  // namespace
}  // namespace tutti::device_programs

int main(int argc, char** argv) {
  using namespace tutti::testing_support;
  using namespace tutti::device_programs;
  Options options;
  if (!read_options(argc, argv,
                    {{"--ranks", into(options.ranks, 2, kMaxRanks)},
                     {"--rounds", into(options.rounds, 0)},
                     {"--seed", into(options.seed)},
                     {"--kib", into(options.kib, 1)},
                     {"--race", into(options.race)},
                     {"--captured", into(options.captured, 0, 1)},
                     {"--fault", into(options.fault)}})) {
    return 2;
  }
  const TeamResult result = run_team(
      TeamShape::processes(options.ranks), [&](Member& member) { run_rank(member, options); },
      [](uint64_t step) { return "round " + std::to_string(step); }, 120'000'000'000);
  std::printf("%s", result.report.c_str());
  return result.ok ? 0 : 1;
}
