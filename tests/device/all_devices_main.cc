// all_devices: one thread has three ranks, on a device each (tuttiCommInitAll), and gathers from
// all to all, in groups; then so do the ranks of a split. No device is current in the thread.
//
//   --list N      0: without a list of devices; 1: 2, 0, 1; 2: a device that there is not; 3: all
//                 on device 0
//   --legacy 1    calls are on the legacy default stream, which is each rank's own device's,
//                 though the device of rank 0 is current
//
// Prints what tuttiExplain says of device memory. Exit status: 0 right, 1 not, 2 the command line.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "include/tutti/tutti.h"
#include "src/drivers/cuda/context.h"
#include "src/drivers/cuda/memory.h"
#include "src/drivers/cuda/stream.h"
#include "tests/support/options.h"

namespace tutti::device_programs {
namespace {

namespace driver = drivers::cuda;

constexpr int kRanks = 3;
constexpr size_t kWords = 3000;

void require(bool good, const std::string& what) {
  if (good) return;
  std::printf("%s: %s\n", what.c_str(), tuttiGetLastError(nullptr));
  std::exit(1);
}

template <class Value>
Value must(Result<Value> result) {
  require(result.ok(), std::string(result.status().message()));
  return std::move(result).value();
}

void require_cuda(driver::CUresult result, const char* what) {
  require(result == driver::kSuccess, what);
}

struct Seat {
  Seat(const driver::Cuda& cuda, int number)
      : context(must(driver::PrimaryContext::retain(cuda, number))),
        scope(std::make_unique<driver::ContextScope>(cuda, context.get())),
        stream(must(driver::CudaStream::create(cuda))),
        send(must(driver::DeviceMemory::allocate(cuda, number, kWords * 8))),
        recv(must(driver::DeviceMemory::allocate(cuda, number, kWords * kRanks * 8))) {
    scope.reset();  // current while these are made, and not when calls are
  }

  const driver::PrimaryContext context;
  std::unique_ptr<driver::ContextScope> scope;
  const driver::CudaStream stream;
  const driver::DeviceMemory send, recv;
};

class Program {
 public:
  Program(const driver::Cuda& cuda, const int* devices, bool legacy)
      : cuda_(cuda), legacy_(legacy) {
    for (int rank = 0; rank < kRanks; ++rank) {
      seats_.push_back(std::make_unique<Seat>(cuda, devices != nullptr ? devices[rank] : rank));
    }
  }

  void gather(const std::vector<tuttiComm_t>& comms) {
    explain(comms[0]);
    for (int rank = 0; rank < kRanks; ++rank) {
      copy(seat(rank), seat(rank).send.address(), std::vector<uint64_t>(kWords, 100 + rank).data(),
           kWords * 8);
    }
    call(comms);
    for (int rank = 0; rank < kRanks; ++rank) check(seat(rank));
  }

  // Rank 0 with a stream of rank 1's device, alone: it is told, and nothing has begun.
  void refuse(tuttiComm_t comm) {
    const driver::ContextScope scope(cuda_, seat(1).context.get());
    void* const send = reinterpret_cast<void*>(seat(0).send.address());
    void* const recv = reinterpret_cast<void*>(seat(0).recv.address());
    const tuttiResult_t result = tuttiAllGather(send, recv, kWords, tuttiUint64, comm,
                                                tuttiStreamCuda(seat(1).stream.get()));
    const std::string said = tuttiGetLastError(comm);
    require(result == tuttiInvalidUsage && said.find("of another device") != std::string::npos,
            "a stream of another device is taken: " + said);
  }

 private:
  void call(const std::vector<tuttiComm_t>& comms) {
    std::unique_ptr<driver::ContextScope> current;
    if (legacy_) current = std::make_unique<driver::ContextScope>(cuda_, seat(0).context.get());
    tuttiGroupStart();
    for (int rank = 0; rank < kRanks; ++rank) {
      void* const send = reinterpret_cast<void*>(seat(rank).send.address());
      void* const recv = reinterpret_cast<void*>(seat(rank).recv.address());
      tuttiAllGather(send, recv, kWords, tuttiUint64, comms[static_cast<size_t>(rank)],
                     tuttiStreamCuda(legacy_ ? nullptr : seat(rank).stream.get()));
    }
    require(tuttiGroupEnd() == tuttiSuccess, "tuttiGroupEnd");
  }

  Seat& seat(int rank) { return *seats_[static_cast<size_t>(rank)]; }

  void copy(const Seat& at, driver::CUdeviceptr target, const void* source, size_t bytes) {
    const driver::ContextScope scope(cuda_, at.context.get());
    const auto from = reinterpret_cast<driver::CUdeviceptr>(source);
    require_cuda(cuda_.call.cuMemcpyAsync(target, from, bytes, at.stream.get()), "a copy");
    require(at.stream.synchronize().ok(), "its stream");
  }

  void check(const Seat& at) {
    std::vector<uint64_t> got(kWords * kRanks);
    const driver::ContextScope scope(cuda_, at.context.get());
    const auto target = reinterpret_cast<driver::CUdeviceptr>(got.data());
    require_cuda(cuda_.call.cuStreamSynchronize(legacy_ ? nullptr : at.stream.get()), "its stream");
    require_cuda(
        cuda_.call.cuMemcpyAsync(target, at.recv.address(), got.size() * 8, at.stream.get()),
        "a copy");
    require(at.stream.synchronize().ok(), "its stream");
    for (size_t word = 0; word < got.size(); ++word) {
      require(got[word] == 100 + word / kWords, "a wrong word");
    }
  }

  static void explain(tuttiComm_t comm) {
    std::vector<char> text(1 << 16);
    size_t needed = 0;
    require(tuttiExplain(comm, "all_gather", kWords, tuttiUint64, text.data(), text.size(),
                         &needed) == tuttiSuccess,
            "tuttiExplain");
    const std::string all = text.data();
    std::printf("%s", all.substr(std::min(all.find("on device memory"), all.size())).c_str());
  }

  const driver::Cuda& cuda_;
  const bool legacy_;
  std::vector<std::unique_ptr<Seat>> seats_;
};

int run(int list, bool legacy) {
  const Result<driver::Cuda>& cuda = driver::find();
  require(cuda.ok(), "no driver");
  constexpr int kTurned[] = {2, 0, 1}, kWrong[] = {0, 1, 3}, kOne[] = {0, 0, 0};
  const int* const lists[] = {nullptr, kTurned, kWrong, kOne};
  const int* const devices = lists[list];
  std::vector<tuttiComm_t> comms(kRanks, nullptr), parts(kRanks, nullptr);
  require(tuttiCommInitAll(comms.data(), kRanks, devices) == tuttiSuccess, "tuttiCommInitAll");
  Program program(cuda.value(), devices, legacy);
  program.gather(comms);
  if (list != 3) program.refuse(comms[0]);
  program.gather(comms);
  tuttiGroupStart();
  for (size_t rank = 0; rank < kRanks; ++rank) {
    tuttiCommSplit(comms[rank], 0, static_cast<int>(rank), &parts[rank], nullptr);
  }
  require(tuttiGroupEnd() == tuttiSuccess, "tuttiCommSplit");
  program.gather(parts);
  driver::CUcontext current = nullptr;
  require_cuda(cuda.value().call.cuCtxGetCurrent(&current), "cuCtxGetCurrent");
  require(current == nullptr, "a device is current that the caller did not choose");
  for (const auto& all : {parts, comms}) {
    tuttiGroupStart();
    for (tuttiComm_t comm : all) tuttiCommDestroy(comm);
    require(tuttiGroupEnd() == tuttiSuccess, "tuttiCommDestroy");
  }
  return 0;
}

}  // namespace
}  // namespace tutti::device_programs

int main(int argc, char** argv) {
  using namespace tutti::testing_support;
  int list = 0, legacy = 0;
  if (!read_options(argc, argv, {{"--list", into(list, 0, 3)}, {"--legacy", into(legacy, 0, 1)}})) {
    return 2;
  }
  return tutti::device_programs::run(list, legacy != 0);
}
