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
  int kind = 0;                             // since order(): the lower, the earlier
  size_t index = 0;                         // among those of its communicator and kind
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
/// For what is captured: a group may name communicators in another order on each rank, but a stream
/// waits for one call after the other. So all ranks put it there by kind and communicator.
void order_for_streams(std::vector<GroupMember>& members);
/// Those that streams of devices run by themselves, taken out of the members.
std::vector<GroupMember> take_direct(std::vector<GroupMember>& members);
/// Tells the peers of those on streams of devices whose options ask for the host. Where they call
/// something else the communicators fail, and so do the members when they run.
void declare_by_host(const std::vector<GroupMember>& members);

/// The part of a member that streams of devices get when its turn comes. Turns follow each other by
/// kind, then communicator, then call, which is the same on all ranks. The ranks of a communicator
/// that this thread has take one turn together: a stream that waits for the others may share a
/// hardware queue with theirs.
struct MemberTurn {
  GroupMember* member = nullptr;
  bool direct = false;  // else it crosses to the host
  Crossings crossings{};
  std::vector<exec::StreamPlace> places{};  // of its streams of devices
  bool entered = false;                     // its crossings have their first points
};
using Turns = std::vector<MemberTurn>;

/// The turns of the members, which they outlive. Those of `crossing` that come first of their
/// communicator enter: they come to where the host's work begins. An error: nothing has run.
Result<Turns> enter_devices(std::vector<GroupMember>& crossing, std::vector<GroupMember>& direct);
/// All that is left to be put into the streams, also if something of it fails. The first error: of
/// what crosses it fails the communicator. Tasks of what crosses are the engine's already.
Status put_turns(Turns& turns);

}  // namespace tutti::api
