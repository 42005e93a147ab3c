// The PCI devices of this host that matter for communication, GPUs and network cards with the
// switches above them, as the files of Linux tell them.
//
// Which number a GPU has and which NVLinks it has is in no such file: they are known by their
// class.
//
// Threads: any; it reads files. Errors: those of DeviceGraph::make().
#pragma once

#include <string>

#include "src/base/status.h"
#include "src/topology/device_graph.h"

namespace tutti::topology {

/// `root` stands before "/sys": "" for this host, another folder for tests.
Result<DeviceGraph> read_sysfs_devices(const std::string& root);

/// Gives the <pci> of a description that names no networks those that this host has there.
void complete_networks(XmlElement& system, const std::string& root);

}  // namespace tutti::topology
