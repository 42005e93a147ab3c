#include "src/bootstrap/carrier.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "src/base/clock.h"
#include "src/base/little.h"
#include "src/bootstrap/group.h"

namespace tutti::bootstrap {
namespace {

constexpr size_t kHeaderBytes = 8;
constexpr uint8_t kWho = 0;
constexpr uint8_t kWelcome = 255;
// Of one frame: the cards of all members.
constexpr size_t kMostBytes = kMaxMergedBytes;
// Beyond this nothing more waits for a member that does not read.
constexpr size_t kMostWaiting = size_t{1} << 20;

transport::door::Identity identity(uint64_t group, int rank) {
  transport::door::Identity self;
  self.rank = rank;
  self.communicator = group;
  self.purpose = transport::door::purpose_of("edit");
  return self;
}

void put_frame(std::string& out, uint8_t kind, std::string_view bytes) {
  std::array<uint8_t, kHeaderBytes> header{};
  put_little(header.data(), bytes.size(), 4);
  header[4] = kind;
  out.append(reinterpret_cast<const char*>(header.data()), header.size());
  out.append(bytes);
}

struct CarriedHeader {
  size_t bytes = 0;
  uint8_t kind = 0;
};

CarriedHeader header_of(std::string_view in) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(in.data());
  return {static_cast<size_t>(get_little(bytes, 4)), bytes[4]};
}

/// Sends as much as goes without waiting. False: the peer is gone.
bool write_some(int fd, std::string& out) {
  while (!out.empty()) {
    const ssize_t count = send(fd, out.data(), out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    out.erase(0, static_cast<size_t>(count));
  }
  return true;
}

}  // namespace

short MemberCarrier::CarrierConnection::events() const {
  if (phase == CarrierPhase::kDialling) return POLLOUT;
  if (phase == CarrierPhase::kIntroducing) return call->events();
  return static_cast<short>(out.empty() ? POLLIN : POLLIN | POLLOUT);
}

Result<std::unique_ptr<MemberCarrier>> MemberCarrier::open(int listener, CarrierOptions options) {
  KeptFd own = KeptFd::open([listener] { return fcntl(listener, F_DUPFD_CLOEXEC, 0); });
  if (!own.valid()) return errno_status("dup");
  std::unique_ptr<MemberCarrier> made(new MemberCarrier(std::move(options)));
  const auto locks =
      [raw = made.get()](
          const transport::door::Identity& caller) -> std::optional<transport::door::Lock> {
    const CarrierOptions& known = raw->options_;
    const auto lock = [](const GroupKey& key) {
      return transport::door::Lock{key.key, identity(key.group, -1)};
    };
    for (const GroupKey& guest : known.guests) {
      if (guest.group == caller.communicator) return lock(guest);
    }
    return lock(known.members);  // its hello shows a stranger how the two differ
  };
  made->gate_ = std::make_unique<transport::door::Gate>(std::move(own), locks);
  return made;
}

void MemberCarrier::know(const MemberId& member, const Address& address, uint16_t port) {
  places_[member] = {address, port};
}

// One that is open goes before one that is being made: both ends may have called.
MemberCarrier::CarrierConnection* MemberCarrier::connection_to(const MemberId& member) {
  CarrierConnection* found = nullptr;
  for (CarrierConnection& connection : connections_) {
    if (!connection.has_peer || connection.peer != member) continue;
    if (found == nullptr || connection.phase == CarrierPhase::kOpen) found = &connection;
    if (found->phase == CarrierPhase::kOpen) return found;
  }
  if (found != nullptr) return found;
  const auto place = places_.find(member);
  if (place == places_.end() || gone_.count(member) != 0) return nullptr;
  Result<KeptFd> fd = begin_dial(place->second.address, place->second.port);
  if (fd.status().code() == Code::kRemoteError) gone_.insert(member);
  if (!fd.ok()) return nullptr;
  CarrierConnection& made = connections_.emplace_back();
  made.fd = std::move(fd).value();
  made.has_peer = true;
  made.peer = member;
  put_frame(made.out, kWho, to_text(options_.self));
  return &made;
}

void MemberCarrier::send(const MemberId& to, uint8_t kind, std::string_view bytes) {
  CarrierConnection* const connection = connection_to(to);
  if (connection == nullptr || connection->out.size() > kMostWaiting) return;
  put_frame(connection->out, kind, bytes);
}

void MemberCarrier::admit() {
  std::vector<transport::door::Gate::AdmittedCaller> callers;
  // Callers that cannot be accepted now wait in the kernel's queue.
  (void)gate_->step(callers);
  for (auto& caller : callers) {
    CarrierConnection& connection = connections_.emplace_back();
    connection.phase = CarrierPhase::kOpen;
    connection.fd = std::move(caller.fd);
    const uint64_t group = caller.self.communicator;
    connection.is_guest = group != options_.members.group;
    if (connection.is_guest) put_frame(connection.out, kWelcome, options_.welcome(group));
  }
}

bool MemberCarrier::advance_call(CarrierConnection& connection) {
  if (connection.phase == CarrierPhase::kDialling) {
    const Result<bool> dialled = is_dialled(connection.fd.get());
    if (dialled.status().code() == Code::kRemoteError) gone_.insert(connection.peer);
    if (!dialled.ok()) return false;
    if (!dialled.value()) return true;
    connection.call = std::make_unique<transport::door::OutgoingCall>(
        std::move(connection.fd), options_.members.key, identity(options_.members.group, 0));
    // The member at a listener has no rank here; the caller has one, since a gate asks for it.
    connection.phase = CarrierPhase::kIntroducing;
  }
  const Result<bool> done = connection.call->step();
  if (!done.ok()) return false;
  if (!done.value()) return true;
  connection.fd = connection.call->take();
  connection.call = nullptr;
  connection.phase = CarrierPhase::kOpen;
  return true;
}

bool MemberCarrier::read(CarrierConnection& connection, std::vector<CarriedMessage>& messages) {
  std::array<char, 16 << 10> chunk;
  for (;;) {
    const ssize_t count = recv(connection.fd.get(), chunk.data(), chunk.size(), MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    if (count == 0) return false;
    connection.in.append(chunk.data(), static_cast<size_t>(count));
    if (!take_frames(connection, messages)) return false;
  }
}

bool MemberCarrier::take_frames(CarrierConnection& connection,
                                std::vector<CarriedMessage>& messages) {
  std::string& in = connection.in;
  size_t at = 0;
  while (in.size() - at >= kHeaderBytes) {
    const std::string_view left = std::string_view(in).substr(at);
    const CarriedHeader header = header_of(left);
    if (header.bytes > kMostBytes) return false;
    if (left.size() < kHeaderBytes + header.bytes) break;
    const std::string_view bytes = left.substr(kHeaderBytes, header.bytes);
    at += kHeaderBytes + header.bytes;
    if (!connection.has_peer) {
      const auto who = header.kind == kWho ? read_member_id(bytes) : std::nullopt;
      if (!who) return false;
      connection.peer = *who;
      connection.has_peer = true;
    } else if (header.kind != kWho) {
      messages.push_back({connection.peer, header.kind, std::string(bytes)});
    }
  }
  in.erase(0, at);
  return true;
}

bool MemberCarrier::advance(CarrierConnection& connection, std::vector<CarriedMessage>& messages) {
  if (connection.phase != CarrierPhase::kOpen && !advance_call(connection)) return false;
  if (connection.phase != CarrierPhase::kOpen) return true;
  if (!write_some(connection.fd.get(), connection.out)) return false;
  if (connection.is_guest) return !connection.out.empty();
  return read(connection, messages);
}

void MemberCarrier::serve(std::vector<CarriedMessage>& messages) {
  admit();
  for (auto at = connections_.begin(); at != connections_.end();) {
    at = advance(*at, messages) ? std::next(at) : connections_.erase(at);
  }
}

std::vector<CarriedMessage> MemberCarrier::receive(uint64_t until_ns) {
  std::vector<CarriedMessage> messages;
  for (;;) {
    serve(messages);
    if (!messages.empty() || monotonic_ns() >= until_ns) return messages;
    std::vector<pollfd> polls;
    gate_->append_polls(polls);
    for (const CarrierConnection& connection : connections_) {
      polls.push_back({connection.descriptor(), connection.events(), 0});
    }
    const uint64_t wake_ns = std::min(until_ns, gate_->earliest_expiry_ns());
    poll(polls.data(), polls.size(), poll_timeout_ms(wake_ns));
  }
}

bool MemberCarrier::is_connected(const MemberId& member) const {
  return std::any_of(connections_.begin(), connections_.end(), [&](const auto& connection) {
    return connection.phase == CarrierPhase::kOpen && connection.has_peer &&
           connection.peer == member;
  });
}

bool MemberCarrier::is_quiet() const {
  return std::all_of(connections_.begin(), connections_.end(),
                     [](const auto& connection) { return connection.out.empty(); });
}

bool MemberCarrier::has_sent_all(const std::vector<MemberId>& members) const {
  return std::all_of(connections_.begin(), connections_.end(), [&](const auto& connection) {
    const bool is_one = connection.phase == CarrierPhase::kOpen && connection.has_peer &&
                        std::find(members.begin(), members.end(), connection.peer) != members.end();
    return !is_one || connection.out.empty();
  });
}

void MemberCarrier::flush(uint64_t until_ns) {
  constexpr uint64_t kTurnNs = kNanosecondsPerMillisecond;
  std::vector<CarriedMessage> ignored;
  serve(ignored);
  while (!is_quiet() && monotonic_ns() < until_ns) (void)receive(deadline_after(kTurnNs));
}

namespace {

Result<std::string> ask_at(const Address& address, uint16_t port, const GroupKey& key,
                           const WaitLimit& wait_limit) {
  const auto call = [&] { return dial(address, port, wait_limit); };
  Result<KeptFd> fd = transport::door::pass_gate(call, key.key, identity(key.group, 0), wait_limit);
  if (!fd.ok()) return fd.status();
  std::array<char, kHeaderBytes> header{};
  Status status = receive_exactly(fd.value().get(), header.data(), header.size(), wait_limit);
  if (!status.ok()) return status;
  const CarriedHeader read = header_of({header.data(), header.size()});
  if (read.kind != kWelcome || read.bytes > kMostBytes) {
    return Status::remote_error("a member said something that is no welcome");
  }
  std::string bytes(read.bytes, '\0');
  status = receive_exactly(fd.value().get(), bytes.data(), bytes.size(), wait_limit);
  if (!status.ok()) return status;
  return bytes;
}

}  // namespace

Result<std::string> ask_as_guest(std::span<const Address> addresses, uint16_t port,
                                 const GroupKey& key, const WaitLimit& wait_limit) {
  constexpr uint64_t kPauseNs = 20 * kNanosecondsPerMillisecond;
  constexpr uint64_t kAnswerNs = kNanosecondsPerSecond;
  constexpr size_t kMostRefusals = 3;  // of each address
  std::vector<size_t> refused(addresses.size(), 0);
  for (;;) {
    std::string reasons;
    for (size_t i = 0; i < addresses.size(); ++i) {
      // A listener that nobody serves yet keeps its callers waiting, at whichever address it is.
      const WaitLimit exchange_key =
          addresses.size() > 1 ? wait_limit.at_most(kAnswerNs) : wait_limit;
      Result<std::string> words = ask_at(addresses[i], port, key, exchange_key);
      if (words.ok()) return words;
      const std::string text(words.status().message());
      if (text.rfind("connect:", 0) == 0 && words.status().code() == Code::kRemoteError) {
        ++refused[i];
      }
      reasons += "; " + addresses[i].text(port) + ": " + text;
    }
    if (wait_limit.over()) return wait_limit.reason("no member of the group answers" + reasons);
    const bool all_refuse = std::all_of(refused.begin(), refused.end(),
                                        [](size_t count) { return count >= kMostRefusals; });
    if (all_refuse) {
      return Status::remote_error("the rank that made the id is gone, or its communicator" +
                                  reasons);
    }
    wait_limit.pause(kPauseNs);
  }
}

}  // namespace tutti::bootstrap
