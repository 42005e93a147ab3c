// All ranks of a group, and all threads of their kernels, in one thread of the host, for tests of
// the kernels that wait: after each load and store of any of them chance decides who goes on. Ranks
// come late, threads are held up for long, and a call of a rank begins when its last one is over,
// as in a stream.
//
// Calls are made again and again by the same programs, as graphs make them; what they have in their
// buffers is different each time. Errors: run() says what was wrong, with the call.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "src/engines/cuda/fused_machine.h"
#include "src/engines/cuda/fused_thread.h"
#include "src/registry/algorithms.h"
#include "tests/support/dice.h"
#include "tests/support/fibers.h"
#include "tests/support/stepped_lines.h"
#include "tools/verifier/plan_sweep.h"

namespace tutti::engines::cuda {

inline plan::Tuning fused_tuning_for_tests() {
  plan::Tuning tuning;
  tuning.inline_bytes = 0;
  tuning.frame_bytes = tuning.region_bytes = uint64_t{1} << 40;
  tuning.pipeline_bytes = tuning.pipeline_region_bytes = ~uint64_t{0};
  tuning.long_pipeline_bytes = ~uint64_t{0};
  return tuning;
}

/// A call as all ranks make it.
struct FusedCase {
  std::string name;
  plan::Lowering lowering;
  std::vector<plan::Match> matches;
  plan::PlanSet set;
  schedule::Collective collective = schedule::Collective::kAllReduce;
  uint64_t count = 0;
  bool in_place = false;

  struct Shape {
    schedule::Collective collective = schedule::Collective::kAllReduce;
    std::string_view algorithm;
    int ranks = 2;
    uint64_t count = 1;
    bool in_place = false;
    int root = 0;
  };

  /// Null: there is no such algorithm.
  static std::unique_ptr<FusedCase> make(const Shape& shape) {
    const auto [collective, algorithm, ranks, count, in_place, root] = shape;
    auto made = std::make_unique<FusedCase>();
    for (const schedule::Algorithm& one : registry::algorithms()) {
      if (one.collective == collective && one.name == algorithm) made->lowering.algorithm = &one;
    }
    if (made->lowering.algorithm == nullptr) return nullptr;
    made->name = std::string(schedule::name_of(collective)) + "/" + std::string(algorithm) + " " +
                 std::to_string(count) + (in_place ? " in place" : "");
    made->lowering.parameters = {.ranks = ranks, .root = root};
    made->lowering.placing = in_place ? plan::Placing::kInPlace : plan::Placing::kSeparate;
    Result<std::vector<plan::Match>> matches = plan::match_all(made->lowering);
    if (!matches.ok()) return nullptr;
    made->matches = std::move(matches).value();
    made->set = plan::bind_all(made->matches, {count, types::DataType::kUint32, {}},
                               fused_tuning_for_tests());
    for (size_t rank = 0; rank < made->set.plans.size(); ++rank) {
      plan::Plan& plan = made->set.plans[rank];
      plan.match = &made->matches[rank];
      plan.algorithm = std::string(algorithm);
      for (plan::LanePlan& lane : plan.lanes) lane.engine = plan::Engine::kDevice;
    }
    made->collective = collective;
    made->count = count;
    made->in_place = in_place;
    return made;
  }
};

struct FusedWorldOptions {
  int ranks = 2;
  uint32_t blocks = 2, threads = 2;
  bool grids_differ = false;  // each call of each rank has 1 to `blocks` blocks
  uint64_t mailbox_bytes = 4096;
  uint64_t seed = 1;
  uint32_t first_number = 0;        // of the call before the first one
  uint32_t least_lines = 2;         // of a block
  uint64_t held_up_one_in = 40;     // looks of a thread; then it sleeps for a random time
  bool last_block_is_late = false;  // it begins when others have looked for something for long
};

template <class Rules = SoundFusedRules, class Faults = testing_support::SoundLines>
class FusedWorld {
 public:
  explicit FusedWorld(const FusedWorldOptions& options)
      : options_(options),
        dice_(options.seed),
        layout_{static_cast<uint64_t>(options.ranks), options.mailbox_bytes},
        ranks_(static_cast<size_t>(options.ranks)) {
    for (Rank& rank : ranks_) {
      rank.memory.assign(layout_.bytes() / 8, 0);
      rank.words.assign(64, 0);
      rank.scratch.assign(4096, 0);
    }
    jump_to(options.first_number);
  }

  /// A call that order() may name, from 0. An error of FusedMachine.
  Status add(std::unique_ptr<FusedCase> one) {
    if (one == nullptr) return Status::internal_error("there is no such algorithm");
    Graph graph;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      Buffers& buffers = graph.buffers.emplace_back();
      const int number = static_cast<int>(rank);
      const uint64_t in = schedule::input_elements(one->set.shape, number, one->count);
      const uint64_t out = schedule::output_elements(one->set.shape, number, one->count);
      buffers.send.resize(in + 2);
      buffers.recv.resize(std::max(in, out) + 2);
      FusedMachine machine(addresses(rank));
      FusedCall call = place(*one, rank, buffers);
      call.signature = signature_of(graphs_.size());
      Status status = machine.make(one->set.plans[rank], call);
      if (!status.ok()) return status;
      graph.programs.push_back(machine.program());
      graph.programs.back().least_lines = options_.least_lines;
    }
    graph.of = std::move(one);
    graphs_.push_back(std::move(graph));
    return {};
  }

  /// Makes these calls, on each rank in this order. The first thing that was wrong, or "".
  std::string run(const std::vector<uint32_t>& order) {
    order_ = &order;
    for (Rank& rank : ranks_) rank.next = 0;
    for (missed_ = 0; !is_over() && wrong_.empty();) {
      step(ranks_[dice_.below(ranks_.size())]);
      if (missed_ > kMostMissed) return "it stands still" + where();
    }
    return wrong_;
  }

  /// Calls that there are.
  uint32_t size() const { return static_cast<uint32_t>(graphs_.size()); }
  /// Everything ends soon, and whatever: the words that the host has for a rank.
  void stop(size_t rank) { ranks_[rank].words[kFusedStop / 8] = 1; }
  uint64_t word(size_t rank, uint64_t offset) const { return ranks_[rank].words[offset / 8]; }
  /// As if so many calls had been made that the last one had this number. Between two run().
  void jump_to(uint32_t number) {
    for (Rank& rank : ranks_) {
      for (uint32_t block = 0; block < kFusedBlocks; ++block) rank.memory[block] = number;
      for (size_t peer = 0; peer < ranks_.size(); ++peer) {
        rank.memory[FusedLayout::kCredits / 8 + peer] = number;
      }
    }
    ++salt_;
  }
  /// The rank makes no call any more.
  void kill(size_t rank) { ranks_[rank].dead = true; }
  /// Of programs of any rank: what the host says beside the plan.
  void tell(uint64_t timeout_ns, uint64_t place) {
    for (Graph& graph : graphs_) {
      for (FusedProgram& program : graph.programs) {
        program.timeout_ns = timeout_ns;
        program.place = place;
      }
    }
  }
  /// Outputs are not looked at.
  void ignore_outputs() { checks_ = false; }

  // SteppedLines asks these.
  void before_access() {
    ++accesses_;
    if (dice_.one_in(3)) testing_support::Fibers::give_way();
  }
  void missed() {
    ++missed_;
    testing_support::Fibers::give_way();
  }
  uint64_t now_ns() { return accesses_; }

 private:
  static uint32_t signature_of(size_t graph) { return 1000 + static_cast<uint32_t>(graph); }
  // Looks that find nothing, since a thread has ended.
  static constexpr uint64_t kMostMissed = 1 << 17;
  using Lines = testing_support::SteppedLines<FusedWorld, Faults>;
  using Thread = FusedThread<types::DataType::kUint32, types::ReduceOp::kSum, Lines, Rules>;

  struct Buffers {
    std::vector<uint32_t> send, recv;
  };
  struct Graph {
    std::unique_ptr<FusedCase> of;
    std::vector<Buffers> buffers;        // by rank
    std::vector<FusedProgram> programs;  // by rank
  };
  struct Runner {
    size_t fiber = 0;
    uint64_t asleep = 0;  // so many more steps of its rank
  };
  struct Rank {
    std::vector<uint64_t> memory, words, scratch;
    size_t next = 0;  // of order_
    std::vector<Runner> runners;
    uint64_t late = 0;  // so many steps until it makes its next call
    bool dead = false;
  };

  FusedAddresses addresses(size_t rank) {
    FusedAddresses found;
    found.rank = static_cast<uint32_t>(rank);
    for (Rank& one : ranks_)
      found.memories.push_back(reinterpret_cast<uint64_t>(one.memory.data()));
    found.layout = layout_;
    found.words = reinterpret_cast<uint64_t>(ranks_[rank].words.data());
    found.scratch = reinterpret_cast<uint64_t>(ranks_[rank].scratch.data());
    found.scratch_bytes = ranks_[rank].scratch.size() * 8;
    return found;
  }

  // Buffers begin at odd words, so that blocks are aligned in no way.
  static FusedCall place(const FusedCase& one, size_t rank, Buffers& buffers) {
    FusedCall call{.send = reinterpret_cast<uint64_t>(buffers.send.data() + 1),
                   .recv = reinterpret_cast<uint64_t>(buffers.recv.data() + 1)};
    if (!one.in_place) return call;
    const schedule::Traits& traits = schedule::traits_of(one.collective);
    const uint64_t own = rank * one.count * sizeof(uint32_t);
    call.send = call.recv;
    if (traits.nests(schedule::Space::kInput)) call.send += own;
    if (traits.nests(schedule::Space::kOutput)) call.recv += own;
    return call;
  }

  bool is_over() const {
    return std::all_of(ranks_.begin(), ranks_.end(), [&](const Rank& rank) {
      return rank.runners.empty() && (rank.dead || rank.next == order_->size());
    });
  }
  std::string where() const {
    std::string text;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      text += "; rank " + std::to_string(rank) + " in call " + std::to_string(ranks_[rank].next);
    }
    return text;
  }

  void step(Rank& rank) {
    if (rank.runners.empty()) return begin(rank);
    Runner& runner = rank.runners[dice_.below(rank.runners.size())];
    if (runner.asleep > 0) {
      --runner.asleep;
      return;
    }
    if (!fibers_.run(runner.fiber)) {
      missed_ = 0;
      std::swap(runner, rank.runners.back());
      rank.runners.pop_back();
      if (rank.runners.empty()) end(rank);
    } else if (dice_.one_in(options_.held_up_one_in)) {
      runner.asleep = dice_.below(200);
    }
  }

  void begin(Rank& rank) {
    if (rank.dead || rank.next == order_->size()) return;
    if (rank.late > 0) {
      --rank.late;
      return;
    }
    const auto number = static_cast<size_t>(&rank - ranks_.data());
    Graph& graph = graphs_[(*order_)[rank.next]];
    fill(graph, number, rank.next);
    const FusedProgram& program = graph.programs[number];
    const uint32_t most = options_.blocks;
    const uint32_t blocks =
        options_.grids_differ ? 1 + static_cast<uint32_t>(dice_.below(most)) : most;
    for (uint32_t block = 0; block < blocks; ++block) {
      left_[number][block] = options_.threads;
      for (uint32_t thread = 0; thread < options_.threads; ++thread) {
        const GridPlace at{block, blocks, thread, options_.threads};
        rank.runners.push_back({fibers_.add([this, &program, at, number] {
          Lines lines(*this);
          Thread one(program, at, lines);
          one.run();
          // The last one of a block, as behind its barrier.
          if (--left_[number][at.block] == 0) one.finish();
        })});
      }
    }
    if (dice_.one_in(4)) {
      for (Runner& runner : rank.runners) runner.asleep = dice_.below(300);
    }
    if (!options_.last_block_is_late) return;
    constexpr uint64_t kLong = 5000;
    for (uint32_t i = 0; i < options_.threads; ++i) {
      rank.runners[rank.runners.size() - 1 - i].asleep = kLong;
    }
  }

  uint32_t value(uint64_t call, uint64_t rank, uint64_t index) const {
    return static_cast<uint32_t>(testing_support::mix(call * 64 + rank + (salt_ << 40), index));
  }

  uint32_t* input_of(Graph& graph, size_t rank) {
    return reinterpret_cast<uint32_t*>(place(*graph.of, rank, graph.buffers[rank]).send);
  }

  void fill(Graph& graph, size_t rank, uint64_t call) {
    const auto number = static_cast<int>(rank);
    Buffers& buffers = graph.buffers[rank];
    std::fill(buffers.recv.begin(), buffers.recv.end(), 0xdddddddd);
    const uint64_t in = schedule::input_elements(graph.of->set.shape, number, graph.of->count);
    uint32_t* const input = input_of(graph, rank);
    for (uint64_t i = 0; i < in; ++i) input[i] = value(call, rank, i);
  }

  uint32_t expected(const FusedCase& one, uint64_t call, uint64_t rank, uint64_t i) const {
    using schedule::Collective;
    const auto sum = [&](uint64_t index) {
      uint32_t all = 0;
      for (uint64_t from = 0; from < ranks_.size(); ++from) all += value(call, from, index);
      return all;
    };
    switch (one.collective) {
      case Collective::kAllReduce:
        return sum(i);
      case Collective::kReduceScatter:
        return sum(rank * one.count + i);
      case Collective::kAllGather:
        return value(call, i / one.count, i % one.count);
      case Collective::kAllToAll:
        return value(call, i / one.count, rank * one.count + i % one.count);
      default:
        return value(call, static_cast<uint64_t>(one.lowering.parameters.root), i);
    }
  }

  void end(Rank& rank) {
    const auto number = static_cast<size_t>(&rank - ranks_.data());
    Graph& graph = graphs_[(*order_)[rank.next]];
    const FusedCase& one = *graph.of;
    const uint64_t out =
        schedule::output_elements(one.set.shape, static_cast<int>(number), one.count);
    const auto* const got =
        reinterpret_cast<const uint32_t*>(place(one, number, graph.buffers[number]).recv);
    for (uint64_t i = 0; i < out && checks_; ++i) {
      const uint32_t right = expected(one, rank.next, number, i);
      if (got[i] == right) continue;
      wrong_ = one.name + ", call " + std::to_string(rank.next) + ", rank " +
               std::to_string(number) + ": element " + std::to_string(i) + " is wrong";
      return;
    }
    if (one.collective == schedule::Collective::kBarrier) check_barrier(rank);
    check_told(rank);
    ++rank.next;
    rank.late = dice_.one_in(5) ? dice_.below(500) : 0;
  }

  // The host knows which call it was.
  void check_told(const Rank& rank) {
    const auto number = static_cast<uint32_t>(rank.memory[FusedLayout::kSequences / 8]);
    const uint64_t told = rank.words[kFusedBegun / 8 + number % kFusedRecent];
    if (told == (uint64_t{number} << 32 | signature_of((*order_)[rank.next]))) return;
    wrong_ = "a kernel has not told which call it runs";
  }

  // Nobody leaves before all have come.
  void check_barrier(const Rank& rank) {
    for (const Rank& other : ranks_) {
      const bool has_come = other.next > rank.next || (other.next == rank.next &&
                                                       (&other == &rank || !other.runners.empty()));
      if (!has_come) wrong_ = "a rank leaves a barrier to which another one has not come";
    }
  }

  const FusedWorldOptions options_;
  testing_support::Dice dice_;
  const FusedLayout layout_;
  std::vector<Rank> ranks_;
  std::vector<Graph> graphs_;
  const std::vector<uint32_t>* order_ = nullptr;
  testing_support::Fibers fibers_;
  uint32_t left_[kMostFusedRanks][kFusedBlocks] = {};  // by rank and block: threads that run
  uint64_t accesses_ = 0, missed_ = 0, salt_ = 0;
  bool checks_ = true;
  std::string wrong_;
};

/// All that run as kernels.
struct KnownFused {
  schedule::Collective collective;
  const char* algorithm;
};
inline constexpr KnownFused kKnownFused[] = {{schedule::Collective::kAllReduce, "one_shot"},
                                             {schedule::Collective::kAllReduce, "two_shot"},
                                             {schedule::Collective::kReduceScatter, "direct"},
                                             {schedule::Collective::kAllGather, "direct"},
                                             {schedule::Collective::kBroadcast, "publish_once"},
                                             {schedule::Collective::kAllToAll, "pairwise"},
                                             {schedule::Collective::kBarrier, "dissemination"}};

template <class World>
void add_fused_calls(World& world, int ranks, std::vector<uint64_t> counts) {
  for (const KnownFused& one : kKnownFused) {
    for (const uint64_t count : counts) {
      for (const bool in_place : {false, true}) {
        auto made = FusedCase::make({.collective = one.collective,
                                     .algorithm = one.algorithm,
                                     .ranks = ranks,
                                     .count = count,
                                     .in_place = in_place,
                                     .root = static_cast<int>(count) % ranks});
        ASSERT_NE(made, nullptr) << one.algorithm;
        if (in_place && !made->lowering.algorithm->in_place) continue;
        const Status status = world.add(std::move(made));
        ASSERT_TRUE(status.ok()) << one.algorithm << ": " << status.message();
      }
    }
  }
}

}  // namespace tutti::engines::cuda
