// Functions of the software device that conformance does not look at.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <vector>

#include "src/drivers/cuda/software_device_test.h"

namespace softdev {
namespace {

class SoftwareDeviceFunctions : public cuda::OnSoftwareDevice {
 protected:
  const MoreFunctions& more = client().more;
  const DriverFunctions& call = client().call();
};

void add_words(const SoftdevLaunch& /*launch*/, void** parameters) {
  const auto target = *static_cast<CUdeviceptr*>(parameters[0]);
  const auto add = *static_cast<uint32_t*>(parameters[1]);
  const auto count = *static_cast<uint32_t*>(parameters[2]);
  static const auto pointer = Client::open(software_device_library()).value().hooks.pointer;
  auto* words = static_cast<uint32_t*>(pointer(target, count * sizeof(uint32_t)));
  for (uint32_t i = 0; i < count; ++i) words[i] += add;
}

TEST_F(SoftwareDeviceFunctions, AKernelIsAFunctionOfTheHostInStreamOrder) {
  const size_t bytes[] = {sizeof(CUdeviceptr), sizeof(uint32_t), sizeof(uint32_t)};
  client().hooks.register_kernel("add_words", add_words, bytes, 3);
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  ASSERT_EQ(call.cuModuleLoadData(&module, "any"), kSuccess);
  EXPECT_EQ(call.cuModuleGetFunction(&function, module, "no_such"), kErrorNotFound);
  ASSERT_EQ(call.cuModuleGetFunction(&function, module, "add_words"), kSuccess);
  CUdeviceptr words = zeros(64);
  const cuda::CudaStream own = stream();
  const uint64_t before = client().statistics().kernels;
  ASSERT_EQ(more.cuStreamWriteValue32(own.get(), words + 4, 30, 0), kSuccess);
  uint32_t add = 12, count = 2;
  void* parameters[] = {&words, &add, &count};
  ASSERT_EQ(call.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, own.get(), parameters, nullptr),
            kSuccess);
  add = 0;  // the parameters were copied
  ASSERT_TRUE(own.synchronize().ok());
  EXPECT_EQ(word_at(words), 12u);
  EXPECT_EQ(word_at(words + 4), 42u);
  EXPECT_EQ(client().statistics().kernels, before + 1);
  EXPECT_EQ(call.cuModuleUnload(module), kSuccess);
}

TEST_F(SoftwareDeviceFunctions, DeviceMemoryIsReachedOnlyWhereItIsAllThere) {
  const CUdeviceptr words = zeros(64);
  EXPECT_NE(client().hooks.pointer(words, 64), nullptr);
  EXPECT_EQ(client().hooks.pointer(words, size_t{1} << 40), nullptr);
}

TEST_F(SoftwareDeviceFunctions, HostFunctionsRunInStreamOrder) {
  const cuda::CudaStream own = stream();
  std::vector<int> order;
  struct Given {
    std::vector<int>* order;
    int number;
  };
  std::vector<Given> given = {{&order, 1}, {&order, 2}, {&order, 3}};
  for (Given& one : given) {
    const auto note = [](void* data) {
      const auto* noted = static_cast<Given*>(data);
      noted->order->push_back(noted->number);
    };
    ASSERT_EQ(call.cuLaunchHostFunc(own.get(), note, &one), kSuccess);
  }
  ASSERT_TRUE(own.synchronize().ok());
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST_F(SoftwareDeviceFunctions, EventsWithTimesMeasure) {
  const cuda::CudaStream own = stream();
  CUevent begin = nullptr, end = nullptr, without = nullptr;
  ASSERT_EQ(call.cuEventCreate(&begin, 0), kSuccess);
  ASSERT_EQ(call.cuEventCreate(&end, 0), kSuccess);
  ASSERT_EQ(call.cuEventCreate(&without, kEventDisableTiming), kSuccess);
  ASSERT_EQ(call.cuEventRecord(begin, own.get()), kSuccess);
  ASSERT_EQ(call.cuEventRecord(end, own.get()), kSuccess);
  ASSERT_EQ(more.cuEventSynchronize(end), kSuccess);
  float milliseconds = -1;
  EXPECT_EQ(call.cuEventElapsedTime(&milliseconds, begin, end), kSuccess);
  EXPECT_GE(milliseconds, 0.0f);
  EXPECT_EQ(call.cuEventElapsedTime(&milliseconds, begin, without), kErrorInvalidHandle);
  for (CUevent event : {begin, end, without}) EXPECT_EQ(call.cuEventDestroy(event), kSuccess);
  EXPECT_EQ(call.cuEventQuery(end), kErrorInvalidHandle);
}

TEST_F(SoftwareDeviceFunctions, AnAddressLeadsBackToItsHandle) {
  const auto memory = cuda::DeviceMemory::allocate(driver(), 0, 64);
  ASSERT_TRUE(memory.ok());
  CUmemGenericAllocationHandle handle = 0;
  const auto address = reinterpret_cast<void*>(memory.value().address() + 10);
  ASSERT_EQ(call.cuMemRetainAllocationHandle(&handle, address), kSuccess);
  EXPECT_EQ(call.cuMemRelease(handle), kSuccess);
  EXPECT_EQ(call.cuMemRelease(handle), kErrorInvalidValue);
  uint64_t id = 0;
  EXPECT_EQ(more.cuPointerGetAttribute(&id, kPointerBufferId, memory.value().address()), kSuccess);
  EXPECT_NE(id, 0u);
  EXPECT_EQ(more.cuPointerGetAttribute(&id, kPointerBufferId, 4096), kErrorInvalidValue);
}

/// Adds 1 to each word of a range.
void add_one(const SoftdevLaunch& launch, void** parameters) {
  const auto target = *static_cast<CUdeviceptr*>(parameters[0]);
  const auto count = *static_cast<uint32_t*>(parameters[1]);
  void* const library = dlopen(software_device_library().c_str(), RTLD_NOW | RTLD_NOLOAD);
  const auto touch = reinterpret_cast<decltype(&softdev_touch)>(dlsym(library, "softdev_touch"));
  auto* const words =
      static_cast<uint32_t*>(touch(target, count * sizeof(uint32_t), launch.device, true));
  for (uint32_t i = 0; words != nullptr && i < count; ++i) ++words[i];
}

// As a framework's segments that grow.
TEST_F(SoftwareDeviceFunctions, AKernelSeesMemoryOfSeveralHandlesAsOneRange) {
  constexpr size_t kPart = size_t{2} << 20;
  CUdeviceptr range = 0;
  ASSERT_EQ(call.cuMemAddressReserve(&range, 2 * kPart, 0, 0, 0), kSuccess);
  CUmemAllocationProp properties{};
  properties.type = kAllocationPinned;
  properties.location = {kLocationDevice, 0};
  const CUmemAccessDesc access{{kLocationDevice, 0}, kAccessReadWrite};
  for (size_t part = 0; part < 2; ++part) {
    CUmemGenericAllocationHandle handle = 0;
    ASSERT_EQ(call.cuMemCreate(&handle, kPart, &properties, 0), kSuccess);
    ASSERT_EQ(call.cuMemMap(range + part * kPart, kPart, 0, handle, 0), kSuccess);
    ASSERT_EQ(call.cuMemRelease(handle), kSuccess);
  }
  ASSERT_EQ(call.cuMemSetAccess(range, 2 * kPart, &access, 1), kSuccess);
  ASSERT_EQ(more.cuMemsetD8(range, 0, 2 * kPart), kSuccess);
  const size_t bytes[] = {sizeof(CUdeviceptr), sizeof(uint32_t)};
  client().hooks.register_kernel("add_one", add_one, bytes, 2);
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  ASSERT_EQ(call.cuModuleLoadData(&module, "any"), kSuccess);
  ASSERT_EQ(call.cuModuleGetFunction(&function, module, "add_one"), kSuccess);
  CUdeviceptr target = range + kPart - 64;
  uint32_t count = 32;
  void* parameters[] = {&target, &count};
  const cuda::CudaStream own = stream();
  ASSERT_EQ(call.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, own.get(), parameters, nullptr),
            kSuccess);
  ASSERT_TRUE(own.synchronize().ok());
  EXPECT_EQ(word_at(target - 4), 0u);
  for (uint32_t i = 0; i < count; ++i) EXPECT_EQ(word_at(target + 4 * i), 1u);
  EXPECT_EQ(word_at(target + 4 * count), 0u);
  EXPECT_EQ(call.cuModuleUnload(module), kSuccess);
  EXPECT_EQ(call.cuMemUnmap(range, 2 * kPart), kSuccess);
  EXPECT_EQ(call.cuMemAddressFree(range, 2 * kPart), kSuccess);
}

TEST_F(SoftwareDeviceFunctions, FillsAreInStreamOrder) {
  const CUdeviceptr words = zeros(64);
  const cuda::CudaStream own = stream();
  ASSERT_EQ(more.cuStreamWriteValue32(own.get(), words, 7, 0), kSuccess);
  ASSERT_EQ(call.cuMemsetD8Async(words, 0x11, 8, own.get()), kSuccess);
  ASSERT_EQ(more.cuStreamWriteValue32(own.get(), words + 4, 7, 0), kSuccess);
  ASSERT_TRUE(own.synchronize().ok());
  EXPECT_EQ(word_at(words), 0x11111111u);
  EXPECT_EQ(word_at(words + 4), 7u);
}

TEST_F(SoftwareDeviceFunctions, DevicesReachTheirPeersAndNoOthers) {
  int can = -1;
  EXPECT_EQ(call.cuDeviceCanAccessPeer(&can, 0, 0), kSuccess);
  EXPECT_EQ(can, 0);
  EXPECT_EQ(call.cuDeviceCanAccessPeer(&can, 0, 9), kErrorInvalidDevice);
}

TEST_F(SoftwareDeviceFunctions, AStreamThatIsNoMoreIsRefused) {
  CUstream gone = nullptr;
  {
    const cuda::CudaStream own = stream();
    gone = own.get();
  }
  EXPECT_EQ(call.cuStreamQuery(gone), kErrorInvalidHandle);
  EXPECT_EQ(call.cuStreamDestroy(gone), kErrorInvalidHandle);
}

TEST_F(SoftwareDeviceFunctions, ACapturesBranchThatIsJoinedRuns) {
  const cuda::CudaStream own = stream(), branch = stream();
  const auto forked = cuda::CudaEvent::create(driver());
  const auto joined = cuda::CudaEvent::create(driver());
  ASSERT_TRUE(forked.ok() && joined.ok());
  const CUdeviceptr words = zeros(64);
  ASSERT_EQ(more.cuStreamBeginCapture(own.get(), kCaptureThreadLocal), kSuccess);
  ASSERT_TRUE(forked.value().record(own.get()).ok());
  ASSERT_TRUE(forked.value().make_wait(branch.get()).ok());
  ASSERT_EQ(more.cuStreamWriteValue32(branch.get(), words, 5, 0), kSuccess);
  ASSERT_TRUE(joined.value().record(branch.get()).ok());
  EXPECT_EQ(call.cuEventQuery(joined.value().get()), kErrorCapturedEvent);
  ASSERT_TRUE(joined.value().make_wait(own.get()).ok());
  ASSERT_EQ(call.cuMemcpyAsync(words + 4, words, 4, own.get()), kSuccess);
  CUgraph graph = nullptr;
  CUgraphExec run = nullptr;
  ASSERT_EQ(more.cuStreamEndCapture(own.get(), &graph), kSuccess);
  ASSERT_EQ(more.cuGraphInstantiateWithFlags(&run, graph, 0), kSuccess);
  ASSERT_EQ(more.cuGraphLaunch(run, own.get()), kSuccess);
  ASSERT_TRUE(own.synchronize().ok());
  EXPECT_EQ(word_at(words + 4), 5u);
  EXPECT_EQ(more.cuGraphDestroy(graph), kSuccess);
  EXPECT_EQ(more.cuGraphExecDestroy(run), kSuccess);
}

}  // namespace
}  // namespace softdev
