// Ranks register memory together, and deregister it when each of them likes.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>

#include "src/base/clock.h"
#include "src/transport/memory_handle.h"
#include "tests/faults/thread_group.h"

namespace tutti::faults {
namespace {

constexpr int kRanks = 3;
constexpr size_t kRegistrations = 3;
constexpr size_t kCount = 1 << 20;

class Registered {
 public:
  Registered() : arena_(std::move(transport::Arena::create("test", bytes())).value()) {}

  static size_t bytes() { return kCount * sizeof(int32_t); }
  int32_t* data() const { return reinterpret_cast<int32_t*>(arena_.data()); }

  void add(comm::Communicator& communicator) {
    comm::WindowMemory mine;
    mine.base = arena_.data();
    mine.bytes = bytes();
    mine.handle = transport::describe_memory(arena_).value();
    const Result<uint64_t> number = communicator.add_registration(mine);
    ASSERT_TRUE(number.ok()) << number.status().message();
    numbers_.push_back(number.value());
  }
  /// Of several the first.
  void remove(comm::Communicator& communicator) {
    last_ = numbers_.front();
    numbers_.erase(numbers_.begin());
    remove_again(communicator, true);
  }
  void remove_again(comm::Communicator& communicator, bool expected) const {
    EXPECT_EQ(communicator.remove_registration(last_).ok(), expected);
  }
  void fill(int32_t value) { std::fill_n(data(), kCount, value); }
  bool holds(int32_t value) const {
    return std::all_of(data(), data() + kCount, [&](int32_t element) { return element == value; });
  }
  Status reduce(comm::Communicator& communicator) {
    comm::Request request;
    request.type = types::DataType::kInt32;
    request.count = kCount;
    request.send = request.recv = data();
    return communicator.collectives().run(request);
  }

 private:
  transport::Arena arena_;
  std::vector<uint64_t> numbers_;
  uint64_t last_ = 0;
};

using Body = std::function<void(int rank, comm::Communicator& communicator,
                                std::array<Registered, kRegistrations>& memory)>;

/// Three registrations on ranks that take each other for processes of one host.
void with_registrations(const Body& body) {
  GroupOptions options;
  options.ranks = kRanks;
  options.one_process = false;
  std::array<std::array<Registered, kRegistrations>, kRanks> memory;
  const std::string problem = with_group(options, [&](int rank, comm::Communicator& communicator) {
    comm::CallOptions call;
    call.timeout_ns = 60 * kNanosecondsPerSecond;
    communicator.set_options(call);
    auto& mine = memory[static_cast<size_t>(rank)];
    for (Registered& each : mine) each.add(communicator);
    body(rank, communicator, mine);
  });
  EXPECT_EQ(problem, "");
}

TEST(Registrations, AreRemovedInAnyOrder) {
  with_registrations([](int rank, comm::Communicator& communicator, auto& memory) {
    for (size_t i = 0; i < kRegistrations; ++i) memory[i].fill(static_cast<int32_t>(i) * 10 + rank);
    if (rank == 0) memory[0].remove(communicator);
    const Status status = memory[1].reduce(communicator);
    EXPECT_TRUE(status.ok()) << status.message();
    if (rank != 0) memory[0].remove(communicator);
    EXPECT_TRUE(memory[0].holds(rank));
    EXPECT_TRUE(memory[1].holds(10 + 11 + 12));
    EXPECT_TRUE(memory[2].holds(20 + rank));
  });
}

TEST(Registrations, MemoryRegisteredTwiceIsRemovedTwice) {
  with_registrations([](int rank, comm::Communicator& communicator, auto& memory) {
    memory[1].add(communicator);
    memory[1].remove(communicator);
    memory[1].fill(rank);
    EXPECT_TRUE(memory[1].reduce(communicator).ok());
    EXPECT_TRUE(memory[1].holds(0 + 1 + 2));
    memory[1].remove(communicator);
    memory[1].remove_again(communicator, false);
  });
}

// All ranks remove the second one; rank 0 has the same memory in the last.
TEST(Registrations, OfTwoThatBeginTogetherTheRightOneIsRemoved) {
  with_registrations([](int rank, comm::Communicator& communicator, auto& memory) {
    Registered& last = rank == 0 ? memory[1] : memory[0];
    last.add(communicator);
    memory[1].remove(communicator);
    last.fill(rank);
    const Status status = last.reduce(communicator);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(last.holds(0 + 1 + 2));
  });
}

TEST(Registrations, MemoryThatAPeerHasRemovedIsNotUsed) {
  with_registrations([](int rank, comm::Communicator& communicator, auto& memory) {
    memory[1].fill(rank);
    if (rank == 0) memory[1].remove(communicator);
    EXPECT_FALSE(memory[1].reduce(communicator).ok());
  });
}

}  // namespace
}  // namespace tutti::faults
