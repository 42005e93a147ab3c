// For tests: ranks of one domain as threads over real arenas, the cases they run, and what a serial
// reference says of the results.
#pragma once

#include <atomic>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "src/exec/host_executor.h"
#include "src/plan/match.h"
#include "src/schedule/algorithm.h"
#include "src/transport/arena.h"

namespace tutti::exec::domain_test {

using schedule::Collective;

class TestHealth final : public Health {
 public:
  Status check() override { return fails ? Status::remote_error("it was told to") : Status(); }
  std::atomic<bool> fails = false;
};

// Threads of one process: every address is everybody's.
class SameProcess final : public transport::Mapped {
 public:
  transport::Buffer arena() const override { return {}; }
  Result<transport::Buffer> import(std::string_view) override {
    return Status::unsupported("threads");
  }
  Status give_descriptor(int) override { return Status::unsupported("none is needed"); }
  Result<Fd> take_descriptor(int) override { return Status::unsupported("none is needed"); }
  void release(const std::byte*) override {}
  Status read(transport::Buffer target, uint64_t source) override {
    if (refuses) return Status::remote_error("the peer's memory is gone");
    std::memcpy(target.data, reinterpret_cast<const void*>(source), target.bytes);
    return {};
  }
  Status write(uint64_t, transport::ConstBuffer) override { return Status::unsupported("reads"); }

  bool refuses = false;
};

struct Case {
  const schedule::Algorithm* algorithm = nullptr;
  schedule::Parameters parameters;
  plan::Mode mode = plan::Mode::kStaged;
  bool in_place = false;
  uint64_t count = 0;
  types::ReduceOp op = types::ReduceOp::kSum;
};

class Domain {
 public:
  Domain(int ranks, uint64_t ring_bytes, uint64_t first_progress, uint32_t calls_before = 0)
      : layout_(ring_bytes, 4096, ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      arenas_.push_back(std::move(transport::Arena::create("test", layout_.bytes())).value());
    }
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<Peer> peers(static_cast<size_t>(ranks));
      for (int peer = 0; peer < ranks; ++peer) {
        peers[peer].arena = ArenaView(arenas_[peer].data(), layout_);
        peers[peer].mapped = &mapped_;
      }
      ExecutorOptions options;
      options.rank = rank;
      options.ranks = ranks;
      options.spins = 20;
      options.first_progress = first_progress;
      options.calls_before = calls_before;
      options.layout = layout_;
      // Ranks may differ; who decides by the clock uses one of the two.
      options.staging_stores = rank % 2 == 0 ? StagingStores::kStreaming : StagingStores::kCached;
      executors_.push_back(std::make_unique<HostExecutor>(options, std::move(peers), health_));
    }
  }

  HostExecutor& executor(int rank) { return *executors_[rank]; }
  int ranks() const { return static_cast<int>(executors_.size()); }
  uint64_t region_bytes() const { return layout_.region_bytes(); }
  void refuse_reads() { mapped_.refuses = true; }
  /// From now on who waits for long fails.
  void end_waits() { health_.fails = true; }
  ArenaView arena(int rank) const { return ArenaView(arenas_[rank].data(), layout_); }
  uint64_t progress(int rank) const { return arena(rank).counter(0).progress.load(); }

 private:
  ArenaLayout layout_;
  std::vector<transport::Arena> arenas_;
  SameProcess mapped_;
  TestHealth health_;
  std::vector<std::unique_ptr<HostExecutor>> executors_;
};

inline int64_t element(int rank, uint64_t i) {
  return static_cast<int64_t>((i * 7 + rank * 13) % 101);
}

// The value that rank `rank` must find at `i` of its output.
inline int64_t expected(const Case& c, int rank, uint64_t i) {
  const int n = c.parameters.ranks;
  const auto sum = [&](uint64_t at) {
    int64_t value = 0;
    for (int q = 0; q < n; ++q) value += element(q, at);
    return c.op == types::ReduceOp::kAvg ? value / n : value;
  };
  switch (c.algorithm->collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
      return sum(i);
    case Collective::kReduceScatter:
      return sum(static_cast<uint64_t>(rank) * c.count + i);
    case Collective::kAllGather:
    case Collective::kGather:
      return element(static_cast<int>(i / c.count), i % c.count);
    case Collective::kScatter:
      return element(c.parameters.root, static_cast<uint64_t>(rank) * c.count + i);
    case Collective::kBroadcast:
      return element(c.parameters.root, i);
    case Collective::kAllToAll:
      return element(static_cast<int>(i / c.count),
                     static_cast<uint64_t>(rank) * c.count + i % c.count);
    case Collective::kBarrier:
      return 0;
  }
  return 0;
}

struct Buffers {
  std::vector<int64_t> input, output;
  int64_t* send = nullptr;
  int64_t* recv = nullptr;
};

inline Buffers make_buffers(const Case& c, const schedule::Shape& shape, int rank) {
  Buffers b;
  const uint64_t in = schedule::input_elements(shape, rank, c.count);
  const uint64_t out = schedule::output_elements(shape, rank, c.count);
  b.input.resize(in + 1);
  b.output.assign(std::max(in, out) + 1, -1);
  for (uint64_t i = 0; i < in; ++i) b.input[i] = element(rank, i);
  b.send = b.input.data();
  b.recv = b.output.data();
  if (!c.in_place || !schedule::has_both(shape, rank)) return b;
  const uint64_t part = static_cast<uint64_t>(rank) * c.count;
  const schedule::Traits& traits = schedule::traits_of(shape.collective);
  const bool gathers = traits.nests(schedule::Space::kInput);
  std::copy_n(b.input.data(), in, b.output.data() + (gathers ? part : 0));
  b.send = b.output.data() + (gathers ? part : 0);
  b.recv = b.output.data() + (traits.nests(schedule::Space::kOutput) ? part : 0);
  return b;
}

}  // namespace tutti::exec::domain_test
