// A rank that fails while a window is made, when a peer already has it and uses it: what the rank
// brought is its own again when it learns of the failure.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/comm/window.h"
#include "src/transport/memory_handle.h"
#include "tests/faults/thread_group.h"

namespace tutti::faults {
namespace {

constexpr size_t kBytes = 64 << 20;

/// Where two ranks tell each other what their parts are; then one hears no more.
class Gathers {
 public:
  Result<std::vector<std::string>> gather(int rank, const std::string& mine) {
    if (mine == kMapped) return end(rank);
    texts_[static_cast<size_t>(rank)] = mine;
    told_.arrive_and_wait();
    return std::vector<std::string>(texts_.begin(), texts_.end());
  }

  std::atomic<bool> used{false}, over{false};

 private:
  Result<std::vector<std::string>> end(int rank) {
    if (rank == 0) return std::vector<std::string>(2, kMapped);
    while (!used.load()) std::this_thread::yield();
    return Status::remote_error("the gathering failed");
  }

  const std::string kMapped = comm::outcome_of({});
  std::array<std::string, 2> texts_;
  std::barrier<> told_{2};
};

void put_until_over(comm::Window& window, Gathers& gathers) {
  std::vector<std::byte> data(kBytes, std::byte{1});
  while (!gathers.over.load()) {
    comm::Access put;
    put.kind = comm::Access::Kind::kPut;
    put.peer = 1;
    put.bytes = kBytes;
    put.local = data.data();
    put.window = &window;
    if (window.advance(put) == exec::Progress::kBlocked) std::this_thread::yield();
    gathers.used.store(true);
  }
}

/// A peer that got no processor for long is still inside, and named.
void expect_own_again(const Status& failure, const transport::Arena& arena) {
  if (failure.message() != "the gathering failed") {
    EXPECT_NE(failure.message().find("is still inside rank 1's part"), std::string::npos)
        << failure.message();
    return;
  }
  std::fill_n(arena.data(), kBytes, std::byte{0});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(std::count(arena.data(), arena.data() + kBytes, std::byte{0}), kBytes);
}

TEST(WindowCreation, WhoFailsLastHasItsMemoryBack) {
  GroupOptions options;
  options.ranks = 2;
  options.one_process = false;
  Gathers gathers;
  std::array<transport::Arena, 2> arenas;
  for (auto& arena : arenas) arena = std::move(transport::Arena::create("test", kBytes)).value();
  const std::string problem = with_group(options, [&](int rank, comm::Communicator& communicator) {
    const transport::Arena& arena = arenas[static_cast<size_t>(rank)];
    comm::WindowMemory mine;
    mine.base = arena.data();
    mine.bytes = kBytes;
    mine.handle = transport::describe_memory(arena).value();
    auto made =
        comm::Window::create(communicator.membership(), mine, {communicator.id(), 0, 1000},
                             {[&](const std::string& text) { return gathers.gather(rank, text); },
                              [] { return Status(); }, nullptr});
    EXPECT_EQ(made.ok(), rank == 0) << made.status().message();
    if (made.ok() != (rank == 0)) return gathers.over.store(true);
    if (rank == 0) {
      put_until_over(*made.value(), gathers);
      return;
    }
    expect_own_again(made.status(), arena);
    gathers.over.store(true);
  });
  EXPECT_EQ(problem, "");
}

}  // namespace
}  // namespace tutti::faults
