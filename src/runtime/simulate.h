// The simulation of a timeline whose order is known.
#pragma once

#include "src/runtime/timeline_graph.h"

namespace tutti::runtime {

/// The graph has no findings.
History simulate_graph(const Timeline& timeline, const TimelineGraph& graph);

}  // namespace tutti::runtime
