#include "tutti/runtime/memory_plan.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>

#include "src/runtime/index.h"
#include "src/runtime/memory_model.h"
#include "src/runtime/refuse.h"

namespace tutti::runtime {
namespace {

int64_t swappable(const MemoryModel& model, int interval) {
  return (std::ssize(model.blocks) + interval - 1) / interval;
}

/// The passes of a plan in which nothing is recomputed, and what recomputing a block would add. A
/// block takes what is longer, computing or communicating; the last chunks are still in their
/// buffers when the backward pass begins.
struct PassTimes {
  Nanoseconds forward{0}, backward{0};
  std::vector<Nanoseconds> recomputed;
};

PassTimes pass_times(const MemoryModel& model, const MemoryPlan& plan) {
  const Nanoseconds load = model.costs.upload + model.costs.gather;
  const Nanoseconds store = model.costs.scatter + model.costs.offload;
  const int loaded_from = std::max(plan.persist, chunks_of(model) - plan.buffers);
  PassTimes times;
  int first = 0;
  for (const MemoryBlock& block : model.blocks) {
    const int end = first + block.chunks;
    const int on_host = std::max(0, end - std::max(first, plan.persist));
    const int again = std::max(0, std::min(end, loaded_from) - std::max(first, plan.persist));
    const Nanoseconds moving = store * on_host + load * again;
    const Nanoseconds once = std::max(block.backward, moving);
    times.forward += std::max(block.forward, load * on_host);
    times.backward += once;
    times.recomputed.push_back(std::max(block.backward + block.forward, moving) - once);
    first = end;
  }
  return times;
}

/// `again` is what recomputing adds to the backward pass.
Nanoseconds step_time(const MemoryModel& model, int persist, const PassTimes& times,
                      Nanoseconds again) {
  const Nanoseconds device = model.costs.device_update * persist;
  const Nanoseconds host = model.costs.host_update * (chunks_of(model) - persist);
  return times.forward + std::max(times.backward + again + device, host);
}

/// The most activations that live on the device while the passes run, in the order of execution. A
/// backward pass holds what the forward pass of its block held.
Bytes walked_activations(const MemoryModel& model, std::span<const ActivationPlace> places) {
  const int64_t blocks = std::ssize(model.blocks), interval = swap_interval(model);
  Bytes most{0}, before{0};  // of the blocks before the one that computes
  for (int64_t now = 0; now < blocks; ++now) {
    const MemoryBlock& block = model.blocks[at(now)];
    // A swap has the passes of an interval of blocks to end under.
    const int64_t left = now - interval - 1;
    if (left >= 0 && places[at(left)] == ActivationPlace::kHost) {
      before -= model.blocks[at(left)].activations;
    }
    most = std::max(most, before + block.activations + block.transient);
    before += places[at(now)] == ActivationPlace::kRecomputed ? block.input : block.activations;
  }
  return most;
}

Bytes standing(const MemoryModel& model, const MemoryPlan& plan) {
  return model.costs.states * plan.persist + model.costs.parameters * plan.buffers;
}

/// Blocks are swapped from the first one on, one in an interval; of the others the first ones are
/// recomputed.
std::vector<ActivationPlace> placed(int64_t blocks, int interval, int swap, int recompute) {
  std::vector<ActivationPlace> places(at(blocks), ActivationPlace::kDevice);
  for (int64_t s = 0; s < swap; ++s) places[at(s * interval)] = ActivationPlace::kHost;
  for (ActivationPlace& place : places) {
    if (recompute == 0) break;
    if (place == ActivationPlace::kHost) continue;
    place = ActivationPlace::kRecomputed;
    --recompute;
  }
  return places;
}

/// Every plan, each in constant time: memory is what stands plus the walked activations, which
/// depend on swaps and recomputation alone; and time is a sum over blocks in which only the
/// recomputed ones count another way, which are the first blocks without the swapped ones.
class MemorySearch {
 public:
  explicit MemorySearch(const MemoryModel& model)
      : model_(model),
        blocks_(std::ssize(model.blocks)),
        interval_(swap_interval(model)),
        swaps_(swappable(model, interval_)) {
    activations_.resize(at(swaps_) + 1);
    for (int s = 0; s <= swaps_; ++s) {
      for (int r = 0; r <= blocks_ - s; ++r) {
        activations_[at(s)].push_back(walked_activations(model, placed(blocks_, interval_, s, r)));
      }
    }
  }

  MemoryPlan best(Bytes limit) {
    for_each_chunking([&](int persist, int buffers) { try_chunking(persist, buffers, limit); });
    if (!best_) refuse(limit);
    return *best_;
  }

 private:
  template <class See>
  void for_each_chunking(const See& see) const {
    const int chunks = chunks_of(model_);
    for (int persist = 0; persist <= chunks; ++persist) {
      const int least = least_buffers(model_, persist);
      for (int buffers = least; buffers <= chunks - persist; ++buffers) see(persist, buffers);
    }
  }

  void try_chunking(int persist, int buffers, Bytes limit) {
    const MemoryPlan nothing{persist, buffers, 0, 0};
    const Bytes fixed = standing(model_, nothing);
    if (fixed > limit) return;
    const PassTimes times = pass_times(model_, nothing);
    // The time that recomputing the first blocks adds, and the first swapped ones.
    std::vector<Nanoseconds> first(1), swapped(1);
    for (size_t b = 0; b < at(blocks_); ++b) {
      first.push_back(first.back() + times.recomputed[b]);
      if (std::ssize(swapped) <= swaps_ && b == (swapped.size() - 1) * at(interval_)) {
        swapped.push_back(swapped.back() + times.recomputed[b]);
      }
    }
    for (int swap = 0; swap <= swaps_; ++swap) {
      // Recomputing costs time and frees memory: the fewest blocks that fit are the best.
      const std::vector<Bytes>& activations = activations_[at(swap)];
      const auto fits = std::partition_point(activations.begin(), activations.end(),
                                             [&](Bytes needed) { return needed > limit - fixed; });
      if (fits == activations.end()) continue;
      const int recompute = static_cast<int>(fits - activations.begin());
      const int64_t last = last_recomputed(swap, recompute);
      const int64_t among = std::min<int64_t>(swap, (last + interval_ - 1) / interval_);
      const Nanoseconds again = first[at(last)] - swapped[at(among)];
      const Nanoseconds time = step_time(model_, persist, times, again);
      keep({persist, buffers, swap, recompute}, time);
    }
  }

  /// How many of the first blocks hold so many that are not swapped.
  int64_t last_recomputed(int swap, int recompute) const {
    int64_t last = recompute;  // at least; each swapped block among them makes it one more
    while (last - std::min<int64_t>(swap, (last + interval_ - 1) / interval_) < recompute) ++last;
    return last;
  }

  void keep(const MemoryPlan& plan, Nanoseconds time) {
    const std::tuple key{time.value, plan.swap, plan.recompute, -plan.persist, plan.buffers};
    if (!best_ || key < best_key_) best_ = plan, best_key_ = key;
  }

  [[noreturn]] void refuse(Bytes limit) const {
    std::optional<MemoryPlan> smallest;
    Bytes least{0};
    for_each_chunking([&](int persist, int buffers) {
      for (size_t s = 0; s < activations_.size(); ++s) {
        // Of equal ones that with the fewest recomputed blocks.
        const auto own = std::min_element(activations_[s].begin(), activations_[s].end());
        const MemoryPlan plan{persist, buffers, static_cast<int>(s),
                              static_cast<int>(own - activations_[s].begin())};
        const Bytes needed = standing(model_, plan) + *own;
        if (!smallest || needed < least) smallest = plan, least = needed;
      }
    });
    infeasible("no plan fits into ", limit.value, " bytes; the least that works is ", least.value,
               ", with ", smallest->persist, " persistent chunks, ", smallest->buffers,
               " buffers, ", smallest->swap, " swapped and ", smallest->recompute,
               " recomputed blocks");
  }

  const MemoryModel& model_;
  int64_t blocks_;
  int interval_;
  int64_t swaps_;
  std::vector<std::vector<Bytes>> activations_;  // by swapped, then recomputed blocks
  std::optional<MemoryPlan> best_;
  std::tuple<int64_t, int, int, int, int> best_key_{};
};

}  // namespace

void check_model(const MemoryModel& model) {
  require(!model.blocks.empty(), "there are no blocks; give at least one");
  int64_t chunks = 0;
  for (size_t b = 0; b < model.blocks.size(); ++b) {
    const MemoryBlock& block = model.blocks[b];
    require(block.chunks >= 0 && (chunks += block.chunks) < std::numeric_limits<int>::max() / 4,
            "block ", b, " has ", block.chunks, " chunks; give 0 or more, below 2^29 in all");
    require(block.forward > Nanoseconds(0), "the forward pass of block ", b,
            " takes no time; give 1 ns or more");
    require(block.backward >= Nanoseconds(0) && block.swap >= Nanoseconds(0) &&
                block.input >= Bytes(0) && block.transient >= Bytes(0),
            "block ", b, " has a negative time or size");
    require(block.activations >= block.input, "the input of block ", b, " has ", block.input.value,
            " bytes and its activations only ", block.activations.value,
            "; count the input among them");
  }
  const ChunkCosts& costs = model.costs;
  require(costs.parameters >= Bytes(1) && costs.states >= costs.parameters, "chunks of ",
          costs.parameters.value, " bytes with states of ", costs.states.value,
          " cannot be; states include the parameters");
  // Whatever plan is judged, no sum is larger than these two.
  int64_t memory = checked_product(chunks, costs.states.value, "the memory of all chunks");
  int64_t time = 0;
  for (const Nanoseconds part :
       {costs.upload, costs.upload, costs.gather, costs.gather, costs.scatter, costs.offload,
        costs.device_update, costs.host_update}) {
    require(part >= Nanoseconds(0), "a time of the chunks is negative");
    time = checked_sum(time, part.value, "the time of a chunk");
  }
  time = checked_product(time, chunks, "the time of all chunks");
  for (const MemoryBlock& block : model.blocks) {
    for (const int64_t part : {block.activations.value, block.transient.value}) {
      memory = checked_sum(memory, part, "the memory of all blocks and chunks");
    }
    for (const int64_t part : {block.forward.value, block.forward.value, block.backward.value}) {
      time = checked_sum(time, part, "the time of all blocks and chunks");
    }
  }
}

int chunks_of(const MemoryModel& model) {
  int chunks = 0;
  for (const MemoryBlock& block : model.blocks) chunks += block.chunks;
  return chunks;
}

int least_buffers(const MemoryModel& model, int persist) {
  int least = 0, first = 0;
  for (const MemoryBlock& block : model.blocks) {
    first += block.chunks;
    least = std::max(least, std::min(block.chunks, first - persist));
  }
  return least;
}

void check_plan(const MemoryModel& model, const MemoryPlan& plan) {
  const int chunks = chunks_of(model), blocks = static_cast<int>(model.blocks.size());
  require(plan.persist >= 0 && plan.persist <= chunks, plan.persist, " of ", chunks,
          " chunks cannot persist");
  const int least = least_buffers(model, plan.persist);
  require(plan.buffers >= least && plan.buffers <= chunks - plan.persist, plan.buffers,
          " buffers for ", chunks - plan.persist, " chunks on the host; give ", least, " to ",
          chunks - plan.persist);
  require(plan.swap >= 0 && plan.recompute >= 0, "a number of blocks is negative");
  require(plan.recompute <= blocks - plan.swap, plan.swap, " swapped and ", plan.recompute,
          " recomputed blocks of ", blocks, ": one would be both; give fewer");
  const int interval = swap_interval(model);
  require(plan.swap <= swappable(model, interval), plan.swap, " swapped blocks, one in ", interval,
          ", do not fit into ", blocks, "; swap fewer");
}

int pack_chunks(std::span<const Bytes> parameters, Bytes chunk) {
  require(chunk >= Bytes(1), "chunks of ", chunk.value, " bytes; give 1 or more");
  int chunks = 0;
  Bytes room{0};
  for (size_t p = 0; p < parameters.size(); ++p) {
    require(parameters[p] >= Bytes(1), "parameter ", p, " has ", parameters[p].value, " bytes");
    require(parameters[p] <= chunk, "parameter ", p, " has ", parameters[p].value,
            " bytes, more than a chunk of ", chunk.value, "; make chunks larger");
    if (parameters[p] > room) ++chunks, room = chunk;
    room -= parameters[p];
  }
  return chunks;
}

int swap_interval(const MemoryModel& model) {
  check_model(model);
  Nanoseconds longest{0}, shortest = model.blocks.front().forward;
  for (const MemoryBlock& block : model.blocks) {
    longest = std::max(longest, block.swap);
    shortest = std::min(shortest, block.forward);
  }
  const int64_t blocks = longest.value / shortest.value + (longest.value % shortest.value > 0);
  // Beyond the model's end all distances are alike.
  return static_cast<int>(std::clamp<int64_t>(blocks, 1, std::ssize(model.blocks)));
}

std::vector<ActivationPlace> places_of(const MemoryModel& model, const MemoryPlan& plan) {
  check_model(model);
  check_plan(model, plan);
  return placed(std::ssize(model.blocks), swap_interval(model), plan.swap, plan.recompute);
}

MemoryVerdict judge(const MemoryModel& model, const MemoryPlan& plan) {
  const std::vector<ActivationPlace> places = places_of(model, plan);
  const PassTimes times = pass_times(model, plan);
  Nanoseconds again{0};
  for (size_t b = 0; b < places.size(); ++b) {
    if (places[b] == ActivationPlace::kRecomputed) again += times.recomputed[b];
  }
  return {step_time(model, plan.persist, times, again),
          standing(model, plan) + walked_activations(model, places)};
}

MemoryPlan search_memory(const MemoryModel& model, Bytes limit) {
  check_model(model);
  return MemorySearch(model).best(limit);
}

}  // namespace tutti::runtime
