// A topology as a picture: boxes in boxes, equal neighbours once.
//
// Threads: pure functions. Errors: none.
#pragma once

#include <string>

#include "src/topology/topology.h"

namespace tutti::topology {

/// An SVG file.
std::string draw_tree(const Topology& topology);

}  // namespace tutti::topology
