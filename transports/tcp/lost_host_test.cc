// Hosts that are gone without a word while they are being called. A filter on the called side's
// socket makes such a host: it drops what arrives there, so that not even the kernel answers.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/clock.h"
#include "transports/tcp/connector.h"
#include "transports/tcp/socket.h"

namespace tutti::transports::tcp {
namespace {

using State = transport::Link::State;

constexpr uint64_t kKeepaliveNs = kNanosecondsPerSecond;
constexpr uint64_t kPatienceNs = 20 * kKeepaliveNs;
constexpr uint64_t kMomentNs = 10'000'000;
constexpr uint64_t kCommunicator = 5;

KeptFd open_listener() { return listen_on(parse_endpoint("127.0.0.1", 0).value()).value(); }

/// How far a rank comes with a call before its process stops.
enum class Until { kCalled, kLetIn, kDeclined };
constexpr std::array kAll = {Until::kCalled, Until::kLetIn, Until::kDeclined};

class Called {
 public:
  explicit Called(int rank)
      : rank_(rank),
        until_(kAll[static_cast<size_t>(rank) % kAll.size()]),
        listener_(open_listener()) {}

  TcpCard card() const { return {local_endpoint(listener_.get()).value(), "host"}; }
  /// True: this is where it stops.
  bool advance() {
    if (!call_.valid()) accept_call();
    if (!call_.valid() || !wait_ready(call_.get(), POLLIN, 0)) return false;
    if (until_ == Until::kCalled) return true;
    const Result<bool> done = greeting_->advance();
    EXPECT_TRUE(done.ok()) << done.status().message();
    if (!done.ok() || !done.value()) return !done.ok();
    const auto byte = static_cast<char>(transport::door::CallAnswer::kDeclined);
    if (until_ == Until::kDeclined) {
      EXPECT_EQ(send(call_.get(), &byte, 1, MSG_NOSIGNAL), 1);
    }
    return true;
  }
  /// It does not repeat what it said: hosts that are gone do not.
  bool heard() const { return unacknowledged_bytes(call_.get()) == 0; }
  void vanish() {
    sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
    const sock_fprog program{1, &drop};
    ASSERT_EQ(setsockopt(call_.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program), 0);
  }
  bool called_again() const { return wait_ready(listener_.get(), POLLIN, 0); }

 private:
  void accept_call() {
    call_ = Fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    transport::door::Identity self;
    self.rank = rank_;
    self.communicator = kCommunicator;
    self.purpose = transport::door::purpose_of("tcp");
    greeting_.emplace(call_.get(), transport::door::one_lock(key_, self));
  }

  const int rank_;
  const Until until_;
  const transport::JobKey key_{};
  const KeptFd listener_;
  Fd call_;
  std::optional<transport::door::Greeting> greeting_;
};

/// Rank 0 calls the others, of which two come as far as each of kAll.
class Calls {
 public:
  static constexpr int kRanks = 1 + 2 * static_cast<int>(kAll.size());

  Calls() {
    member_.rank = 0;
    member_.ranks = kRanks;
    member_.communicator = kCommunicator;
    member_.bind_address = "127.0.0.1";
    connector_ = Connector::create(kKeepaliveNs).value();
    seat_ = connector_->enter(member_).value();
    for (int rank = 1; rank < kRanks; ++rank) {
      called_.push_back(std::make_unique<Called>(rank));
      links_.push_back(connector_->add(*seat_, rank, called_.back()->card()));
      links_.back()->want();
    }
  }
  ~Calls() {
    links_.clear();
    connector_->leave(*seat_);
  }
  Called& called(int rank) { return *called_[static_cast<size_t>(rank - 1)]; }
  TcpLink& link(int rank) { return *links_[static_cast<size_t>(rank - 1)]; }
  void serve_for(uint64_t time_ns) {
    const uint64_t end_ns = monotonic_ns() + time_ns;
    while (wait_ready(connector_->service_fd(), POLLIN, end_ns)) connector_->serve();
  }
  void stop_all() {
    const uint64_t deadline_ns = monotonic_ns() + kPatienceNs;
    for (const auto& called : called_) {
      while (!called->advance() && monotonic_ns() < deadline_ns) serve_for(kMomentNs);
      while (!called->heard() && monotonic_ns() < deadline_ns) serve_for(kMomentNs);
    }
  }

 private:
  transport::Member member_;
  std::vector<std::unique_ptr<Called>> called_;
  std::unique_ptr<Connector> connector_;
  Connector::Seat* seat_ = nullptr;
  std::vector<std::unique_ptr<TcpLink>> links_;
};

// The kernel of a stopped process answers whenever it is asked.
TEST(LostHost, IsNoticedWhileItIsCalledAndAStoppedProcessIsNone) {
  constexpr int kFirstStopped = 1 + static_cast<int>(kAll.size());
  Calls calls;
  calls.stop_all();
  for (int rank = 1; rank < kFirstStopped; ++rank) calls.called(rank).vanish();
  const uint64_t since_ns = monotonic_ns();
  for (int rank = 1; rank < kFirstStopped; ++rank) {
    while (calls.link(rank).state() == State::kWanted && monotonic_ns() < since_ns + kPatienceNs) {
      calls.serve_for(kMomentNs);
    }
    EXPECT_EQ(calls.link(rank).state(), State::kFailed) << rank;
    const Status status = calls.link(rank).status();
    EXPECT_EQ(status.code(), Code::kRemoteError);
    EXPECT_NE(status.message().find("rank " + std::to_string(rank)), std::string_view::npos);
    EXPECT_NE(status.message().find("TUTTI_KEEPALIVE"), std::string_view::npos) << status.message();
  }
  calls.serve_for(2 * kKeepaliveNs);
  for (int rank = kFirstStopped; rank < Calls::kRanks; ++rank) {
    EXPECT_EQ(calls.link(rank).state(), State::kWanted) << calls.link(rank).status().message();
  }
  for (int rank = 1; rank < Calls::kRanks; ++rank) EXPECT_FALSE(calls.called(rank).called_again());
}

}  // namespace
}  // namespace tutti::transports::tcp
