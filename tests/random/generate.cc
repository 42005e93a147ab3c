// make_job: from a seed and a number to a job. The order of the draws decides which job a seed
// stands for: a change here changes every seed.
#include <algorithm>
#include <iterator>
#include <map>
#include <optional>

#include "tests/random/job.h"
#include "tests/random/pattern.h"
#include "tests/random/population.h"
#include "tests/support/algorithm_names.h"
#include "tests/support/dice.h"

namespace tutti::random_calls {
namespace {

using reference::Collective;
using testing_support::Dice;
using testing_support::NamedAlgorithm;

constexpr uint64_t kUsualBytes = 1 << 20;
constexpr uint64_t kLargeBytes = 64 << 20;
constexpr uint64_t kDirectBytes = 3 << 20;  // at most: a DeviceMirror has room

class Generator {
 public:
  Generator(uint64_t seed, uint64_t number, const Limits& limits)
      : dice_(testing_support::mix(seed, number)),
        limits_(limits),
        algorithms_(testing_support::listed_algorithms()) {
    job_.seed = seed;
    job_.number = number;
  }

  Job make() {
    draw_shape();
    job_.has_regions = dice_.one_in(2) || limits_.direct;
    job_.devices = limits_.devices;
    job_.renews = limits_.direct;
    population_.emplace(job_, dice_, limits_);
    int left = limits_.calls;
    while (left > 0) {
      job_.batches.push_back(draw_batch(left));
      left -= static_cast<int>(job_.batches.back().calls.size());
    }
    if (limits_.large && job_.ranks() > 1 && job_.ranks() <= 4 && dice_.one_in(3)) {
      job_.batches.push_back({Way::kBlocking, {draw_large()}, dice_.one_in(2)});
    }
    return std::move(job_);
  }

 private:
  void draw_shape() {
    const auto choices = static_cast<uint64_t>(limits_.max_ranks - limits_.min_ranks + 1);
    const int ranks = limits_.min_ranks + static_cast<int>(dice_.below(choices));
    const uint64_t network = dice_.below(4);  // half of the jobs are on one host
    job_.network = network == 0   ? Network::kTcp
                   : network == 1 ? Network::kMixed
                                  : Network::kDefault;
    if (ranks == 1 || limits_.direct) job_.network = Network::kDefault;
    const bool threads = job_.network != Network::kMixed && dice_.one_in(2);
    uint64_t per_process = threads ? static_cast<uint64_t>(ranks) : 1 + dice_.below(2);
    if (limits_.processes) per_process = 1;
    for (int rank = 0; rank < ranks; ++rank) {
      job_.shape.process_of.push_back(rank / static_cast<int>(per_process));
    }
    job_.shape.use(job_.network);
    for (testing_support::Environment& environment : job_.shape.environment) {
      environment["TUTTI_LAZY_CONNECT"] = ranks % 2 == 0 ? "1" : "0";
      // Small rings make more calls long, which are direct where memory is registered.
      if (limits_.devices) environment["TUTTI_DEVICE_RING_BYTES"] = ranks % 2 == 0 ? "512K" : "2M";
      environment["TUTTI_STAGING_STORES"] = ranks % 4 < 2 ? "measured" : "streaming";
    }
  }

  Batch draw_batch(int left) {
    Batch batch;
    const uint64_t way = dice_.below(8);  // half of the batches block
    batch.way = way < 4 ? Way::kBlocking : static_cast<Way>(way - 3);
    batch.handles = dice_.one_in(3);
    batch.changes = population_->draw_changes();
    put_end_ = kReadBytes;
    const uint64_t most = std::min<uint64_t>(kMaxBatch, static_cast<uint64_t>(left));
    const uint64_t calls = 1 + dice_.below(most);
    const bool allocated = job_.has_regions && dice_.one_in(2) && !limits_.direct;
    for (uint64_t i = 0; i < calls; ++i) {
      Call call = draw_call();
      call.on_device = limits_.devices && may_be_on_device(call);
      call.allocated = call.kind != Kind::kOneSided && (allocated || registers(call));
      batch.calls.push_back(std::move(call));
    }
    // Options of functions belong to the communicator, not to a call of a group.
    if (batch.grouped() && !batch.handles) share_options(batch);
    return batch;
  }

  // Three of four in a job of direct calls; what lies on the host must have room in a Region.
  bool registers(const Call& call) const {
    const bool fits = call.on_device || bytes_of(call) <= kUsualBytes;
    return limits_.direct && fits && testing_support::mix(call.seed, 5) % 4 != 0;
  }

  // Three of four that have room in a DeviceMirror, whatever else the batch holds.
  static bool may_be_on_device(const Call& call) {
    const uint64_t most = call.kind == Kind::kPairs ? 512 << 10 : kDirectBytes;
    return call.kind != Kind::kOneSided && bytes_of(call) <= most &&
           testing_support::mix(call.seed, 3) % 4 != 0;
  }

  // Those of the communicator's first call; an algorithm is one collective's.
  void share_options(Batch& batch) const {
    std::map<uint32_t, CallOptions> shared;
    for (Call& call : batch.calls) {
      if (call.kind == Kind::kOneSided) continue;
      call.options = shared.try_emplace(call.communicator, call.options).first->second;
      call.options.algorithm.clear();
      set_deterministic(call, limits_.deterministic);
    }
  }

  Call draw_call() {
    constexpr Collective kWeighted[] = {
        Collective::kAllReduce,     Collective::kAllReduce,     Collective::kAllReduce,
        Collective::kAllReduce,     Collective::kAllGather,     Collective::kAllGather,
        Collective::kReduceScatter, Collective::kReduceScatter, Collective::kReduceScatter,
        Collective::kBroadcast,     Collective::kBroadcast,     Collective::kReduce,
        Collective::kReduce,        Collective::kGather,        Collective::kScatter,
        Collective::kAllToAll,      Collective::kAllGatherV,    Collective::kReduceScatterV,
        Collective::kAllToAllV,     Collective::kAllToAllV,     Collective::kBarrier};
    const uint64_t kind = dice_.below(std::size(kWeighted) + 5);
    Call call = new_call(kind > std::size(kWeighted));
    if (kind < std::size(kWeighted)) {
      draw_collective(call, kWeighted[kind]);
      draw_size(call, limits_.direct ? kDirectBytes : kUsualBytes);
    } else if (kind == std::size(kWeighted)) {
      draw_transfers(call);
    } else {
      draw_accesses(call);
    }
    return call;
  }

  Call new_call(bool one_sided) {
    Call call;
    call.seed = dice_.next();
    call.communicator = population_->pick(one_sided);
    ranks_ = job_.of(call).ranks();
    if (one_sided) return call;
    if (dice_.one_in(2)) call.options.priority = static_cast<int>(dice_.below(5)) - 2;
    call.options.deadline = dice_.one_in(4);
    return call;
  }

  Call draw_large() {
    Call call = new_call(false);
    draw_collective(call, static_cast<Collective>(dice_.below(reference::kCollectives - 1)));
    // The serial reference checks every element: wide ones keep that short.
    call.problem.type = dice_.one_in(2) ? tuttiFloat32 : tuttiInt64;
    draw_values(call);
    if (reference::has_counts(call.problem.collective)) {
      draw_shares(call, kLargeBytes);
    } else {
      const uint64_t share = output_or_input(call.problem) * reference::size_of(call.problem.type);
      call.problem.count = kLargeBytes / share - dice_.below(3);
    }
    return call;
  }

  void draw_collective(Call& call, Collective collective) {
    reference::Problem& p = call.problem;
    p.collective = collective;
    p.ranks = ranks_;
    p.type = static_cast<tuttiDataType_t>(dice_.below(reference::kTypes));
    draw_op(call, reference::reduces(collective));
    p.root = static_cast<int>(dice_.below(static_cast<uint64_t>(ranks_)));
    if (!reference::is_rooted(collective)) p.root = 0;
    call.in_place = collective != Collective::kBarrier && dice_.one_in(3);
    draw_values(call);
    set_deterministic(call, limits_.deterministic || dice_.one_in(6));
    if (dice_.one_in(2)) draw_algorithm(call);
  }

  // Scaled sums of either kind are as frequent as the other operations. A pair that is not
  // defined becomes a sum.
  void draw_op(Call& call, bool reduces) {
    const uint64_t op = dice_.below(reference::kOps + 2);
    if (!reduces) return;
    const tuttiDataType_t type = call.problem.type;
    const bool scaled = op >= reference::kOps;
    const bool can_be = scaled ? reference::can_scale(type)
                               : reference::can_reduce(type, static_cast<tuttiRedOp_t>(op));
    if (!can_be) return;
    if (scaled) call.scalar = op == reference::kOps ? Scalar::kImmediate : Scalar::kDevice;
    call.problem.op = scaled ? tuttiSum : static_cast<tuttiRedOp_t>(op);
  }

  void draw_values(Call& call) {
    reference::Problem& p = call.problem;
    const bool computes = reference::reduces(p.collective) && reference::is_float(p.type);
    call.values = !computes ? Values::kAny : dice_.one_in(2) ? Values::kExact : Values::kRounded;
    const bool power_of_two = (ranks_ & (ranks_ - 1)) == 0;
    if (call.values == Values::kExact && p.op == tuttiAvg && !power_of_two) {
      call.values = Values::kRounded;  // 1/n itself is rounded
    }
    p.exact = call.values == Values::kExact;
    p.scalars.clear();
    for (int rank = 0; call.scalar != Scalar::kNone && rank < p.ranks; ++rank) {
      p.scalars.push_back(Pattern(call).scalar(rank));
    }
  }

  static void set_deterministic(Call& call, bool on) {
    call.options.deterministic = on;
    call.problem.canonical = on && reference::reduces(call.problem.collective);
  }

  void draw_algorithm(Call& call) {
    std::vector<NamedAlgorithm> fitting;
    const bool has_counts = reference::has_counts(call.problem.collective);
    for (const NamedAlgorithm& algorithm : algorithms_) {
      const std::string name = algorithm.collective + (has_counts ? "_v" : "");
      if (name != reference::name_of(call.problem.collective)) continue;
      if (has_counts && algorithm.equal_counts) continue;
      if (call.problem.canonical && !algorithm.canonical) continue;
      fitting.push_back(algorithm);
    }
    if (fitting.empty()) return;
    const NamedAlgorithm& chosen = dice_.pick(fitting);
    call.options.algorithm = chosen.name;
    if (chosen.max_lanes > 1 && dice_.one_in(2)) {
      const auto lanes = static_cast<uint64_t>(chosen.max_lanes);
      call.options.algorithm += ":" + std::to_string(1 + dice_.below(lanes));
    }
  }

  // Elements of the larger buffer for each of `count`.
  static uint64_t output_or_input(const reference::Problem& p) {
    reference::Problem one = p;
    one.count = 1;
    const uint64_t larger = std::max(reference::input_elements(one, one.root),
                                     reference::output_elements(one, one.root));
    return std::max<uint64_t>(1, larger);
  }

  void draw_size(Call& call, uint64_t greatest_bytes) {
    if (reference::has_counts(call.problem.collective)) {
      draw_shares(call, greatest_bytes);
    } else {
      call.problem.count = draw_count(call.problem, greatest_bytes);
    }
  }

  // Zeros and ones among all sizes, and now and then one share as long as all others together.
  void draw_shares(Call& call, uint64_t greatest_bytes) {
    reference::Problem& p = call.problem;
    const auto ranks = static_cast<uint64_t>(p.ranks);
    const bool private_counts = p.collective == Collective::kAllToAllV;
    const uint64_t greatest =
        std::max<uint64_t>(1, greatest_bytes / reference::size_of(p.type) / ranks / 2);
    p.gap = reference::has_offsets(p.collective) && dice_.one_in(3) ? 1 + dice_.below(5) : 0;
    for (uint64_t i = 0; i < (private_counts ? ranks * ranks : ranks); ++i) {
      const uint64_t kind = dice_.below(6);
      p.counts.push_back(kind < 2 ? kind : dice_.log_uniform(greatest));
    }
    if (dice_.one_in(4)) p.counts[dice_.below(p.counts.size())] = greatest * ranks;
    if (dice_.one_in(12)) std::fill(p.counts.begin(), p.counts.end(), 0);
    if (!call.in_place || !private_counts) return;
    for (uint64_t from = 0; from < ranks; ++from) {
      for (uint64_t to = 0; to < from; ++to)
        p.counts[from * ranks + to] = p.counts[to * ranks + from];
    }
  }

  uint64_t draw_count(const reference::Problem& p, uint64_t greatest_bytes) {
    if (p.collective == Collective::kBarrier) return 0;
    const uint64_t share = output_or_input(p) * reference::size_of(p.type);
    const uint64_t greatest = std::max<uint64_t>(1, greatest_bytes / share);
    if (limits_.direct && !dice_.one_in(4)) return greatest - dice_.below(greatest / 2 + 1);
    switch (dice_.below(8)) {
      case 0:
        return 0;
      case 1:
        return 1;
      case 2:
        return std::min(greatest, dice_.log_uniform(greatest) | 1);
      default:
        return dice_.log_uniform(greatest);
    }
  }

  void draw_transfers(Call& call) {
    call.kind = Kind::kPairs;
    const uint64_t transfers = 1 + dice_.below(6);
    const auto ranks = static_cast<uint64_t>(ranks_);
    for (uint64_t i = 0; i < transfers; ++i) {
      Transfer t;
      t.source = static_cast<int>(dice_.below(ranks));
      t.target = static_cast<int>(dice_.below(ranks));
      t.type = static_cast<tuttiDataType_t>(dice_.below(reference::kTypes));
      const uint64_t greatest = kUsualBytes / reference::size_of(t.type);
      t.count = dice_.one_in(8) ? 0 : dice_.log_uniform(greatest);
      call.transfers.push_back(t);
    }
  }

  void draw_accesses(Call& call) {
    call.kind = Kind::kOneSided;
    call.arrival = static_cast<Arrival>(dice_.below(3));
    call.signal = static_cast<uint32_t>(dice_.below(kTakenSignal));
    const uint64_t accesses = 1 + dice_.below(kMaxAccesses);
    const auto ranks = static_cast<uint64_t>(ranks_);
    for (uint64_t i = 0; i < accesses; ++i) {
      Access a;
      a.origin = static_cast<int>(dice_.below(ranks));
      a.target = static_cast<int>(dice_.below(ranks));
      a.is_get = dice_.one_in(4);
      // Behind its own signal a target may change what is to be read.
      a.reads_back = !a.is_get && call.arrival != Arrival::kPutSignal && dice_.one_in(3);
      a.window = static_cast<uint32_t>(dice_.below(job_.of(call).windows));
      a.bytes = dice_.one_in(8) ? 0 : dice_.log_uniform(kMaxAccessBytes);
      a.offset = a.is_get ? dice_.below(kReadBytes - a.bytes) : place_of_put(a.bytes);
      call.accesses.push_back(a);
    }
  }

  // At any alignment, with a guard before and one behind.
  uint64_t place_of_put(uint64_t bytes) {
    const uint64_t place = put_end_ + kPutGuardBytes + dice_.below(kPutGuardBytes);
    put_end_ = place + bytes + kPutGuardBytes;
    return place;
  }

  static constexpr uint64_t kMaxAccesses = 6, kMaxAccessBytes = kUsualBytes / 4;
  static_assert(kReadBytes + kMaxBatch * kMaxAccesses * (kMaxAccessBytes + 3 * kPutGuardBytes) <=
                kWindowBytes);

  Dice dice_;
  Limits limits_;
  std::vector<NamedAlgorithm> algorithms_;
  Job job_;
  std::optional<Population> population_;
  int ranks_ = 1;         // of the communicator of the call that is drawn
  uint64_t put_end_ = 0;  // in the parts of a window, of this batch
};

}  // namespace

Job make_job(uint64_t seed, uint64_t number, const Limits& limits) {
  return Generator(seed, number, limits).make();
}

}  // namespace tutti::random_calls
