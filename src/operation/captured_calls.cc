#include "src/operation/captured_calls.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <utility>

#include "src/base/caught.h"
#include "src/operation/captured_task.h"
#include "src/operation/staging.h"
#include "src/operation/stream_turns.h"

namespace tutti::operation {
namespace {

Status check_alike(const PlacedOperation& member) {
  const auto& streams = member.streams();
  const bool all = std::all_of(streams.begin(), streams.end(), [](const CallStream& stream) {
    return stream.is_of_device() && stream.place.capture != 0;
  });
  if (!all) {
    return Status::invalid_usage(
        "sends and receives of one group are on streams of which only some are captured: put those "
        "of the captured ones into a group of their own");
  }
  const bool one_graph = std::all_of(streams.begin(), streams.end(), [&](const CallStream& one) {
    return one.place.capture == streams.front().place.capture;
  });
  if (one_graph) return {};
  return Status::invalid_usage(
      "sends and receives of one group are on streams that are captured into several graphs: "
      "put those of each graph into a group of their own");
}

/// One captured call while it is put into its graph.
struct Put {
  PlacedOperation* member = nullptr;
  std::shared_ptr<CapturedTask> task;  // of one that goes by the host

  bool is_by_host() const { return member->runner != Runner::kStream; }
};

// Graphs keep the order of the calls from the first captured one on, so those before it end first:
// no rank waits for another one's capture.
Status open_to_graphs(const PlacedOperation& member, const StreamThread& thread) {
  comm::Communicator& communicator = *member.communicator;
  if (communicator.streams().is_replayed()) return {};
  if (Status status = thread.drain(communicator); !status.ok()) return status;
  communicator.streams().open_to_graphs(communicator);
  return {};
}

/// The task that a graph runs: its end is told to nobody but the graph's streams.
Task task_of(const PlacedOperation& member) {
  Task task;
  task.operation = HeldOperation(*member.task.operation);
  task.priority = member.task.priority;
  task.stream = member.task.stream;
  task.more_streams = member.task.more_streams;
  return task;
}

// The graph has the task before it has anything that names it.
Status enter_staged(Put& put, const StreamThread& thread) {
  PlacedOperation& member = *put.member;
  comm::DeviceStreams& streams = member.communicator->streams();
  const Result<StreamEngine*> engine = thread.find();
  if (!engine.ok()) return engine.status();
  const std::vector<exec::StreamPlace> places = member.places();
  put.task = std::make_shared<CapturedTask>(task_of(member), *engine.value(), streams.gate());
  for (const exec::StreamPlace& place : places) {
    if (Status status = streams.device().keep(place, put.task); !status.ok()) return status;
  }
  if (Status status = stage_captured(*put.task, member.streams()); !status.ok()) return status;
  const Result<exec::CallOrder*> order = streams.order();
  if (!order.ok()) return order.status();
  if (Status status = order.value()->begin(places); !status.ok()) return status;
  for (const auto& staging : put.task->stagings()) {
    if (Status status = staging->enter(); !status.ok()) return status;
  }
  return {};
}

Status leave_staged(const Put& put) {
  for (const auto& staging : put.task->stagings()) {
    if (Status status = staging->leave(); !status.ok()) return status;
  }
  const Result<exec::CallOrder*> order = put.member->communicator->streams().order();
  return order.ok() ? order.value()->end(put.member->places()) : order.status();
}

// All of a round come to their first point before one waits at its second one: what it waits for
// may need another one that shares its queue in the hardware. The handles of those that streams run
// are told when all of the group have been put.
Status put_round(std::vector<Put>& round, const StreamThread& thread) {
  for (Put& put : round) {
    if (Status status = open_to_graphs(*put.member, thread); !status.ok()) return status;
    if (!put.is_by_host()) continue;
    if (Status status = enter_staged(put, thread); !status.ok()) return status;
  }
  for (const Put& put : round) {
    Status status = put.is_by_host() ? leave_staged(put) : put_in_stream(*put.member, {});
    if (!status.ok()) return status;
  }
  return {};
}

// A communicator's calls follow each other; so each round has the next one of every communicator.
std::vector<std::vector<Put>> rounds_of(std::vector<PlacedOperation>& members) {
  std::vector<std::vector<Put>> rounds;
  std::map<const comm::Communicator*, size_t> next;
  for (PlacedOperation& member : members) {
    const size_t round = next[member.communicator]++;
    if (round == rounds.size()) rounds.emplace_back();
    rounds[round].push_back({&member, nullptr});
  }
  return rounds;
}

}  // namespace

Result<std::vector<PlacedOperation>> take_captured(std::vector<PlacedOperation>& members) {
  for (const PlacedOperation& member : members) {
    if (!member.is_captured()) continue;
    if (Status status = check_alike(member); !status.ok()) return status;
  }
  const auto captured =
      std::stable_partition(members.begin(), members.end(),
                            [](const PlacedOperation& member) { return !member.is_captured(); });
  std::vector<PlacedOperation> taken(std::make_move_iterator(captured),
                                     std::make_move_iterator(members.end()));
  members.erase(captured, members.end());
  const auto place = [](const PlacedOperation& member) {
    const bool is_transfer =
        member.phase == GroupPhase::kTransfer || member.phase == GroupPhase::kTransferOfStreams;
    return std::pair(is_transfer, member.communicator->id());
  };
  std::stable_sort(
      taken.begin(), taken.end(),
      [&](const PlacedOperation& a, const PlacedOperation& b) { return place(a) < place(b); });
  return taken;
}

Status put_captured(std::vector<PlacedOperation>& members, const StreamThread& thread) {
  const Status put = caught_status([&]() -> Status {
    for (std::vector<Put>& round : rounds_of(members)) {
      if (Status status = put_round(round, thread); !status.ok()) return status;
    }
    return {};
  });
  for (const PlacedOperation& member : members) member.task.tell(put);
  return put;
}

}  // namespace tutti::operation
