// Links with mapped memory: both ends see one arena, and single copies read the peer's own memory.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <thread>

#include "src/transport/endpoint.h"
#include "src/transport/import.h"
#include "src/transport/memory_handle.h"
#include "tests/conformance/transport_crew.h"

namespace tutti::conformance {
namespace {

using transport::Mapped;

class TransportMapped : public TransportTest {
 protected:
  std::unique_ptr<Crew> mapped(int ranks) {
    auto crew = connected(ranks);
    if (crew == nullptr || crew->link(0, 1).capabilities().mapped) return crew;
    [&] { GTEST_SKIP() << GetParam().name << " maps no memory"; }();
    return nullptr;
  }
};

TEST_P(TransportMapped, WhatOneWritesTheOtherSees) {
  auto crew = mapped(3);
  if (crew == nullptr) return;
  for (int r = 0; r < 3; ++r) {
    const auto data = pattern(kArenaBytes, static_cast<unsigned>(r));
    std::memcpy(crew->rank(r).arena.data(), data.data(), data.size());
  }
  for (int r = 0; r < 3; ++r) {
    for (int peer = 0; peer < 3; ++peer) {
      if (peer == r) continue;
      const auto expected = pattern(kArenaBytes, static_cast<unsigned>(peer));
      const std::byte* seen = crew->link(r, peer).mapped()->arena().data;
      EXPECT_EQ(std::memcmp(seen, expected.data(), expected.size()), 0) << r << " of " << peer;
    }
  }
  // And back: a peer writes into this rank's arena.
  crew->link(1, 0).mapped()->arena().data[kArenaBytes - 1] = std::byte{0x5a};
  EXPECT_EQ(crew->rank(0).arena.data()[kArenaBytes - 1], std::byte{0x5a});
}

TEST_P(TransportMapped, FlagsAndPayloadKeepTheirOrder) {
  auto crew = mapped(2);
  if (crew == nullptr) return;
  constexpr uint64_t kMostRounds = 20000, kLeastRounds = 500;
  // Where others need the processors, each round waits for them twice.
  constexpr uint64_t kEnoughNs = 10 * kNanosecondsPerSecond;
  const uint64_t end_ns = monotonic_ns() + kEnoughNs;
  std::atomic<uint64_t> rounds{kMostRounds};  // relaxed: the flags alone keep the order
  in_parallel(2, [&](int r) {
    // Payload at 0, its flag at 64, the acknowledgement at 128: all in rank 0's arena.
    std::byte* arena =
        r == 0 ? crew->rank(0).arena.data() : crew->link(1, 0).mapped()->arena().data;
    auto* payload = reinterpret_cast<uint64_t*>(arena);
    std::atomic_ref<uint64_t> flag(*reinterpret_cast<uint64_t*>(arena + 64));
    std::atomic_ref<uint64_t> answer(*reinterpret_cast<uint64_t*>(arena + 128));
    for (uint64_t round = 1; round <= rounds.load(std::memory_order_relaxed); ++round) {
      if (r == 0 && round >= kLeastRounds && monotonic_ns() > end_ns) {
        rounds.store(round, std::memory_order_relaxed);
      }
      std::atomic_ref<uint64_t>& awaited = r == 0 ? answer : flag;
      if (r == 0) {
        *payload = round * 3;
        flag.store(round, std::memory_order_release);
      }
      while (awaited.load(std::memory_order_acquire) < round) std::this_thread::yield();
      if (r == 1) {
        ASSERT_EQ(*payload, round * 3);
        answer.store(round, std::memory_order_release);
      }
    }
  });
}

TEST_P(TransportMapped, ImportsWhatThePeerRegistered) {
  auto crew = mapped(2);
  if (crew == nullptr) return;
  auto registered = transport::Arena::create("tutti-test-import", 1 << 20);
  ASSERT_TRUE(registered.ok()) << registered.status().message();
  const auto data = pattern(1 << 20, 4);
  std::memcpy(registered.value().data(), data.data(), data.size());
  const auto handle = transport::describe_memory(registered.value());
  ASSERT_TRUE(handle.ok()) << handle.status().message();
  const auto seen = crew->link(0, 1).mapped()->import(handle.value());
  ASSERT_TRUE(seen.ok()) << seen.status().message();
  EXPECT_EQ(std::memcmp(seen.value().data, data.data(), data.size()), 0);
  registered.value().data()[77] = std::byte{0x99};
  EXPECT_EQ(seen.value().data[77], std::byte{0x99});
}

TEST_P(TransportMapped, DescriptorsComeInTheOrderInWhichTheyWereGiven) {
  auto crew = mapped(2);
  if (crew == nullptr) return;
  std::vector<transport::Arena> files;
  for (int i = 0; i < 3; ++i) {
    files.push_back(transport::Arena::create("tutti-given", 4096).value());
  }
  for (const transport::Arena& file : files) {
    const Status given = crew->link(1, 0).mapped()->give_descriptor(file.fd());
    ASSERT_TRUE(given.ok()) << given.message();
  }
  EXPECT_TRUE(crew->link(0, 1).status().ok()) << "what waits is no end of the peer";
  for (const transport::Arena& file : files) {
    const auto named = transport::parse_memory(transport::describe_memory(file).value());
    const Result<Fd> taken = crew->link(0, 1).mapped()->take_descriptor(file.fd());
    ASSERT_TRUE(taken.ok()) << taken.status().message();
    EXPECT_NE(taken.value().get(), file.fd());
    EXPECT_TRUE(transport::names_file(named.value(), taken.value().get()));
  }
  const Result<Fd> none = crew->link(0, 1).mapped()->take_descriptor(-1);
  EXPECT_FALSE(none.ok()) << "there is none";
  EXPECT_TRUE(crew->link(0, 1).status().ok());
}

size_t descriptors_of(const transport::MemoryHandle& memory) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    count += transport::names_file(memory, std::stoi(entry.path().filename())) ? 1 : 0;
  }
  return count;
}

TEST_P(TransportMapped, WhatIsReleasedAsOftenAsImportedIsUnmapped) {
  auto crew = mapped(2);
  if (crew == nullptr) return;
  auto registered = transport::Arena::create("tutti-test-release", 4096);
  ASSERT_TRUE(registered.ok()) << registered.status().message();
  const std::string handle = transport::describe_memory(registered.value()).value();
  const transport::MemoryHandle file = transport::parse_memory(handle).value();
  Mapped& link = *crew->link(0, 1).mapped();
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(descriptors_of(file), 1u);
    auto first = transport::Import::of(link, handle);
    ASSERT_TRUE(first.ok()) << first.status().message();
    {
      const auto second = transport::Import::of(link, handle);
      ASSERT_TRUE(second.ok()) << second.status().message();
      EXPECT_EQ(second.value().data(), first.value().data()) << "mapped twice";
    }
    EXPECT_EQ(descriptors_of(file), 2u);
    registered.value().data()[5] = static_cast<std::byte>(round);
    EXPECT_EQ(first.value().data()[5], static_cast<std::byte>(round));
  }
  EXPECT_EQ(descriptors_of(file), 1u);
}

// A second communicator of a process costs no mapping and no descriptor of its own.
TEST_P(TransportMapped, LinksOfAProcessMapRegisteredMemoryOnce) {
  if (mapped(2) == nullptr) return;
  auto registered = transport::Arena::create("tutti-test-once", 4096);
  ASSERT_TRUE(registered.ok()) << registered.status().message();
  const std::string handle = transport::describe_memory(registered.value()).value();
  const transport::MemoryHandle file = transport::parse_memory(handle).value();
  transport::Endpoint endpoint({});  // links with mapped memory have no part that is served
  for (const bool has_endpoint : {true, false}) {
    std::vector<std::unique_ptr<Crew>> crews;
    std::vector<transport::Import> imports;
    for (uint64_t communicator = 1; communicator <= 3; ++communicator) {
      crews.push_back(Crew::create(GetParam(), 2, [&](transport::Member& member) {
        member.communicator = communicator;
        if (has_endpoint && member.rank == 0) member.endpoint = &endpoint;
      }));
      ASSERT_NE(crews.back(), nullptr);
      const Status status = crews.back()->connect_all();
      ASSERT_TRUE(status.ok()) << status.message();
      auto seen = transport::Import::of(*crews.back()->link(0, 1).mapped(), handle);
      ASSERT_TRUE(seen.ok()) << seen.status().message();
      imports.push_back(std::move(seen).value());
    }
    EXPECT_EQ(descriptors_of(file), has_endpoint ? 2u : 4u) << "its owner's, and of mappings";
    imports.erase(imports.begin());  // before the communicator, as a registration ends
    crews.erase(crews.begin());
    registered.value().data()[9] = std::byte{0x77};
    for (const transport::Import& import : imports) EXPECT_EQ(import.data()[9], std::byte{0x77});
    ASSERT_TRUE(crews.back()->link(0, 1).mapped()->import(handle).ok()) << "and never released";
    imports.clear();
    EXPECT_EQ(descriptors_of(file), 2u) << "by that link";
    crews.clear();
    EXPECT_EQ(descriptors_of(file), 1u);
  }
}

TEST_P(TransportMapped, ImportRefusesNonsense) {
  auto crew = mapped(2);
  if (crew == nullptr) return;
  Mapped* mapped = crew->link(0, 1).mapped();
  EXPECT_FALSE(mapped->import("").ok());
  EXPECT_FALSE(mapped->import("no handle at all").ok());
}

TEST_P(TransportMapped, ReadsAndWritesThePeersOrdinaryMemory) {
  auto crew = connected(2);
  ASSERT_NE(crew, nullptr);
  if (!crew->link(0, 1).capabilities().single_copy) {
    GTEST_SKIP() << GetParam().name << " has no single copy";
  }
  Mapped& mapped = *crew->link(0, 1).mapped();
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{4097}, size_t{1} << 20}) {
    const auto data = pattern(bytes, 9);
    std::vector<std::byte> back(bytes), theirs(bytes);
    const auto address = reinterpret_cast<uint64_t>(theirs.data());
    const Status written = mapped.write(address, {data.data(), bytes});
    ASSERT_TRUE(written.ok()) << written.message();
    EXPECT_EQ(theirs, data);
    const Status status = mapped.read({back.data(), bytes}, address);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(back, data);
  }
}

TUTTI_FOR_EVERY_TRANSPORT(TransportMapped);

}  // namespace
}  // namespace tutti::conformance
