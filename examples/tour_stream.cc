// A tour of calls on streams: docs/internals/tour.md quotes this program and says at each line
// which part of the library works.
//
//   build/bin/examples/tour_stream --ranks 2
//
// Prints the sum that rank 0 has from a HOST stream, and the one from a CUDA stream, or why there
// is none. It is built without CUDA: the driver's functions are found when it runs.
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "examples/ranks.h"
#include "tutti/tutti.h"

namespace {

using examples::expect;

constexpr size_t kCount = 1 << 18;
constexpr size_t kBytes = kCount * sizeof(float);

/// The few functions of the driver that this program calls, by their names in cuda.h.
class Driver {
 public:
  /// False if there is no driver or no device; why() says what is missing.
  bool open() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) return missing("there is no libcuda.so.1");
    get_ = reinterpret_cast<Get>(dlsym(library, "cuGetProcAddress_v2"));
    if (get_ == nullptr) return missing("the driver is older than CUDA 12.0");
    int devices = 0;
    find(init, "cuInit", 2000);
    find(count, "cuDeviceGetCount", 2000);
    if (init(0) != 0 || count(&devices) != 0 || devices == 0) return missing("there is no device");
    find(retain, "cuDevicePrimaryCtxRetain", 7000);
    find(make_current, "cuCtxSetCurrent", 4000);
    find(create_stream, "cuStreamCreate", 2000);
    find(copy, "cuMemcpyAsync", 4000);
    find(synchronize, "cuStreamSynchronize", 2000);
    return true;
  }
  const std::string& why() const { return why_; }

  int (*init)(unsigned flags) = nullptr;
  int (*count)(int* devices) = nullptr;
  int (*retain)(void** context, int device) = nullptr;
  int (*make_current)(void* context) = nullptr;
  int (*create_stream)(void** stream, unsigned flags) = nullptr;
  int (*copy)(void* to, const void* from, size_t bytes, void* stream) = nullptr;
  int (*synchronize)(void* stream) = nullptr;

 private:
  using Get = int (*)(const char* name, void** function, int version, uint64_t flags, void* found);

  template <class Function>
  void find(Function& function, const char* name, int version) {
    int found = 0;
    get_(name, reinterpret_cast<void**>(&function), version, 0, &found);
    if (function == nullptr) throw std::runtime_error(std::string("the driver has no ") + name);
  }
  bool missing(const char* what) {
    why_ = what;
    return false;
  }

  Get get_ = nullptr;
  std::string why_;
};

void expect_driver(int result, const char* call) {
  if (result != 0) throw std::runtime_error(std::string(call) + ": " + std::to_string(result));
}

float on_host_stream(tuttiComm_t comm, const std::vector<float>& input) {
  std::vector<float> output(kCount);
  // The call returns at once; the library's stream thread runs it, behind what the stream holds.
  tuttiStream_t stream;
  expect(tuttiStreamCreate(&stream), "tuttiStreamCreate");
  expect(tuttiAllReduce(input.data(), output.data(), kCount, tuttiFloat32, tuttiSum, comm, stream),
         "tuttiAllReduce");
  expect(tuttiStreamDestroy(stream), "tuttiStreamDestroy");
  return output.back();
}

float on_cuda_stream(tuttiComm_t parent, const Driver& driver, const std::vector<float>& input) {
  void *context = nullptr, *handle = nullptr, *send = nullptr, *recv = nullptr;
  expect_driver(driver.retain(&context, 0), "cuDevicePrimaryCtxRetain");
  expect_driver(driver.make_current(context), "cuCtxSetCurrent");
  expect_driver(driver.create_stream(&handle, 1), "cuStreamCreate");

  // A communicator has the device that is current when it is made: its staging ring lies there.
  tuttiComm_t comm = nullptr;
  expect(tuttiCommSplit(parent, 0, 0, &comm, nullptr), "tuttiCommSplit");
  const tuttiStream_t stream = tuttiStreamCuda(handle);
  expect(tuttiMemAllocFor(&send, kBytes, stream), "tuttiMemAllocFor");
  expect(tuttiMemAllocFor(&recv, kBytes, stream), "tuttiMemAllocFor");

  // Three pieces of work in the stream's order. No thread of the host waits between them.
  std::vector<float> output(kCount);
  expect_driver(driver.copy(send, input.data(), kBytes, handle), "cuMemcpyAsync");
  expect(tuttiAllReduce(send, recv, kCount, tuttiFloat32, tuttiSum, comm, stream),
         "tuttiAllReduce");
  expect_driver(driver.copy(output.data(), recv, kBytes, handle), "cuMemcpyAsync");
  expect_driver(driver.synchronize(handle), "cuStreamSynchronize");

  expect(tuttiCommDestroy(comm), "tuttiCommDestroy");
  expect(tuttiMemFree(send), "tuttiMemFree");
  expect(tuttiMemFree(recv), "tuttiMemFree");
  return output.back();
}

void tour(tuttiComm_t comm) {
  int rank = 0;
  expect(tuttiCommUserRank(comm, &rank), "tuttiCommUserRank");
  const std::vector<float> input(kCount, 1.0f + static_cast<float>(rank));
  const float host = on_host_stream(comm, input);
  if (rank == 0) std::printf("HOST stream: %g\n", static_cast<double>(host));
  Driver driver;
  if (!driver.open()) {
    if (rank == 0) std::printf("CUDA stream: none, %s\n", driver.why().c_str());
    return;
  }
  const float device = on_cuda_stream(comm, driver, input);
  if (rank == 0) std::printf("CUDA stream: %g\n", static_cast<double>(device));
}

}  // namespace

int main(int argc, char** argv) { return examples::run_example(argc, argv, tour); }
