// Which device a thread without a current one is taken to mean.
#include <gtest/gtest.h>

#include <thread>

#include "src/drivers/cuda/software_device_test.h"
#include "src/engines/cuda/device.h"

namespace tutti::engines::cuda {
namespace {

using UsedDevice = drivers::cuda::OnSoftwareDevice;

TEST_F(UsedDevice, IsTheOneThatTheProcessUses) {
  exec::StreamPlace current, used;
  std::thread([&] {
    current = device().current();
    used = device().current_or_used();
  }).join();
  EXPECT_EQ(current.context, nullptr);
  EXPECT_EQ(used.context, context());
}

TEST_F(UsedDevice, OfADefaultStreamIsTheOneOfItsHome) {
  const auto per_thread = reinterpret_cast<void*>(drivers::cuda::kStreamPerThread);
  const exec::StreamPlace home{context(), nullptr};
  std::thread([&] {
    for (void* const handle : {static_cast<void*>(nullptr), per_thread}) {
      const auto found = device().place_of_stream(handle, home);
      ASSERT_TRUE(found.ok()) << found.status().message();
      EXPECT_EQ(found.value().context, context());
      // Without a home it needs a current device, and there is none.
      EXPECT_EQ(device().place_of_stream(handle, {}).status().code(), Code::kInvalidUsage);
    }
  }).join();
}

}  // namespace
}  // namespace tutti::engines::cuda
