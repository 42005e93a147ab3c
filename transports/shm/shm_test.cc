// Ranks as forked processes: what threads cannot show. The conformance suite covers the rest.

#include "transports/shm/shm.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "src/base/io.h"
#include "src/transport/memory_handle.h"
#include "tests/support/refused_calls.h"
#include "transports/shm/card.h"

namespace tutti::transports::shm {
namespace {

using transport::Arena;
using transport::Link;
using transport::Member;
using transport::Transport;

constexpr uint64_t kMillisecond = 1'000'000;
constexpr int kPatienceMs = 60'000;
constexpr uint64_t kPatienceNs = kPatienceMs * kMillisecond;
constexpr unsigned kLifeSeconds = 300;  // of a child
constexpr size_t kArenaBytes = 1 << 20;
constexpr size_t kCardBytes = Transport::kMaxCardBytes;

/// One rank in a process of its own, with a way to talk to the parent.
struct Child {
  pid_t process = -1;
  Fd pipe;

  std::string hear(size_t bytes) const {
    std::string text(bytes, '\0');
    const Status status =
        receive_exactly(pipe.get(), text.data(), bytes, monotonic_ns() + kPatienceNs);
    EXPECT_TRUE(status.ok()) << status.message();
    return text;
  }
  void tell(const std::string& text) const {
    const Status status =
        send_all(pipe.get(), text.data(), text.size(), monotonic_ns() + kPatienceNs);
    EXPECT_TRUE(status.ok()) << status.message();
  }
};

/// The rank in the child.
struct Self {
  int rank = 0;
  int ranks = 0;
  Arena arena;
  Member member;
  std::unique_ptr<Transport> transport;
  std::vector<std::string> cards;
  std::map<int, std::unique_ptr<Link>> links;
  Child parent;

  /// "" or what went wrong.
  std::string connect_all() {
    for (int step = 1; step < ranks; ++step) {
      const int peer = (rank + step) % ranks;
      if (!transport->reaches(cards[static_cast<size_t>(peer)])) return "does not reach";
      auto link =
          transport->connect(peer, cards[static_cast<size_t>(peer)], monotonic_ns() + kPatienceNs);
      if (!link.ok()) return std::string(link.status().message());
      links[peer] = std::move(link).value();
    }
    return "";
  }
  /// Everyone has come here.
  void barrier() const {
    parent.tell("b");
    (void)parent.hear(1);
  }
};

/// Returns what failed, "" if nothing did.
using Body = std::function<std::string(Self&)>;

[[noreturn]] void run_child(Self self, const Body& body) {
  alarm(kLifeSeconds);
  self.arena = Arena::create("tutti-shm-test", kArenaBytes).value();
  self.member.rank = self.rank;
  self.member.ranks = self.ranks;
  self.member.communicator = 9;
  self.member.host_id = "host";
  self.member.id.process = {0, static_cast<uint64_t>(getpid())};
  self.member.key.fill(7);
  self.member.arena = &self.arena;
  auto made = make(self.member);
  if (!made.ok()) _exit(2);
  self.transport = std::move(made).value();
  std::string card = self.transport->card();
  card.resize(kCardBytes);
  self.parent.tell(card);
  for (int r = 0; r < self.ranks; ++r) {
    std::string text = self.parent.hear(kCardBytes);
    text.resize(std::strlen(text.c_str()));
    self.cards.push_back(text);
  }
  const std::string failure = body(self);
  self.links.clear();
  if (!failure.empty()) fprintf(stderr, "rank %d: %s\n", self.rank, failure.c_str());
  _exit(failure.empty() ? 0 : 1);
}

std::vector<Child> start(int ranks, const Body& body) {
  std::vector<Child> children(static_cast<size_t>(ranks));
  for (int r = 0; r < ranks; ++r) {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    Child& child = children[static_cast<size_t>(r)];
    child.process = fork();
    if (child.process == 0) {
      close(fds[0]);
      children.clear();
      Self self;
      self.rank = r;
      self.ranks = ranks;
      self.parent.pipe.reset(fds[1]);
      run_child(std::move(self), body);
    }
    close(fds[1]);
    child.pipe.reset(fds[0]);
  }
  std::string cards;
  for (const Child& child : children) cards += child.hear(kCardBytes);
  for (const Child& child : children) child.tell(cards);
  return children;
}

void open_barrier(const std::vector<Child>& children) {
  for (const Child& child : children) EXPECT_EQ(child.hear(1), "b");
  for (const Child& child : children) child.tell("g");
}

/// The child's exit status, or minus its signal.
int reap(const Child& child) {
  int status = 0;
  EXPECT_EQ(waitpid(child.process, &status, 0), child.process);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

/// Everyone writes its rank into its own arena and reads it in all others, in every way there is.
std::string share_memory(Self& self) {
  const size_t descriptors = open_descriptors();
  if (std::string failure = self.connect_all(); !failure.empty()) return failure;
  Arena registered = Arena::create("tutti-registered", 8192).value();
  registered.data()[8191] = static_cast<std::byte>(100 + self.rank);
  const std::string handle = transport::describe_memory(registered).value();
  std::memcpy(self.arena.data(), handle.c_str(), handle.size() + 1);
  std::vector<char> ordinary(100000, static_cast<char>('a' + self.rank));
  const uint64_t address = reinterpret_cast<uint64_t>(ordinary.data());
  std::memcpy(self.arena.data() + 1024, &address, sizeof address);
  self.arena.data()[kArenaBytes - 1] = static_cast<std::byte>(self.rank);
  self.barrier();
  for (auto& [peer, link] : self.links) {
    transport::Mapped& mapped = *link->mapped();
    if (mapped.arena().data[kArenaBytes - 1] != static_cast<std::byte>(peer)) return "wrong arena";
    const auto* theirs = reinterpret_cast<const char*>(mapped.arena().data);
    for (int i = 0; i < 2; ++i) {
      const auto imported = mapped.import(theirs);
      if (!imported.ok()) return std::string(imported.status().message());
      if (imported.value().data[8191] != static_cast<std::byte>(100 + peer)) return "wrong import";
    }
    if (!link->capabilities().single_copy) continue;  // ptrace is restricted here
    uint64_t source = 0;
    std::memcpy(&source, mapped.arena().data + 1024, sizeof source);
    std::vector<char> target(ordinary.size());
    const Status status =
        mapped.read({reinterpret_cast<std::byte*>(target.data()), target.size()}, source);
    if (!status.ok()) return std::string(status.message());
    if (target.back() != 'a' + peer) return "wrong bytes were read";
    auto* const here = reinterpret_cast<std::byte*>(target.data());
    if (mapped.read({here, 8}, 8).code() != Code::kInvalidUsage) return "read at 8";
    if (mapped.write(8, {here, 8}).code() != Code::kInvalidUsage) return "written at 8";
    const auto place = static_cast<uint64_t>(self.rank);
    if (!mapped.write(source + place, {self.arena.data() + kArenaBytes - 1, 1}).ok()) {
      return "not written";
    }
  }
  self.barrier();
  for (const auto& [peer, link] : self.links) {
    const bool written = ordinary[static_cast<size_t>(peer)] == static_cast<char>(peer);
    if (written != link->capabilities().single_copy) return "written bytes are not there";
  }
  self.links.clear();
  registered = Arena();
  if (open_descriptors() != descriptors) return "descriptors leak";
  return "";
}

TEST(Shm, ProcessesShareTheirMemory) {
  for (const int ranks : {2, 3, 8}) {
    const std::vector<Child> children = start(ranks, share_memory);
    open_barrier(children);
    open_barrier(children);
    for (const Child& child : children) EXPECT_EQ(reap(child), 0);
  }
}

/// Waits until the link to `peer` reports the death, as the control thread does.
std::string notice_death(Link& link) {
  pollfd entry{link.liveness_fd(), POLLIN | POLLRDHUP, 0};
  if (poll(&entry, 1, kPatienceMs) != 1) return "not noticed";
  const Status status = link.status();
  if (status.code() != Code::kRemoteError) return "the status is good";
  if (status.message().find("rank 1 (process") == std::string_view::npos) {
    return "names nobody: " + std::string(status.message());
  }
  return "";
}

TEST(Shm, KilledProcessIsNoticedAndNamed) {
  const std::vector<Child> children = start(3, [](Self& self) -> std::string {
    if (std::string failure = self.connect_all(); !failure.empty()) return failure;
    self.barrier();
    if (self.rank == 1) pause();
    if (std::string failure = notice_death(*self.links.at(1)); !failure.empty()) return failure;
    return self.links.at(2 - self.rank)->status().ok() ? "" : "the third rank is not dead";
  });
  open_barrier(children);
  kill(children[1].process, SIGKILL);
  EXPECT_EQ(reap(children[1]), -SIGKILL);
  EXPECT_EQ(reap(children[0]), 0);
  EXPECT_EQ(reap(children[2]), 0);
}

TEST(Shm, WritingToAKilledProcessSaysSo) {
  const std::vector<Child> children = start(2, [](Self& self) -> std::string {
    if (std::string failure = self.connect_all(); !failure.empty()) return failure;
    std::vector<std::byte> ordinary(1 << 20);
    const uint64_t mine = reinterpret_cast<uint64_t>(ordinary.data());
    std::memcpy(self.arena.data(), &mine, sizeof mine);
    self.barrier();
    Link& link = *self.links.at(1 - self.rank);
    if (self.rank == 1) pause();
    if (!link.capabilities().single_copy) return "";
    uint64_t target = 0;
    std::memcpy(&target, link.mapped()->arena().data, sizeof target);
    Status status;
    for (const uint64_t end_ns = monotonic_ns() + kPatienceNs; monotonic_ns() < end_ns;) {
      status = link.mapped()->write(target, {ordinary.data(), ordinary.size()});
      if (!status.ok()) break;
    }
    const bool named = status.message().find("rank 1 (process") != std::string_view::npos;
    if (status.code() == Code::kRemoteError && named) return "";
    return "not the error of a death: " + std::string(status.message());
  });
  open_barrier(children);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // it writes
  kill(children[1].process, SIGKILL);
  EXPECT_EQ(reap(children[1]), -SIGKILL);
  EXPECT_EQ(reap(children[0]), 0);
}

TEST(Shm, DeathIsNoticedThoughAForkedChildLivesOn) {
  const std::vector<Child> children = start(2, [](Self& self) -> std::string {
    if (std::string failure = self.connect_all(); !failure.empty()) return failure;
    if (self.rank == 1) {
      const pid_t grandchild = fork();  // inherits every socket, like a loader of data
      if (grandchild == 0) {
        alarm(kLifeSeconds);
        for (;;) pause();
      }
      std::memcpy(self.links.at(0)->mapped()->arena().data, &grandchild, sizeof grandchild);
    }
    self.barrier();
    if (self.rank == 1) pause();
    const std::string failure = notice_death(*self.links.at(1));
    pid_t grandchild = 0;
    std::memcpy(&grandchild, self.arena.data(), sizeof grandchild);
    kill(grandchild, SIGKILL);
    return failure;
  });
  open_barrier(children);
  kill(children[1].process, SIGKILL);
  EXPECT_EQ(reap(children[1]), -SIGKILL);
  EXPECT_EQ(reap(children[0]), 0);
}

TEST(Shm, LeavingInGoodOrderIsNoDeathAtFirst) {
  const std::vector<Child> children = start(2, [](Self& self) -> std::string {
    if (std::string failure = self.connect_all(); !failure.empty()) return failure;
    if (self.rank == 1) {
      self.links.clear();
      self.barrier();
      return "";
    }
    self.barrier();
    Link& link = *self.links.at(1);
    pollfd entry{link.liveness_fd(), POLLIN | POLLRDHUP, 0};
    if (poll(&entry, 1, kPatienceMs) != 1) return "not noticed";
    if (!link.status().ok()) return std::string(link.status().message());
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    return link.status().ok() ? "who waits on would wait for ever" : "";
  });
  open_barrier(children);
  for (const Child& child : children) EXPECT_EQ(reap(child), 0);
}

/// Everyone gives everyone a file with its rank in it, and takes the others'.
std::string pass_descriptors(Self& self) {
  if (std::string failure = self.connect_all(); !failure.empty()) return failure;
  const bool refused = testing_support::refuse_system_call(SYS_pidfd_getfd);
  if (!refused || syscall(SYS_pidfd_getfd, -1, 0, 0) == 0 || errno != EPERM) return "not refused";
  prctl(PR_SET_DUMPABLE, 0);  // no other process may look into this one, unless it is root's
  const Arena mine = Arena::create("tutti-given", 4096).value();
  mine.data()[0] = static_cast<std::byte>(self.rank);
  const int number = mine.fd();
  std::memcpy(self.arena.data(), &number, sizeof number);
  for (const auto& [peer, link] : self.links) {
    const Status given = link->mapped()->give_descriptor(number);
    if (!given.ok()) return std::string(given.message());
  }
  self.barrier();
  for (const auto& [peer, link] : self.links) {
    int theirs = -1;
    std::memcpy(&theirs, link->mapped()->arena().data, sizeof theirs);
    Result<Fd> taken = link->mapped()->take_descriptor(theirs);
    if (!taken.ok()) return std::string(taken.status().message());
    const Result<Arena> adopted = Arena::adopt(taken.value().release(), 4096);
    if (!adopted.ok()) return std::string(adopted.status().message());
    if (adopted.value().data()[0] != static_cast<std::byte>(peer)) return "another rank's file";
  }
  return "";
}

TEST(Shm, DescriptorsAreGivenWhereProcessesMayNotFetchThem) {
  const std::vector<Child> children = start(3, pass_descriptors);
  open_barrier(children);
  for (const Child& child : children) EXPECT_EQ(reap(child), 0);
}

TEST(Shm, DeathIsNoticedThoughADescriptorWasNotTaken) {
  const std::vector<Child> children = start(2, [](Self& self) -> std::string {
    if (std::string failure = self.connect_all(); !failure.empty()) return failure;
    Link& link = *self.links.begin()->second;
    if (self.rank == 1 && !link.mapped()->give_descriptor(STDIN_FILENO).ok()) return "not given";
    self.barrier();
    if (self.rank == 1) pause();
    if (!link.status().ok()) return "a descriptor is taken for a death";
    self.barrier();
    return notice_death(link);
  });
  open_barrier(children);
  EXPECT_EQ(children[0].hear(1), "b");
  kill(children[1].process, SIGKILL);
  EXPECT_EQ(reap(children[1]), -SIGKILL);
  // The descriptor on its way is news enough to wake a rank, so the death comes before.
  children[0].tell("g");
  EXPECT_EQ(reap(children[0]), 0);
}

TEST(Shm, APeerThatNeverConnectsIsNamed) {
  const std::vector<Child> children = start(2, [](Self& self) -> std::string {
    if (self.rank == 0) pause();
    const auto link =
        self.transport->connect(0, self.cards[0], monotonic_ns() + 100 * kMillisecond);
    const std::string message(link.status().message());
    return message.find("rank 0 (process") != std::string::npos ? "" : "names nobody: " + message;
  });
  EXPECT_EQ(reap(children[1]), 0);
  kill(children[0].process, SIGKILL);
  EXPECT_EQ(reap(children[0]), -SIGKILL);
}

TEST(ShmCard, GoesBothWaysAndTellsWhoCanShare) {
  ShmCard card = ShmCard::of_this_process("host").value();
  card.socket = "tutti-00ff";
  const std::optional<ShmCard> back = ShmCard::read(card.write());
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->write(), card.write());
  EXPECT_TRUE(card.shares_with(*back));
  EXPECT_LE(card.write().size(), kCardBytes);
  const auto differs = [&](auto change) {
    ShmCard other = card;
    change(other);
    return !card.shares_with(other) && !other.shares_with(card);
  };
  EXPECT_TRUE(differs([](ShmCard& other) { other.host_id = "h2"; }));
  EXPECT_TRUE(differs([](ShmCard& other) { other.boot_id = "b2"; }));
  EXPECT_TRUE(differs([](ShmCard& other) { ++other.user; }));
  EXPECT_TRUE(differs([](ShmCard& other) { ++other.user_namespace; }));
  EXPECT_TRUE(differs([](ShmCard& other) { ++other.network_namespace; }));
  EXPECT_FALSE(differs([](ShmCard& other) { ++other.process; }));
  EXPECT_FALSE(ShmCard::read("").has_value());
  EXPECT_FALSE(ShmCard::read("tutti-shm-1 b 0 1 2 3 s").has_value());
  EXPECT_FALSE(ShmCard::read("tutti-shm-1 b x 1 2 3 s h").has_value());
  EXPECT_FALSE(ShmCard::of_this_process("two words").ok());
  EXPECT_FALSE(ShmCard::of_this_process(std::string(300, 'x')).ok());
  EXPECT_LE(ShmCard::of_this_process(std::string(256, 'x')).value().write().size() + 38,
            kCardBytes);
}

}  // namespace
}  // namespace tutti::transports::shm
