#include "src/runtime/queue/server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "src/runtime/queue/words.h"
#include "tutti/runtime/error.h"

namespace tutti::runtime::queue {
namespace {

constexpr std::chrono::seconds kProveWithin{5};
constexpr int64_t kMostUnproved = 64;
constexpr size_t kHead = sizeof(uint64_t);

/// The whole frame at the front of the bytes; without data where it has not come in full.
std::string_view front_frame(const std::string& in) {
  uint64_t bytes = 0;
  if (in.size() < kHead) return {};
  std::memcpy(&bytes, in.data(), kHead);
  if (in.size() - kHead < bytes) return {};
  return {in.data() + kHead, bytes};
}

bool is_too_long(const std::string& in) {
  uint64_t bytes = 0;
  if (in.size() >= kHead) std::memcpy(&bytes, in.data(), kHead);
  return bytes > kMostFrame;
}

std::string refused(ErrorKind kind, std::string_view sentence) {
  return WordWriter().number(1 + int64_t(kind)).text(sentence).take();
}

std::string framed(const std::string& answer) {
  const uint64_t bytes = answer.size();
  std::string frame(reinterpret_cast<const char*>(&bytes), kHead);
  return frame += answer;
}

}  // namespace

QueueServer::QueueServer(const std::string& address, std::string_view key, Service& service)
    : key_(key),
      service_(service),
      listener_(listen_at(address, key)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  thread_ = std::thread([this] { serve(); });
}

QueueServer::~QueueServer() {
  const uint64_t one = 1;
  // The only write to this counter; it cannot be full.
  [[maybe_unused]] const ssize_t written = write(wake_.fd(), &one, sizeof one);
  thread_.join();
  if (!listener_.path.empty()) unlink(listener_.path.c_str());
}

void QueueServer::serve() {
  Deadline tick = Clock::now();
  while (!is_ending_) {
    wait(next_time(tick));
    if (may_accept_) accept();
    tick = service_.tick(Clock::now());
    drop_ended();
    answer_all();
    for (auto& [id, caller] : callers_) flush(caller);
    drop_ended();
  }
}

Deadline QueueServer::next_time(Deadline tick) const {
  for (const auto& [id, caller] : callers_) {
    if (!caller.is_proved) tick = std::min(tick, caller.prove_by);
    if (caller.waits) tick = std::min(tick, caller.answer_by);
  }
  return tick;
}

void QueueServer::wait(Deadline until) {
  std::vector<pollfd> entries{{wake_.fd(), POLLIN, 0}, {listener_.socket.fd(), POLLIN, 0}};
  std::vector<ServedClient*> of_entry;
  for (auto& [id, caller] : callers_) {
    const bool is_full = !caller.is_proved ? false : !front_frame(caller.in).empty();
    // While a request waits, reading finds out whether its client is still there.
    const int16_t in = is_full && !caller.waits ? 0 : POLLIN;
    entries.push_back({caller.socket.fd(), int16_t(caller.out.empty() ? in : in | POLLOUT), 0});
    of_entry.push_back(&caller);
  }
  constexpr int64_t kLongest = 1000;  // ms
  const auto rest = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
  poll(entries.data(), entries.size(), int(std::clamp<int64_t>(rest, 0, kLongest)));
  is_ending_ = entries[0].revents != 0;
  may_accept_ = entries[1].revents != 0;
  for (size_t i = 0; i < of_entry.size(); ++i) {
    if ((entries[i + 2].revents & (POLLIN | POLLHUP | POLLERR)) != 0) receive(*of_entry[i]);
    if (!of_entry[i]->is_proved && Clock::now() >= of_entry[i]->prove_by) {
      of_entry[i]->is_over = true;
    }
  }
}

void QueueServer::accept() {
  Socket socket = accept_from(listener_);
  const auto unproved = std::count_if(callers_.begin(), callers_.end(),
                                      [](const auto& entry) { return !entry.second.is_proved; });
  if (socket.fd() < 0 || unproved >= kMostUnproved) return;
  ServedClient caller;
  caller.socket = std::move(socket);
  caller.nonce = fresh_nonce();
  caller.prove_by = Clock::now() + kProveWithin;
  caller.out.assign(caller.nonce.begin(), caller.nonce.end());
  callers_.emplace(next_id_++, std::move(caller));
}

void QueueServer::receive(ServedClient& caller) {
  std::array<char, 1 << 16> bytes{};
  // Callers that have proved nothing yet are read no further than their proof.
  const size_t most = caller.is_proved ? bytes.size() : kNonce + kProof - caller.in.size();
  const ssize_t got = recv(caller.socket.fd(), bytes.data(), most, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  // A client that speaks while its request waits breaks the rules of the protocol.
  if (got <= 0 || caller.waits) {
    caller.is_over = true;
    return;
  }
  caller.in.append(bytes.data(), size_t(got));
  if (!caller.is_proved) {
    if (caller.in.size() == kNonce + kProof) check_proof(caller);
    return;
  }
  if (is_too_long(caller.in)) caller.is_over = true;
  begin_request(caller);
}

void QueueServer::check_proof(ServedClient& caller) {
  Nonce client;
  std::memcpy(client.data(), caller.in.data(), kNonce);
  const auto* theirs = reinterpret_cast<const unsigned char*>(caller.in.data()) + kNonce;
  caller.is_proved = equal(proof_of(key_, false, caller.nonce, client), theirs);
  caller.is_over = !caller.is_proved;
  caller.in.clear();
  if (caller.is_over) return;
  const Proof own = proof_of(key_, true, caller.nonce, client);
  caller.out.append(own.begin(), own.end());
}

void QueueServer::begin_request(ServedClient& caller) {
  const std::string_view frame = front_frame(caller.in);
  if (caller.waits || frame.data() == nullptr) return;
  caller.is_over |= frame.size() < sizeof(int64_t);
  if (caller.is_over) return;
  int64_t milliseconds = 0;  // every request begins with how long it may wait
  std::memcpy(&milliseconds, frame.data(), sizeof milliseconds);
  constexpr int64_t kLongest = int64_t{1} << 40;
  caller.waits = true;
  caller.answer_by =
      Clock::now() + std::chrono::milliseconds(std::clamp<int64_t>(milliseconds, 0, kLongest));
}

bool QueueServer::try_answer(int64_t id, ServedClient& caller, Deadline now) {
  const std::string_view request = front_frame(caller.in).substr(sizeof(int64_t));
  std::string answer;
  try {
    std::optional<std::string> found = service_.answer(id, request, now >= caller.answer_by);
    if (!found) return false;
    answer = WordWriter().number(0).take() + *found;
  } catch (const Error& error) {
    answer = refused(error.kind(), error.what());
  } catch (const std::exception& error) {
    const std::string_view why = error.what();  // no memory, for instance
    answer = refused(ErrorKind::kInfeasible, words("the queue's process: ", why));
  }
  caller.out += framed(answer);
  caller.in.clear();
  caller.waits = false;
  return true;
}

void QueueServer::answer_all() {
  // An answer may be what an earlier request waits for.
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    for (auto& [id, caller] : callers_) {
      if (caller.waits && !caller.is_over) has_changed |= try_answer(id, caller, Clock::now());
    }
  }
}

void QueueServer::flush(ServedClient& caller) {
  while (caller.sent < caller.out.size()) {
    const ssize_t sent = send(caller.socket.fd(), caller.out.data() + caller.sent,
                              caller.out.size() - caller.sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) {
      caller.is_over |= errno != EAGAIN;
      return;
    }
    caller.sent += size_t(sent);
  }
  caller.out.clear();
  caller.sent = 0;
}

void QueueServer::drop_ended() {
  for (auto it = callers_.begin(); it != callers_.end();) {
    const auto caller = it++;
    if (!caller->second.is_over) continue;
    service_.gone(caller->first);
    callers_.erase(caller);
  }
}

}  // namespace tutti::runtime::queue
