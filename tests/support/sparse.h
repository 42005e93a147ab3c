// A transport of streams on which ranks are connected with few others: what links are before their
// first use. The connections are there, but a link that nobody wanted does not let through.
//
// It wraps a registered transport, for tests of what happens to ranks that are not connected. Ranks
// are processes that share the board, or threads. Threads: as the wrapped one.
#pragma once

#include <atomic>
#include <memory>

#include "src/transport/factory.h"

namespace tutti::testing_support {

struct SparseBoard {
  static constexpr int kMaxRanks = 64;
  std::atomic<bool> connected[kMaxRanks][kMaxRanks];
  std::atomic<bool> settled[kMaxRanks][kMaxRanks];  // the first knows that they are connected
  std::atomic<bool> cut;                            // nobody will be connected
  std::atomic<int> held{-1};                        // who makes no connection for now
  std::atomic<int> notices[kMaxRanks][kMaxRanks];   // notes on their lane, told by one to another

  bool has(int a, int b) const { return connected[a][b].load(std::memory_order_acquire); }
  /// Both ends of every connection know of it.
  bool all_settled() const {
    for (int a = 0; a < kMaxRanks; ++a) {
      for (int b = 0; b < kMaxRanks; ++b) {
        if (has(a, b) && !settled[a][b].load(std::memory_order_acquire)) return false;
      }
    }
    return true;
  }
  void connect(int a, int b) {
    if (cut.load(std::memory_order_acquire)) return;
    connected[a][b].store(true, std::memory_order_release);
    connected[b][a].store(true, std::memory_order_release);
  }
};

/// From now on transports of sparse_factory() use this board and wrap this one.
void set_sparse(SparseBoard& board, const transport::Factory& wrapped);
transport::Factory sparse_factory();

}  // namespace tutti::testing_support
