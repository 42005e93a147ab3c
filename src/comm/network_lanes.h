// The plans of calls on devices of several hosts: lanes that streams run within a host, with
// messages between hosts that go through the slots of a bounce buffer (exec/bounce_buffer.h).
//
// A plan has one lane, or two that take turns: while a slice of one is on the wire, that of the
// other crosses to the host, is folded, or goes on to the devices beside it.
//
// Threads: pure. Errors: none.
#pragma once

#include <span>
#include <vector>

#include "src/group/view.h"
#include "src/plan/bind.h"
#include "src/schedule/algorithm.h"

namespace tutti::comm {

/// More ranks have more schedules than can be compared when a communicator is made.
inline constexpr int kMostNetworkRanks = 128;

/// That of calls of one host (device_tuning), with slices so short that several are under way in a
/// long call.
plan::Tuning network_tuning(plan::Tuning device);
/// The algorithms for such plans, with one lane each, whose ranks take turns alike: those that know
/// levels, and others where there are none of them.
std::vector<schedule::Algorithm> network_algorithms(std::span<const schedule::Algorithm> algorithms,
                                                    const group::GroupView& group);

}  // namespace tutti::comm
