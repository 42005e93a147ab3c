// A tour of a call on host memory: docs/internals/tour.md quotes this program and says at each line
// which part of the library works.
//
//   build/bin/examples/tour_host --ranks 2
//
// Prints the sums that rank 0 has, and why their algorithms were chosen.
#include <cstdio>
#include <string>
#include <vector>

#include "examples/ranks.h"
#include "tutti/tutti.h"

namespace {

using examples::expect;

constexpr size_t kLong = 1 << 20;  // floats: 4 MiB

/// The first lines of what tuttiExplain() writes: the plan that would run.
std::string chosen(tuttiComm_t comm, size_t count) {
  std::vector<char> text(64 << 10);
  size_t needed = 0;
  expect(tuttiExplain(comm, "all_reduce", count, tuttiFloat32, text.data(), text.size(), &needed),
         "tuttiExplain");
  const std::string whole(text.data());
  return whole.substr(0, whole.find('\n'));
}

void tour(tuttiComm_t comm) {
  int rank = 0;
  expect(tuttiCommUserRank(comm, &rank), "tuttiCommUserRank");

  // The first call of a kind makes a plan: select, match, bind. The second one finds it compiled.
  float mine = 1.0f + static_cast<float>(rank), sum = 0;
  for (int call = 0; call < 2; ++call) {
    expect(tuttiAllReduce(&mine, &sum, 1, tuttiFloat32, tuttiSum, comm, tuttiBlocking()),
           "tuttiAllReduce");
  }

  // A long call is cut into slices, which go through frames of the staging rings.
  std::vector<float> input(kLong, mine), output(kLong);
  expect(tuttiAllReduce(input.data(), output.data(), kLong, tuttiFloat32, tuttiSum, comm,
                        tuttiBlocking()),
         "tuttiAllReduce");

  if (rank != 0) return;
  std::printf("4 bytes: %g, %s\n", sum, chosen(comm, 1).c_str());
  std::printf("4 MiB: %g, %s\n", output.back(), chosen(comm, kLong).c_str());
}

}  // namespace

int main(int argc, char** argv) { return examples::run_example(argc, argv, tour); }
