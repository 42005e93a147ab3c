#include "perf/mpi/duel.h"

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "perf/collectives/communicator.h"
#include "perf/collectives/error.h"
#include "perf/collectives/finding.h"
#include "perf/collectives/measure.h"
#include "perf/collectives/timed_loop.h"
#include "perf/collectives/workload.h"
#include "perf/mpi/mpi_operation.h"

namespace tutti::perf {
namespace {

enum Variant { kTutti = 0, kMpi = 1, kVariants = 2 };

/// A way to run the loop.
struct Mode {
  bool stepped;
  const char* name;
};
constexpr Mode kFreeRunning = {false, "free-running"};
constexpr Mode kStepped = {true, "stepped"};
constexpr Mode kFresh = {true, "fresh"};

std::vector<Mode> modes_of(const PerfOptions& options) {
  if (options.fresh) return {kFresh};
  return {kFreeRunning, kStepped};
}

constexpr size_t kWarmIterations = 2;

const char* name_of(Variant variant) { return variant == kTutti ? kTuttiVariant : kMpiVariant; }

/// Both variants of one case.
class Duel {
  // Above their uses, which need the types.
  auto tutti_call() const {
    return [this](size_t i) {
      communicator_.check(
          enqueue(one_.operation, workload_.send(one_, i), workload_.recv(one_, i), communicator_),
          "Tutti's call");
    };
  }
  auto mpi_call() const {
    return [this](size_t i) { mpi_.run(workload_.send(one_, i), workload_.recv(one_, i)); };
  }
  auto finish() const {
    return [this] { communicator_.synchronize(); };
  }

 public:
  Duel(const RankContext& context, const Communicator& communicator, Workload& workload,
       const PreparedCase& one, bool fresh)
      : context_(context),
        communicator_(communicator),
        workload_(workload),
        one_(one),
        mpi_(one.operation) {
    workload_.prepare(one_);
    if (fresh) before_step_ = [this](size_t i) { workload_.renew(one_, i); };
  }

  /// Collective.
  void check(Variant variant) {
    workload_.refill(one_, 0);
    context_.board.barrier();
    run(variant, {1, true});
    const std::optional<Finding> found = first_finding(context_, workload_.check(one_, 0));
    if (!found) return;
    throw PerfError(std::string(name_of(variant)) + ", " + std::to_string(one_.size_bytes()) +
                        " bytes: " + sentence_of(*found),
                    kExitResult);
  }

  /// Both alike, as sweeps do: the first pass through the rings of many ranks touches their pages.
  void warm_up() {
    const size_t calls = warm_up_calls(one_.size_bytes(), context_.ranks);
    for (const Variant variant : {kTutti, kMpi}) run(variant, {calls, false, before_step_});
  }

  void calibrate_all(const std::vector<Mode>& modes, double round_us) {
    for (const Mode& mode : modes) {
      const LoopShape loop{1, mode.stepped, before_step_};
      size_t* iterations = iterations_[mode.stepped];
      iterations[kTutti] = calibrate(context_, round_us, loop, tutti_call(), finish());
      iterations[kMpi] = calibrate(context_, round_us, loop, mpi_call(), [] {});
    }
  }

  /// Collective: the slowest rank's time per iteration.
  double time(Variant variant, bool stepped) {
    run(variant, {kWarmIterations, stepped, before_step_});
    const LoopTime own = run(variant, {iterations_[stepped][variant], stepped, before_step_});
    return context_.board.max(context_.rank, own.us);
  }

 private:
  LoopTime run(Variant variant, const LoopShape& loop) {
    if (variant == kTutti) return timed_loop(context_, loop, tutti_call(), finish());
    return timed_loop(context_, loop, mpi_call(), [] {});
  }

  const RankContext context_;
  const Communicator& communicator_;
  Workload& workload_;
  const PreparedCase& one_;
  const MpiOperation mpi_;
  std::function<void(size_t)> before_step_;
  size_t iterations_[2][kVariants] = {};
};

void run_rounds(Duel& duel, const PerfOptions& options, Round round, std::vector<Round>& rounds) {
  const std::vector<Mode> modes = modes_of(options);
  duel.warm_up();
  duel.calibrate_all(modes, options.versus.round_ms * 1e3);
  for (round.round = 0; round.round < options.versus.rounds; ++round.round) {
    const bool mpi_first = round.round % 2 == 1;
    for (const auto& [stepped, mode] : modes) {
      for (int place = 0; place < kVariants; ++place) {
        const Variant variant = (place == 1) != mpi_first ? kMpi : kTutti;
        round.mode = mode;
        round.variant = name_of(variant);
        round.us = duel.time(variant, stepped);
        rounds.push_back(round);
      }
    }
  }
}

}  // namespace

std::vector<Round> run_duel(const RankContext& context, const PerfOptions& options) {
  if (options.types.size() != 1 || options.ops.size() != 1 || options.root < 0) {
    throw PerfError("--vs compares one type, one operation and one root");
  }
  const Communicator communicator(context, options.communicator);
  Workload workload(communicator, options);
  std::vector<Round> rounds;
  Round round;
  round.configuration = options.versus.configuration;
  round.ranks = context.ranks;
  round.collective = traits_of(options.collective).name;
  for (const size_t bytes : options.byte_sizes()) {
    const Case one{bytes, options.types[0], options.ops[0], options.root};
    const bool in_place = options.collective == Collective::kBroadcast;
    const PreparedCase prepared(options, whole_group(context), one, in_place);
    Duel duel(context, communicator, workload, prepared, options.fresh);
    duel.check(kTutti);
    duel.check(kMpi);
    round.bytes = prepared.size_bytes();
    run_rounds(duel, options, round, rounds);
  }
  return rounds;
}

}  // namespace tutti::perf
