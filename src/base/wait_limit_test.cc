#include "src/base/wait_limit.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <thread>
#include <vector>

#include "src/base/turns.h"

namespace tutti {
namespace {

constexpr uint64_t kMillisecond = 1'000'000;

std::shared_ptr<Cancellation> cancellation() { return Cancellation::create().value(); }

WaitLimit cancelled_by(const std::shared_ptr<Cancellation>& one) {
  return WaitLimit(kNoDeadline, one, kNoDeadline, [](const std::string&, uint64_t) {});
}

struct Pair {
  Pair() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    a.reset(ends[0]);
    b.reset(ends[1]);
  }
  Fd a, b;
};

TEST(WaitLimit, EndsAtItsDeadline) {
  const Pair pair;
  EXPECT_FALSE(wait_ready(pair.a.get(), POLLIN, WaitLimit(monotonic_ns() + kMillisecond)));
  const WaitLimit over(0);
  EXPECT_TRUE(over.over());
  EXPECT_EQ(over.reason("too late").code(), Code::kTimeout);
  EXPECT_EQ(over.reason("too late").message(), "too late");
  EXPECT_EQ(WaitLimit(kNoDeadline).until(5).deadline_ns(), 5u);
  EXPECT_EQ(WaitLimit(4).until(5).deadline_ns(), 4u);
}

// The deadline of all of them is none, so each ends by the cancellation or never.
TEST(WaitLimit, ACancellationEndsEveryWait) {
  const Pair pair;
  Turns line;
  const auto first = line.take(), second = line.take();
  const std::vector<std::function<Status(const WaitLimit&)>> waits = {
      [&](const WaitLimit& wait_limit) {
        char byte = 0;
        return receive_exactly(pair.a.get(), &byte, 1, wait_limit);
      },
      [&](const WaitLimit& wait_limit) {
        const std::string large(8 << 20, 'x');
        return send_all(pair.a.get(), large.data(), large.size(), wait_limit);
      },
      [&](const WaitLimit& wait_limit) {
        wait_limit.pause(kNoDeadline);
        return wait_limit.reason("it ended");
      },
      [&](const WaitLimit& wait_limit) {
        return second->await(wait_limit) ? Status() : wait_limit.reason("not yet");
      },
  };
  for (const auto& wait : waits) {
    const auto token = cancellation();
    Status status;
    std::thread waiting([&] { status = wait(cancelled_by(token)); });
    token->cancel();
    waiting.join();
    EXPECT_EQ(status.code(), Code::kRemoteError);
    EXPECT_NE(status.message().find("aborted"), std::string_view::npos) << status.message();
  }
}

TEST(WaitLimit, EndsOnceItMakesNoSense) {
  int asked = 0;
  const WaitLimit wait_limit = WaitLimit(kNoDeadline).as_long_as([&] {
    return ++asked < 3 ? Status() : Status::remote_error("rank 7 is gone");
  });
  EXPECT_FALSE(wait_limit.over()) << "nobody has asked";
  const Pair pair;
  char byte = 0;
  // Its copies have its sense.
  const Status status = receive_exactly(pair.a.get(), &byte, 1, wait_limit.until(kNoDeadline));
  EXPECT_EQ(status.message(), "rank 7 is gone");
  EXPECT_EQ(asked, 3) << "it asks on until there is an error, and not then";
  EXPECT_TRUE(wait_limit.has_lost_purpose());
  EXPECT_TRUE(wait_limit.over());
  EXPECT_FALSE(wait_limit.cancelled());
  wait_limit.pause(kNoDeadline);
  EXPECT_FALSE(wait_ready(pair.a.get(), POLLIN, wait_limit)) << "nor is anything waited for";
  EXPECT_EQ(asked, 3);
}

TEST(WaitLimit, SaysForWhomItWaitsAtDoublingIntervals) {
  std::vector<uint64_t> said;
  const WaitLimit wait_limit(kNoDeadline, cancellation(), kMillisecond,
                             [&](const std::string& what, uint64_t waited_ns) {
                               EXPECT_EQ(what, "rank 1 waits for rank 0");
                               said.push_back(waited_ns);
                             });
  wait_limit.waits_for("rank 1 waits for rank 0");
  while (said.size() < 5) wait_limit.pause(kMillisecond);
  EXPECT_GE(said[0], kMillisecond);
  for (size_t i = 1; i < said.size(); ++i) EXPECT_GE(said[i], 2 * said[i - 1]);
}

TEST(WaitLimit, ADeadlineAloneSaysNothing) {
  const WaitLimit wait_limit(monotonic_ns() + kMillisecond);
  wait_limit.waits_for("nobody");
  EXPECT_EQ(wait_limit.tells_at_ns(), kNoDeadline);
  EXPECT_EQ(wait_limit.slow_ns(), kNoDeadline);
  EXPECT_FALSE(wait_limit.cancelled());
  wait_limit.pause(kNoDeadline);
  EXPECT_TRUE(wait_limit.over());
}

}  // namespace
}  // namespace tutti
