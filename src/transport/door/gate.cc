#include "src/transport/door/gate.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <tuple>
#include <utility>

#include "src/base/caught.h"
#include "src/base/clock.h"

namespace tutti::transport::door {

Gate::Gate(KeptFd listener, const JobKey& key, const Identity& self, Vet vet, RoundTrip round_trip)
    : Gate(std::move(listener), one_lock(key, self), std::move(vet), std::move(round_trip)) {}

Gate::Gate(KeptFd listener, Locks locks, Vet vet, RoundTrip round_trip)
    : listener_(std::move(listener)),
      locks_(std::move(locks)),
      vet_(std::move(vet)),
      round_trip_(std::move(round_trip)) {
  // A caller that gave up between poll() and accept() must not make accept() wait for the next one.
  const int flags = fcntl(listener_.get(), F_GETFL);
  if (flags >= 0) fcntl(listener_.get(), F_SETFL, flags | O_NONBLOCK);
  keep_spare();
}

// The kernel has measured one while it accepted.
uint64_t Gate::round_trip_of_tcp(int fd) {
  tcp_info info{};
  socklen_t bytes = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return 0;
  return uint64_t{info.tcpi_rtt} * 1000;
}

Result<Gate::AdmittedCaller> Gate::next(const WaitLimit& wait_limit) {
  while (ready_.empty()) {
    std::vector<pollfd> polls;
    append_polls(polls);
    polls.push_back({wait_limit.cancellation_fd(), POLLIN, 0});
    const uint64_t wake_ns = std::min({wait_limit.deadline_ns(), wait_limit.tells_at_ns(),
                                       wait_limit.asks_at_ns(), earliest_expiry_ns()});
    poll(polls.data(), polls.size(), poll_timeout_ms(wake_ns));
    if (Status status = step(ready_); !status.ok()) return status;
    wait_limit.tell_if_due();
    wait_limit.ask_if_due();
    if (ready_.empty() && wait_limit.over()) {
      std::string text = "nobody connected in time";
      if (refused_ > 0) {
        text += " (refused " + std::to_string(refused_) +
                " other connections; the last one: " + last_refusal_ + ")";
      }
      return wait_limit.reason(text);
    }
  }
  AdmittedCaller caller = std::move(ready_.front());
  ready_.erase(ready_.begin());
  return caller;
}

void Gate::append_polls(std::vector<pollfd>& polls) const {
  polls.push_back({listener_.get(), static_cast<short>(crowded_ ? 0 : POLLIN), 0});
  for (const Guest& guest : guests_) polls.push_back({guest.fd.get(), POLLIN, 0});
}

uint64_t Gate::earliest_expiry_ns() const {
  uint64_t earliest_ns = kNoDeadline;
  for (const Guest& guest : guests_) {
    earliest_ns = std::min(earliest_ns, crowded_ ? guest.makes_room_ns() : guest.expiry_ns);
  }
  return earliest_ns;
}

Status Gate::list_in(const PollSet& set, uint64_t tag) {
  set_ = &set;
  tag_ = tag;
  for (Guest& guest : guests_) {
    if (Status status = guest.fd.list(set, EPOLLIN, tag); !status.ok()) return status;
  }
  return listener_.list(set, EPOLLIN, tag);
}

void Gate::rest(bool resting) { listen(resting, crowded_); }

void Gate::listen(bool resting, bool crowded) {
  const bool changes = (resting || crowded) != (resting_ || crowded_);
  resting_ = resting;
  crowded_ = crowded;
  if (set_ == nullptr || !changes) return;
  (void)listener_.list(*set_, resting || crowded ? 0u : uint32_t{EPOLLIN}, tag_);
}

Status Gate::step(std::vector<AdmittedCaller>& admitted) {
  constexpr int kRounds = 8;  // then whoever called step() has other things to do
  for (int round = 0; round < kRounds; ++round) {
    const Status status = accept_waiting();
    hear_all(admitted);
    const bool room = guests_.size() < kMaxHalfOpen || !somebody_waits();
    const bool crowded = status.ok() && !room && !make_room();
    listen(resting_, crowded);
    if (!status.ok() || room || crowded) return status;
  }
  return {};
}

void Gate::hear_all(std::vector<AdmittedCaller>& admitted) {
  std::erase_if(guests_, [&](Guest& guest) {
    bool over = true;  // also where memory is out: the guest calls again
    attempt([&] { over = hear(guest, admitted); });
    return over;
  });
}

bool Gate::somebody_waits() const {
  pollfd listener{listener_.get(), POLLIN, 0};
  return poll(&listener, 1, 0) > 0;
}

uint64_t Gate::Guest::makes_room_ns() const {
  return greeting.received() < kHelloBytes ? 0 : answer_by_ns;
}

bool Gate::make_room() {
  constexpr size_t kEnough = kMaxHalfOpen / 8;
  auto last = guests_.begin() + kEnough;
  const uint64_t now_ns = monotonic_ns();
  const auto order = [now_ns](const Guest& guest) {
    return std::tuple(guest.makes_room_ns() > now_ns, guest.greeting.received(), guest.expiry_ns);
  };
  std::partial_sort(guests_.begin(), last, guests_.end(),
                    [&](const Guest& a, const Guest& b) { return order(a) < order(b); });
  last = std::find_if(guests_.begin(), last,
                      [&](const Guest& guest) { return guest.makes_room_ns() > now_ns; });
  for (auto guest = guests_.begin(); guest != last; ++guest) {
    guest->greeting.put_off();
    refuse(Status::remote_error("others were waiting while the caller said nothing"));
  }
  const bool room = last != guests_.begin();
  guests_.erase(guests_.begin(), last);
  return room;
}

// Only so many: those whom the vet refuses take no place, and may never cease to come.
Status Gate::accept_waiting() {
  for (size_t i = 0; i < kMaxHalfOpen && guests_.size() < kMaxHalfOpen; ++i) {
    KeptFd fd = accept_one();
    if (fd.valid()) {
      welcome(std::move(fd));
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) return {};
    // Any other error of the connection itself is its caller's misfortune; see accept(2).
    const bool ours = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS ||
                      errno == EBADF || errno == EINVAL || errno == ENOTSOCK;
    if (!ours) continue;
    const bool short_of_descriptors = errno == EMFILE || errno == ENFILE;
    const Status status = errno_status("accept");
    if (short_of_descriptors) decline_waiting();
    return status;
  }
  if (!spare_.valid()) keep_spare();
  return {};
}

KeptFd Gate::accept_one() {
  return KeptFd::open(
      [this] { return accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK); });
}

// The number is free for a moment only, and another thread may be the one who takes it.
void Gate::decline_waiting() {
  for (size_t i = 0; i < kMaxHalfOpen && spare_.valid(); ++i) {
    spare_.reset();
    const bool declined = accept_one().valid();
    keep_spare();
    if (!declined) return;
    refuse(Status::system_error("there was no descriptor for the caller: " + errno_text(EMFILE)));
  }
}

void Gate::keep_spare() {
  spare_ = KeptFd::open([] { return eventfd(0, EFD_CLOEXEC); });
}

void Gate::welcome(KeptFd fd) {
  if (vet_) {
    if (const Status status = vet_(fd.get()); !status.ok()) {
      refuse(status);
      return;
    }
  }
  constexpr uint64_t kRoundTrips = 3;  // hello and proof take one and a little
  const uint64_t answer_ns = std::max(kAnswerNs, kRoundTrips * round_trip_(fd.get()));
  const uint64_t now_ns = monotonic_ns();
  Greeting greeting(fd.get(), locks_);
  Guest guest{PolledFd(std::move(fd)), now_ns + kPatienceNs,
              now_ns + std::min(answer_ns, kPatienceNs), std::move(greeting)};
  if (set_ != nullptr) {
    if (const Status status = guest.fd.list(*set_, EPOLLIN, tag_); !status.ok()) {
      refuse(status);
      return;
    }
  }
  guests_.push_back(std::move(guest));
}

bool Gate::hear(Guest& guest, std::vector<AdmittedCaller>& admitted) {
  const Result<bool> done = guest.greeting.advance();
  if (!done.ok()) {
    refuse(done.status());
    return true;
  }
  if (done.value()) {
    const Greeting& greeting = guest.greeting;
    admitted.push_back({guest.fd.take(), greeting.rank(), greeting.self(), greeting.binding()});
    return true;
  }
  if (monotonic_ns() < guest.expiry_ns) return false;
  refuse(Status::timeout("the caller did not finish the handshake in time"));
  return true;
}

void Gate::refuse(const Status& reason) {
  ++refused_;
  last_refusal_ = reason.message();
}

}  // namespace tutti::transport::door
