// The software device for tests of one process: a driver that runs on any machine.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/software_device/client.h"
#include "tests/software_device/library.h"

namespace tutti::drivers::cuda {

/// A process-wide client of the software device whose context is current in each test.
class OnSoftwareDevice : public testing::Test {
 protected:
  static const softdev::Client& client() {
    static const softdev::Client* const opened = [] {
      setenv("SOFTDEV_MULTICAST", "1", 0);  // in teams of one
      auto result = softdev::Client::open(softdev::software_device_library());
      EXPECT_TRUE(result.ok()) << result.status().message();
      return result.ok() ? new softdev::Client(std::move(result).value()) : nullptr;
    }();
    return *opened;
  }
  static const Cuda& driver() { return client().cuda(); }

  OnSoftwareDevice() {
    auto primary = PrimaryContext::retain(driver(), 0);
    EXPECT_TRUE(primary.ok());
    primary_ = std::make_unique<PrimaryContext>(std::move(primary).value());
    scope_ = std::make_unique<ContextScope>(driver(), primary_->get());
    EXPECT_TRUE(scope_->status().ok());
  }

  CUcontext context() const { return primary_->get(); }

  /// Device memory of `bytes` zeros, which lives as long as the test.
  CUdeviceptr zeros(size_t bytes) {
    auto memory = DeviceMemory::allocate(driver(), 0, bytes);
    EXPECT_TRUE(memory.ok()) << memory.status().message();
    kept_.push_back(std::move(memory).value());
    EXPECT_EQ(client().more.cuMemsetD8(kept_.back().address(), 0, bytes), kSuccess);
    return kept_.back().address();
  }

  static uint32_t word_at(CUdeviceptr address) {
    uint32_t word = 0;
    EXPECT_EQ(client().more.cuMemcpyDtoH(&word, address, sizeof word), kSuccess);
    return word;
  }

  static CudaStream stream() {
    auto made = CudaStream::create(driver());
    EXPECT_TRUE(made.ok()) << made.status().message();
    return std::move(made).value();
  }

 private:
  std::unique_ptr<PrimaryContext> primary_;
  std::unique_ptr<ContextScope> scope_;
  std::vector<DeviceMemory> kept_;
};

}  // namespace tutti::drivers::cuda
