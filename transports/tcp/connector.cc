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

// Tags of the poll set below those of peers.
constexpr uint64_t kTimer = 0, kGate = 1, kFirstPeer = 2;

constexpr uint64_t kCallPatienceNs = transport::door::Gate::kPatienceNs;
constexpr uint64_t kLongestPauseNs = 100'000'000;
constexpr uint64_t kGateRestNs = 100'000'000;
// A call that finds no descriptor may get one when another thread closes its own: for about a
// second.
constexpr int kMostWithoutSocket = 16;
constexpr uint64_t kLooks = 4;  // in the time that a host may be silent

uint64_t tag_of(int peer) { return kFirstPeer + static_cast<uint64_t>(peer); }

transport::door::Identity identity_of(const transport::Member& member, int peer) {
  transport::door::Identity self;
  self.rank = member.rank;
  self.peer = peer;
  self.communicator = member.communicator;
  self.epoch = member.epoch;
  self.purpose = transport::door::Purpose::kTcp;
  return self;
}

}  // namespace

Connector::Connector(const transport::Member& member, const TcpCard& self, KeptFd listener,
                     KeptFd timer, std::unique_ptr<PollSet> set)
    : member_(member),
      self_(self),
      timer_(std::move(timer)),
      set_(std::move(set)),
      gate_(std::move(listener), member.key, identity_of(member, -1)),
      peers_(static_cast<size_t>(member.ranks)) {}

Result<std::unique_ptr<Connector>> Connector::create(const transport::Member& member,
                                                     const TcpCard& self, KeptFd listener,
                                                     uint64_t give_way_ns) {
  Result<std::unique_ptr<PollSet>> set = PollSet::create();
  if (!set.ok()) return set.status();
  KeptFd timer =
      KeptFd::open([] { return timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK); });
  if (!timer.valid()) return errno_status("timerfd_create");
  std::unique_ptr<Connector> made(
      new Connector(member, self, std::move(listener), std::move(timer), std::move(set).value()));
  made->give_way_ns_ = give_way_ns;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kTimer;
  if (epoll_ctl(made->set_->fd(), EPOLL_CTL_ADD, made->timer_.get(), &event) < 0) {
    return errno_status("epoll_ctl");
  }
  if (Status status = made->gate_.list_in(*made->set_, kGate); !status.ok()) return status;
  return made;
}

void Connector::add(TcpLink& link, int peer, const TcpCard& card) {
  const std::lock_guard lock(mutex_);
  KnownPeer& entry = peers_[static_cast<size_t>(peer)];
  entry.link = &link;
  entry.card = card;
  if (!entry.early.valid()) return;
  answer(peer, std::move(entry.early));
  arm_timer(monotonic_ns());
}

void Connector::want(int peer) {
  const std::lock_guard lock(wishes_mutex_);
  wishes_.push_back(peer);
  if (wishes_.size() == 1) set_timer(1);
}

void Connector::forget(int peer) {
  const std::lock_guard lock(mutex_);
  peers_[static_cast<size_t>(peer)].link = nullptr;
  drop(peer);
}

Status Connector::overdue(int peer) {
  const std::lock_guard lock(mutex_);
  std::string text = "no answer in time";
  if (gate_.refused() > 0) {
    text += " (refused " + std::to_string(gate_.refused()) +
            " other connections; the last one: " + gate_.last_refusal() + ")";
  }
  return explain(Status::timeout(text), peer);
}

void Connector::serve() {
  const std::lock_guard lock(mutex_);
  constexpr size_t kMostEvents = 64;
  std::array<epoll_event, kMostEvents> events;
  const uint64_t now_ns = monotonic_ns();
  bool at_gate = gate_.earliest_expiry_ns() <= now_ns ||
                 (gate_rests_until_ns_ > 0 && gate_rests_until_ns_ <= now_ns);
  for (const epoll_event& event : set_->ready(events)) {
    const uint64_t tag = event.data.u64;
    if (tag == kTimer) {
      uint64_t times = 0;
      [[maybe_unused]] const ssize_t count = read(timer_.get(), &times, sizeof times);
    } else if (tag == kGate) {
      at_gate = true;
    } else {
      const auto found = calls_.find(static_cast<int>(tag - kFirstPeer));
      if (found != calls_.end()) step(found->first, found->second);
    }
  }
  take_wishes();
  if (at_gate) let_in(now_ns);
  begin_calls(now_ns);
  look_after_hosts(now_ns);
  arm_timer(now_ns);
}

void Connector::take_wishes() {
  std::vector<int> wishes;
  {
    const std::lock_guard lock(wishes_mutex_);
    wishes.swap(wishes_);
  }
  const uint64_t now_ns = monotonic_ns();
  for (const int peer : wishes) {
    const TcpLink* link = peers_[static_cast<size_t>(peer)].link;
    if (link == nullptr || link->state() != transport::Link::State::kWanted) continue;
    queue(peer, calls_[peer], now_ns + (peer < member_.rank ? give_way_ns_ : 0));
  }
}

// ---- being called -------------------------------------------------------------------------------

void Connector::let_in(uint64_t now_ns) {
  if (gate_rests_until_ns_ > 0) gate_.rest(false);
  std::vector<transport::door::Gate::AdmittedCaller> callers;
  const Status status = gate_.step(callers);
  gate_rests_until_ns_ = status.ok() ? 0 : now_ns + kGateRestNs;
  if (!status.ok()) gate_.rest(true);
  for (transport::door::Gate::AdmittedCaller& caller : callers)
    answer(caller.rank, std::move(caller.fd));
}

// It holds the key, but may lie about its rank; and it may have ended since.
void Connector::answer(int caller, KeptFd call) {
  if (caller < 0 || caller >= member_.ranks || caller == member_.rank) return;
  char byte = 0;
  if (recv(call.get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK) >= 0) return;
  KnownPeer& peer = peers_[static_cast<size_t>(caller)];
  if (peer.link == nullptr) {
    peer.early = std::move(call);  // who calls again means the newer call
    return;
  }
  make_ready(call.get());
  if (peer.link->answer(std::move(call), may_be_out(caller))) connected(caller);
}

// A rank that waits for a descriptor has not called yet.
bool Connector::may_be_out(int peer) const {
  const auto found = calls_.find(peer);
  return found == calls_.end() || found->second.stage != CallStage::kQueued ||
         found->second.without_socket == 0;
}

// Where it fails, the first message shows it, as with any connection that breaks.
void Connector::make_ready(int socket) {
  (void)make_fast(socket);
  if (member_.keepalive_ns == kNoDeadline) return;
  (void)keep_alive(socket, member_.keepalive_ns);
  next_look_ns_ = std::min(next_look_ns_, monotonic_ns() + member_.keepalive_ns / kLooks);
}

void Connector::look_after_hosts(uint64_t now_ns) {
  if (now_ns < next_look_ns_) return;
  next_look_ns_ = now_ns + member_.keepalive_ns / kLooks;
  for (const KnownPeer& peer : peers_) {
    if (peer.link != nullptr) peer.link->check_host(member_.keepalive_ns);
  }
  std::vector<int> silent;
  for (const auto& [peer, outgoing] : calls_) {
    const int fd = reached_by(outgoing);
    if (fd >= 0 && is_silent(fd, member_.keepalive_ns)) silent.push_back(peer);
  }
  // Another call of it would wait as long again.
  for (const int peer : silent) {
    fail(peer, Status::system_error(silence_text(member_.keepalive_ns)));
  }
}

// -1 before the peer's kernel has answered: where it does not, connect() fails, and a stopped
// process that is called too often may be why.
int Connector::reached_by(const Outgoing& outgoing) {
  if (outgoing.call) return outgoing.call->reached() ? outgoing.call->fd() : -1;
  return outgoing.socket.get();
}

void Connector::connected(int peer) {
  drop(peer);
  peers_[static_cast<size_t>(peer)].link->announce();
}

// ---- calling ------------------------------------------------------------------------------------

void Connector::queue(int peer, Outgoing& outgoing, uint64_t due_ns) {
  queue_.erase({outgoing.due_ns, peer});
  calling_.erase(peer);
  outgoing.call.reset();
  outgoing.socket = PolledFd();
  outgoing.stage = CallStage::kQueued;
  outgoing.due_ns = due_ns;
  queue_.insert({due_ns, peer});
}

void Connector::drop(int peer) {
  const auto found = calls_.find(peer);
  if (found == calls_.end()) return;
  queue_.erase({found->second.due_ns, peer});
  calling_.erase(peer);
  calls_.erase(found);
}

void Connector::begin_calls(uint64_t now_ns) {
  if (calling_.size() >= kMostCalls) make_room(now_ns);
  while (calling_.size() < kMostCalls && !queue_.empty() && queue_.begin()->first <= now_ns) {
    const int peer = queue_.begin()->second;
    queue_.erase(queue_.begin());
    begin(peer, calls_.at(peer), now_ns);
  }
}

// Peers that do not answer wait behind the others, but for those that may believe they are
// connected. A host that does not answer is asked on: who begins anew whenever others wait never
// learns that there is no such host.
void Connector::make_room(uint64_t now_ns) {
  if (queue_.empty() || queue_.begin()->first > now_ns) return;
  const std::set<int> calling = calling_;
  for (const int peer : calling) {
    Outgoing& outgoing = calls_.at(peer);
    if (outgoing.call->proved() || outgoing.due_ns > now_ns) continue;
    if (outgoing.call->reached()) {
      queue(peer, outgoing, now_ns);
    } else {
      calling_.erase(peer);
    }
  }
}

void Connector::begin(int peer, Outgoing& outgoing, uint64_t now_ns) {
  Result<KeptFd> fd = dial(peers_[static_cast<size_t>(peer)].card.endpoint);
  const bool no_socket = fd.status().code() == Code::kUnsupported;
  if (no_socket && outgoing.without_socket++ < kMostWithoutSocket) {
    return call_again(peer, outgoing);
  }
  if (!fd.ok()) {
    return fail(peer, Status::system_error(std::string(fd.status().message())), FaultSide::kHere);
  }
  make_ready(fd.value().get());  // its host may be lost before it has answered
  outgoing.stage = CallStage::kCalling;
  outgoing.due_ns = now_ns + kCallPatienceNs;
  calling_.insert(peer);
  outgoing.call.emplace(std::move(fd).value(), member_.key, identity_of(member_, peer));
  if (Status status = outgoing.call->list_in(*set_, tag_of(peer)); !status.ok()) {
    fail(peer, status, FaultSide::kHere);
  }
}

// May end `outgoing`.
void Connector::step(int peer, Outgoing& outgoing) {
  if (outgoing.stage == CallStage::kCalling) {
    advance_call(peer, outgoing);
  } else if (outgoing.stage != CallStage::kQueued) {
    read_verdict(peer, outgoing);
  }
}

void Connector::advance_call(int peer, Outgoing& outgoing) {
  const Result<bool> done = outgoing.call->step();
  if (!done.ok() && outgoing.attempts.again(*outgoing.call, done.status())) {
    return call_again(peer, outgoing);
  }
  if (!done.ok()) return fail(peer, done.status());
  if (!done.value()) return;
  calling_.erase(peer);
  outgoing.stage = CallStage::kAsking;
  outgoing.socket = PolledFd(outgoing.call->take());
  outgoing.call.reset();
  if (Status status = outgoing.socket.list(*set_, EPOLLIN, tag_of(peer)); !status.ok()) {
    fail(peer, status, FaultSide::kHere);
  }
}

void Connector::read_verdict(int peer, Outgoing& outgoing) {
  char byte = 0;
  const ssize_t count = recv(outgoing.socket.get(), &byte, 1, MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
  // The peer went away before it said what becomes of this call, or before its own call came.
  if (count <= 0 || outgoing.stage == CallStage::kDeclined) return call_again(peer, outgoing);
  switch (static_cast<transport::door::CallAnswer>(byte)) {
    case transport::door::CallAnswer::kTaken:
      peers_[static_cast<size_t>(peer)].link->adopt(outgoing.socket.take());
      return connected(peer);
    case transport::door::CallAnswer::kDeclined:
      outgoing.stage = CallStage::kDeclined;
      return;
    case transport::door::CallAnswer::kGone:
      return fail(peer, Status::remote_error("it has given up this connection; look at what rank " +
                                             std::to_string(peer) + " said last"));
  }
  fail(peer, Status::remote_error("it answered nonsense"));
}

void Connector::call_again(int peer, Outgoing& outgoing) {
  queue(peer, outgoing, monotonic_ns() + outgoing.pause_ns);
  outgoing.pause_ns = std::min(2 * outgoing.pause_ns, kLongestPauseNs);
}

// ---- the rest -----------------------------------------------------------------------------------

void Connector::fail(int peer, const Status& reason, FaultSide fault) {
  TcpLink& link = *peers_[static_cast<size_t>(peer)].link;
  drop(peer);
  const Status why = explain(reason, peer);
  link.give_up(fault == FaultSide::kHere ? Status(reason.code(), std::string(why.message())) : why);
  link.announce();
}

void Connector::arm_timer(uint64_t now_ns) {
  uint64_t when_ns = std::min(gate_.earliest_expiry_ns(), next_look_ns_);
  if (gate_rests_until_ns_ > 0) when_ns = std::min(when_ns, gate_rests_until_ns_);
  if (!queue_.empty() && calling_.size() < kMostCalls) {
    when_ns = std::min(when_ns, queue_.begin()->first);
  } else if (!queue_.empty()) {
    for (const int peer : calling_) {
      const Outgoing& outgoing = calls_.at(peer);
      if (!outgoing.call->proved()) when_ns = std::min(when_ns, outgoing.due_ns);
    }
  }
  when_ns = std::max(when_ns, now_ns + 1);
  const std::lock_guard lock(wishes_mutex_);
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
Status Connector::explain(const Status& reason, int peer) const {
  const TcpCard& card = peers_[static_cast<size_t>(peer)].card;
  const bool network = reason.code() == Code::kSystemError || reason.code() == Code::kTimeout;
  std::string text = "rank " + std::to_string(member_.rank) + " has no connection with rank " +
                     std::to_string(peer) + " at " + card.endpoint.text() + " (host " +
                     card.host_id + "): " + std::string(reason.message());
  if (network) {
    text += "; check that its process runs, that no firewall is between the hosts, and that " +
            self_.endpoint.host() + " and " + card.endpoint.host() +
            " are in one network (TUTTI_SOCKET_IFNAME chooses another on either host)";
  }
  return {network && reason.code() != Code::kTimeout ? Code::kRemoteError : reason.code(), text};
}

}  // namespace tutti::transports::tcp
