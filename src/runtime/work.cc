#include "src/runtime/work.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"

namespace tutti::runtime {
namespace {

void check_slice(const WorkProblem& problem, const WorkSlice& slice) {
  require(slice.item >= 0 && slice.item < std::ssize(problem.items), "a slice is of item ",
          slice.item, ", there are ", problem.items.size());
  require(slice.bin >= 0 && slice.bin < std::ssize(problem.bins), "a slice of item ", slice.item,
          " is in bin ", slice.bin, ", there are ", problem.bins.size());
  const WorkItem& item = problem.items[at(slice.item)];
  require(0 <= slice.begin && slice.begin < slice.end && slice.end <= item.units, "units ",
          slice.begin, " to ", slice.end, " are no slice of item ", slice.item, " with ",
          item.units);
  const bool whole = slice.begin == 0 && slice.end == item.units;
  require(whole || item.grain > 0, "item ", slice.item, " is cut; it must stay whole");
  require(whole || (slice.begin % item.grain == 0 &&
                    (slice.end % item.grain == 0 || slice.end == item.units)),
          "item ", slice.item, " is cut at ", slice.begin, " or ", slice.end,
          ", no multiples of its grain ", item.grain);
}

}  // namespace

void check_problem(const WorkProblem& problem) {
  require(!problem.bins.empty(), "there are no bins; give at least one");
  check_ranks(std::ssize(problem.bins));
  int64_t total = 0, memory = 0, moved = 0;
  for (size_t i = 0; i < problem.items.size(); ++i) {
    const WorkItem& item = problem.items[i];
    require(item.units >= 0 && item.unit_cost >= 0 && item.unit_memory >= 0 && item.grain >= 0,
            "item ", i, " has a negative number: units ", item.units, ", unit cost ",
            item.unit_cost, ", unit memory ", item.unit_memory, ", grain ", item.grain);
    require(item.move_fixed >= Bytes(0) && item.move_per_unit >= Bytes(0), "item ", i,
            " moves a negative number of bytes");
    require(item.home >= -1 && item.home < std::ssize(problem.bins), "item ", i, " has home ",
            item.home, ", there are ", problem.bins.size(), " bins");
    const int64_t cost = checked_product(item.units, item.unit_cost, "the cost of an item");
    total = checked_sum(total, cost, "the cost of all items");
    memory =
        checked_sum(memory, checked_product(item.units, item.unit_memory, "the memory of an item"),
                    "the memory of all items");
    const int64_t rows =
        checked_product(item.units, item.move_per_unit.value, "what an item moves");
    moved = checked_sum(moved, checked_sum(item.move_fixed.value, rows, "what an item moves"),
                        "what all items move");
  }
  for (size_t b = 0; b < problem.bins.size(); ++b) {
    require(problem.bins[b].capacity >= 0 && problem.bins[b].memory >= 0, "bin ", b,
            " has negative room");
  }
}

int64_t total_cost(const WorkProblem& problem) {
  int64_t total = 0;
  for (const WorkItem& item : problem.items) total += item.cost();
  return total;
}

BinState::BinState(const WorkProblem& problem)
    : problem_(problem), loads_(problem.bins.size(), 0), memory_(problem.bins.size(), 0) {}

bool BinState::fits(const WorkItem& item, int64_t units, int bin) const {
  const WorkBin& room = problem_.bins[at(bin)];
  return units * item.unit_cost <= room.capacity - loads_[at(bin)] &&
         units * item.unit_memory <= room.memory - memory_[at(bin)];
}

void BinState::place(const WorkItem& item, int64_t units, int bin) {
  loads_[at(bin)] += units * item.unit_cost;
  memory_[at(bin)] += units * item.unit_memory;
}

Bytes bytes_moved(const WorkItem& item, int64_t units, int bin) {
  if (item.home < 0 || item.home == bin) return Bytes(0);
  return item.move_fixed + item.move_per_unit * units;
}

Assignment tidied(std::vector<WorkSlice> slices) {
  std::sort(slices.begin(), slices.end(), [](const WorkSlice& a, const WorkSlice& b) {
    return a.item != b.item ? a.item < b.item : a.begin < b.begin;
  });
  Assignment result;
  for (const WorkSlice& slice : slices) {
    if (slice.begin == slice.end) continue;
    if (!result.slices.empty()) {
      WorkSlice& last = result.slices.back();
      if (last.item == slice.item && last.bin == slice.bin && last.end == slice.begin) {
        last.end = slice.end;
        continue;
      }
    }
    result.slices.push_back(slice);
  }
  return result;
}

std::vector<int> by_cost(const WorkProblem& problem) {
  std::vector<int> order(problem.items.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return problem.items[at(a)].cost() > problem.items[at(b)].cost();
  });
  return order;
}

Judgement judge(const WorkProblem& problem, const Assignment& assignment) {
  check_problem(problem);
  Judgement judgement;
  std::vector<int64_t> done(problem.items.size(), 0), memory(problem.bins.size(), 0);
  judgement.loads.assign(problem.bins.size(), 0);
  for (const WorkSlice& slice : tidied(assignment.slices).slices) {
    check_slice(problem, slice);
    const WorkItem& item = problem.items[at(slice.item)];
    require(slice.begin == done[at(slice.item)], "item ", slice.item, " has units ",
            done[at(slice.item)], " to ", slice.begin, " never or twice");
    judgement.splits += slice.begin > 0;
    done[at(slice.item)] = slice.end;
    const int64_t units = slice.end - slice.begin;
    judgement.loads[at(slice.bin)] += units * item.unit_cost;
    memory[at(slice.bin)] += units * item.unit_memory;
    judgement.moved = Bytes(checked_sum(
        judgement.moved.value, bytes_moved(item, units, slice.bin).value, "what slices move"));
    judgement.moves += item.home >= 0 && item.home != slice.bin;
  }
  for (size_t i = 0; i < done.size(); ++i) {
    require(done[i] == problem.items[i].units, "item ", i, " has only ", done[i], " of ",
            problem.items[i].units, " units assigned");
  }
  for (size_t b = 0; b < problem.bins.size(); ++b) {
    require(judgement.loads[b] <= problem.bins[b].capacity, "bin ", b, " has load ",
            judgement.loads[b], ", its capacity is ", problem.bins[b].capacity);
    require(memory[b] <= problem.bins[b].memory, "bin ", b, " needs memory ", memory[b],
            ", it has ", problem.bins[b].memory);
    judgement.max_load = std::max(judgement.max_load, judgement.loads[b]);
  }
  const double mean = static_cast<double>(total_cost(problem)) / double(problem.bins.size());
  if (mean > 0) judgement.max_over_mean = static_cast<double>(judgement.max_load) / mean;
  return judgement;
}

}  // namespace tutti::runtime
