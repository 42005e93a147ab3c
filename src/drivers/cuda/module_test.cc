// Modules beside streams that are captured.
#include "src/drivers/cuda/module.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "src/drivers/cuda/software_device_test.h"

namespace tutti::drivers::cuda {
namespace {

using Modules = OnSoftwareDevice;

/// A capture of another thread in the mode that forbids all others whatever may touch the device.
class CaptureElsewhere {
 public:
  CaptureElsewhere(const softdev::Client& client, CUcontext context)
      : thread_([this, &client, context] {
          const ContextScope scope(client.cuda(), context);
          auto stream = CudaStream::create(client.cuda());
          began_.set_value(client.more.cuStreamBeginCapture(stream.value().get(), kCaptureGlobal));
          end_.get_future().wait();
          CUgraph graph = nullptr;
          ended_ = client.more.cuStreamEndCapture(stream.value().get(), &graph);
          if (graph != nullptr) client.more.cuGraphDestroy(graph);
        }) {}
  CUresult began() { return began_.get_future().get(); }
  CUresult end() {
    end_.set_value();
    thread_.join();
    return ended_;
  }

 private:
  std::promise<CUresult> began_;
  std::promise<void> end_;
  CUresult ended_ = kSuccess;
  std::thread thread_;
};

TEST_F(Modules, AreLoadedAndEndedWhileAnotherThreadCaptures) {
  CaptureElsewhere capture(client(), context());
  ASSERT_EQ(capture.began(), kSuccess);
  CUmodule refused = nullptr;
  EXPECT_EQ(driver().call.cuModuleLoadData(&refused, "any"), kErrorStreamCaptureUnsupported);
  const uint64_t before = client().statistics().live_modules;
  {
    const auto module = CudaModule::load(driver(), "any");
    ASSERT_TRUE(module.ok()) << module.status().message();
    EXPECT_EQ(client().statistics().live_modules, before + 1);
    const auto function = module.value().function("no_such_kernel");
    EXPECT_EQ(function.status().code(), Code::kUnsupported);
  }
  EXPECT_EQ(client().statistics().live_modules, before);
  EXPECT_EQ(capture.end(), kSuccess);
}

}  // namespace
}  // namespace tutti::drivers::cuda
