#include "src/api/captured_call.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <utility>

#include "src/api/process.h"
#include "src/base/caught.h"
#include "src/comm/captured_task.h"

namespace tutti::api {
namespace {

bool is_captured(const exec::StreamPlace& place) { return place.capture != 0; }

Status check_alike(const GroupMember& member) {
  const auto& places = member.places;
  if (std::all_of(places.begin(), places.end(), is_captured)) {
    const bool one_graph = std::all_of(places.begin(), places.end(), [&](const auto& place) {
      return place.capture == places.front().capture;
    });
    if (one_graph) return {};
    return Status::invalid_usage(
        "sends and receives of one group are on streams that are captured into several graphs: "
        "put those of each graph into a group of their own");
  }
  return Status::invalid_usage(
      "sends and receives of one group are on streams of which only some are captured: put those "
      "of the captured ones into a group of their own");
}

/// One captured call while it is put into its graph.
struct Put {
  GroupMember* member = nullptr;
  bool direct = false;  // else it crosses to the host
  std::shared_ptr<comm::CapturedTask> task;
};

size_t streams_of(const GroupMember& member) {
  std::vector<void*> streams;
  for (const exec::StreamPlace& place : member.places) {
    if (std::find(streams.begin(), streams.end(), place.stream) == streams.end()) {
      streams.push_back(place.stream);
    }
  }
  return streams.size();
}

// Graphs keep the order of the calls from the first captured one on, so those before it end first:
// no rank waits for another one's capture.
Status open_to_graphs(const GroupMember& member) {
  comm::Communicator& communicator = *member.task.communicator;
  if (communicator.is_replayed()) return {};
  if (Status status = drain(communicator); !status.ok()) return status;
  communicator.open_to_graphs();
  return {};
}

// The graph has the task before it has anything that names it.
Status enter_crossing(Put& put) {
  GroupMember& member = *put.member;
  comm::Communicator& communicator = *member.task.communicator;
  const Result<Process*> process = Process::current();
  if (!process.ok()) return process.status();
  const Result<comm::StreamEngine*> engine = process.value()->engine();
  if (!engine.ok()) return engine.status();
  comm::Task task = member.task;
  task.handles.clear();  // told of the capture, not of runs
  put.task = std::make_shared<comm::CapturedTask>(std::move(task), streams_of(member),
                                                  *engine.value(), communicator.gate());
  for (const exec::StreamPlace& place : member.places) {
    if (Status status = device().keep(place, put.task); !status.ok()) return status;
  }
  const DeviceStreams on{member.streams, member.places};
  if (Status status = cross_captured(*put.task, on); !status.ok()) return status;
  if (Status s = communicator.call_order()->begin(member.places); !s.ok()) return s;
  for (const auto& crossing : put.task->crossings()) {
    if (Status status = crossing->enter(); !status.ok()) return status;
  }
  return {};
}

Status leave_crossing(const Put& put) {
  for (const auto& crossing : put.task->crossings()) {
    if (Status status = crossing->leave(); !status.ok()) return status;
  }
  return put.member->task.communicator->call_order()->end(put.member->places);
}

// Its handles are told when all of the group have been put.
Status put_direct(const GroupMember& member) {
  comm::Task task = member.task;
  task.handles.clear();
  exec::CallOrder& order = *task.communicator->call_order();
  if (Status status = order.begin(member.places); !status.ok()) return status;
  if (Status status = enqueue_direct(task, member.streams); !status.ok()) return status;
  return order.end(member.places);
}

// All of a round come to their first point before one waits at its second one: what it waits for
// may need another one that shares its queue in the hardware.
Status put_round(std::vector<Put>& round) {
  for (Put& put : round) {
    if (Status status = open_to_graphs(*put.member); !status.ok()) return status;
    put.direct = is_direct(put.member->task, put.member->streams);
    if (put.direct) continue;
    if (Status status = enter_crossing(put); !status.ok()) return status;
  }
  for (const Put& put : round) {
    Status status = put.direct ? put_direct(*put.member) : leave_crossing(put);
    if (!status.ok()) return status;
  }
  return {};
}

// A communicator's calls follow each other; so each round has the next one of every communicator.
std::vector<std::vector<Put>> rounds_of(std::vector<GroupMember>& members) {
  std::vector<std::vector<Put>> rounds;
  std::map<const tuttiComm*, size_t> next;
  for (GroupMember& member : members) {
    const size_t round = next[member.comm]++;
    if (round == rounds.size()) rounds.emplace_back();
    rounds[round].push_back({&member, false, nullptr});
  }
  return rounds;
}

}  // namespace

Result<std::vector<GroupMember>> take_captured(std::vector<GroupMember>& members) {
  const auto any = [](const GroupMember& member) {
    return std::any_of(member.places.begin(), member.places.end(), is_captured);
  };
  for (const GroupMember& member : members) {
    if (!any(member)) continue;
    if (Status status = check_alike(member); !status.ok()) return status;
  }
  const auto captured = std::stable_partition(members.begin(), members.end(),
                                              [&](const GroupMember& m) { return !any(m); });
  std::vector<GroupMember> taken(std::make_move_iterator(captured),
                                 std::make_move_iterator(members.end()));
  members.erase(captured, members.end());
  order_for_streams(taken);
  return taken;
}

Status put_captured(std::vector<GroupMember>& members) {
  const Status put = caught_status([&]() -> Status {
    for (std::vector<Put>& round : rounds_of(members)) {
      if (Status status = put_round(round); !status.ok()) return status;
    }
    return {};
  });
  tell_all(members, put);
  return put;
}

}  // namespace tutti::api
