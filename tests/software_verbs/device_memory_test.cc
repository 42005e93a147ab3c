// Messages from and to memory of a device, which only cards may touch: its addresses have no access
// rights here, and the software cards see the bytes by a descriptor, as by a dmabuf.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/conformance/transport_crew.h"
#include "tests/software_verbs/software_verbs.h"

namespace tutti::software_verbs {
namespace {

using conformance::Crew;
using conformance::drive;
using conformance::pattern;
using transport::Buffer;
using transport::ChannelId;
using transport::ConstBuffer;

constexpr ChannelId kChannel{conformance::kCommunicator, 1, 0};
constexpr registry::TransportEntry kEntry{"verbs", &make};
constexpr size_t kOffset = 4096, kBytes = 1 << 20;

/// Memory of a device, of which the range begins behind a page of something else.
class Device {
 public:
  Device() : file_(memfd_create("device", MFD_CLOEXEC)) {
    EXPECT_EQ(ftruncate(file_, kOffset + kBytes), 0);
    address_ = map(PROT_NONE);
    bytes_ = map(PROT_READ | PROT_WRITE);
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device() {
    munmap(address_, kOffset + kBytes);
    munmap(bytes_, kOffset + kBytes);
    close(file_);
  }
  transport::DeviceRange range() const { return {address(), kBytes, file_, kOffset}; }
  std::byte* address() const { return address_ + kOffset; }
  /// As the device sees them.
  std::byte* bytes() const { return bytes_ + kOffset; }

 private:
  std::byte* map(int rights) const {
    return static_cast<std::byte*>(mmap(nullptr, kOffset + kBytes, rights, MAP_SHARED, file_, 0));
  }

  int file_;
  std::byte* address_;
  std::byte* bytes_;
};

class DeviceMessages : public testing::Test {
 protected:
  void SetUp() override {
    crew_ = Crew::create(kEntry, 2);
    ASSERT_NE(crew_, nullptr);
    ASSERT_TRUE(crew_->connect_all().ok());
  }
  void TearDown() override {
    for (auto& known : known_) known.reset();
    crew_.reset();
    plant_device_memory(true);
    plant_late_device_writes(false);
    EXPECT_EQ(counts().objects, 0) << "something of a card was not given back";
  }
  void announce() {
    for (int rank = 0; rank < 2; ++rank) {
      auto known = crew_->rank(rank).transport->announce_device(devices_[rank].range());
      ASSERT_TRUE(known.ok()) << known.status().message();
      known_[rank] = std::move(known).value();
    }
  }
  /// From rank 0 to rank 1; false: it has not come.
  bool pass(size_t at, size_t bytes) {
    const ConstBuffer from{devices_[0].address() + at, bytes};
    const Buffer to{devices_[1].address() + at, bytes};
    transport::Stream& sender = *crew_->link(0, 1).stream();
    transport::Stream& receiver = *crew_->link(1, 0).stream();
    EXPECT_TRUE(sender.can_place(from));
    const auto sent = sender.send_placed(kChannel, 3, {&from, 1});
    const auto received = receiver.receive_placed(kChannel, 3, {&to, 1});
    return drive(crew_->link(1, 0), [&] {
      sender.progress();
      return receiver.received(received) && sender.sent(sent);
    });
  }
  bool flush(int rank) {
    EXPECT_TRUE(known_[rank]->begin_flush().ok());
    return drive(crew_->link(rank, 1 - rank), [&] {
      const auto done = known_[rank]->is_flushed();
      return !done.ok() || done.value();
    });
  }
  bool is_equal(size_t at, size_t bytes) {
    return std::memcmp(devices_[0].bytes() + at, devices_[1].bytes() + at, bytes) == 0;
  }

  Device devices_[2];
  std::unique_ptr<Crew> crew_;
  std::shared_ptr<transport::DeviceAnnouncement> known_[2];
};

// Short and long ones, though the sender comes first, as no other message would go.
TEST_F(DeviceMessages, AreWrittenByCardsAlone) {
  announce();
  const std::vector<std::byte> source = pattern(kBytes, 1);
  std::copy(source.begin(), source.end(), devices_[0].bytes());
  const uint64_t before = counts().written_bytes;
  size_t at = 0;
  for (const size_t bytes : {1, 8, 4096, 16384, 70'000, 500'000}) {
    ASSERT_TRUE(pass(at, bytes)) << crew_->link(0, 1).status().message();
    EXPECT_TRUE(is_equal(at, bytes)) << bytes;
    at += bytes;
  }
  EXPECT_EQ(counts().written_bytes - before, at);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(crew_->rank(rank).transport->moved()->by_processor, 0u);
  }
}

// Bytes that a card has told of may not have reached the device: a read of the card's gets them
// there, and nothing else does.
TEST_F(DeviceMessages, AreThereOnceTheCardHasReadBehindThem) {
  plant_late_device_writes(true);
  announce();
  const std::vector<std::byte> source = pattern(kBytes, 2);
  std::copy(source.begin(), source.end(), devices_[0].bytes());
  for (const size_t at : {0, 100'000}) {
    const uint64_t reads = counts().reads;
    ASSERT_TRUE(pass(at, 100'000));
    EXPECT_FALSE(is_equal(at, 100'000)) << "the test could not fail";
    ASSERT_TRUE(flush(1));
    EXPECT_TRUE(is_equal(at, 100'000));
    EXPECT_EQ(counts().reads - reads, 1u);
  }
}

TEST_F(DeviceMessages, AFlushBehindOneUnderWayReadsAgain) {
  announce();
  const uint64_t reads = counts().reads;
  EXPECT_TRUE(known_[1]->begin_flush().ok());
  EXPECT_TRUE(flush(1));
  EXPECT_EQ(counts().reads - reads, 2u);
  EXPECT_TRUE(flush(1));
  EXPECT_EQ(counts().reads - reads, 3u);
}

TEST_F(DeviceMessages, CardsThatCannotSayWhy) {
  plant_device_memory(false);
  const auto refused = crew_->rank(0).transport->announce_device(devices_[0].range());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), Code::kUnsupported);
  const std::string text(refused.status().message());
  EXPECT_NE(text.find("RDMA card soft0 cannot register 1048576 bytes of a device"),
            std::string::npos)
      << text;
  const ConstBuffer memory{devices_[0].address(), 100};
  EXPECT_FALSE(crew_->link(0, 1).stream()->can_place(memory));
}

TEST_F(DeviceMessages, AreKnownAsLongAsTheAnnouncementLives) {
  announce();
  const ConstBuffer memory{devices_[0].address(), kBytes};
  EXPECT_TRUE(crew_->link(0, 1).stream()->can_place(memory));
  known_[0].reset();
  EXPECT_FALSE(crew_->link(0, 1).stream()->can_place(memory));
}

}  // namespace
}  // namespace tutti::software_verbs
