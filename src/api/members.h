// The operations that a group holds until its end, and what is done with all of them there.
//
// Threads: a group's. Errors: of enter() and enter_devices() nothing has run, and the members must
// be told.
#pragma once

#include <cstdint>
#include <vector>

#include "src/api/device_call.h"
#include "src/api/handle.h"
#include "src/comm/task.h"

namespace tutti::api {

struct GroupMember {
  tuttiComm_t comm;
  comm::Task task;
  std::vector<tuttiStream_t> streams;       // of its transfers; of other work, one
  std::vector<exec::StreamPlace> places{};  // by stream, since enter()
  Visitor visitor{nullptr};                 // from the end of the group until the task is announced
};

/// Sends and receives of one communicator progress together, on whatever streams: they become one
/// task, with the least deadline and the highest priority of them. False if it is the first.
bool join_transfers(std::vector<GroupMember>& members, GroupMember& member);
/// In the order in which they run: collectives first.
void order(std::vector<GroupMember>& members);
/// Another thread may have ended a communicator since the call.
Status enter(std::vector<GroupMember>& members);
/// How long all should take; nothing runs.
Status predict(std::vector<GroupMember>& members, uint64_t& nanoseconds);
void tell_all(const std::vector<GroupMember>& members, const Status& status);
bool is_among(const std::vector<GroupMember>& members, const tuttiComm* comm);
/// Whether it has to be run by the engine.
bool needs_engine(const GroupMember& member);

/// Whether all on streams of devices run by the engines that their options ask for.
Status check_engines(const std::vector<GroupMember>& members);
/// A group may name communicators in another order on each rank, but a stream waits for one call
/// after the other: so all ranks put what streams run there by kind and communicator.
void order_for_streams(std::vector<GroupMember>& members);
/// Those that streams of devices run by themselves, taken out of the members, in that order.
std::vector<GroupMember> take_direct(std::vector<GroupMember>& members);
/// Tells the peers of those on streams of devices whose options ask for the host. Where they call
/// something else the communicators fail, and so do the members when they run.
void declare_by_host(const std::vector<GroupMember>& members);
/// Puts them into their streams, all of them even if one fails. The first error.
Status enqueue_direct(std::vector<GroupMember>& members);

/// The streams of a call, and the order that they keep because graphs have calls of the
/// communicator, too.
struct OrderedStreams {
  std::shared_ptr<exec::CallOrder> order;
  std::vector<exec::StreamPlace> places;
};
/// Of calls that cross to the host.
struct OnDevices {
  Crossings crossings;
  std::vector<OrderedStreams> ordered;
};

/// Of the members on streams of devices: up to where the host's work begins, and all behind it.
Status enter_devices(std::vector<GroupMember>& members, OnDevices& on);
Status leave_devices(const OnDevices& on);

}  // namespace tutti::api
