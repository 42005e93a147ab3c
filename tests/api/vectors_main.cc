// vectors: random v-collectives over processes, threads, shared memory, TCP and both: odd counts,
// zeros and one far longer than the rest; in place; blocking, on a HOST stream and in groups.
//
//   --network default|tcp|mixed  --threads 0|1  --ranks N  --calls N  --seed N
//
// Every rank draws the same calls for itself. Exit status: 0 all was right, 1 it was not, 2 the
// command line is wrong.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "tests/support/dice.h"
#include "tests/support/team.h"

namespace tutti::api_test {
namespace {

using testing_support::Dice;
using testing_support::Member;
using testing_support::mix;
using Counts = std::vector<size_t>;

constexpr uint64_t kLimitNs = 100'000'000'000;
constexpr uint64_t kDeadlineNs = 60'000'000'000;
constexpr int64_t kGap = -7;  // between the blocks of a buffer
constexpr size_t kHuge = 120'000;

struct Options {
  std::string network = "default";
  bool threads = false;
  int ranks = 3;
  uint64_t calls = 40;
  uint64_t seed = 1;
};

enum class Kind : uint8_t { kGather, kScatter, kExchange };
enum class Way : uint8_t { kBlocking, kHost, kGroup };

/// What all ranks know of a call.
struct Drawn {
  Drawn(uint64_t seed, int ranks) {
    Dice dice(seed);
    const auto n = static_cast<size_t>(ranks);
    kind = static_cast<Kind>(dice.below(3));
    way = static_cast<Way>(dice.below(3));
    in_place = dice.one_in(3);
    gap = kind == Kind::kScatter ? 0 : dice.below(3);
    const uint64_t greatest = dice.one_in(2) ? 12 : 3000;
    counts.assign(n, Counts(n));
    for (Counts& row : counts) {
      for (size_t& count : row) count = dice.one_in(3) ? 0 : dice.log_uniform(greatest);
    }
    if (dice.one_in(3)) counts[dice.below(n)][dice.below(n)] = kHuge + dice.below(9);
    for (size_t i = 0; i < n && kind != Kind::kExchange; ++i) counts[i] = counts[0];
    for (size_t i = 0; i < n && in_place; ++i) {
      for (size_t k = 0; k < i && kind == Kind::kExchange; ++k) counts[i][k] = counts[k][i];
    }
    static const std::map<Kind, std::vector<std::string>> kAlgorithms = {
        {Kind::kGather, {"", "ring", "ring:2", "circulant", "direct"}},
        {Kind::kScatter, {"", "ring", "circulant:2", "direct"}},
        {Kind::kExchange, {"", "pairwise", "bruck"}}};
    algorithm = dice.pick(kAlgorithms.at(kind));
  }

  /// Elements from one rank to another; of shared counts, the share of `to` or `from`.
  size_t count(size_t from, size_t to) const {
    return kind == Kind::kGather ? counts[0][from] : counts[from][to];
  }

  Kind kind;
  Way way;
  bool in_place;
  size_t gap;
  std::vector<Counts> counts;
  std::string algorithm;
};

/// A rank's buffers of a call, and what it must find.
class Buffers {
 public:
  Buffers(const Drawn& drawn, size_t rank, size_t ranks, uint64_t seed)
      : drawn_(drawn), rank_(rank), seed_(seed) {
    const bool gathers = drawn.kind == Kind::kGather, scatters = drawn.kind == Kind::kScatter;
    for (size_t peer = 0; peer < ranks; ++peer) {
      send_counts.push_back(drawn.count(rank, peer));
      recv_counts.push_back(drawn.count(peer, rank));
    }
    send_offsets = placed(send_counts);
    recv_offsets = placed(recv_counts);
    own = gathers ? recv_counts[rank] : send_counts[rank];
    send.assign(gathers ? own : end_of(send_counts), kGap);
    recv.assign(scatters ? own : end_of(recv_counts), kGap);
    expected_ = recv;
    for (size_t peer = 0; peer < ranks; ++peer) {
      if (gathers) {
        fill(expected_, recv_offsets[peer], recv_counts[peer], peer, 0);
      } else if (scatters) {
        fill(send, send_offsets[peer], send_counts[peer], rank, peer);
      } else {
        fill(send, send_offsets[peer], send_counts[peer], rank, peer);
        fill(expected_, recv_offsets[peer], recv_counts[peer], peer, rank);
      }
    }
    if (gathers) fill(send, 0, own, rank, 0);
    for (size_t i = 0; scatters && i < own; ++i) {
      expected_[i] = 0;
      for (size_t peer = 0; peer < ranks; ++peer) expected_[i] += value(peer, rank, i);
    }
    from = send.data();
    to = recv.data();
    if (drawn.in_place) nest();
  }

  std::string check() {
    const bool scatters = drawn_.kind == Kind::kScatter;
    const int64_t* found = scatters ? to : recv.data();
    for (size_t i = 0; i < expected_.size(); ++i) {
      if (found[i] == expected_[i]) continue;
      return "element " + std::to_string(i) + " of " + std::to_string(expected_.size()) + " is " +
             std::to_string(found[i]) + ", not " + std::to_string(expected_[i]);
    }
    // A peer that still reads these is as wrong as one that writes.
    std::fill(send.begin(), send.end(), kGap);
    return "";
  }

  Counts send_counts, recv_counts, send_offsets, recv_offsets;
  size_t own = 0;
  const int64_t* from = nullptr;
  int64_t* to = nullptr;
  std::vector<int64_t> send, recv;

 private:
  Counts placed(const Counts& counts) const {
    Counts offsets;
    size_t at = 0;
    for (size_t count : counts) {
      offsets.push_back(at += drawn_.gap);
      at += count;
    }
    return offsets;
  }

  size_t end_of(const Counts& counts) const {
    return placed(counts).back() + counts.back() + drawn_.gap;
  }

  int64_t value(size_t source, size_t target, size_t i) const {
    return static_cast<int64_t>(mix(seed_ + source * 64 + target, i) >> 16);
  }

  void fill(std::vector<int64_t>& values, size_t at, size_t count, size_t source, size_t target) {
    for (size_t i = 0; i < count; ++i) values[at + i] = value(source, target, i);
  }

  void nest() {
    if (drawn_.kind == Kind::kGather) {
      std::copy(send.begin(), send.end(), recv.begin() + static_cast<long>(recv_offsets[rank_]));
      from = recv.data() + recv_offsets[rank_];
    } else if (drawn_.kind == Kind::kScatter) {
      to = send.data() + send_offsets[rank_];
    } else {
      recv = send;
      from = to = recv.data();
    }
  }

  const Drawn& drawn_;
  size_t rank_;
  uint64_t seed_;
  std::vector<int64_t> expected_;
};

class Rank {
 public:
  Rank(Member& member, const Options& options) : member_(member), options_(options) {}

  void run() {
    tuttiUniqueId id;
    if (!member_.take_id(id)) return;
    if (!ok(tuttiCommInitRank(&comm_, member_.ranks(), id, member_.rank()), nullptr)) return;
    if (!ok(tuttiStreamCreate(&stream_), nullptr)) return;
    for (uint64_t turn = 0; turn < options_.calls; ++turn) {
      member_.at(turn + 1);
      if (!call(mix(options_.seed, turn))) return;
    }
    if (ok(tuttiStreamDestroy(stream_), nullptr)) ok(tuttiCommDestroy(comm_), comm_);
  }

 private:
  bool ok(tuttiResult_t result, tuttiComm_t comm) {
    if (result != tuttiSuccess) member_.fail(tuttiGetLastError(comm));
    return result == tuttiSuccess;
  }

  // The same vectors twice, so that the second call finds its plan; in a group both at once.
  bool call(uint64_t seed) {
    const Drawn drawn(seed, member_.ranks());
    const auto rank = static_cast<size_t>(member_.rank());
    const auto ranks = static_cast<size_t>(member_.ranks());
    tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
    options.algorithm = drawn.algorithm.empty() ? nullptr : drawn.algorithm.c_str();
    options.timeout_ns = kDeadlineNs;
    if (!ok(tuttiCommSetOptions(comm_, &options), comm_)) return false;
    Buffers first(drawn, rank, ranks, seed), second(drawn, rank, ranks, seed + 1);
    const bool grouped = drawn.way == Way::kGroup;
    if (grouped && !ok(tuttiGroupStart(), nullptr)) return false;
    for (Buffers* buffers : {&first, &second}) {
      if (!ok(issue(drawn, *buffers), comm_)) return false;
    }
    if (grouped && !ok(tuttiGroupEnd(), nullptr)) return false;
    if (!ok(tuttiStreamSynchronize(stream_), nullptr)) return false;
    for (Buffers* buffers : {&first, &second}) {
      const std::string wrong = buffers->check();
      if (!wrong.empty()) member_.fail(wrong);
      if (!wrong.empty()) return false;
    }
    return true;
  }

  tuttiResult_t issue(const Drawn& drawn, const Buffers& b) {
    const tuttiStream_t stream = drawn.way == Way::kHost ? stream_ : tuttiBlocking();
    const bool packed = drawn.gap == 0;
    const size_t* send_at = packed ? nullptr : b.send_offsets.data();
    const size_t* recv_at = packed ? nullptr : b.recv_offsets.data();
    switch (drawn.kind) {
      case Kind::kGather:
        return tuttiAllGatherV(b.from, b.own, b.to, b.recv_counts.data(), recv_at, tuttiInt64,
                               comm_, stream);
      case Kind::kScatter:
        return tuttiReduceScatterV(b.from, b.to, b.send_counts.data(), tuttiInt64, tuttiSum, comm_,
                                   stream);
      case Kind::kExchange:
        return tuttiAllToAllV(b.from, b.send_counts.data(), send_at, b.to, b.recv_counts.data(),
                              recv_at, tuttiInt64, comm_, stream);
    }
    return tuttiInternalError;
  }

  Member& member_;
  const Options& options_;
  tuttiComm_t comm_ = nullptr;
  tuttiStream_t stream_ = tuttiBlocking();
};

std::string describe(const Options& options, uint64_t step) {
  if (step == 0) return "start";
  const Drawn drawn(mix(options.seed, step - 1), options.ranks);
  constexpr const char* kKinds[] = {"all_gather_v", "reduce_scatter_v", "all_to_all_v"};
  constexpr const char* kWays[] = {"blocking", "HOST", "group"};
  std::string text = "turn " + std::to_string(step) + ": " + kKinds[static_cast<int>(drawn.kind)] +
                     " " + drawn.algorithm + (drawn.in_place ? " in place, " : ", ") +
                     kWays[static_cast<int>(drawn.way)] + ", counts";
  for (const Counts& row : drawn.counts) {
    text += " |";
    for (size_t count : row) text += " " + std::to_string(count);
  }
  return text;
}

bool run(const Options& options) {
  auto shape = options.threads ? testing_support::TeamShape::threads(options.ranks)
                               : testing_support::TeamShape::processes(options.ranks);
  const int processes = shape.process_count();
  for (int process = 0; process < processes; ++process) {
    testing_support::Environment environment;
    if (options.network == "tcp") environment["TUTTI_TRANSPORTS"] = "tcp";
    if (options.network == "mixed") {
      environment["TUTTI_HOST_ID"] = process * 2 < processes ? "first-half" : "second-half";
    }
    shape.environment.push_back(environment);
  }
  const auto result = testing_support::run_team(
      shape, [&](Member& member) { Rank(member, options).run(); },
      [&](uint64_t step) { return describe(options, step); }, kLimitNs);
  std::printf("vectors, network %s, %s: %s\n%s", options.network.c_str(),
              options.threads ? "threads" : "processes", result.ok ? "right" : "FAILED",
              result.report.c_str());
  return result.ok;
}

}  // namespace
}  // namespace tutti::api_test

int main(int argc, char** argv) {
  tutti::api_test::Options options;
  if (argc % 2 == 0) return 2;
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--network") {
      options.network = value;
    } else if (name == "--threads") {
      options.threads = value == "1";
    } else if (name == "--ranks") {
      options.ranks = std::atoi(value.c_str());
    } else if (name == "--calls") {
      options.calls = std::strtoull(value.c_str(), nullptr, 10);
    } else if (name == "--seed") {
      options.seed = std::strtoull(value.c_str(), nullptr, 10);
    } else {
      return 2;
    }
  }
  return tutti::api_test::run(options) ? 0 : 1;
}
