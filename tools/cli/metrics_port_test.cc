// A caller by HTTP gets the text; one that asks for nothing gets nothing.
#include "tools/cli/metrics_port.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>
#include <string_view>
#include <thread>

#include "src/base/clock.h"
#include "src/base/io.h"
#include "src/base/wait_limit.h"

namespace tutti::cli {
namespace {

constexpr uint64_t kLong = 600'000'000'000;  // ns

std::string ask(const MetricsPort& port, std::string_view request) {
  const auto address = bootstrap::Address::parse("127.0.0.1").value();
  auto connection = bootstrap::dial(address, port.port(), WaitLimit(monotonic_ns() + kLong));
  EXPECT_TRUE(connection.ok());
  if (!connection.ok()) return {};
  const int socket = connection.value().get();
  const uint64_t deadline = monotonic_ns() + kLong;
  EXPECT_TRUE(send_all(socket, request.data(), request.size(), deadline).ok());
  shutdown(socket, SHUT_WR);
  std::string reply;
  char byte = 0;
  while (receive_exactly(socket, &byte, 1, deadline).ok()) reply += byte;
  return reply;
}

TEST(MetricsPortTest, AnswersRequestsAndNothingElse) {
  Result<MetricsPort> opened = MetricsPort::open("127.0.0.1", 0);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const MetricsPort& port = opened.value();
  std::string good, bad;
  std::jthread server([&] {
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(port.serve_one("tutti_x 1\n", monotonic_ns() + kLong));
  });
  good = ask(port, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  bad = ask(port, "hello");
  EXPECT_TRUE(good.starts_with("HTTP/1.1 200 OK\r\n")) << good;
  EXPECT_TRUE(good.ends_with("\r\n\r\ntutti_x 1\n")) << good;
  EXPECT_EQ(bad, "");
}

TEST(MetricsPortTest, RefusesAddressesThatAreNone) {
  EXPECT_FALSE(MetricsPort::open("localhost:80", 0).ok());
  EXPECT_FALSE(MetricsPort::open("203.0.113.7", 0).ok());
}

}  // namespace
}  // namespace tutti::cli
