// The ways to attack a door, each a row of a table.
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <deque>
#include <memory>
#include <string_view>

#include "src/base/clock.h"
#include "src/base/io.h"
#include "src/bootstrap/unique_id.h"
#include "src/transport/door/handshake.h"
#include "tests/security/siege.h"
#include "tests/support/dice.h"

namespace tutti::siege {
namespace {

using testing_support::Dice;
using transport::door::Identity;
using transport::door::kRendezvous;
using transport::door::Purpose;
using transport::door::purpose_of;

constexpr uint64_t kMillisecond = 1'000'000;
constexpr uint64_t kAnswerNs = 20 * kMillisecond;  // what an attacker waits for a word
constexpr uint64_t kRecordNs = 30'000 * kMillisecond;
constexpr size_t kMostHeld = 300;

Fd knock(const Door& door) {
  Fd fd(socket(door.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto* address = reinterpret_cast<const sockaddr*>(&door.address);
  if (connect(fd.get(), address, door.bytes) == 0 || errno == EINPROGRESS) return fd;
  return {};
}

struct Besieger {
  Field& field;
  Dice dice;
  bootstrap::UniqueId job;  // the attacker's view of it: the key only where it says so
  std::string recorded;     // what a rank once said, word for word
  std::deque<Fd> held;

  void hold(Fd fd) {
    held.push_back(std::move(fd));
    if (held.size() > kMostHeld) held.pop_front();
  }
};

/// Of some rank at some door; what is guessed right and wrong varies.
Identity pretend(Besieger& self) {
  constexpr Purpose kPurposes[] = {kRendezvous, purpose_of("shm"), purpose_of("tcp")};
  Identity who;
  who.purpose = kPurposes[self.dice.below(3)];
  who.rank = static_cast<int32_t>(self.dice.below(kRanks));
  who.peer = static_cast<int32_t>(self.dice.below(kRanks + 1)) - 1;
  who.communicator = self.job.communicator();
  return who;
}

void garbage(Besieger& self, Fd fd) {
  std::string bytes(self.dice.below(300), '\0');
  for (char& byte : bytes) byte = static_cast<char>(self.dice.next());
  (void)send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (self.dice.one_in(2)) self.hold(std::move(fd));
}

void half_open(Besieger& self, Fd fd) { self.hold(std::move(fd)); }

/// A hello that is right as far as it goes, and then nothing.
void half_said(Besieger& self, Fd fd) {
  const size_t bytes = self.dice.below(self.recorded.size());
  (void)send(fd.get(), self.recorded.data(), bytes, MSG_NOSIGNAL);
  self.hold(std::move(fd));
}

void try_handshake(Besieger& self, const Fd& fd, const transport::JobKey& key,
                   const Identity& who) {
  const Status status =
      transport::door::handshake_connect(fd.get(), key, who, monotonic_ns() + kAnswerNs);
  if (status.ok()) self.field.let_in.fetch_add(1);
}

void wrong_key(Besieger& self, Fd fd) {
  transport::JobKey key = self.job.key;
  key[self.dice.below(key.size())] ^= 1;
  try_handshake(self, fd, key, pretend(self));
}

/// Somebody who was a member: he holds the key.
void another_epoch(Besieger& self, Fd fd) {
  Identity who = pretend(self);
  who.epoch = 1 + static_cast<uint32_t>(self.dice.below(3));
  try_handshake(self, fd, self.job.key, who);
}

void another_job(Besieger& self, Fd fd) {
  Identity who = pretend(self);
  who.communicator ^= uint64_t{1} << self.dice.below(64);
  try_handshake(self, fd, self.job.key, who);
}

/// An eavesdropper says again what a rank said.
void replay(Besieger& self, Fd fd) {
  (void)send(fd.get(), self.recorded.data(), self.recorded.size(), MSG_NOSIGNAL);
  std::string answer(transport::door::kHelloBytes + transport::door::kProofBytes, '\0');
  const Status status =
      receive_exactly(fd.get(), answer.data(), answer.size(), monotonic_ns() + kAnswerNs);
  if (status.ok()) self.field.let_in.fetch_add(1);
}

constexpr void (*kAttacks[])(Besieger&, Fd) = {garbage,       half_open,   half_said, wrong_key,
                                               another_epoch, another_job, replay};

/// Passes a handshake on between `near` and the bait. Empty: the bait has hung up.
std::string overhear(const Fd& near, const Door& bait) {
  const Fd door = knock(bait);
  const uint64_t deadline_ns = monotonic_ns() + kRecordNs;
  std::string words;
  for (const size_t bytes : {transport::door::kHelloBytes, transport::door::kProofBytes}) {
    std::string said(bytes, '\0'), answer(bytes, '\0');
    if (!receive_exactly(near.get(), said.data(), bytes, deadline_ns).ok() ||
        !send_all(door.get(), said.data(), bytes, deadline_ns).ok() ||
        !receive_exactly(door.get(), answer.data(), bytes, deadline_ns).ok() ||
        !send_all(near.get(), answer.data(), bytes, deadline_ns).ok()) {
      return {};
    }
    words += said;
  }
  return words;
}

/// A real handshake of rank 0 with the bait, word for word: through a pair of sockets, so that both
/// directions can be heard.
std::string record(const bootstrap::UniqueId& job, const Door& bait) {
  Identity who;
  who.rank = 0;
  who.communicator = job.communicator();
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return {};
  const pid_t rank = fork();
  if (rank == 0) {
    close(ends[0]);
    (void)transport::door::handshake_connect(ends[1], job.key, who, monotonic_ns() + kRecordNs);
    _exit(0);
  }
  close(ends[1]);
  std::string words = overhear(Fd(ends[0]), bait);
  waitpid(rank, nullptr, 0);
  return words;
}

/// Tries again: another besieger may be at it, and the bait make room by hanging up on this one;
/// and a scout may publish last what it saw before the bait was there.
std::string record_at_last(Field& field, const bootstrap::UniqueId& job) {
  constexpr uint64_t kLongNs = 60'000'000'000;
  for (const uint64_t end_ns = monotonic_ns() + kLongNs; monotonic_ns() < end_ns; usleep(1000)) {
    for (const Door& door : field.doors()) {
      if (door.port() != job.port) continue;
      if (std::string words = record(job, door); !words.empty()) return words;
    }
  }
  return {};
}

}  // namespace

void besiege(Field& field, uint64_t seed, int user) {
  while (field.begun.load() == 0 && field.ended.load() == 0) usleep(1000);
  if (field.ended.load() != 0) return;
  const auto id = bootstrap::UniqueId::decode(
      {reinterpret_cast<const uint8_t*>(field.bait.internal), sizeof field.bait.internal});
  if (!id.ok()) return;
  Besieger self{field, Dice(seed), id.value(), {}, {}};
  self.recorded = record_at_last(field, self.job);
  if (self.recorded.empty()) {
    std::fprintf(stderr, "siege: no handshake could be recorded\n");
    field.let_in.fetch_add(1);
    field.given_up.store(1);
    return;
  }
  if (user != 0) {
    if (setgid(static_cast<gid_t>(user)) != 0 || setuid(static_cast<uid_t>(user)) != 0) return;
    field.foreign.store(1);
  }
  while (field.ended.load() == 0) {
    const std::vector<Door> doors = field.doors();
    if (doors.empty()) continue;
    // Half of all at the door where ranks are waited for.
    Door door = self.dice.pick(doors);
    for (const Door& other : doors) {
      if (other.port() == self.job.port && self.dice.one_in(2)) door = other;
    }
    Fd fd = knock(door);
    if (!fd.valid()) continue;
    field.attempts.fetch_add(1);
    kAttacks[self.dice.below(std::size(kAttacks))](self, std::move(fd));
  }
}

}  // namespace tutti::siege
