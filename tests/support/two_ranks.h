// Two executors of one domain in one process, without communicators: for threads, or for a test
// that lets them take turns.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "src/exec/host_executor.h"
#include "src/exec/pairs.h"
#include "src/transport/arena.h"

namespace tutti::testing_support {

class TwoRanks {
 public:
  TwoRanks() : layout_(64 << 10, exec::PairExecutor::kPairBytes, 2) {
    for (int rank = 0; rank < 2; ++rank) {
      arenas_.push_back(std::move(transport::Arena::create("test", layout_.bytes())).value());
    }
    for (int rank = 0; rank < 2; ++rank) {
      std::vector<exec::Peer> peers(2);
      for (size_t peer = 0; peer < 2; ++peer) peers[peer].arena = arena(peer);
      exec::ExecutorOptions options;
      options.rank = rank;
      options.ranks = 2;
      options.spins = 20;
      options.layout = layout_;
      executors_.push_back(
          std::make_unique<exec::HostExecutor>(options, std::move(peers), health_));
    }
  }

  exec::HostExecutor& executor(uint32_t rank) { return *executors_[rank]; }
  exec::ArenaView arena(size_t rank) const {
    return exec::ArenaView(arenas_[rank].data(), layout_);
  }

 private:
  class NoFailures final : public diagnosis::Health {
   public:
    Status check() override { return {}; }
  };

  exec::ArenaLayout layout_;
  std::vector<transport::Arena> arenas_;
  NoFailures health_;
  std::vector<std::unique_ptr<exec::HostExecutor>> executors_;
};

}  // namespace tutti::testing_support
