// mixed_windows: every rank brings memory of another kind and length to each window, and random
// puts and gets are compared with a reference that every rank computes for itself.
//
//   --network default|tcp|mixed  --ranks N  --processes N  --seed S
//   --refuse 1  the kernel refuses single copies, as in many containers: ordinary memory of other
//               processes of a host is then refused in words, everything else works
//   --spoil 1   one put changes a byte: the checker must find it
//
// Exit status: 0 all was right, 1 it was not, 2 the command line is wrong.
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/dice.h"
#include "tests/support/options.h"
#include "tests/support/single_copies.h"
#include "tests/support/team.h"
#include "tests/support/team_rank.h"

namespace tutti::api_test {
namespace {

using testing_support::Dice;
using testing_support::Member;
using testing_support::mix;
using testing_support::Network;
using testing_support::TeamShape;

constexpr uint64_t kLimitNs = 300'000'000'000;
constexpr int kWindows = 3;
constexpr int kRounds = 6;
constexpr int kOperations = 12;  // of each rank in a round
constexpr uint64_t kMostBytes = 16 << 20;
constexpr uint32_t kData = 2, kEnd = 9;  // signals

struct Options {
  Network network = Network::kDefault;
  int ranks = 4;
  int processes = 4;
  uint64_t seed = 1;
  bool refuse = false;
  bool spoil = false;
};

enum class Kind { kNothing, kHeap, kPages, kGlobal, kAllocated, kInsideAllocated };
constexpr uint64_t kKinds = 6;

/// The facts about a rank's part that every rank knows.
struct Part {
  Kind kind = Kind::kNothing;
  uint64_t bytes = 0;

  bool ordinary() const { return kind != Kind::kAllocated && kind != Kind::kInsideAllocated; }
};

Part part_of(const Options& options, int window, int rank) {
  Dice dice(mix(options.seed, static_cast<uint64_t>(window * 1000 + rank)));
  Part part;
  part.kind = static_cast<Kind>(dice.below(kKinds));
  part.bytes = part.kind == Kind::kNothing ? 0
               : dice.one_in(3)            ? kMostBytes - dice.below(4096)  // more than a piece
                                           : dice.log_uniform(kMostBytes);
  return part;
}

/// A part's memory. `rank`s of one process have globals of their own.
class Memory {
 public:
  Memory(const Part& part, int window, int rank) : part_(part) {
    const size_t bytes = part.bytes;
    switch (part.kind) {
      case Kind::kNothing:
        break;
      case Kind::kHeap:
        heap_.resize(bytes + 1);
        data_ = heap_.data() + 1;  // aligned to nothing
        break;
      case Kind::kPages:
        data_ = static_cast<unsigned char*>(
            mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        break;
      case Kind::kGlobal:
        part_.bytes = std::min<uint64_t>(bytes, kGlobalBytes);
        data_ = globals_[window][rank];
        break;
      case Kind::kAllocated:
      case Kind::kInsideAllocated: {
        const size_t before = part.kind == Kind::kAllocated ? 0 : 12345;
        if (tuttiMemAlloc(&allocated_, bytes + before) == tuttiSuccess) {
          data_ = static_cast<unsigned char*>(allocated_) + before;
        }
      }
    }
  }
  ~Memory() {
    if (part_.kind == Kind::kPages) munmap(data_, part_.bytes);
    if (allocated_ != nullptr) tuttiMemFree(allocated_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  unsigned char* data() const { return data_; }

  static constexpr uint64_t kGlobalBytes = 100'000;

 private:
  static inline unsigned char globals_[kWindows][testing_support::kMaxRanks][kGlobalBytes];

  Part part_;
  unsigned char* data_ = nullptr;
  std::vector<unsigned char> heap_;
  void* allocated_ = nullptr;
};

/// Bytes that differ wherever one looks, without a generator call for each.
const unsigned char* bytes_of(uint64_t seed) {
  static const std::vector<unsigned char> table = [] {
    std::vector<unsigned char> made(kMostBytes + 65536);
    for (size_t i = 0; i < made.size(); i += 8) {
      const uint64_t word = mix(4711, i);
      std::memcpy(&made[i], &word, 8);
    }
    return made;
  }();
  return table.data() + seed % 65536;
}

struct Operation {
  int window = 0;
  int target = 0;
  bool gets = false;
  bool signals = false;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t seed = 0;
};

class Plan {
 public:
  explicit Plan(const Options& options) : options_(options) {}

  uint64_t bytes(int window, int rank) const {
    const Part part = part_of(options_, window, rank);
    return part.kind == Kind::kGlobal ? std::min<uint64_t>(part.bytes, Memory::kGlobalBytes)
                                      : part.bytes;
  }
  /// Each origin has a slice of every part, so that nothing orders two origins' operations.
  uint64_t slice(int window, int target, int origin) const {
    return bytes(window, target) * static_cast<uint64_t>(origin) /
           static_cast<uint64_t>(options_.ranks);
  }
  std::vector<Operation> operations(int round, int origin) const {
    Dice dice(mix(options_.seed + 77, static_cast<uint64_t>(round * 1000 + origin)));
    std::vector<Operation> all(kOperations);
    for (Operation& one : all) {
      one.window = static_cast<int>(dice.below(kWindows));
      one.target = static_cast<int>(dice.below(static_cast<uint64_t>(options_.ranks)));
      one.gets = dice.one_in(3);
      one.signals = !one.gets && dice.one_in(2);
      const uint64_t begin = slice(one.window, one.target, origin);
      const uint64_t room = slice(one.window, one.target, origin + 1) - begin;
      one.bytes = room == 0 || dice.one_in(8) ? 0 : dice.one_in(4) ? room : dice.log_uniform(room);
      one.offset = begin + dice.below(room - one.bytes + 1);
      one.seed = dice.next();
    }
    return all;
  }
  /// Whether the kernel's single copy is the only way from one rank to the other's part.
  bool needs_copies(int window, int origin, int target) const {
    const bool same_process = origin % options_.processes == target % options_.processes;
    return !same_process && part_of(options_, window, target).ordinary() &&
           on_one_host(origin, target);
  }

 private:
  bool on_one_host(int one, int other) const {
    const auto environment = [&](int rank) {
      return testing_support::environment_of(options_.network, rank % options_.processes,
                                             options_.processes);
    };
    return options_.network != Network::kTcp && environment(one) == environment(other);
  }

  const Options& options_;
};

/// A peer's later puts are ordered behind this by barriers that pass through other processes. The
/// thread sanitizer cannot see that, so it does not look here.
__attribute__((no_sanitize("thread"))) bool are_equal(const std::vector<unsigned char>& wanted,
                                                      const unsigned char* found) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted.data()[i] != found[i]) return false;
  }
  return true;
}

class Rank : testing_support::TeamRank {
 public:
  Rank(Member& member, const Options& options)
      : TeamRank(member), options_(options), plan_(options), rank_(member.rank()) {}

  void run() {
    if (options_.refuse && !testing_support::refuse_single_copies()) {
      return member_.fail("seccomp: " + std::string(std::strerror(errno)));
    }
    if (!open()) return;
    bool good = true;
    for (int round = 0; round < kRounds && good; ++round) {
      member_.at(static_cast<uint64_t>(round) + 1);
      // By the library, since puts of the next round come only when this one was looked at.
      good = play(round) && judge(round) && ok(tuttiBarrier(comm_, tuttiBlocking()));
    }
    for (int window = 0; window < kWindows && good; ++window) {
      good = ok(tuttiCommWindowDeregister(comm_, windows_[window]));
    }
    if (good) ok(tuttiCommDestroy(comm_));
  }

 private:
  bool open() {
    if (!join()) return false;
    for (int window = 0; window < kWindows; ++window) {
      memory_.push_back(std::make_unique<Memory>(part_of(options_, window, rank_), window, rank_));
      const uint64_t bytes = plan_.bytes(window, rank_);
      if (bytes > 0) std::memset(memory_.back()->data(), 0, bytes);
      for (int rank = 0; rank < options_.ranks; ++rank) {
        mirror_.emplace_back(plan_.bytes(window, rank), 0);
      }
      if (!ok(tuttiCommWindowRegister(comm_, memory_.back()->data(), bytes, &windows_[window],
                                      0))) {
        return false;
      }
    }
    return true;
  }

  /// The bytes that a rank's part should hold: all of my own part, and my slice of another's.
  std::vector<unsigned char>& mirror(int window, int rank) {
    return mirror_[static_cast<size_t>(window * options_.ranks + rank)];
  }

  bool play(int round) {
    for (const Operation& one : plan_.operations(round, rank_)) {
      const bool refused =
          options_.refuse && one.bytes > 0 && plan_.needs_copies(one.window, rank_, one.target);
      const tuttiResult_t result = one.gets ? get(one) : put(one, !refused && spoils(round));
      if (refused ? !is_refusal(result, one.target) : !ok(result)) return false;
    }
    for (int peer = 0; peer < options_.ranks; ++peer) {
      if (!ok(tuttiSignal(peer, windows_[0], kEnd, tuttiBlocking()))) return false;
    }
    return true;
  }

  bool spoils(int round) const { return options_.spoil && round == kRounds / 2 && rank_ == 1; }

  tuttiResult_t put(const Operation& one, bool spoilt) {
    std::vector<unsigned char> data(bytes_of(one.seed), bytes_of(one.seed) + one.bytes);
    if (spoilt && !data.empty()) data[data.size() / 2] ^= 1;
    const tuttiResult_t result =
        one.signals ? tuttiPutSignal(data.data(), one.bytes, one.target, windows_[one.window],
                                     one.offset, kData, tuttiBlocking())
                    : tuttiPut(data.data(), one.bytes, one.target, windows_[one.window], one.offset,
                               tuttiBlocking());
    if (result == tuttiSuccess && one.target != rank_) apply(one);  // my own: in judge()
    return result;
  }

  void apply(const Operation& one) {
    if (one.bytes == 0) return;
    std::memcpy(mirror(one.window, one.target).data() + one.offset, bytes_of(one.seed), one.bytes);
  }

  // Of another rank: what I have put there is what I get. My own is looked at in judge().
  tuttiResult_t get(const Operation& one) {
    std::vector<unsigned char> data(one.bytes, 0xee);
    const tuttiResult_t result = tuttiGet(data.data(), one.bytes, one.target, windows_[one.window],
                                          one.offset, tuttiBlocking());
    const auto* wanted = mirror(one.window, one.target).data() + one.offset;
    if (result == tuttiSuccess && one.target != rank_ && !options_.spoil &&
        !std::equal(data.begin(), data.end(), wanted)) {
      member_.fail("a get is not what was put");
    }
    return result;
  }

  bool is_refusal(tuttiResult_t result, int target) {
    const std::string message = tuttiGetLastError(comm_);
    const auto says = [&](const std::string& what) {
      return message.find(what) != std::string::npos;
    };
    if (result == tuttiUnsupported && says("rank " + std::to_string(target) + " (process ") &&
        says("tuttiMemAlloc")) {
      return true;
    }
    member_.fail(std::string("no refusal: ") + tuttiGetErrorString(result) + ", " + message);
    return false;
  }

  // A rank that has signalled its end has put before that. Checks the effects of all ranks'
  // operations.
  bool judge(int round) {
    for (int origin = 0; origin < options_.ranks; ++origin) {
      uint64_t signals[kWindows] = {};
      for (const Operation& one : plan_.operations(round, origin)) {
        const bool refused =
            options_.refuse && one.bytes > 0 && plan_.needs_copies(one.window, origin, one.target);
        if (one.target != rank_ || one.gets || refused) continue;
        apply(one);
        if (one.signals) ++signals[one.window];
      }
      for (int window = 0; window < kWindows; ++window) {
        if (!ok(tuttiWaitSignal(origin, windows_[window], kData, signals[window],
                                tuttiBlocking()))) {
          return false;
        }
      }
      if (!ok(tuttiWaitSignal(origin, windows_[0], kEnd, 1, tuttiBlocking()))) return false;
    }
    for (int window = 0; window < kWindows; ++window) {
      const auto& wanted = mirror(window, rank_);
      if (!are_equal(wanted, memory_[static_cast<size_t>(window)]->data())) {
        member_.fail("window " + std::to_string(window) + " is not as it was put");
        return false;
      }
    }
    return true;
  }

  const Options& options_;
  const Plan plan_;
  const int rank_;
  tuttiWindow_t windows_[kWindows] = {};
  std::vector<std::unique_ptr<Memory>> memory_;
  std::vector<std::vector<unsigned char>> mirror_;  // [window][rank]
};

bool run(const Options& options) {
  TeamShape shape;
  for (int rank = 0; rank < options.ranks; ++rank) {
    shape.process_of.push_back(rank % options.processes);
  }
  shape.use(options.network);
  const auto result = testing_support::run_team(
      shape, [&](Member& member) { Rank(member, options).run(); },
      [](uint64_t step) { return "round " + std::to_string(step); }, kLimitNs);
  std::printf("%s", result.report.c_str());
  return result.ok;
}

bool read(int argc, char** argv, Options& options) {
  using testing_support::into;
  return testing_support::read_options(
             argc, argv,
             {{"--network", into(options.network)},
              {"--ranks", into(options.ranks, 2, testing_support::kMaxRanks)},
              {"--processes", into(options.processes, 1)},
              {"--seed", into(options.seed)},
              {"--refuse", into(options.refuse)},
              {"--spoil", into(options.spoil)}}) &&
         options.processes <= options.ranks;
}

}  // namespace
}  // namespace tutti::api_test

int main(int argc, char** argv) {
  tutti::api_test::Options options;
  if (!tutti::api_test::read(argc, argv, options)) return 2;
  return tutti::api_test::run(options) ? 0 : 1;
}
