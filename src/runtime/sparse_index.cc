#include "tutti/runtime/sparse_index.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "src/runtime/fingerprint.h"
#include "src/runtime/index.h"
#include "src/runtime/refuse.h"
#include "tutti/runtime/exchange.h"

namespace tutti::runtime {
namespace {

void expect_masses(std::span<const double> mass) {
  for (size_t i = 0; i < mass.size(); ++i) {
    require(std::isfinite(mass[i]) && mass[i] >= 0, "the mass of ", i, " is ", mass[i],
            "; give finite numbers of 0 or more");
  }
}

}  // namespace

std::vector<int64_t> top_mass(std::span<const double> mass, double target) {
  require(target > 0 && target <= 1, "the target is ", target,
          " of all mass; give more than 0, at "
          "most 1");
  expect_masses(mass);
  std::vector<int64_t> order(mass.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return mass[at(a)] > mass[at(b)]; });
  // The total in the order of the choice, so that a target of 1 takes all that is not 0.
  long double total = 0, reached = 0;
  for (const int64_t i : order) total += mass[at(i)];
  require(std::isfinite(static_cast<double>(total)), "the masses are too large to be added");
  // Rounded to double, as a target such as 0.9 is a little more than nine tenths.
  const double wanted = target * static_cast<double>(total);
  size_t kept = 0;
  while (kept < order.size() && mass[at(order[kept])] > 0 &&
         static_cast<double>(reached) < wanted) {
    reached += mass[at(order[kept++])];
  }
  order.resize(kept);
  std::sort(order.begin(), order.end());
  return order;
}

SparseIndex exchange_index(tuttiComm_t comm, std::span<const double> verticals,
                           std::span<const double> slashes, double target) {
  expect_masses(verticals);
  expect_masses(slashes);
  std::vector<double> mass(verticals.begin(), verticals.end());
  mass.insert(mass.end(), slashes.begin(), slashes.end());
  tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
  options.deterministic = 1;
  tuttiCall_t call = TUTTI_CALL_INITIALIZER;
  call.collective = tuttiCollAllReduce;
  call.send = call.recv = mass.data();
  call.count = mass.size();
  call.type = tuttiFloat64;
  call.op = tuttiSum;
  expect_success(tuttiSubmit(&call, comm, tuttiBlocking(), &options, nullptr), comm,
                 "the sum of masses");
  const std::span<const double> all(mass);
  SparseIndex index;
  index.verticals = top_mass(all.first(verticals.size()), target);
  index.slashes = top_mass(all.subspan(verticals.size()), target);
  Fingerprint mark;
  for (const auto* numbers : {&index.verticals, &index.slashes}) {
    mark.add(std::ssize(*numbers));
    for (const int64_t number : *numbers) mark.add(number);
  }
  mark.add(std::bit_cast<int64_t>(target));
  agree(comm, mark.value(), "the index of sparse attention");
  return index;
}

void expect_index(std::span<const int64_t> numbers, int64_t size) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    require(numbers[i] >= 0 && numbers[i] < size, "the index has ", numbers[i], "; there are 0 to ",
            size - 1);
    require(i == 0 || numbers[i] > numbers[i - 1], "the index has ", numbers[i], " behind ",
            i == 0 ? 0 : numbers[i - 1], "; numbers ascend");
  }
}

}  // namespace tutti::runtime
