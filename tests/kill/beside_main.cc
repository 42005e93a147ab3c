// beside: two communicators over the same ranks; one fails or stands still, and the calls of the
// other one go on over the connections that there were.
//
//   --case deadline   a rank does not come to a call of 64 MiB, which passes its deadline
//          differ     the ranks' calls of 64 MiB differ
//          abort      the receiver of messages of 64 MiB ends its communicator in the middle of one
//          silent     a receiver of 64 MiB calls nothing of that communicator for --seconds
//          stopped    the receiver's process is stopped in the middle of such a message, which
//                     passes its deadline, and goes on after --seconds
//   --network tcp|default   default: shared memory
//   --seconds N             (default 2)
//   --planted sum           a rank takes every sum for a wrong one, and must be found
//             connection    a rank has another connection afterwards, and must be found
//
// Three processes. In `stopped` the calls that go on meanwhile are of a communicator without the
// stopped rank; when it is back, those of all three do. Exit status: 0 they did; 1 they did not; 2
// the command line is wrong.
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/connected_sockets.h"
#include "tests/support/options.h"
#include "tests/support/team_rank.h"

namespace tutti::kill_test {
namespace {

using testing_support::connected_sockets;
using testing_support::Member;
using testing_support::Network;
using testing_support::now_ns;
using testing_support::sleep_ns;
using testing_support::TeamShape;

constexpr uint64_t kSecondNs = 1'000'000'000;
constexpr uint64_t kLimitNs = 120 * kSecondNs;
constexpr uint64_t kSettleNs = 30 * kSecondNs;
constexpr uint64_t kDeadlineNs = kSecondNs / 2;
constexpr uint64_t kMillisecondNs = 1'000'000;
constexpr size_t kCount = size_t{16} << 20;  // 64 MiB of floats
constexpr int kCalls = 50;
constexpr int kSender = 0, kReceiver = 1;

struct Wanted {
  std::string what;
  std::string network = "tcp";
  std::string planted = "nothing";
  int seconds = 2;
};

class Rank : testing_support::TeamRank {
 public:
  Rank(Member& member, const Wanted& wanted)
      : TeamRank(member), wanted_(wanted), rank_(member.rank()) {}

  void run() {
    if (!join() || !split(comm_, 0, failing_) || !use(comm_) || !use(failing_)) return;
    if (!split(comm_, rank_ == kReceiver ? 1 : 0, without_)) return;
    before_ = connected_sockets();
    if (!member_.meet()) return;
    if (wanted_.what == "silent") {
      stay_silent();
    } else if (wanted_.what == "stopped") {
      be_stopped();
    } else {
      fail_one();
    }
    if (!member_.meet() || !use(comm_) || !same_connections()) return;
    if (failing_ != nullptr) ok(tuttiCommAbort(failing_));
    if (!member_.meet() || !use(comm_) || !same_connections()) return;
    ok(tuttiCommDestroy(without_));
    ok(tuttiCommDestroy(comm_));
  }

 private:
  bool split(tuttiComm_t parent, int colour, tuttiComm_t& made) {
    return ok(tuttiCommSplit(parent, colour, rank_, &made, nullptr));
  }

  /// Some calls, with the numbers that they should have.
  bool use(tuttiComm_t comm) {
    int ranks = 0;
    if (!ok(tuttiCommCount(comm, &ranks))) return false;
    for (int call = 0; call < kCalls; ++call) {
      const std::vector<int32_t> send(1000, call);
      std::vector<int32_t> recv(1000);
      if (!ok(tuttiAllReduce(send.data(), recv.data(), send.size(), tuttiInt32, tuttiSum, comm,
                             tuttiBlocking()))) {
        return false;
      }
      if (has_planted("sum")) recv.back() += 1;
      if (recv.front() == call * ranks && recv.back() == call * ranks) continue;
      member_.fail("a wrong sum");
      return false;
    }
    return true;
  }

  void set_deadline() {
    tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
    options.timeout_ns = kDeadlineNs;
    ok(tuttiCommSetOptions(failing_, &options));
  }

  void expect_error(tuttiResult_t result, const std::string& name) {
    const std::string said = tuttiGetLastError(nullptr);
    if (result == tuttiSuccess) return member_.fail("a call succeeded that cannot");
    if (said.find(name) == std::string::npos) {
      member_.fail("the error does not say \"" + name + "\": " + said);
    }
  }

  tuttiResult_t move() {
    return rank_ == kSender ? tuttiSend(data_.data(), data_.size(), tuttiFloat32, kReceiver,
                                        failing_, tuttiBlocking())
                            : tuttiRecv(data_.data(), data_.size(), tuttiFloat32, kSender, failing_,
                                        tuttiBlocking());
  }

  /// One message behind the other, so that one is under way whenever something happens.
  tuttiResult_t move_until_error() {
    tuttiResult_t result = tuttiSuccess;
    while (result == tuttiSuccess) result = move();
    return result;
  }

  void fail_one() {
    data_.assign(kCount, 1);
    if (wanted_.what == "abort") return give_up_midway();
    if (wanted_.what == "deadline") {
      if (rank_ == kReceiver) return;
      set_deadline();
    }
    const size_t count = wanted_.what == "differ" && rank_ == kReceiver ? kCount - 1 : kCount;
    std::vector<float> recv(count);
    const tuttiResult_t result = tuttiAllReduce(data_.data(), recv.data(), count, tuttiFloat32,
                                                tuttiSum, failing_, tuttiBlocking());
    expect_error(result, wanted_.what == "differ" ? "all_reduce of" : "rank 1");
  }

  /// The receiver's other communicator is aborted by another thread, while both are called.
  void give_up_midway() {
    std::thread mover;
    if (rank_ != 2) mover = std::thread([&] { (void)move_until_error(); });
    if (rank_ == kReceiver) {
      sleep_ns(50 * kMillisecondNs);
      ok(tuttiCommAbort(failing_));
    }
    (void)use(comm_);
    if (mover.joinable()) mover.join();
    if (rank_ == kReceiver) failing_ = nullptr;
  }

  void stay_silent() {
    data_.assign(kCount, rank_ == kSender ? 7.0F : 0.0F);
    std::thread mover;
    std::string failure;
    if (rank_ == kSender) {
      mover = std::thread([&] {
        if (move() != tuttiSuccess) failure = tuttiGetLastError(nullptr);
      });
    }
    const uint64_t end_ns = now_ns() + static_cast<uint64_t>(wanted_.seconds) * kSecondNs;
    uint32_t over = 0;
    while (over == 0 && use(comm_)) {  // all ranks do so equally often
      const uint32_t mine = now_ns() >= end_ns ? 1 : 0;
      if (!ok(tuttiAllReduce(&mine, &over, 1, tuttiUint32, tuttiMax, comm_, tuttiBlocking())))
        break;
    }
    if (rank_ == kReceiver) {
      ok(move());
      if (data_.front() != 7 || data_.back() != 7) member_.fail("other bytes than were sent");
    }
    if (mover.joinable()) mover.join();
    if (!failure.empty()) member_.fail(failure);
  }

  void be_stopped() {
    data_.assign(kCount, 3);
    if (rank_ == kSender) {
      set_deadline();
      expect_error(move_until_error(), "rank 1");
    }
    if (rank_ == kReceiver) {
      std::thread receiver([&] { (void)move_until_error(); });
      sleep_ns(50 * kMillisecondNs);
      kill(member_.board().slots[rank_].process.load(), SIGSTOP);
      receiver.join();
      return;
    }
    const uint64_t end_ns = now_ns() + static_cast<uint64_t>(wanted_.seconds) * kSecondNs;
    uint32_t over = 0;
    while (over == 0 && use(without_)) {
      const uint32_t mine = now_ns() >= end_ns ? 1 : 0;
      if (!ok(tuttiAllReduce(&mine, &over, 1, tuttiUint32, tuttiMax, without_, tuttiBlocking())))
        break;
    }
    if (rank_ == 2) kill(member_.board().slots[kReceiver].process.load(), SIGCONT);
  }

  bool has_planted(const char* what) const { return rank_ == 2 && wanted_.planted == what; }

  static void connect_elsewhere() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(9);
    const int fd = socket(AF_INET, SOCK_DGRAM, 0);  // stays open
    (void)connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  }

  bool same_connections() {
    const bool planted = has_planted("connection");
    if (planted) connect_elsewhere();
    const uint64_t end_ns = now_ns() + (planted ? 0 : kSettleNs);
    std::set<ino_t> found;
    while ((found = connected_sockets()) != before_ && now_ns() < end_ns)
      sleep_ns(10 * kMillisecondNs);
    if (found == before_) return true;
    member_.fail(std::to_string(found.size()) + " connections, and they were " +
                 std::to_string(before_.size()) + ", or these are others");
    return false;
  }

  const Wanted& wanted_;
  const int rank_;
  tuttiComm_t failing_ = nullptr, without_ = nullptr;
  std::vector<float> data_;
  std::set<ino_t> before_;
};

bool read(int argc, char** argv, Wanted& wanted) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--case") wanted.what = value;
    if (name == "--network") wanted.network = value;
    if (name == "--seconds") wanted.seconds = std::atoi(value.c_str());
    if (name == "--planted") wanted.planted = value;
  }
  const std::set<std::string> cases{"deadline", "differ", "abort", "silent", "stopped"};
  const std::set<std::string> faults{"nothing", "sum", "connection"};
  return argc % 2 == 1 && cases.contains(wanted.what) && wanted.seconds > 0 &&
         faults.contains(wanted.planted) &&
         (wanted.network == "tcp" || wanted.network == "default");
}

}  // namespace
}  // namespace tutti::kill_test

int main(int argc, char** argv) {
  using namespace tutti::kill_test;
  Wanted wanted;
  if (!read(argc, argv, wanted)) {
    std::fprintf(stderr, "beside: see the head of %s\n", __FILE__);
    return 2;
  }
  TeamShape shape = TeamShape::processes(3);
  if (wanted.network == "tcp") shape.use(Network::kTcp);
  const auto result = tutti::testing_support::run_team(
      shape, [&](Member& member) { Rank(member, wanted).run(); },
      [](uint64_t) { return std::string("its calls"); }, kLimitNs);
  if (!result.ok) std::printf("%s", result.report.c_str());
  return result.ok ? 0 : 1;
}
