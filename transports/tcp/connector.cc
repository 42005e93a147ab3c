#include "transports/tcp/connector.h"

#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "src/base/clock.h"
#include "transports/tcp/socket.h"

namespace tutti::transports::tcp {
namespace {

using transport::door::CallAnswer;

// Tags of the poll set: this one, small numbers of doors, and addresses of connections.
constexpr uint64_t kTimer = 0;

constexpr uint64_t kCallPatienceNs = transport::door::Gate::kPatienceNs;
constexpr uint64_t kLongestPauseNs = 100'000'000;
constexpr uint64_t kGateRestNs = 100'000'000;
// A call that finds no descriptor may get one when another thread closes its own: for about a
// second.
constexpr int kMostWithoutSocket = 16;
constexpr uint64_t kLooks = 4;  // in the time that a host may be silent

uint64_t tag_of(const Connection& connection) { return reinterpret_cast<uint64_t>(&connection); }

}  // namespace

Connector::Connector(KeptFd timer, std::unique_ptr<PollSet> set, uint64_t keepalive_ns,
                     uint64_t give_way_ns)
    : keepalive_ns_(keepalive_ns),
      give_way_ns_(give_way_ns),
      timer_(std::move(timer)),
      set_(std::move(set)) {}

Result<std::unique_ptr<Connector>> Connector::create(uint64_t keepalive_ns, uint64_t give_way_ns) {
  Result<std::unique_ptr<PollSet>> set = PollSet::create();
  if (!set.ok()) return set.status();
  KeptFd timer =
      KeptFd::open([] { return timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK); });
  if (!timer.valid()) return errno_status("timerfd_create");
  std::unique_ptr<Connector> made(
      new Connector(std::move(timer), std::move(set).value(), keepalive_ns, give_way_ns));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kTimer;
  if (epoll_ctl(made->set_->fd(), EPOLL_CTL_ADD, made->timer_.get(), &event) < 0) {
    return errno_status("epoll_ctl");
  }
  return made;
}

void Connector::look_at(Connection& connection) {
  const MutexLock lock(wishes_mutex_);
  wishes_.push_back(connection.weak_from_this());
  if (wishes_.size() == 1) set_timer(1);
}

void Connector::serve() {
  const MutexLock lock(mutex_);
  constexpr size_t kMostEvents = 64;
  std::array<epoll_event, kMostEvents> events;
  const uint64_t now_ns = monotonic_ns();
  std::set<uint64_t> ready_doors;
  for (const epoll_event& event : set_->ready(events)) {
    const uint64_t tag = event.data.u64;
    if (tag == kTimer) {
      uint64_t times = 0;
      [[maybe_unused]] const ssize_t count = read(timer_.get(), &times, sizeof times);
    } else if (tag <= last_door_) {
      ready_doors.insert(tag);
    } else {
      const auto found = calls_.find(reinterpret_cast<const Connection*>(tag));
      if (found != calls_.end()) step(found->second);
    }
  }
  take_wishes();
  for (const auto& [address, door] : doors_) {
    const bool has_rested = door->rests_until_ns > 0 && door->rests_until_ns <= now_ns;
    const bool is_due = door->gate.earliest_expiry_ns() <= now_ns || has_rested;
    if (is_due || ready_doors.contains(door->tag)) let_in(*door, now_ns);
  }
  begin_calls(now_ns);
  look_after_hosts(now_ns);
  arm_timer(now_ns);
}

void Connector::take_wishes() {
  std::vector<std::weak_ptr<Connection>> wishes;
  {
    const MutexLock lock(wishes_mutex_);
    wishes.swap(wishes_);
  }
  for (const std::weak_ptr<Connection>& weak : wishes) {
    const std::shared_ptr<Connection> connection = weak.lock();
    if (connection == nullptr) continue;
    connection->announce();
    call_for_others(connection);
  }
}

void Connector::call_for_others(const std::shared_ptr<Connection>& connection) {
  if (calls_.contains(connection.get()) || !connection->is_wanted()) return;
  Outgoing& outgoing = calls_[connection.get()];
  outgoing.connection = connection;
  const bool gives_way = connection->peer() < connection->self();
  queue(outgoing, monotonic_ns() + (gives_way ? give_way_ns_ : 0));
}

// ---- being called -------------------------------------------------------------------------------

void Connector::let_in(ListeningDoor& door, uint64_t now_ns) {
  if (door.rests_until_ns > 0) door.gate.rest(false);
  std::vector<transport::door::Gate::AdmittedCaller> callers;
  const Status status = door.gate.step(callers);
  door.rests_until_ns = status.ok() ? 0 : now_ns + kGateRestNs;
  if (!status.ok()) door.gate.rest(true);
  for (transport::door::Gate::AdmittedCaller& caller : callers) answer(std::move(caller));
}

// The caller holds the key, but may lie about its rank.
void Connector::answer(transport::door::Gate::AdmittedCaller caller) {
  const transport::door::Identity& wanted = caller.self;
  const auto seat = std::find_if(seats_.begin(), seats_.end(), [&](const Seat& one) {
    return one.member->communicator == wanted.communicator && one.member->epoch == wanted.epoch &&
           one.member->rank == wanted.rank && !one.quiet;
  });
  if (seat == seats_.end()) return;
  if (caller.rank < 0 || caller.rank >= seat->member->ranks || caller.rank == wanted.rank) return;
  KnownPeer& peer = seat->peers[static_cast<size_t>(caller.rank)];
  if (peer.link == nullptr) {
    peer.early = std::move(caller.fd);  // of two calls the peer means the newer one
    peer.binding = caller.binding;
    return;
  }
  if (answer(*peer.link, std::move(caller.fd), caller.binding)) {
    connected(*peer.link->connection());
  }
}

bool Connector::answer(TcpLink& link, KeptFd call, const transport::door::Binding& binding) {
  char byte = 0;
  if (recv(call.get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK) >= 0) return false;  // it has ended
  make_ready(call.get());
  Connection& connection = *link.connection();
  return connection.answer(link, std::move(call), binding, may_be_out(connection)) ==
         Connection::Taken::kYes;
}

// A rank that waits for a descriptor has not called yet.
bool Connector::may_be_out(const Connection& connection) const {
  const auto found = calls_.find(&connection);
  return found == calls_.end() || found->second.stage != CallStage::kQueued ||
         found->second.without_socket == 0;
}

// A failure here shows at the first message, as with any connection that breaks.
void Connector::make_ready(int socket) {
  (void)make_fast(socket);
  if (keepalive_ns_ == kNoDeadline) return;
  (void)keep_alive(socket, keepalive_ns_);
  next_look_ns_ = std::min(next_look_ns_, monotonic_ns() + keepalive_ns_ / kLooks);
}

void Connector::look_after_hosts(uint64_t now_ns) {
  if (now_ns < next_look_ns_) return;
  next_look_ns_ = now_ns + keepalive_ns_ / kLooks;
  for (const auto& [ends, weak] : connections_) {
    if (const auto connection = weak.lock()) connection->check_host(keepalive_ns_);
  }
  std::vector<const Connection*> silent;
  for (const auto& [connection, outgoing] : calls_) {
    const int fd = reached_by(outgoing);
    if (fd >= 0 && is_silent(fd, keepalive_ns_)) silent.push_back(connection);
  }
  // Another call would wait as long again.
  for (const Connection* connection : silent) {
    fail(calls_.at(connection), Status::system_error(silence_text(keepalive_ns_)));
  }
}

// -1 before the peer's kernel has answered: where it does not, connect() fails, and a stopped
// process that is called too often may be why.
int Connector::reached_by(const Outgoing& outgoing) {
  if (outgoing.call) return outgoing.call->reached() ? outgoing.call->fd() : -1;
  return outgoing.socket.get();
}

void Connector::connected(Connection& connection) {
  drop(connection);
  connection.announce();
}

// ---- calling ------------------------------------------------------------------------------------

void Connector::queue(Outgoing& outgoing, uint64_t due_ns) {
  const Connection* const connection = outgoing.connection.get();
  queue_.erase({outgoing.due_ns, connection});
  calling_.erase(connection);
  outgoing.call.reset();
  outgoing.socket = PolledFd();
  outgoing.stage = CallStage::kQueued;
  outgoing.due_ns = due_ns;
  queue_.insert({due_ns, connection});
}

void Connector::drop(const Connection& connection) {
  const auto found = calls_.find(&connection);
  if (found == calls_.end()) return;
  queue_.erase({found->second.due_ns, &connection});
  calling_.erase(&connection);
  calls_.erase(found);
}

void Connector::begin_calls(uint64_t now_ns) {
  if (calling_.size() >= kMostCalls) make_room(now_ns);
  while (calling_.size() < kMostCalls && !queue_.empty() && queue_.begin()->first <= now_ns) {
    const Connection* const connection = queue_.begin()->second;
    queue_.erase(queue_.begin());
    begin(calls_.at(connection), now_ns);
  }
}

// Calls that a peer does not answer go to the end of the queue, except where the peer may believe
// that it is connected. A call that a host does not answer stays: begun anew whenever others wait,
// it would never show that there is no such host.
void Connector::make_room(uint64_t now_ns) {
  if (queue_.empty() || queue_.begin()->first > now_ns) return;
  const std::set<const Connection*> calling = calling_;
  for (const Connection* connection : calling) {
    Outgoing& outgoing = calls_.at(connection);
    if (outgoing.call->proved() || outgoing.due_ns > now_ns) continue;
    if (outgoing.call->reached()) {
      queue(outgoing, now_ns);
    } else {
      calling_.erase(connection);
    }
  }
}

void Connector::begin(Outgoing& outgoing, uint64_t now_ns) {
  const Connection& connection = *outgoing.connection;
  outgoing.link = outgoing.connection->link_to_call_for();
  if (outgoing.link == nullptr || !places_.contains(outgoing.link)) return drop(connection);
  Result<KeptFd> fd = dial(known(*outgoing.link).card.endpoint);
  const bool no_socket = fd.status().code() == Code::kUnsupported;
  if (no_socket && outgoing.without_socket++ < kMostWithoutSocket) return call_again(outgoing);
  if (!fd.ok()) {
    return fail(outgoing, Status::system_error(std::string(fd.status().message())),
                FaultSide::kHere);
  }
  make_ready(fd.value().get());  // its host may be lost before it has answered
  outgoing.stage = CallStage::kCalling;
  outgoing.due_ns = now_ns + kCallPatienceNs;
  calling_.insert(&connection);
  const transport::Member& member = *places_.at(outgoing.link)->member;
  outgoing.call.emplace(std::move(fd).value(), member.key,
                        identity_of(member, outgoing.link->peer_rank()));
  if (Status status = outgoing.call->list_in(*set_, tag_of(connection)); !status.ok()) {
    fail(outgoing, status, FaultSide::kHere);
  }
}

// May end `outgoing`.
void Connector::step(Outgoing& outgoing) {
  if (outgoing.stage == CallStage::kCalling) {
    advance_call(outgoing);
  } else if (outgoing.stage != CallStage::kQueued) {
    read_verdict(outgoing);
  }
}

void Connector::advance_call(Outgoing& outgoing) {
  const Result<bool> done = outgoing.call->step();
  if (!done.ok() && outgoing.attempts.again(*outgoing.call, done.status())) {
    return call_again(outgoing);
  }
  if (!done.ok()) return fail(outgoing, done.status());
  if (!done.value()) return;
  calling_.erase(outgoing.connection.get());
  outgoing.stage = CallStage::kAsking;
  outgoing.binding = outgoing.call->binding();
  outgoing.socket = PolledFd(outgoing.call->take());
  outgoing.call.reset();
  if (Status status = outgoing.socket.list(*set_, EPOLLIN, tag_of(*outgoing.connection));
      !status.ok()) {
    fail(outgoing, status, FaultSide::kHere);
  }
}

void Connector::read_verdict(Outgoing& outgoing) {
  char byte = 0;
  const ssize_t count = recv(outgoing.socket.get(), &byte, 1, MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
  // The peer went away before it said what becomes of this call, or before its own call came.
  if (count <= 0 || outgoing.stage == CallStage::kDeclined) return call_again(outgoing);
  const std::shared_ptr<Connection> connection = outgoing.connection;
  switch (static_cast<CallAnswer>(byte)) {
    case CallAnswer::kTaken:
      connection->adopt(*outgoing.link, outgoing.socket.take(), outgoing.binding);
      return connected(*connection);
    case CallAnswer::kDeclined:
      outgoing.stage = CallStage::kDeclined;
      return;
    case CallAnswer::kConnected:
      return connection->is_connected() ? connected(*connection) : call_again(outgoing);
    case CallAnswer::kGone:
      return fail(outgoing,
                  Status::remote_error("it has given up this connection; look at what rank " +
                                       std::to_string(outgoing.link->peer_rank()) + " said last"));
  }
  fail(outgoing, Status::remote_error("it answered nonsense"));
}

void Connector::call_again(Outgoing& outgoing) {
  queue(outgoing, monotonic_ns() + outgoing.pause_ns);
  outgoing.pause_ns = std::min(2 * outgoing.pause_ns, kLongestPauseNs);
}

// ---- the rest -----------------------------------------------------------------------------------

void Connector::fail(Outgoing& outgoing, const Status& reason, FaultSide fault) {
  TcpLink& link = *outgoing.link;
  const std::shared_ptr<Connection> connection = outgoing.connection;
  drop(*connection);
  const Status why = explain(reason, link);
  link.give_up(fault == FaultSide::kHere ? Status(reason.code(), std::string(why.message())) : why);
  connection->announce();
  call_for_others(connection);
}

void Connector::arm_timer(uint64_t now_ns) {
  uint64_t when_ns = next_look_ns_;
  for (const auto& [address, door] : doors_) {
    when_ns = std::min(when_ns, door->gate.earliest_expiry_ns());
    if (door->rests_until_ns > 0) when_ns = std::min(when_ns, door->rests_until_ns);
  }
  if (!queue_.empty() && calling_.size() < kMostCalls) {
    when_ns = std::min(when_ns, queue_.begin()->first);
  } else if (!queue_.empty()) {
    for (const Connection* connection : calling_) {
      const Outgoing& outgoing = calls_.at(connection);
      if (!outgoing.call->proved()) when_ns = std::min(when_ns, outgoing.due_ns);
    }
  }
  when_ns = std::max(when_ns, now_ns + 1);
  const MutexLock lock(wishes_mutex_);
  set_timer(wishes_.empty() ? when_ns : 1);
}

void Connector::set_timer(uint64_t when_ns) {
  itimerspec when{};  // zero: never
  if (when_ns != kNoDeadline) {
    when.it_value.tv_sec = static_cast<time_t>(when_ns / kNanosecondsPerSecond);
    when.it_value.tv_nsec = static_cast<long>(when_ns % kNanosecondsPerSecond);
  }
  timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
}

/// A reason as the socket knows it, in the words of the ranks.
Status Connector::explain(const Status& reason, const TcpLink& link) const {
  const Seat& seat = *places_.at(&link);
  const TcpCard& card = seat.peers[static_cast<size_t>(link.peer_rank())].card;
  const bool network = reason.code() == Code::kSystemError || reason.code() == Code::kTimeout;
  std::string text = "rank " + std::to_string(link.rank()) + " has no connection with rank " +
                     std::to_string(link.peer_rank()) + " at " + card.endpoint.text() + " (host " +
                     card.host_id + "): " + std::string(reason.message());
  if (network) {
    text += "; check that its process runs, that no firewall is between the hosts, and that " +
            seat.card.endpoint.host() + " and " + card.endpoint.host() +
            " are in one network (TUTTI_SOCKET_IFNAME chooses another on either host)";
  }
  return {network && reason.code() != Code::kTimeout ? Code::kRemoteError : reason.code(), text};
}

}  // namespace tutti::transports::tcp
