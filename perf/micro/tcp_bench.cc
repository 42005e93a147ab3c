// Measures the cost of the TCP transport over a bare socket: both are measured in turn, in the same
// run, on loopback connections made alike. On a shared machine quote only "ratio" (time of Tutti /
// time of the bare socket, medians over the rounds) or, where others compute meanwhile,
// "best_ratio" (of minima).
//
//   ping_pong/8      both sides spin; time per round trip
//   stream/1048576   one direction; time per message, the receiver keeps two receives posted
#include <benchmark/benchmark.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "transports/tcp/link.h"
#include "transports/tcp/socket.h"

namespace tutti::transports::tcp {
namespace {

constexpr transport::ChannelId kChannel{1, 0, 0};
constexpr uint32_t kSignature = 1;

template <class T>
T must(Result<T> result) {
  if (!result.ok()) std::abort();
  return std::move(result).value();
}

struct SocketPair {
  KeptFd ends[2];
};

SocketPair connect_loopback() {
  const KeptFd listener = must(listen_on(must(parse_endpoint("127.0.0.1", 0))));
  SocketPair connection;
  connection.ends[0] = must(dial(must(local_endpoint(listener.get()))));
  wait_ready(listener.get(), POLLIN, kNoDeadline);
  connection.ends[1] =
      KeptFd(Fd(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)));
  for (const KeptFd& end : connection.ends) {
    if (!make_fast(end.get()).ok()) std::abort();
  }
  return connection;
}

/// One end of a connection, bare or Tutti's.
class Pipe {
 public:
  virtual ~Pipe() = default;
  virtual void write(const std::vector<std::byte>& data) = 0;
  virtual void read(std::vector<std::byte>& data) = 0;
  /// Reads `count` messages.
  virtual void drain(std::vector<std::byte>& data, int count) {
    for (int i = 0; i < count; ++i) read(data);
  }
};

class BarePipe final : public Pipe {
 public:
  explicit BarePipe(KeptFd fd) : fd_(std::move(fd)) {}
  void write(const std::vector<std::byte>& data) override {
    for (size_t done = 0; done < data.size();) {
      const ssize_t count = send(fd_.get(), data.data() + done, data.size() - done, MSG_NOSIGNAL);
      if (count > 0) done += static_cast<size_t>(count);
    }
  }
  void read(std::vector<std::byte>& data) override {
    for (size_t done = 0; done < data.size();) {
      const ssize_t count = recv(fd_.get(), data.data() + done, data.size() - done, 0);
      if (count > 0) done += static_cast<size_t>(count);
    }
  }

 private:
  KeptFd fd_;
};

class LinkPipe final : public Pipe {
 public:
  LinkPipe(KeptFd fd, int rank)
      : link_({rank, 1 - rank, "loopback", kChannel.communicator, kChannel.epoch, {}},
              std::make_shared<Connection>(member_of(rank), member_of(1 - rank))) {
    link_.connection()->adopt(link_, std::move(fd), {});
  }
  void write(const std::vector<std::byte>& data) override {
    const transport::ConstBuffer piece{data.data(), data.size()};
    const uint64_t ticket = link_.send(kChannel, kSignature, {&piece, 1});
    while (!link_.sent(ticket)) link_.progress();
  }
  void read(std::vector<std::byte>& data) override { finish(post(data)); }
  void drain(std::vector<std::byte>& data, int count) override {
    uint64_t before = post(data);
    for (int i = 1; i < count; ++i) {
      const uint64_t next = post(data);
      finish(before);
      before = next;
    }
    finish(before);
  }

 private:
  uint64_t post(std::vector<std::byte>& data) {
    const transport::Buffer piece{data.data(), data.size()};
    return link_.receive(kChannel, kSignature, {&piece, 1});
  }
  static MemberId member_of(int rank) { return {{1, 1}, static_cast<uint32_t>(rank)}; }
  void finish(uint64_t ticket) {
    while (!link_.received(ticket)) link_.progress();
  }

  TcpLink link_;
};

struct Bench {
  size_t bytes;
  int messages;
  bool both_ways;
};

void run_near_end(Pipe& pipe, const Bench& bench, std::vector<std::byte>& data) {
  std::vector<std::byte> token(8);
  for (int i = 0; i < bench.messages; ++i) {
    pipe.write(data);
    if (bench.both_ways) pipe.read(data);
  }
  if (!bench.both_ways) pipe.read(token);
}

void run_far_end(Pipe& pipe, const Bench& bench, std::vector<std::byte>& data) {
  std::vector<std::byte> token(8);
  if (!bench.both_ways) {
    pipe.drain(data, bench.messages);
    pipe.write(token);
    return;
  }
  for (int i = 0; i < bench.messages; ++i) {
    pipe.read(data);
    pipe.write(data);
  }
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

void compare(benchmark::State& state, const Bench& bench) {
  constexpr int kRounds = 25;
  SocketPair bare = connect_loopback();
  SocketPair tutti = connect_loopback();
  const std::unique_ptr<Pipe> near[2] = {std::make_unique<BarePipe>(std::move(bare.ends[0])),
                                         std::make_unique<LinkPipe>(std::move(tutti.ends[0]), 0)};
  const std::unique_ptr<Pipe> far[2] = {std::make_unique<BarePipe>(std::move(bare.ends[1])),
                                        std::make_unique<LinkPipe>(std::move(tutti.ends[1]), 1)};
  for ([[maybe_unused]] auto unused : state) {
    std::thread partner([&] {
      std::vector<std::byte> data(bench.bytes);
      for (int round = 0; round < 2 * (kRounds + 1); ++round) {
        run_far_end(*far[round % 2], bench, data);
      }
    });
    std::vector<std::byte> data(bench.bytes);
    std::vector<double> times[2];
    for (int round = 0; round < 2 * (kRounds + 1); ++round) {
      const uint64_t start_ns = monotonic_ns();
      run_near_end(*near[round % 2], bench, data);
      const auto taken = static_cast<double>(monotonic_ns() - start_ns);
      if (round >= 2) times[round % 2].push_back(taken / bench.messages / 1000);
    }
    partner.join();
    const double bare_us = median(times[0]);
    const double tutti_us = median(times[1]);
    state.SetIterationTime(tutti_us * 1e-6);
    state.counters["bare_us"] = bare_us;
    state.counters["tutti_us"] = tutti_us;
    state.counters["ratio"] = tutti_us / bare_us;
    state.counters["best_ratio"] = *std::min_element(times[1].begin(), times[1].end()) /
                                   *std::min_element(times[0].begin(), times[0].end());
  }
}

void ping_pong(benchmark::State& state) {
  compare(state, {static_cast<size_t>(state.range(0)), 1000, true});
}
void stream(benchmark::State& state) {
  const auto bytes = static_cast<size_t>(state.range(0));
  compare(state, {bytes, static_cast<int>(std::max<size_t>(16, (64 << 20) / bytes)), false});
}

BENCHMARK(ping_pong)->Arg(8)->Arg(65536)->Iterations(1)->UseManualTime();
BENCHMARK(stream)->Arg(1 << 20)->Arg(16 << 20)->Iterations(1)->UseManualTime();

}  // namespace
}  // namespace tutti::transports::tcp
