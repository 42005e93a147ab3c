#include "src/drivers/cuda/multicast.h"

#include <gtest/gtest.h>

#include <utility>

#include "src/drivers/cuda/software_device_test.h"

namespace tutti::drivers::cuda {
namespace {

// Teams of one device, which obey the rules of larger ones.
class CudaMulticast : public OnSoftwareDevice {
 protected:
  static size_t unit() {
    const Result<size_t> found = multicast_unit(driver(), 1);
    EXPECT_TRUE(found.ok()) << found.status().message();
    return found.ok() ? found.value() : 1;
  }
  static DeviceMemory memory(size_t bytes) {
    auto made = DeviceMemory::allocate(driver(), 0, bytes);
    EXPECT_TRUE(made.ok()) << made.status().message();
    return std::move(made).value();
  }
  static uint64_t kept() {
    const auto now = client().statistics();
    return now.live_handles + now.live_reservations + now.live_mappings + now.live_device_bytes;
  }
};

TEST_F(CudaMulticast, IsThereIfDriverAndDeviceSaySo) {
  auto facts = DeviceFacts::read(driver(), 0);
  ASSERT_TRUE(facts.ok());
  EXPECT_TRUE(check_multicast(driver(), facts.value()).ok());
  facts.value().multicast = false;
  EXPECT_EQ(check_multicast(driver(), facts.value()).code(), Code::kUnsupported);
  facts.value().multicast = true;
  Cuda older = driver();
  older.call.cuMulticastBindMem = nullptr;
  const Status status = check_multicast(older, facts.value());
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_NE(status.message().find("driver"), std::string::npos) << status.message();
}

TEST_F(CudaMulticast, IsMadeAddedJoinedAndGivenBack) {
  const uint64_t before = kept();
  {
    const DeviceMemory own = memory(unit());
    MulticastMemory team(driver(), 1, unit());
    ASSERT_TRUE(team.make().ok());
    auto descriptor = team.export_descriptor();
    ASSERT_TRUE(descriptor.ok());
    ASSERT_TRUE(team.add(0).ok());
    const Status joined = team.join(own, 0);
    ASSERT_TRUE(joined.ok()) << joined.message();
    const CUdeviceptr address = team.address();
    EXPECT_NE(address, own.address());
    team.release();
    ASSERT_TRUE(team.make().ok());
    ASSERT_TRUE(team.add(0).ok());
    ASSERT_TRUE(team.join(own, 0).ok());
    EXPECT_EQ(team.address(), address);
    MulticastMemory other(driver(), 1, unit());
    EXPECT_TRUE(other.import(descriptor.value().get()).ok());
  }
  EXPECT_EQ(kept(), before);
}

TEST_F(CudaMulticast, NothingIsBoundBeforeAllDevicesAreAdded) {
  const DeviceMemory own = memory(unit());
  MulticastMemory team(driver(), 1, unit());
  ASSERT_TRUE(team.make().ok());
  EXPECT_FALSE(team.join(own, 0).ok());
  ASSERT_TRUE(team.add(0).ok());
  EXPECT_FALSE(team.add(0).ok()) << "a device is added once";
  EXPECT_TRUE(team.join(own, 0).ok());
}

TEST_F(CudaMulticast, PartsOfUnitsAreRefused) {
  MulticastMemory team(driver(), 1, unit() / 2);
  EXPECT_FALSE(team.make().ok());
  const DeviceMemory own = memory(unit() / 2);
  MulticastMemory longer(driver(), 1, unit());
  ASSERT_TRUE(longer.make().ok());
  ASSERT_TRUE(longer.add(0).ok());
  EXPECT_FALSE(longer.join(own, 0).ok()) << "the memory is shorter than the object";
}

TEST_F(CudaMulticast, CopiesMayNotTouchIt) {
  const DeviceMemory own = memory(unit());
  MulticastMemory team(driver(), 1, unit());
  ASSERT_TRUE(team.make().ok());
  ASSERT_TRUE(team.add(0).ok());
  ASSERT_TRUE(team.join(own, 0).ok());
  EXPECT_EQ(client().hooks.pointer(team.address(), 64), nullptr);
}

}  // namespace
}  // namespace tutti::drivers::cuda
