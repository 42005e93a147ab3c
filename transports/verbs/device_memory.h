// Memory of devices that cards read and write by themselves (GPUDirect), and the reads by which
// what peers have written gets there before the device looks.
//
// A completion tells this host's processor that a write has arrived; the write itself may still be
// on its way over PCIe to the device, which nobody told. A card's read of that memory stays behind
// its writes, so once it has come back they are there.
//
// Owns:     registrations, and a queue pair of each port that is connected to itself.
// Threads:  one at a time. Errors: kUnsupported where libibverbs, the card's driver or the memory's
//           cannot; kSystemError, kRemoteError where a card fails.
#pragma once

#include <memory>

#include "src/base/status.h"
#include "src/transport/device_range.h"
#include "transports/verbs/registered_ranges.h"

namespace tutti::transports::verbs {

/// Peers may write to the range, and read it, for as long as what this returns lives.
Result<std::shared_ptr<transport::DeviceAnnouncement>> announce_device_memory(
    RegisteredRanges& ranges, const Domains& domains, const transport::DeviceRange& memory);

}  // namespace tutti::transports::verbs
