#include "src/transport/stream/tickets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

namespace tutti::transport::stream {
namespace {

bool is_done(const TicketWindow& window, uint64_t ticket) {
  const TicketWindow::TicketState answer = window.done(ticket);
  if (answer == TicketWindow::TicketState::kAskUnderLock) return window.done_under_lock(ticket);
  return answer == TicketWindow::TicketState::kDone;
}

TEST(StreamTickets, DoneInAnyOrder) {
  TicketWindow window;
  for (int i = 0; i < 3; ++i) window.issue();
  window.complete(2);
  EXPECT_FALSE(is_done(window, 1));
  EXPECT_TRUE(is_done(window, 2));
  EXPECT_FALSE(is_done(window, 3));
  window.complete(1);
  window.complete(3);
  EXPECT_TRUE(is_done(window, 1));
  EXPECT_TRUE(is_done(window, 3));
}

TEST(StreamTickets, OneStandsWhileManyRunAhead) {
  TicketWindow window;
  constexpr uint64_t kTickets = 5 * TicketWindow::kSlots + 7;
  for (uint64_t i = 0; i < kTickets; ++i) window.issue();
  for (uint64_t ticket = 2; ticket <= kTickets; ++ticket) {
    window.complete(ticket);
    ASSERT_TRUE(is_done(window, ticket));
    ASSERT_FALSE(is_done(window, 1));
  }
  window.complete(1);
  for (uint64_t ticket = 1; ticket <= kTickets; ++ticket) ASSERT_TRUE(is_done(window, ticket));
  EXPECT_FALSE(is_done(window, kTickets + 1));
  EXPECT_EQ(window.done(kTickets + 1),
            TicketWindow::TicketState::kPending);  // nothing is early now
}

TEST(StreamTickets, ShuffledAgainstASet) {
  std::mt19937 random(1);
  TicketWindow window;
  std::vector<uint64_t> open;
  std::vector<bool> done(1, true);
  for (int round = 0; round < 20000; ++round) {
    if (open.empty() || random() % 2 == 0) {
      open.push_back(window.issue());
      done.push_back(false);
    } else {
      const size_t pick = random() % open.size();
      window.complete(open[pick]);
      done[open[pick]] = true;
      open[pick] = open.back();
      open.pop_back();
    }
    const uint64_t probe = 1 + random() % done.size();
    if (probe < done.size()) {
      ASSERT_EQ(is_done(window, probe), done[probe]);
    }
  }
}

TEST(StreamTickets, NeverUndoneForAReaderWithoutTheLock) {
  TicketWindow window;
  std::mutex mutex;
  constexpr uint64_t kTickets = 200000;
  std::atomic<uint64_t> completed{0};
  std::thread reader([&] {
    std::mt19937 random(2);
    for (uint64_t up_to = 0; up_to < kTickets;) {
      up_to = completed.load(std::memory_order_acquire);
      if (up_to == 0) continue;
      const uint64_t ticket = 1 + random() % up_to;
      bool seen = window.done(ticket) == TicketWindow::TicketState::kDone;
      if (!seen) {
        const std::lock_guard lock(mutex);
        seen = window.done_under_lock(ticket);
      }
      ASSERT_TRUE(seen) << ticket;
    }
  });
  for (uint64_t ticket = 1; ticket <= kTickets; ++ticket) {
    const std::lock_guard lock(mutex);
    window.issue();
    window.complete(ticket);
    completed.store(ticket, std::memory_order_release);
  }
  reader.join();
}

}  // namespace
}  // namespace tutti::transport::stream
