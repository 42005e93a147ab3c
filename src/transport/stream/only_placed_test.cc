// Messages whose bytes no processor may touch: their memory has no access rights where the exchange
// sees it, and the imagined hardware sees it elsewhere.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "src/transport/stream/message_pipe.h"

namespace tutti::transport::stream {
namespace {

using transport::Buffer;
using transport::ChannelId;
using transport::ConstBuffer;
using Carriage = FrameExchange::Carriage;

constexpr ChannelId kChannel{1, 0, 0};
constexpr uint64_t kFrameLimit = 4096;

/// Memory of a device: `at` has the addresses, which fault, and `bytes` is what lies there.
struct Untouchable {
  explicit Untouchable(size_t size) : size(size) {
    const int file = memfd_create("untouchable", MFD_CLOEXEC);
    EXPECT_EQ(ftruncate(file, static_cast<off_t>(size)), 0);
    at = static_cast<std::byte*>(mmap(nullptr, size, PROT_NONE, MAP_SHARED, file, 0));
    bytes =
        static_cast<std::byte*>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    EXPECT_TRUE(at != MAP_FAILED && bytes != MAP_FAILED);
    close(file);
  }
  Untouchable(const Untouchable&) = delete;
  Untouchable& operator=(const Untouchable&) = delete;
  ~Untouchable() {
    munmap(at, size);
    munmap(bytes, size);
  }
  bool has(const void* address) const {
    const auto* const place = static_cast<const std::byte*>(address);
    return place >= at && place < at + size;
  }

  const size_t size;
  std::byte* at;
  std::byte* bytes;
};

/// Two ranks, each with such memory, which its hardware knows.
class DevicePair {
 public:
  explicit DevicePair(unsigned seed) : random_(seed) {}

  MessageExchange& end(int rank) { return *ends_[rank]; }
  Untouchable& memory(int rank) { return memory_[rank]; }
  bool is_done(int rank, uint64_t sent_or, bool sends) {
    return (sends ? end(rank).sent() : end(rank).received()).done_under_lock(sent_or);
  }
  int frames_with_payload() const { return frames_with_payload_; }
  std::string verdict(int rank) { return std::string(end(rank).fault_status().message()); }

  void run() {
    while (step()) {
    }
  }
  bool step() {
    const int first = static_cast<int>(random_() % 2);
    for (const int rank : {first, 1 - first}) {
      if (random_() % 2 == 0 && finish_write(rank)) return true;
      if (carry(rank) || write(rank) || finish_write(rank)) return true;
    }
    return false;
  }

 private:
  /// The hardware knows all of the device's memory, and nothing else.
  class DevicePlaces final : public PlacedMemory {
   public:
    explicit DevicePlaces(const Untouchable& memory) : memory_(memory) {}
    std::optional<KeyedPlace> place_of(const void* address, uint64_t) override {
      if (!memory_.has(address)) return std::nullopt;
      KeyedPlace place;
      place.address = reinterpret_cast<uint64_t>(address);
      place.key.bytes = 4;
      return place;
    }

   private:
    const Untouchable& memory_;
  };

  bool carry(int rank) {
    const auto frame = end(rank).next(kFrameLimit);
    if (!frame) return false;
    std::vector<std::byte> payload;
    for (const iovec& piece : frame->payload) {
      const auto* const data = static_cast<const std::byte*>(piece.iov_base);
      payload.insert(payload.end(), data, data + piece.iov_len);
    }
    if (frame->is_data && !payload.empty()) ++frames_with_payload_;
    end(1 - rank).take(frame->header, payload);
    end(rank).carried(frame->name);
    return true;
  }
  bool write(int rank) {
    const auto write = end(rank).next_write({kMaxFrameBytes, kMaxFrameBytes});
    if (write) under_way_[rank].push_back(*write);
    return write.has_value();
  }
  std::byte* device_view(const void* address) {
    Untouchable& owner = memory_[0].has(address) ? memory_[0] : memory_[1];
    return owner.bytes + (static_cast<const std::byte*>(address) - owner.at);
  }
  bool finish_write(int rank) {
    if (under_way_[rank].empty()) return false;
    const size_t at = random_() % under_way_[rank].size();
    const CarriedWrite done = under_way_[rank][at];
    under_way_[rank].erase(under_way_[rank].begin() + static_cast<ptrdiff_t>(at));
    std::byte* target = device_view(reinterpret_cast<void*>(done.write.place.address));
    for (const iovec& piece : done.source) {
      std::memcpy(target, device_view(piece.iov_base), piece.iov_len);
      target += piece.iov_len;
    }
    end(rank).written(done.write.name);
    return true;
  }

  std::mt19937 random_;
  Untouchable memory_[2] = {Untouchable(2 << 20), Untouchable(2 << 20)};
  DevicePlaces places_[2] = {DevicePlaces(memory_[0]), DevicePlaces(memory_[1])};
  std::unique_ptr<MessageExchange> ends_[2] = {
      std::make_unique<MessageExchange>(0, 1, &places_[0]),
      std::make_unique<MessageExchange>(1, 0, &places_[1])};
  std::deque<CarriedWrite> under_way_[2];
  int frames_with_payload_ = 0;
};

uint64_t send(DevicePair& pair, size_t at, size_t bytes, Carriage carriage = Carriage::kPlaced) {
  const ConstBuffer piece{pair.memory(0).at + at, bytes};
  return pair.end(0).send(kChannel, 7, {&piece, 1}, carriage);
}

uint64_t receive(DevicePair& pair, size_t at, size_t bytes, Carriage carriage = Carriage::kPlaced) {
  const Buffer pieces[] = {{pair.memory(1).at + at, bytes / 3},
                           {pair.memory(1).at + at + bytes / 3, bytes - bytes / 3}};
  return pair.end(1).receive(kChannel, 7, pieces, carriage);
}

// Of any length, from none on, and whichever end comes first.
TEST(OnlyPlaced, ArriveThoughNoProcessorMayTouchThem) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    DevicePair pair(seed);
    for (size_t i = 0; i < pair.memory(0).size; ++i) {
      pair.memory(0).bytes[i] = static_cast<std::byte>(i * 31 + i / 251);
    }
    std::vector<std::pair<size_t, size_t>> parts;
    for (size_t at = 0, bytes = 0; at + bytes < pair.memory(0).size; at += bytes) {
      bytes = random() % (random() % 3 == 0 ? 400'000 : 300);
      parts.emplace_back(at, bytes);
    }
    parts.resize(std::min<size_t>(parts.size(), 60));
    if (parts.back().first + parts.back().second > pair.memory(0).size) parts.pop_back();
    std::vector<uint64_t> sent, received;
    while (sent.size() < parts.size() || received.size() < parts.size()) {
      const bool sends =
          received.size() == parts.size() || (sent.size() < parts.size() && random() % 2 == 0);
      const auto [at, bytes] = parts[(sends ? sent : received).size()];
      (sends ? sent : received).push_back(sends ? send(pair, at, bytes) : receive(pair, at, bytes));
      for (unsigned steps = random() % 20; steps > 0; --steps) pair.step();
    }
    pair.run();
    for (int rank = 0; rank < 2; ++rank)
      ASSERT_FALSE(pair.end(rank).faulty()) << pair.verdict(rank);
    for (size_t i = 0; i < parts.size(); ++i) {
      ASSERT_TRUE(pair.is_done(0, sent[i], true) && pair.is_done(1, received[i], false));
    }
    const size_t all = parts.back().first + parts.back().second;
    EXPECT_EQ(std::memcmp(pair.memory(0).bytes, pair.memory(1).bytes, all), 0);
    EXPECT_EQ(pair.frames_with_payload(), 0);
  }
}

// The test above would notice: what is sent otherwise is read by the processor.
TEST(OnlyPlaced, OtherMessagesFromThatMemoryAreTouched) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        DevicePair pair(1);
        send(pair, 0, 100, Carriage::kAny);
        pair.run();
      },
      "");
}

// A peer that does not say so sends frames, before the receive is posted and after.
TEST(OnlyPlaced, ReceivesRefuseFrames) {
  for (const bool early : {false, true}) {
    DevicePair pair(3);
    std::vector<std::byte> source(500, std::byte{1});
    const ConstBuffer piece{source.data(), source.size()};
    if (!early) receive(pair, 0, source.size());
    // The channel's TARGET has not come yet when the frame leaves.
    pair.end(0).send(kChannel, 7, {&piece, 1});
    const auto frame = pair.end(0).next(kFrameLimit);
    ASSERT_TRUE(frame && frame->is_data);
    std::vector<std::byte> payload(source);
    pair.end(1).take(frame->header, payload);
    if (early) receive(pair, 0, source.size());
    EXPECT_TRUE(pair.end(1).faulty());
    EXPECT_NE(pair.verdict(1).find("rank 0 sent rank 1 bytes in a frame for memory that no "
                                   "processor may touch"),
              std::string::npos)
        << pair.verdict(1);
  }
}

TEST(OnlyPlaced, MemoryThatTheHardwareDoesNotKnowIsRefused) {
  std::vector<std::byte> elsewhere(100);
  const ConstBuffer source{elsewhere.data(), elsewhere.size()};
  const Buffer target{elsewhere.data(), elsewhere.size()};
  for (const bool sends : {true, false}) {
    DevicePair pair(1);
    if (sends) {
      pair.end(0).send(kChannel, 7, {&source, 1}, Carriage::kPlaced);
    } else {
      pair.end(0).receive(kChannel, 7, {&target, 1}, Carriage::kPlaced);
    }
    EXPECT_NE(pair.verdict(0).find("hardware does not know"), std::string::npos);
  }
  ByteExchange no_hardware(0, 1);
  no_hardware.send(kChannel, 7, {&source, 1}, Carriage::kPlaced);
  EXPECT_TRUE(no_hardware.faulty());
}

// Ordinary messages before and behind, on the same channel, from other memory.
TEST(OnlyPlaced, KeepTheirOrderAmongOthers) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    DevicePair pair(seed);
    std::vector<std::byte> source(30'000, std::byte{5}), target(source.size());
    const ConstBuffer out{source.data(), source.size()};
    const Buffer in{target.data(), target.size()};
    std::fill_n(pair.memory(0).bytes, 70'000, std::byte{9});
    uint64_t received[3];
    for (int i = 0; i < 3; ++i) {
      if (i == 1) {
        send(pair, 0, 70'000);
        received[i] = receive(pair, 0, 70'000);
      } else {
        pair.end(0).send(kChannel, 7, {&out, 1});
        received[i] = pair.end(1).receive(kChannel, 7, {&in, 1});
      }
    }
    pair.run();
    ASSERT_FALSE(pair.end(1).faulty()) << pair.verdict(1);
    for (const uint64_t ticket : received) EXPECT_TRUE(pair.is_done(1, ticket, false));
    EXPECT_EQ(source, target);
    EXPECT_EQ(std::count(pair.memory(1).bytes, pair.memory(1).bytes + 70'000, std::byte{9}),
              70'000);
  }
}

}  // namespace
}  // namespace tutti::transport::stream
