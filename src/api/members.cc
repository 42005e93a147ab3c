#include "src/api/members.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace tutti::api {
namespace {

void append_transfers(comm::Task& task, const exec::Transfer& transfer) {
  if (const auto* single = std::get_if<exec::Transfer>(&task.work)) {
    task.work = std::vector<exec::Transfer>{*single};
  }
  std::get<std::vector<exec::Transfer>>(task.work).push_back(transfer);
}

// A communicator's planner is the engine's as long as something of it is queued. A communicator is
// kept from being freed only while nothing here waits for another one, whose end may be the next
// that another thread is going to ask for.
Status drain_all(const std::vector<GroupMember>& members) {
  for (const GroupMember& member : members) {
    const Visitor visitor = visit(member.comm);
    if (Status status = check_handle(member.comm); !status.ok()) return status;
    if (Status status = drain(*member.comm->communicator); !status.ok()) return status;
  }
  return {};
}

}  // namespace

// Those that go from device to device are in a task of their own: a peer's may be alone.
bool join_transfers(std::vector<GroupMember>& members, GroupMember& member) {
  const auto* transfer = std::get_if<exec::Transfer>(&member.task.work);
  if (transfer == nullptr) return false;
  const auto earlier = std::find_if(members.begin(), members.end(), [&](const GroupMember& other) {
    return other.comm == member.comm && other.task.is_transfer() &&
           is_direct(other.task, other.streams) == is_direct(member.task, member.streams);
  });
  if (earlier == members.end()) return false;
  comm::Task& task = earlier->task;
  append_transfers(task, *transfer);
  earlier->streams.insert(earlier->streams.end(), member.streams.begin(), member.streams.end());
  const comm::Task::TaskStream& stream = member.task.stream;
  const auto known = [&](const comm::Task::TaskStream& other) {
    return other.completion == stream.completion;
  };
  if (!known(task.stream) &&
      std::none_of(task.more_streams.begin(), task.more_streams.end(), known)) {
    task.more_streams.push_back(stream);
  }
  // The last that may find no memory: the handles are told by one task or the other.
  task.handles.insert(task.handles.end(), member.task.handles.begin(), member.task.handles.end());
  task.priority = std::max(task.priority, member.task.priority);
  const comm::Communicator& communicator = *task.communicator;
  uint64_t& timeout_ns = task.extras.options->timeout_ns;
  timeout_ns = communicator.timeout_of(timeout_ns);
  const uint64_t other_ns = communicator.timeout_of(member.task.extras.options->timeout_ns);
  timeout_ns = std::min(timeout_ns, other_ns);
  return true;
}

namespace {

Status find_places(GroupMember& member) {
  member.places.clear();
  if (std::none_of(member.streams.begin(), member.streams.end(), is_of_device)) return {};
  for (const tuttiStream_t& stream : member.streams) {
    if (!is_of_device(stream)) {
      member.places.emplace_back();
      continue;
    }
    const Result<exec::StreamPlace> place = place_of(stream, *member.task.communicator);
    if (!place.ok()) return place.status();
    member.places.push_back(place.value());
  }
  return member.task.communicator->open_order();
}

}  // namespace

// Ranks may name operations of different kinds in different orders, and need not all have each
// kind: with the collectives first on every rank, then the transfers, then what never waits, nobody
// waits for what its peer has behind something of another kind.
void order(std::vector<GroupMember>& members) {
  const auto kind_of = [](const GroupMember& member) {
    const auto* access = std::get_if<comm::Access>(&member.task.work);
    if (access != nullptr) return access->kind == comm::Access::Kind::kWaitSignal ? 4 : 3;
    if (member.task.is_request()) return 0;
    return is_direct(member.task, member.streams) ? 1 : 2;
  };
  std::map<std::pair<const tuttiComm*, int>, size_t> known;
  for (GroupMember& member : members) {
    member.kind = kind_of(member);
    member.index = known[{member.comm, member.kind}]++;
  }
  std::stable_sort(members.begin(), members.end(),
                   [](const GroupMember& a, const GroupMember& b) { return a.kind < b.kind; });
}

// Another thread may have ended a communicator since the call.
Status enter(std::vector<GroupMember>& members) {
  for (GroupMember& member : members) {
    member.visitor = visit(member.comm);
    if (Status status = check_handle(member.comm); !status.ok()) return status;
    if (Status status = member.task.check(); !status.ok()) return status;
    if (Status status = find_places(member); !status.ok()) return status;
  }
  return {};
}

// The operations of a communicator follow each other, those of several run side by side.
Status predict(std::vector<GroupMember>& members, uint64_t& nanoseconds) {
  if (Status status = drain_all(members); !status.ok()) return status;
  if (Status status = enter(members); !status.ok()) return status;
  std::map<const tuttiComm*, double> times;
  double longest = 0;
  for (GroupMember& member : members) {
    const Result<double> predicted = member.task.predict_ns();
    if (!predicted.ok()) return predicted.status();
    longest = std::max(longest, times[member.comm] += predicted.value());
  }
  nanoseconds = static_cast<uint64_t>(longest);
  return {};
}

void tell_all(const std::vector<GroupMember>& members, const Status& status) {
  for (const GroupMember& member : members) member.task.tell(status);
}

bool is_among(const std::vector<GroupMember>& members, const tuttiComm* comm) {
  return std::any_of(members.begin(), members.end(),
                     [comm](const GroupMember& member) { return member.comm == comm; });
}

// Also where the communicator has work there: a communicator is driven by one thread at a time, and
// to wait for that work before the group has begun may be to wait for ever, since a peer may do it
// only behind what the group has of another communicator.
bool needs_engine(const GroupMember& member) {
  const comm::Communicator& communicator = *member.comm->communicator;
  if (communicator.pending.load(std::memory_order_acquire) > 0) return true;
  if (communicator.is_replayed()) return true;
  if (std::any_of(member.streams.begin(), member.streams.end(), is_of_device)) return true;
  const auto is_host = [](const comm::Task::TaskStream& stream) { return stream.order != nullptr; };
  const auto& more = member.task.more_streams;
  return is_host(member.task.stream) || std::any_of(more.begin(), more.end(), is_host);
}

Status check_engines(const std::vector<GroupMember>& members) {
  for (const GroupMember& member : members) {
    if (Status s = check_engine(member.task, member.streams); !s.ok()) return s;
  }
  return {};
}

void order_for_streams(std::vector<GroupMember>& members) {
  const auto place = [](const GroupMember& member) {
    return std::pair(member.task.is_transfer(), member.comm->communicator->id());
  };
  std::stable_sort(members.begin(), members.end(),
                   [&](const GroupMember& a, const GroupMember& b) { return place(a) < place(b); });
}

std::vector<GroupMember> take_direct(std::vector<GroupMember>& members) {
  const auto direct = std::stable_partition(
      members.begin(), members.end(),
      [](const GroupMember& member) { return !is_direct(member.task, member.streams); });
  std::vector<GroupMember> taken(std::make_move_iterator(direct),
                                 std::make_move_iterator(members.end()));
  members.erase(direct, members.end());
  return taken;
}

void declare_by_host(const std::vector<GroupMember>& members) {
  for (const GroupMember& member : members) (void)declare_by_host(member.task, member.streams);
}

namespace {

using Key = std::tuple<int, uint64_t, size_t>;

Key key_of(const MemberTurn& turn) {
  const GroupMember& member = *turn.member;
  return {member.kind, member.comm->communicator->id(), member.index};
}

MemberTurn turn_of(GroupMember& member, bool direct) {
  MemberTurn turn{.member = &member, .direct = direct};
  for (size_t i = 0; i < member.places.size(); ++i) {
    if (is_of_device(member.streams[i])) turn.places.push_back(member.places[i]);
  }
  return turn;
}

Status enter(MemberTurn& turn) {
  turn.entered = true;
  if (turn.places.empty()) return {};
  exec::CallOrder& order = *turn.member->comm->communicator->call_order();
  if (Status status = order.begin(turn.places); !status.ok()) return status;
  for (const auto& crossing : turn.crossings) {
    if (Status status = crossing->enter(); !status.ok()) return status;
  }
  return {};
}

Status leave(const MemberTurn& turn) {
  Status first;
  for (const auto& crossing : turn.crossings) {
    const Status status = crossing->leave();
    if (first.ok()) first = status;
  }
  const Status ended = turn.places.empty()
                           ? Status()
                           : turn.member->comm->communicator->call_order()->end(turn.places);
  return first.ok() ? ended : first;
}

Status put_direct(const MemberTurn& turn) {
  GroupMember& member = *turn.member;
  exec::CallOrder& order = *member.comm->communicator->call_order();
  if (Status status = order.begin(turn.places); !status.ok()) {
    member.task.tell(status);
    return status;
  }
  if (Status status = enqueue_direct(member.task, member.streams); !status.ok()) return status;
  return order.end(turn.places);
}

}  // namespace

Result<Turns> enter_devices(std::vector<GroupMember>& crossing, std::vector<GroupMember>& direct) {
  Turns turns;
  for (GroupMember& member : crossing) {
    turns.push_back(turn_of(member, false));
    Result<Crossings> made = cross(member.task, {member.streams, member.places});
    if (!made.ok()) return made.status();
    turns.back().crossings = std::move(made).value();
  }
  for (GroupMember& member : direct) turns.push_back(turn_of(member, true));
  std::stable_sort(turns.begin(), turns.end(),
                   [](const MemberTurn& a, const MemberTurn& b) { return key_of(a) < key_of(b); });
  std::set<const tuttiComm*> begun;
  for (MemberTurn& turn : turns) {
    if (!begun.insert(turn.member->comm).second || turn.direct) continue;
    if (Status status = enter(turn); !status.ok()) return status;
  }
  return turns;
}

// A task whose stream never comes to its first point would wait for it: its communicator fails.
Status put_turns(Turns& turns) {
  Status first;
  const auto note = [&first](const MemberTurn& turn, const Status& status) {
    if (first.ok()) first = status;
    if (!status.ok() && !turn.direct) turn.member->comm->communicator->abort(status);
  };
  for (auto turn = turns.begin(); turn != turns.end();) {
    const auto end = std::find_if(
        turn, turns.end(), [&](const MemberTurn& other) { return key_of(other) != key_of(*turn); });
    std::for_each(turn, end, [&](MemberTurn& one) {
      if (!one.direct && !one.entered) note(one, enter(one));
    });
    std::for_each(turn, end,
                  [&](MemberTurn& one) { note(one, one.direct ? put_direct(one) : leave(one)); });
    turn = end;
  }
  return first;
}

}  // namespace tutti::api
