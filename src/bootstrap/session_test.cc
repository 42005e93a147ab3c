#include "src/bootstrap/session.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>
#include <thread>
#include <utility>

#include "src/base/clock.h"
#include "src/base/io.h"

namespace tutti::bootstrap {
namespace {

uint64_t in_a_minute() { return monotonic_ns() + 60 * kNanosecondsPerSecond; }

// A blob of many ranks may be large, but whoever says so has sent nothing yet.
TEST(Session, TakesMemoryForWhatHasArrived) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const Fd rank(ends[0]);
  Session session(KeptFd(Fd(ends[1])), 0);
  const auto header = encode_request({{4, 0, 1, 2}, kMaxMergedBytes, 60'000});
  const std::string part(100, 'x');
  ASSERT_TRUE(send_all(rank.get(), header.data(), header.size(), in_a_minute()).ok());
  ASSERT_TRUE(send_all(rank.get(), part.data(), part.size(), in_a_minute()).ok());
  session.hear();
  EXPECT_FALSE(session.lost());
  EXPECT_FALSE(session.asks());
  const std::string blob = session.take_blob();
  EXPECT_EQ(blob.substr(0, part.size()), part);
  EXPECT_LE(blob.capacity(), 2 * kMaxBlobBytes);
}

TEST(Session, TakesALargeBlobInPieces) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const Fd calling(ends[0]);
  Session session(KeptFd(Fd(ends[1])), 0);
  std::string blob(5 * kMaxBlobBytes + 3, '\0');
  for (size_t i = 0; i < blob.size(); ++i) blob[i] = static_cast<char>(i * 7 + i / 251);
  const auto header = encode_request({{4, 0, 1, 2}, blob.size(), 60'000});
  std::thread rank([&] {
    EXPECT_TRUE(send_all(calling.get(), header.data(), header.size(), in_a_minute()).ok());
    EXPECT_TRUE(send_all(calling.get(), blob.data(), blob.size(), in_a_minute()).ok());
  });
  const uint64_t deadline_ns = in_a_minute();
  while (!session.asks() && !session.lost() && monotonic_ns() < deadline_ns) session.hear();
  rank.join();
  EXPECT_TRUE(session.asks());
  EXPECT_EQ(session.take_blob(), blob);
}

}  // namespace
}  // namespace tutti::bootstrap
