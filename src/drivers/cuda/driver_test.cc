#include "src/drivers/cuda/driver.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

namespace tutti::drivers::cuda {
namespace {

bool driver_is_loaded() {
  void* handle = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (handle != nullptr) dlclose(handle);
  return handle != nullptr;
}

TEST(CudaDriver, ThatIsAbsentIsAnErrorWithTheLoadersWords) {
  const Result<Cuda> loaded = Cuda::load("libno_such_driver.so.1");
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.status().code(), Code::kUnsupported);
  const std::string message(loaded.status().message());
  EXPECT_NE(message.find("there is no CUDA driver"), std::string::npos) << message;
  EXPECT_NE(message.find("libno_such_driver.so.1"), std::string::npos) << message;
}

TEST(CudaDriver, ThatCannotBeAskedForVersionsIsTooOld) {
  const Result<Cuda> loaded = Cuda::load("libm.so.6");  // any library without its functions
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.status().code(), Code::kUnsupported);
  const std::string message(loaded.status().message());
  EXPECT_NE(message.find("too old"), std::string::npos) << message;
  EXPECT_NE(message.find("12.0"), std::string::npos) << message;
}

TEST(CudaDriver, IsNotLoadedByAskingWhetherItIs) {
  const bool before = driver_is_loaded();
  EXPECT_EQ(is_loaded_in_process(), before);
  EXPECT_EQ(is_loaded_in_process(), before);
  EXPECT_EQ(driver_is_loaded(), before);
}

}  // namespace
}  // namespace tutti::drivers::cuda
