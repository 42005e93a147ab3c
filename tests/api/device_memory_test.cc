// Memory of a stream's device: whose it is, and that it goes back.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>

#include "src/drivers/cuda/software_device_test.h"
#include "tests/api/crowd.h"

namespace tutti::drivers::cuda {
namespace {

using api_test::message_of;

class DeviceMemoryOfTheApi : public OnSoftwareDevice {
 protected:
  static AddressKind kind_of(const void* memory) {
    const auto facts = inspect_address(driver(), memory);
    EXPECT_TRUE(facts.ok());
    return facts.ok() ? facts.value().kind : AddressKind::kHost;
  }
};

TEST_F(DeviceMemoryOfTheApi, IsTheStreamsDevicesAndGoesBack) {
  const CudaStream own = stream();
  for (CUstream of : {own.get(), CUstream{nullptr}}) {
    const auto before = client().statistics();
    void* memory = nullptr;
    ASSERT_EQ(tuttiMemAllocFor(&memory, 3 << 20, tuttiStreamCuda(of)), tuttiSuccess)
        << message_of(nullptr);
    auto* const last = static_cast<char*>(memory) + (3 << 20) - 1;
    EXPECT_EQ(kind_of(memory), AddressKind::kDevice);
    EXPECT_EQ(kind_of(last), AddressKind::kDevice);
    EXPECT_EQ(client().more.cuMemsetD8(reinterpret_cast<CUdeviceptr>(memory), 7, 3 << 20),
              kSuccess);
    EXPECT_EQ(client().statistics().live_handles, before.live_handles + 1);
    EXPECT_EQ(tuttiMemFree(memory), tuttiSuccess) << message_of(nullptr);
    EXPECT_EQ(client().statistics().live_handles, before.live_handles);
    EXPECT_EQ(client().statistics().live_reservations, before.live_reservations);
    EXPECT_EQ(tuttiMemFree(memory), tuttiInvalidArgument);
  }
}

TEST_F(DeviceMemoryOfTheApi, IsTheHostsForOtherStreams) {
  void* memory = nullptr;
  ASSERT_EQ(tuttiMemAllocFor(&memory, 100, tuttiBlocking()), tuttiSuccess);
  std::memset(memory, 1, 100);
  EXPECT_EQ(tuttiMemFree(memory), tuttiSuccess);
}

TEST_F(DeviceMemoryOfTheApi, IsRefusedWithoutBytesPlaceOrDevice) {
  void* memory = this;
  EXPECT_EQ(tuttiMemAllocFor(nullptr, 1, tuttiStreamCuda(nullptr)), tuttiInvalidArgument);
  EXPECT_EQ(tuttiMemAllocFor(&memory, 0, tuttiStreamCuda(nullptr)), tuttiInvalidArgument);
  std::thread([&memory] {
    EXPECT_EQ(tuttiMemAllocFor(&memory, 1, tuttiStreamCuda(nullptr)), tuttiInvalidUsage);
    EXPECT_NE(message_of(nullptr).find("current device"), std::string::npos) << message_of(nullptr);
  }).join();
  EXPECT_EQ(memory, this) << "a refusal writes nothing";
  const size_t more_than_there_is = size_t{1} << 50;
  EXPECT_EQ(tuttiMemAllocFor(&memory, more_than_there_is, tuttiStreamCuda(nullptr)),
            tuttiSystemError);
}

}  // namespace
}  // namespace tutti::drivers::cuda
