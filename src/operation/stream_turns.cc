#include "src/operation/stream_turns.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

namespace tutti::operation {
namespace {

using Key = std::tuple<GroupPhase, uint64_t, size_t>;

Key key_of(const StreamTurn& turn) {
  const PlacedOperation& member = turn.member();
  return {member.phase, member.communicator->id(), member.index};
}

}  // namespace

Status put_in_stream(PlacedOperation& member,
                     const std::vector<std::shared_ptr<Completion>>& told) {
  comm::Communicator* const communicator = member.communicator;
  const auto over = [communicator, told](const Status& status) {
    communicator->pending.fetch_sub(1, std::memory_order_release);
    for (const auto& handle : told) handle->finish(status);
  };
  const auto put = [&](auto& call) {
    call.over = over;
    return communicator->streams().calls().rank().enqueue(std::move(call));
  };
  communicator->pending.fetch_add(1, std::memory_order_relaxed);
  Status status;
  try {
    const std::vector<exec::StreamPlace> places = member.places();
    const Result<exec::CallOrder*> order = communicator->streams().order();
    status = order.ok() ? order.value()->begin(places) : order.status();
    if (status.ok()) {
      Result<StreamWork> work = member.task.operation->stream_work(places);
      status = work.ok() ? std::visit(put, work.value()) : work.status();
    }
    if (status.ok()) return order.value()->end(places);
  } catch (const std::exception& error) {
    status = communicator->fail_after(error);
  }
  over(status);
  return status;
}

Status StreamTurn::stage() {
  Result<Stagings> made = operation::stage(member_->task, member_->streams());
  if (!made.ok()) return made.status();
  stagings_ = std::move(made).value();
  return {};
}

Status StreamTurn::enter() {
  entered_ = true;
  if (places_.empty()) return {};
  const Result<exec::CallOrder*> order = member_->communicator->streams().order();
  if (!order.ok()) return order.status();
  if (Status status = order.value()->begin(places_); !status.ok()) return status;
  for (const auto& staging : stagings_) {
    if (Status status = staging->enter(); !status.ok()) return status;
  }
  return {};
}

Status StreamTurn::leave() {
  Status first;
  for (const auto& staging : stagings_) {
    const Status status = staging->leave();
    if (first.ok()) first = status;
  }
  if (places_.empty()) return first;
  const Result<exec::CallOrder*> order = member_->communicator->streams().order();
  const Status ended = order.ok() ? order.value()->end(places_) : order.status();
  return first.ok() ? ended : first;
}

Result<StreamTurns> enter_streams(std::vector<PlacedOperation>& by_host,
                                  std::vector<PlacedOperation>& by_streams) {
  StreamTurns turns;
  for (PlacedOperation& member : by_host) {
    turns.emplace_back(member);
    if (Status status = turns.back().stage(); !status.ok()) return status;
  }
  for (PlacedOperation& member : by_streams) turns.emplace_back(member);
  std::stable_sort(turns.begin(), turns.end(),
                   [](const StreamTurn& a, const StreamTurn& b) { return key_of(a) < key_of(b); });
  std::set<const comm::Communicator*> begun;
  for (StreamTurn& turn : turns) {
    if (!begun.insert(turn.member().communicator).second || !turn.is_by_host()) continue;
    if (Status status = turn.enter(); !status.ok()) return status;
  }
  return turns;
}

// A task whose stream never comes to its first point would wait for it: its communicator fails.
Status put_turns(StreamTurns& turns) {
  Status first;
  const auto note = [&first](const StreamTurn& turn, const Status& status) {
    if (first.ok()) first = status;
    if (status.ok() || !turn.is_by_host()) return;
    turn.member().communicator->failures().abort(status);
  };
  const auto put = [](StreamTurn& turn) {
    return turn.is_by_host() ? turn.leave()
                             : put_in_stream(turn.member(), turn.member().task.handles);
  };
  for (auto turn = turns.begin(); turn != turns.end();) {
    const auto end = std::find_if(
        turn, turns.end(), [&](const StreamTurn& other) { return key_of(other) != key_of(*turn); });
    std::for_each(turn, end, [&](StreamTurn& one) {
      if (one.is_by_host() && !one.has_entered()) note(one, one.enter());
    });
    std::for_each(turn, end, [&](StreamTurn& one) { note(one, put(one)); });
    turn = end;
  }
  return first;
}

}  // namespace tutti::operation
