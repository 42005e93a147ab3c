// A level of a group's tree, as prices see it.
//
// Threads: values. Units: nanoseconds per byte. Errors: none.
#pragma once

#include <string>
#include <vector>

#include "src/select/model.h"

namespace tutti::select {

struct PricedLevel {
  LinkModel link;
  std::string name{};
  // By node of the level below, of ranks for the innermost: of the link between the node and what
  // is outside, in each direction. Empty where nothing is known; 0: nothing of this one.
  std::vector<double> uplinks{};
  bool maps = false;
};

}  // namespace tutti::select
