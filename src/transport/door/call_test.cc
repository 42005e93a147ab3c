// The caller's side of a gate against gates that do not let in at once.
#include "src/transport/door/call.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <list>
#include <optional>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "src/transport/door/gate.h"
#include "tests/support/few_descriptors.h"
#include "tests/support/forked.h"
#include "tests/support/sanitizer.h"

namespace tutti::transport::door {
namespace {

constexpr uint64_t kPatienceNs = 60 * kNanosecondsPerSecond;

Identity identity(int rank, int peer) {
  Identity self;
  self.rank = rank;
  self.peer = peer;
  self.purpose = purpose_of("tcp");
  return self;
}

struct Pair {
  Pair() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    caller = KeptFd(Fd(fds[0]));
    gate = Fd(fds[1]);
  }
  KeptFd caller;
  Fd gate;
};

TEST(OutgoingCall, TakesAStepAtATimeAndSaysWhenItMayBeLetIn) {
  const JobKey key{};
  Pair pair;
  OutgoingCall call(std::move(pair.caller), key, identity(0, 1));
  Greeting greeting(pair.gate.get(), one_lock(key, identity(1, -1)));
  EXPECT_FALSE(call.reached());
  ASSERT_TRUE(call.step().ok());  // hello
  EXPECT_TRUE(call.reached());
  EXPECT_FALSE(call.proved());
  ASSERT_TRUE(greeting.advance().ok());
  const Result<bool> proof = call.step();
  ASSERT_TRUE(proof.ok());
  EXPECT_FALSE(proof.value());
  EXPECT_TRUE(call.proved());
  const Result<bool> admitted = greeting.advance();
  ASSERT_TRUE(admitted.ok() && admitted.value());
  const Result<bool> done = call.step();
  ASSERT_TRUE(done.ok() && done.value());
  EXPECT_TRUE(call.take().valid());
}

KeptFd open_socket() {
  return KeptFd::open(
      [] { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); });
}

struct Called {
  size_t calls = 0;
  size_t admitted = 0;  // the call that was let in
};

/// A gate that hangs up after so many steps of each call, in turn; on the last it stays. A step
/// reads whatever is there, so a call that is quick enough is let in by one.
Status call_a_busy_gate(const JobKey& theirs, std::deque<int> steps, Called& called) {
  const JobKey key{};
  std::vector<std::thread> gates;
  std::atomic<size_t> admitted{0};
  const auto dial = [&]() -> Result<KeptFd> {
    const size_t number = ++called.calls;
    Pair pair;
    const int most = steps.empty() ? 2 : steps.front();
    if (!steps.empty()) steps.pop_front();
    gates.emplace_back([&theirs, &admitted, number, most, gate = std::move(pair.gate)] {
      Greeting greeting(gate.get(), one_lock(theirs, identity(1, -1)));
      for (int step = 0; step < most; ++step) {
        if (!wait_ready(gate.get(), POLLIN, monotonic_ns() + kPatienceNs)) return;
        const Result<bool> done = greeting.advance();
        if (done.ok() && done.value()) admitted.store(number);
        if (!done.ok() || done.value()) return;
      }
    });
    return std::move(pair.caller);
  };
  const Result<KeptFd> fd = pass_gate(dial, key, identity(0, 1), monotonic_ns() + kPatienceNs);
  for (std::thread& gate : gates) gate.join();
  called.admitted = admitted.load();
  return fd.status();
}

TEST(OutgoingCall, AGateThatMakesRoomIsCalledAgain) {
  Called called;
  const Status status = call_a_busy_gate({}, {0, 0, 1, 0, 1, 0}, called);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(called.calls, called.admitted);
  EXPECT_GE(called.calls, 3u);
}

TEST(OutgoingCall, ARefusalCountsWhenItComesAgain) {
  Called called;
  JobKey other{};
  other[5] = 1;
  const Status status = call_a_busy_gate(other, {}, called);
  EXPECT_EQ(status.code(), Code::kRemoteError) << status.message();
  EXPECT_EQ(called.calls, 3u);
  EXPECT_EQ(called.admitted, 0u);
}

TEST(OutgoingCall, WhoeverCannotBeDialledIsNotCalledAgain) {
  const JobKey key{};
  size_t calls = 0;
  const auto dial = [&]() -> Result<KeptFd> {
    ++calls;
    return Status::system_error("nobody");
  };
  EXPECT_EQ(pass_gate(dial, key, identity(0, 1), monotonic_ns() + kPatienceNs).status().message(),
            "nobody");
  EXPECT_EQ(calls, 1u);
}

TEST(OutgoingCall, ASilentGateEndsAtTheDeadline) {
  const JobKey key{};
  std::vector<Fd> gates;
  const auto dial = [&]() -> Result<KeptFd> {
    Pair pair;
    gates.push_back(std::move(pair.gate));
    return std::move(pair.caller);
  };
  const auto fd = pass_gate(dial, key, identity(0, 1), monotonic_ns() + 50'000'000);
  EXPECT_EQ(fd.status().code(), Code::kTimeout);
  EXPECT_EQ(gates.size(), 1u);
}

/// A gate that somebody steps through whenever there is something to do.
class OpenGate {
 public:
  explicit OpenGate(uint64_t round_trip_ns = 0) {
    socklen_t bytes = sizeof address_.sun_family;  // the system chooses a name
    KeptFd listener = open_socket();
    EXPECT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address_), bytes), 0);
    EXPECT_EQ(listen(listener.get(), 1024), 0);
    bytes_ = sizeof address_;
    EXPECT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address_), &bytes_), 0);
    gate_.emplace(std::move(listener), JobKey{}, identity(1, -1), Gate::Vet(),
                  [round_trip_ns](int) { return round_trip_ns; });
  }
  KeptFd dial() const {
    KeptFd caller = open_socket();
    EXPECT_EQ(connect(caller.get(), reinterpret_cast<const sockaddr*>(&address_), bytes_), 0);
    return caller;
  }
  void serve(const std::atomic<bool>& ended) {
    while (!ended.load()) {
      std::vector<pollfd> polls;
      gate_->append_polls(polls);
      poll(polls.data(), polls.size(), 1);
      EXPECT_TRUE(gate_->step(admitted_).ok());
    }
  }
  Gate& gate() { return *gate_; }

 private:
  sockaddr_un address_{AF_UNIX, {}};
  socklen_t bytes_ = 0;
  std::optional<Gate> gate_;
  std::vector<Gate::AdmittedCaller> admitted_;
};

// A caller for whom there is no descriptor is not left waiting, and nor is whoever polls the gate.
TEST(Gate, HangsUpOnWhomItHasNoDescriptorFor) {
  if (testing_support::kSanitizerNeedsDescriptors) GTEST_SKIP() << "sanitizers need descriptors";
  constexpr int kCallers = 3;
  const JobKey key{};
  OpenGate open;
  std::vector<Gate::AdmittedCaller> admitted;
  std::vector<std::unique_ptr<OutgoingCall>> calls;
  for (int i = 0; i < kCallers; ++i) {
    calls.push_back(std::make_unique<OutgoingCall>(open.dial(), key, identity(0, 1)));
    const Result<bool> begun = calls.back()->step();
    EXPECT_TRUE(begun.ok() && !begun.value());
  }
  Status status;
  {
    const testing_support::FewDescriptors one(1);
    const Fd last(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0));
    status = open.gate().step(admitted);
  }
  EXPECT_NE(status.message().find("raise ulimit -n"), std::string_view::npos) << status.message();
  EXPECT_EQ(open.gate().refused(), static_cast<size_t>(kCallers));
  EXPECT_NE(open.gate().last_refusal().find("no descriptor"), std::string::npos);
  std::vector<pollfd> polls;
  open.gate().append_polls(polls);
  EXPECT_EQ(poll(polls.data(), polls.size(), 0), 0) << "it would spin";
  for (const auto& call : calls) {
    const Result<bool> done = call->step();
    ASSERT_FALSE(done.ok());
    EXPECT_TRUE(Attempts().again(*call, done.status())) << done.status().message();
  }
  // And when there are some again, it is let in.
  OutgoingCall again(open.dial(), key, identity(0, 1));
  while (admitted.empty() || !again.step().value()) {
    (void)again.step();
    ASSERT_TRUE(open.gate().step(admitted).ok());
  }
  EXPECT_EQ(admitted.size(), 1u);
}

/// Calls a gate, and finds whatever it says a round trip later.
class DistantCaller {
 public:
  DistantCaller(const OpenGate& gate, const JobKey& key, int rank, uint64_t round_trip_ns)
      : gate_(gate), key_(key), rank_(rank), round_trip_ns_(round_trip_ns) {}

  /// True: it is done with.
  bool step() {
    if (!call_) {
      call_.emplace(gate_.dial(), key_, identity(rank_, 1));
    } else if (due_ns_ == 0) {
      pollfd entry{call_->fd(), POLLIN, 0};
      if (poll(&entry, 1, 0) > 0) due_ns_ = monotonic_ns() + round_trip_ns_;
      return false;
    } else if (monotonic_ns() < due_ns_) {
      return false;
    }
    due_ns_ = 0;
    const Result<bool> done = call_->step();
    if (done.ok()) return done.value();
    refused_ = !attempts_.again(*call_, done.status());
    call_.reset();
    return refused_;
  }
  bool refused() const { return refused_; }

 private:
  const OpenGate& gate_;
  const JobKey& key_;
  const int rank_;
  const uint64_t round_trip_ns_;
  std::optional<OutgoingCall> call_;
  Attempts attempts_;
  uint64_t due_ns_ = 0;  // 0: the gate has said nothing new
  bool refused_ = false;
};

/// How many of the callers, all at the same moment, are refused for good, or still wait at the end.
size_t not_let_in(size_t callers, uint64_t round_trip_ns) {
  const JobKey key{};
  OpenGate gate(round_trip_ns);
  std::list<DistantCaller> waiting;
  for (size_t i = 0; i < callers; ++i) {
    waiting.emplace_back(gate, key, static_cast<int>(i), round_trip_ns);
  }
  std::atomic<bool> ended{false};
  std::thread server([&] { gate.serve(ended); });
  const uint64_t end_ns = monotonic_ns() + kPatienceNs;
  size_t refused = 0;
  while (!waiting.empty() && monotonic_ns() < end_ns) {
    std::erase_if(waiting, [&](DistantCaller& caller) {
      const bool done = caller.step();
      refused += caller.refused() ? 1 : 0;
      return done;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ended.store(true);
  server.join();
  return waiting.size() + refused;
}

// A sanitizer takes longer for a round than the gate gives.
constexpr size_t kCallers = testing_support::kSanitized ? 100 : 400;

// From where a round trip takes longer than the gate takes for all of them.
TEST(OutgoingCall, AStormOfDistantRanksIsLetIn) { EXPECT_EQ(not_let_in(kCallers, 10'000'000), 0u); }

// And from where it takes longer than the gate usually waits for anybody.
TEST(OutgoingCall, AStormFromAnotherContinentIsLetIn) {
  EXPECT_EQ(not_let_in(kCallers, 120'000'000), 0u);
}

// A caller that is put off may call as often as it takes, in a crowd that only says hello.
TEST(OutgoingCall, WhoIsPutOffIsNotRefused) {
  const JobKey key{};
  OpenGate open;
  Gate& gate = open.gate();
  std::vector<Gate::AdmittedCaller> admitted;
  std::deque<OutgoingCall> callers;
  Attempts attempts;
  for (int turn = 0; turn < 5; ++turn) {
    OutgoingCall call(open.dial(), key, identity(0, 1));
    ASSERT_TRUE(call.step().ok());  // hello
    for (size_t i = 0; i < Gate::kMaxHalfOpen; ++i) {
      callers.emplace_back(open.dial(), key, identity(1, 1));
      ASSERT_TRUE(callers.back().step().ok());
    }
    ASSERT_TRUE(gate.step(admitted).ok());
    std::this_thread::sleep_for(std::chrono::nanoseconds(Gate::kAnswerNs * 11 / 10));
    ASSERT_TRUE(gate.step(admitted).ok());
    const Result<bool> done = call.step();
    ASSERT_FALSE(done.ok()) << "turn " << turn;
    EXPECT_TRUE(attempts.again(call, done.status())) << done.status().message();
    callers.clear();
    ASSERT_TRUE(gate.step(admitted).ok());
  }
}

// Callers that take no place must not hold the thread that lets others in.
TEST(OutgoingCall, ThoseWhomTheVetRefusesDelayNobody) {
  sockaddr_un address{AF_UNIX, {}};
  socklen_t bytes = sizeof address.sun_family;
  KeptFd listener = open_socket();
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), bytes), 0);
  ASSERT_EQ(listen(listener.get(), 1024), 0);
  bytes = sizeof address;
  ASSERT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &bytes), 0);
  constexpr size_t kMost = 4 * Gate::kMaxHalfOpen;
  size_t vetted = 0;
  std::deque<KeptFd> strangers;
  const auto come = [&] {
    strangers.push_back(open_socket());
    EXPECT_EQ(connect(strangers.back().get(), reinterpret_cast<sockaddr*>(&address), bytes), 0);
  };
  Gate gate(std::move(listener), JobKey{}, identity(1, -1), [&](int) -> Status {
    if (++vetted < kMost) come();  // there is always one more
    return Status::remote_error("a stranger");
  });
  come();
  std::vector<Gate::AdmittedCaller> admitted;
  ASSERT_TRUE(gate.step(admitted).ok());
  EXPECT_LT(vetted, kMost);
}

// Else a crowded gate would keep them, and look again at once and for ever.
TEST(OutgoingCall, ThoseWhoseTimeIsOverMakeRoomThoughTheyHaveSaidMore) {
  const JobKey key{};
  OpenGate open;
  Gate& gate = open.gate();
  std::vector<Gate::AdmittedCaller> admitted;
  std::deque<OutgoingCall> callers;
  const auto call = [&] {
    callers.emplace_back(open.dial(), key, identity(0, 1));
    EXPECT_TRUE(callers.back().step().ok());  // hello
  };
  for (size_t i = 1; i < Gate::kMaxHalfOpen; ++i) call();
  ASSERT_TRUE(gate.step(admitted).ok());
  for (const OutgoingCall& caller : callers) {
    ASSERT_EQ(send(caller.fd(), "p", 1, MSG_NOSIGNAL), 1);  // of a proof
  }
  ASSERT_TRUE(gate.step(admitted).ok());
  std::this_thread::sleep_for(std::chrono::nanoseconds(Gate::kAnswerNs * 11 / 10));
  call();  // has the last place, and time
  call();  // waits
  ASSERT_TRUE(gate.step(admitted).ok());
  EXPECT_GT(gate.refused(), 0u);
  EXPECT_TRUE(admitted.empty());
}

// From the gate, and from the call, to a link it passes through several hands.
TEST(OutgoingCall, AConnectionThatIsMadeIsInNoForkedChild) {
  const JobKey key{};
  OpenGate gate;
  OutgoingCall call(gate.dial(), key, identity(0, 1));
  std::vector<Gate::AdmittedCaller> admitted;
  bool let_in = false;
  for (int step = 0; step < 4 && !let_in; ++step) {
    const Result<bool> done = call.step();
    ASSERT_TRUE(done.ok() && gate.gate().step(admitted).ok());
    let_in = done.value();
  }
  ASSERT_TRUE(let_in && admitted.size() == 1);
  const auto taken = call.take();
  EXPECT_FALSE(testing_support::a_child_has_socket(taken.get()));
  EXPECT_FALSE(testing_support::a_child_has_socket(admitted.front().fd.get()));
}

}  // namespace
}  // namespace tutti::transport::door
