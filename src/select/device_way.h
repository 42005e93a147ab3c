// How the devices of a group reach each other, as the topology of their host says.
//
// Threads: pure. Errors: none.
#pragma once

#include <span>
#include <string>

#include "src/select/model.h"
#include "src/topology/device_graph.h"

namespace tutti::select {

/// The longest way between any two of the devices, by their PCI addresses. Files of a host know no
/// direct links, only files that people give do (`knows_links`); without such a file devices count
/// as linked, unless some do not reach each other's memory (`are_apart`): then all that is known is
/// where they are on the bus. A device that the topology does not have is as near as can be.
DeviceWay longest_way(const topology::DeviceGraph& graph, std::span<const std::string> addresses,
                      bool knows_links, bool are_apart);

/// "NVLink", "the bus", "NUMA nodes".
const char* name_of(DeviceWay way);

}  // namespace tutti::select
