#include "src/drivers/cuda/memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <memory>
#include <string>
#include <utility>

#include "src/drivers/cuda/software_device_test.h"

namespace tutti::drivers::cuda {
namespace {

class CudaMemory : public OnSoftwareDevice {
 protected:
  /// All that the driver keeps for memory.
  struct Kept {
    uint64_t allocations, handles, reservations, mappings, registrations;
    bool operator==(const Kept&) const = default;
  };
  static Kept kept() {
    const auto now = client().statistics();
    return {now.live_allocations, now.live_handles, now.live_reservations, now.live_mappings,
            now.live_registrations};
  }
};

TEST_F(CudaMemory, IsRoundedUpAndGivenBack) {
  const Kept before = kept();
  {
    auto memory = DeviceMemory::allocate(driver(), 0, 3 << 20);
    ASSERT_TRUE(memory.ok()) << memory.status().message();
    EXPECT_EQ(memory.value().bytes(), size_t{4} << 20);
    EXPECT_NE(memory.value().address(), 0u);
    const DeviceMemory moved = std::move(memory).value();
    EXPECT_NE(kept(), before);
  }
  EXPECT_EQ(kept(), before);
}

TEST_F(CudaMemory, OfAnotherProcessIsTheSameBytes) {
  const Kept before = kept();
  {
    const auto memory = DeviceMemory::allocate(driver(), 0, 64);
    ASSERT_TRUE(memory.ok());
    auto descriptor = memory.value().export_descriptor();
    ASSERT_TRUE(descriptor.ok());
    const auto imported =
        DeviceMemory::import(driver(), descriptor.value().get(), memory.value().bytes(), 0);
    ASSERT_TRUE(imported.ok()) << imported.status().message();
    EXPECT_NE(imported.value().address(), memory.value().address());
    const uint32_t word = 4711;
    ASSERT_EQ(client().more.cuMemcpyHtoD(memory.value().address(), &word, sizeof word), kSuccess);
    EXPECT_EQ(word_at(imported.value().address()), word);
  }
  EXPECT_EQ(kept(), before);
}

// A card maps the descriptor, and sees what the device has there.
TEST_F(CudaMemory, HasADmabufOfTheSameBytes) {
  const auto memory = DeviceMemory::allocate(driver(), 0, 64);
  ASSERT_TRUE(memory.ok());
  const uint32_t word = 4712;
  ASSERT_EQ(client().more.cuMemcpyHtoD(memory.value().address(), &word, sizeof word), kSuccess);
  const auto dmabuf = export_dmabuf(driver(), memory.value().address(), memory.value().bytes());
  ASSERT_TRUE(dmabuf.ok()) << dmabuf.status().message();
  void* const view =
      mmap(nullptr, memory.value().bytes(), PROT_READ, MAP_SHARED, dmabuf.value().get(), 0);
  ASSERT_NE(view, MAP_FAILED);
  EXPECT_EQ(*static_cast<const uint32_t*>(view), word);
  munmap(view, memory.value().bytes());
}

TEST_F(CudaMemory, WithoutADmabufSaysWhy) {
  const auto pinned = PinnedMemory::allocate(driver(), 4096);
  ASSERT_TRUE(pinned.ok());
  const auto dmabuf = export_dmabuf(driver(), pinned.value().address() + 8, 4096);
  ASSERT_FALSE(dmabuf.ok());
  EXPECT_EQ(dmabuf.status().code(), Code::kUnsupported);
  EXPECT_NE(std::string(dmabuf.status().message()).find("gives no dmabuf"), std::string::npos);
}

TEST_F(CudaMemory, ThatCannotBeHadIsAnErrorWithItsSizeAndLeavesNothing) {
  const Kept before = kept();
  const auto too_much = DeviceMemory::allocate(driver(), 0, size_t{1} << 40);
  ASSERT_FALSE(too_much.ok());
  EXPECT_NE(too_much.status().message().find("1099511627776"), std::string::npos)
      << too_much.status().message();
  EXPECT_NE(too_much.status().message().find("CUDA_ERROR_OUT_OF_MEMORY"), std::string::npos);
  EXPECT_EQ(DeviceMemory::allocate(driver(), 0, 0).status().code(), Code::kInvalidArgument);
  EXPECT_FALSE(DeviceMemory::allocate(driver(), 7, 64).ok());
  EXPECT_FALSE(DeviceMemory::import(driver(), 0, 2 << 20, 0).ok());
  const auto memory = DeviceMemory::allocate(driver(), 0, 64);
  const auto descriptor = memory.value().export_descriptor();
  // More than the exporter has.
  EXPECT_FALSE(DeviceMemory::import(driver(), descriptor.value().get(), 4 << 20, 0).ok());
  const Kept one = kept();
  EXPECT_EQ(one.handles, before.handles + 1);
  EXPECT_EQ(one.reservations, before.reservations + 1);
}

TEST_F(CudaMemory, OfTheHostHasOneAddress) {
  const Kept before = kept();
  {
    const auto pinned = PinnedMemory::allocate(driver(), 4096);
    ASSERT_TRUE(pinned.ok());
    auto* word = static_cast<uint32_t*>(pinned.value().data());
    *word = 11;
    EXPECT_EQ(word_at(pinned.value().address()), 11u);
  }
  EXPECT_EQ(kept(), before);
}

TEST_F(CudaMemory, ThatIsSharedCanBeRegisteredOnceAtATime) {
  const Kept before = kept();
  constexpr size_t kBytes = 65536;
  void* data = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(data, MAP_FAILED);
  {
    const auto registered = RegisteredMemory::create(driver(), data, kBytes);
    ASSERT_TRUE(registered.ok()) << registered.status().message();
    *static_cast<uint32_t*>(data) = 12;
    EXPECT_EQ(word_at(registered.value().address()), 12u);
    const auto again = RegisteredMemory::create(driver(), data, kBytes);
    ASSERT_FALSE(again.ok());
    EXPECT_NE(again.status().message().find("ALREADY_REGISTERED"), std::string::npos);
  }
  EXPECT_EQ(kept(), before);
  EXPECT_TRUE(RegisteredMemory::create(driver(), data, kBytes).ok());
  munmap(data, kBytes);
}

}  // namespace
}  // namespace tutti::drivers::cuda
