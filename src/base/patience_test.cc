#include "src/base/patience.h"

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

Patience cancelled_by(const std::shared_ptr<Cancellation>& one) {
  return Patience(kNoDeadline, one, kNoDeadline, [](const std::string&, uint64_t) {});
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

TEST(Patience, EndsAtItsDeadline) {
  const Pair pair;
  EXPECT_FALSE(wait_ready(pair.a.get(), POLLIN, Patience(monotonic_ns() + kMillisecond)));
  const Patience over(0);
  EXPECT_TRUE(over.over());
  EXPECT_EQ(over.reason("too late").code(), Code::kTimeout);
  EXPECT_EQ(over.reason("too late").message(), "too late");
  EXPECT_EQ(Patience(kNoDeadline).until(5).deadline_ns(), 5u);
  EXPECT_EQ(Patience(4).until(5).deadline_ns(), 4u);
}

// The deadline of all of them is none, so each ends by the cancellation or never.
TEST(Patience, ACancellationEndsEveryWait) {
  const Pair pair;
  Turns line;
  const auto first = line.take(), second = line.take();
  const std::vector<std::function<Status(const Patience&)>> waits = {
      [&](const Patience& patience) {
        char byte = 0;
        return receive_exactly(pair.a.get(), &byte, 1, patience);
      },
      [&](const Patience& patience) {
        const std::string large(8 << 20, 'x');
        return send_all(pair.a.get(), large.data(), large.size(), patience);
      },
      [&](const Patience& patience) {
        patience.pause(kNoDeadline);
        return patience.reason("it ended");
      },
      [&](const Patience& patience) {
        return second->await(patience) ? Status() : patience.reason("not yet");
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

TEST(Patience, EndsOnceItMakesNoSense) {
  int asked = 0;
  const Patience patience = Patience(kNoDeadline).as_long_as([&] {
    return ++asked < 3 ? Status() : Status::remote_error("rank 7 is gone");
  });
  EXPECT_FALSE(patience.over()) << "nobody has asked";
  const Pair pair;
  char byte = 0;
  // Its copies have its sense.
  const Status status = receive_exactly(pair.a.get(), &byte, 1, patience.until(kNoDeadline));
  EXPECT_EQ(status.message(), "rank 7 is gone");
  EXPECT_EQ(asked, 3) << "it asks on until there is an error, and not then";
  EXPECT_TRUE(patience.senseless());
  EXPECT_TRUE(patience.over());
  EXPECT_FALSE(patience.cancelled());
  patience.pause(kNoDeadline);
  EXPECT_FALSE(wait_ready(pair.a.get(), POLLIN, patience)) << "nor is anything waited for";
  EXPECT_EQ(asked, 3);
}

TEST(Patience, SaysForWhomItWaitsAtDoublingIntervals) {
  std::vector<uint64_t> said;
  const Patience patience(kNoDeadline, cancellation(), kMillisecond,
                          [&](const std::string& what, uint64_t waited_ns) {
                            EXPECT_EQ(what, "rank 1 waits for rank 0");
                            said.push_back(waited_ns);
                          });
  patience.waits_for("rank 1 waits for rank 0");
  while (said.size() < 5) patience.pause(kMillisecond);
  EXPECT_GE(said[0], kMillisecond);
  for (size_t i = 1; i < said.size(); ++i) EXPECT_GE(said[i], 2 * said[i - 1]);
}

TEST(Patience, ADeadlineAloneSaysNothing) {
  const Patience patience(monotonic_ns() + kMillisecond);
  patience.waits_for("nobody");
  EXPECT_EQ(patience.tells_at_ns(), kNoDeadline);
  EXPECT_EQ(patience.slow_ns(), kNoDeadline);
  EXPECT_FALSE(patience.cancelled());
  patience.pause(kNoDeadline);
  EXPECT_TRUE(patience.over());
}

}  // namespace
}  // namespace tutti
