#include "src/drivers/cuda/device.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>

#include "src/drivers/cuda/software_device_test.h"

namespace tutti::drivers::cuda {
namespace {

class CudaDevices : public OnSoftwareDevice {};

TEST_F(CudaDevices, SayWhatTheyCanDo) {
  const auto facts = DeviceFacts::read(driver(), 0);
  ASSERT_TRUE(facts.ok());
  EXPECT_EQ(facts.value().name, "software device");
  EXPECT_EQ(facts.value().capability, 90);
  EXPECT_EQ(facts.value().copy_engines, 3);
  EXPECT_TRUE(facts.value().memory_ops_64);
  EXPECT_TRUE(facts.value().posix_descriptors);
  EXPECT_FALSE(facts.value().flushes_remote_writes);
}

TEST_F(CudaDevices, ThatAreNotThereAreAnError) {
  const auto facts = DeviceFacts::read(driver(), 3);
  ASSERT_FALSE(facts.ok());
  EXPECT_NE(facts.status().message().find("CUDA_ERROR_INVALID_DEVICE"), std::string::npos);
}

TEST_F(CudaDevices, KnowTheAddressesOfTheirMemory) {
  const auto memory = DeviceMemory::allocate(driver(), 0, 64);
  ASSERT_TRUE(memory.ok());
  const auto inside = reinterpret_cast<const void*>(memory.value().address() + 100);
  const auto facts = inspect_address(driver(), inside);
  ASSERT_TRUE(facts.ok());
  EXPECT_EQ(facts.value().kind, AddressKind::kDevice);
  EXPECT_EQ(facts.value().device, 0);
  EXPECT_EQ(facts.value().context, nullptr);
  EXPECT_EQ(facts.value().base, memory.value().address());
  EXPECT_EQ(facts.value().bytes, memory.value().bytes());
  EXPECT_NE(facts.value().buffer_id, 0u);
}

TEST_F(CudaDevices, TellOrdinaryFromPinnedAndContextMemory) {
  const int word = 0;
  EXPECT_EQ(inspect_address(driver(), &word).value().kind, AddressKind::kHost);
  EXPECT_EQ(inspect_address(driver(), nullptr).value().kind, AddressKind::kHost);
  const auto pinned = PinnedMemory::allocate(driver(), 64);
  ASSERT_TRUE(pinned.ok());
  EXPECT_EQ(inspect_address(driver(), pinned.value().data()).value().kind, AddressKind::kPinned);
  CUdeviceptr address = 0;
  ASSERT_EQ(client().more.cuMemAlloc(&address, 64), kSuccess);
  const auto facts = inspect_address(driver(), reinterpret_cast<void*>(address));
  EXPECT_EQ(facts.value().context, context());
  EXPECT_EQ(facts.value().bytes, 64u);
  EXPECT_EQ(client().more.cuMemFree(address), kSuccess);
  EXPECT_EQ(inspect_address(driver(), reinterpret_cast<void*>(address)).value().kind,
            AddressKind::kHost);
}

TEST_F(CudaDevices, AreFoundToBeLoadedOnceTheyAre) { EXPECT_TRUE(is_loaded_in_process()); }

TEST_F(CudaDevices, HaveAContextThatIsCurrentInAScope) {
  std::thread([&] {
    CUdevice device = -1;
    EXPECT_EQ(driver().call.cuCtxGetDevice(&device), kErrorInvalidContext);
    {
      const ContextScope scope(driver(), context());
      ASSERT_TRUE(scope.status().ok());
      EXPECT_EQ(driver().call.cuCtxGetDevice(&device), kSuccess);
      EXPECT_EQ(device, 0);
    }
    EXPECT_EQ(driver().call.cuCtxGetDevice(&device), kErrorInvalidContext);
    const ContextScope wrong(driver(), reinterpret_cast<CUcontext>(&device));
    EXPECT_FALSE(wrong.status().ok());
  }).join();
}

}  // namespace
}  // namespace tutti::drivers::cuda
