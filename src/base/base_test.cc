// The parts of src/base that are too small for a test file of their own: words, prng, log, io.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "src/base/io.h"
#include "src/base/log.h"
#include "src/base/prng.h"
#include "src/base/turns.h"
#include "src/base/words.h"

namespace tutti {
namespace {

TEST(Words, ListsRanksBriefly) {
  EXPECT_EQ(list_ranks({}), "");
  EXPECT_EQ(list_ranks({1, 2}), "1, 2");
  EXPECT_EQ(list_ranks({0, 2, 3, 4, 9}), "0, 2-4, 9");
  EXPECT_EQ(list_ranks({0, 2, 4, 6, 8, 10, 12, 14, 16, 18}),
            "0, 2, 4, 6, 8, 10, 12, 14 and 2 more");
}

TEST(Words, SplitKeepsEmptyPieces) {
  EXPECT_EQ(split("a,,b", ','), (std::vector<std::string_view>{"a", "", "b"}));
  EXPECT_EQ(split("", ',').size(), 1u);
  EXPECT_EQ(trim("  a b\n"), "a b");
  EXPECT_EQ(trim(" \t"), "");
}

TEST(Words, IntegersAreWholeAndInRange) {
  EXPECT_EQ(parse_integer<int>("-12"), -12);
  EXPECT_EQ(parse_integer<uint64_t>("ff", 16), 255u);
  for (const char* wrong : {"", "1 ", " 1", "+1", "1.0", "256", "-1", "0x1"}) {
    EXPECT_FALSE(parse_integer<uint8_t>(wrong).has_value()) << wrong;
  }
}

TEST(Words, HexGoesBothWays) {
  const std::string bytes("\x00\x7f\xff\x10", 4);
  EXPECT_EQ(to_hex(bytes), "007fff10");
  EXPECT_EQ(from_hex("007FfF10"), bytes);
  EXPECT_FALSE(from_hex("0").has_value());
  EXPECT_FALSE(from_hex("0g").has_value());
}

TEST(Prng, SameSeedSameNumbers) {
  Prng a(42);
  Prng b(42);
  Prng c(43);
  const uint64_t first = a();
  EXPECT_EQ(first, b());
  EXPECT_NE(first, c());
  // Published reference values of splitmix64 from seed 0.
  uint64_t state = 0;
  EXPECT_EQ(splitmix64(state), 0xe220a8397b1dcdafu);
  EXPECT_EQ(splitmix64(state), 0x6e789e6aa1b965f4u);
}

TEST(Prng, BelowReachesAllAndNoMore) {
  Prng random(7);
  int seen[5] = {};
  for (int i = 0; i < 5000; ++i) ++seen[random.below(5)];
  for (const int count : seen) EXPECT_GT(count, 800);
  for (int i = 0; i < 1000; ++i) {
    const double value = random.unit();
    EXPECT_TRUE(value >= 0 && value < 1);
  }
}

TEST(Logger, WritesOneLineAtOrAboveItsLevel) {
  char path[] = "/tmp/tutti_log_XXXXXX";
  close(mkstemp(path));
  Config config;
  config.log_file = path;
  config.log_level = LogLevel::kWarning;
  config.warnings = {"a warning from before"};
  {
    Result<std::unique_ptr<Logger>> logger = Logger::create(config);
    ASSERT_TRUE(logger.ok()) << logger.status().message();
    logger.value()->warning("rank {} says {}", 3, "two\nlines\x1b[2K\x7f");
    logger.value()->info("not {}", "this");
    EXPECT_FALSE(logger.value()->enabled(LogLevel::kInfo));
  }
  std::ifstream file(path);
  std::string first;
  std::string second;
  std::string third;
  std::getline(file, first);
  std::getline(file, second);
  EXPECT_TRUE(first.ends_with("warn a warning from before")) << first;
  EXPECT_TRUE(second.ends_with("warn rank 3 says two lines [2K ")) << second;
  EXPECT_FALSE(std::getline(file, third));
  unlink(path);
}

/// Of "12:34:56...".
int seconds_of_day(const std::string& time) {
  int hours = 0, minutes = 0, seconds = 0;
  EXPECT_EQ(std::sscanf(time.c_str(), "%2d:%2d:%2d.", &hours, &minutes, &seconds), 3) << time;
  return (hours * 60 + minutes) * 60 + seconds;
}

/// 0 if a line has the time of a zone 5:30 h east of UTC.
int log_east_of_utc(const std::string& path) {
  setenv("TZ", "IST-05:30", 1);
  tzset();
  Config config;
  config.log_file = path;
  config.log_level = LogLevel::kInfo;
  Logger::create(config).value()->info("now");
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  constexpr int kDay = 86'400, kEast = 19'800;
  constexpr int kApart = 60;  // of two looks at clocks
  const auto utc = static_cast<int>(std::time(nullptr) % kDay);
  const int later_s = utc + kEast - seconds_of_day(line.substr(std::string("tutti ").size()));
  return (later_s + kApart + kDay) % kDay < 30 * kApart ? 0 : 2;
}

TEST(Logger, TimesAreLocal) {
  const std::string path = testing::TempDir() + "tutti-zone-" + std::to_string(getpid());
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process that has not asked for its zone yet
  EXPECT_EXIT(exit(log_east_of_utc(path)), testing::ExitedWithCode(0), "");
  unlink(path.c_str());
}

TEST(Logger, SaysWhichFileItCannotOpen) {
  Config config;
  config.log_file = "/no/such/folder/log";
  const auto logger = Logger::create(config);
  ASSERT_FALSE(logger.ok());
  EXPECT_NE(logger.status().message().find("/no/such/folder/log"), std::string_view::npos);
  EXPECT_EQ(expand_log_path("a%p"), "a" + std::to_string(getpid()));
}

TEST(Logger, KnowsWhatItSaidAsAnError) {
  Logger logger(LogLevel::kError);
  testing::internal::CaptureStderr();
  logger.error("rank {} is lost", 1);
  logger.warning("rank {} is slow", 2);
  EXPECT_TRUE(logger.said_as_error("rank 1 is lost"));
  EXPECT_TRUE(logger.said_as_error("communicator 'world': rank 1 is lost"));
  EXPECT_FALSE(logger.said_as_error("rank 1 is lost: why"));
  EXPECT_FALSE(logger.said_as_error("rank 2 is slow"));
  for (int i = 0; i < 100; ++i) logger.error("{}", i);
  EXPECT_FALSE(logger.said_as_error("rank 1 is lost"));  // it keeps the last few
  EXPECT_TRUE(logger.said_as_error("99"));
  (void)testing::internal::GetCapturedStderr();
}

TEST(Logger, DoesWithoutAFileOfNcclsThatItCannotOpen) {
  const Variables variables = {{"NCCL_DEBUG_FILE", "/no/such/folder/log"}};
  testing::internal::CaptureStderr();
  const auto logger = Logger::create(Config::from_environment(variables).value());
  ASSERT_TRUE(logger.ok()) << logger.status().message();
  logger.value()->error("{}", "still here");
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("warn NCCL_DEBUG_FILE: cannot open '/no/such/folder/log'"), said.npos);
  EXPECT_NE(said.find("error still here"), said.npos);
  const Variables own = {{"TUTTI_LOG_FILE", "/no/such/folder/log"}};
  const auto refused = Logger::create(Config::from_environment(own).value());
  ASSERT_FALSE(refused.ok());
  EXPECT_TRUE(refused.status().message().starts_with("TUTTI_LOG_FILE: "));
}

TEST(Fd, ClosesOnceAndMoves) {
  const int raw = open("/dev/null", O_RDONLY | O_CLOEXEC);
  {
    Fd a(raw);
    Fd b(std::move(a));
    EXPECT_FALSE(a.valid());  // NOLINT(bugprone-use-after-move): this is what is tested
    EXPECT_EQ(b.get(), raw);
    a = std::move(b);
    EXPECT_EQ(a.get(), raw);
  }
  EXPECT_EQ(fcntl(raw, F_GETFD), -1);
}

TEST(Fd, IsNoneOfTheStandardStreams) {
  const auto open_in_place_of_stdin = [] {
    close(STDIN_FILENO);
    const Fd moved(open("/dev/null", O_RDONLY | O_CLOEXEC));
    const bool is_free = fcntl(STDIN_FILENO, F_GETFD) == -1;
    std::_Exit(is_free && moved.get() > STDERR_FILENO ? 0 : 1);
  };
  EXPECT_EXIT(open_in_place_of_stdin(), testing::ExitedWithCode(0), "");
}

TEST(SocketIo, ShortReadsDeadlineAndHangUp) {
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  Fd a(pair[0]);
  Fd b(pair[1]);
  std::string large(1 << 20, 'x');
  std::thread writer(
      [&] { EXPECT_TRUE(send_all(a.get(), large.data(), large.size(), kNoDeadline).ok()); });
  std::string got(large.size(), ' ');
  EXPECT_TRUE(receive_exactly(b.get(), got.data(), got.size(), kNoDeadline).ok());
  writer.join();
  EXPECT_EQ(got, large);

  const uint64_t soon_ns = monotonic_ns() + 20'000'000;
  EXPECT_EQ(receive_exactly(b.get(), got.data(), 1, soon_ns).code(), Code::kTimeout);
  EXPECT_GE(monotonic_ns(), soon_ns);
  a.reset();
  EXPECT_EQ(receive_exactly(b.get(), got.data(), 1, kNoDeadline).code(), Code::kRemoteError);
  EXPECT_EQ(send_all(b.get(), got.data(), 1, kNoDeadline).code(), Code::kRemoteError);
}

TEST(Turns, GoInTheOrderOfTheirPlaces) {
  Turns line;
  std::vector<std::shared_ptr<Turns::PlaceInLine>> places;
  for (int i = 0; i < 8; ++i) places.push_back(line.take());
  std::vector<uint64_t> order;
  std::vector<std::thread> threads;
  while (!places.empty()) {
    threads.emplace_back([&order, place = std::move(places.back())] {
      EXPECT_TRUE(place->await(kNoDeadline));
      order.push_back(place->number());  // by one thread at a time
      place->give_up();
    });
    places.pop_back();
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(order, (std::vector<uint64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(Turns, APlaceThatIsGivenUpHoldsNobodyUp) {
  Turns line;
  std::shared_ptr<Turns::PlaceInLine> first = line.take(), second = line.take(),
                                      third = line.take();
  second.reset();
  EXPECT_FALSE(third->await(monotonic_ns())) << "the first one is still there";
  first.reset();
  EXPECT_TRUE(third->await(monotonic_ns()));
}

}  // namespace
}  // namespace tutti
