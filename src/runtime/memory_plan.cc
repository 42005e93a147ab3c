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

/// A pass at its two rates: what takes longer counts.
Nanoseconds forward_time(const MemoryModel& model, const MemoryPlan& plan) {
  const Nanoseconds load = model.costs.upload + model.costs.gather;
  Nanoseconds time{0};
  int first = 0;
  for (const MemoryBlock& block : model.blocks) {
    const int on_host = std::max(0, first + block.chunks - std::max(first, plan.persist));
    time += std::max(block.forward, load * on_host);
    first += block.chunks;
  }
  return time;
}

/// The last chunks are still in their buffers.
Nanoseconds backward_time(const MemoryModel& model, const MemoryPlan& plan) {
  const std::vector<ActivationPlace> places = places_of(model, plan);
  const Nanoseconds load = model.costs.upload + model.costs.gather;
  const Nanoseconds store = model.costs.scatter + model.costs.offload;
  const int loaded_from = std::max(plan.persist, chunks_of(model) - plan.buffers);
  Nanoseconds time{0};
  int first = 0;
  for (size_t b = 0; b < model.blocks.size(); ++b) {
    const MemoryBlock& block = model.blocks[b];
    Nanoseconds computing = block.backward, communicating{0};
    if (places[b] == ActivationPlace::kRecomputed) computing += block.forward;
    for (int chunk = first; chunk < first + block.chunks; ++chunk) {
      if (chunk >= plan.persist) communicating += store;
      if (chunk >= plan.persist && chunk < loaded_from) communicating += load;
    }
    time += std::max(computing, communicating);
    first += block.chunks;
  }
  return time;
}

/// The most memory that lives on the device while the passes run, in the order of execution.
Bytes walked_peak(const MemoryModel& model, const MemoryPlan& plan) {
  const std::vector<ActivationPlace> places = places_of(model, plan);
  const int blocks = static_cast<int>(model.blocks.size()), interval = swap_interval(model);
  Bytes most{0};
  for (int pass = 0; pass < 2 * blocks; ++pass) {
    const bool backward = pass >= blocks;
    const int now = backward ? 2 * blocks - 1 - pass : pass;
    Bytes live = model.blocks[at(now)].activations + model.blocks[at(now)].transient;
    for (int b = 0; b < now; ++b) {
      const MemoryBlock& block = model.blocks[at(b)];
      const int distance = now - b;
      if (places[at(b)] == ActivationPlace::kRecomputed) live += block.input;
      if (places[at(b)] == ActivationPlace::kDevice) live += block.activations;
      // A swap has the passes of an interval of blocks to end under.
      if (places[at(b)] == ActivationPlace::kHost && distance <= interval) {
        live += block.activations;
      }
    }
    most = std::max(most, live);
  }
  return model.costs.states * plan.persist + model.costs.parameters * plan.buffers + most;
}

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
  checked_product(chunks, costs.states.value, "the memory of all chunks");
  for (const Nanoseconds time : {costs.upload, costs.gather, costs.scatter, costs.offload,
                                 costs.device_update, costs.host_update}) {
    require(time >= Nanoseconds(0), "a time of the chunks is negative");
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
  const int interval = swap_interval(model);
  std::vector<ActivationPlace> places(model.blocks.size(), ActivationPlace::kDevice);
  for (int s = 0; s < plan.swap; ++s) places[at(s * interval)] = ActivationPlace::kHost;
  int left = plan.recompute;
  for (ActivationPlace& place : places) {
    if (left == 0) break;
    if (place == ActivationPlace::kHost) continue;
    place = ActivationPlace::kRecomputed;
    --left;
  }
  return places;
}

MemoryVerdict judge(const MemoryModel& model, const MemoryPlan& plan) {
  check_model(model);
  check_plan(model, plan);
  const Nanoseconds device = model.costs.device_update * plan.persist;
  const Nanoseconds host = model.costs.host_update * (chunks_of(model) - plan.persist);
  return {forward_time(model, plan) + std::max(backward_time(model, plan) + device, host),
          walked_peak(model, plan)};
}

MemoryPlan search_memory(const MemoryModel& model, Bytes limit) {
  check_model(model);
  const int chunks = chunks_of(model), blocks = static_cast<int>(model.blocks.size());
  const int64_t most_swaps = swappable(model, swap_interval(model));
  std::optional<MemoryPlan> best;
  MemoryPlan smallest;
  std::tuple<int64_t, int, int, int, int> best_key{};
  Bytes least(std::numeric_limits<int64_t>::max());
  for (int persist = 0; persist <= chunks; ++persist) {
    for (int buffers = least_buffers(model, persist); buffers <= chunks - persist; ++buffers) {
      for (int swap = 0; swap <= most_swaps; ++swap) {
        // Recomputing costs time: the fewest blocks that fit are the best.
        for (int recompute = 0; recompute <= blocks - swap; ++recompute) {
          const MemoryPlan plan{persist, buffers, swap, recompute};
          const MemoryVerdict verdict = judge(model, plan);
          if (verdict.peak < least) least = verdict.peak, smallest = plan;
          if (verdict.peak > limit) continue;
          const std::tuple key{verdict.time.value, swap, recompute, -persist, buffers};
          if (!best || key < best_key) best = plan, best_key = key;
          break;
        }
      }
    }
  }
  if (!best) {
    infeasible("no plan fits into ", limit.value, " bytes; the least that works is ", least.value,
               ", with ", smallest.persist, " persistent chunks, ", smallest.buffers, " buffers, ",
               smallest.swap, " swapped and ", smallest.recompute, " recomputed blocks");
  }
  return *best;
}

}  // namespace tutti::runtime
