#include "tests/device/seat.h"

#include <algorithm>
#include <string>
#include <utility>

#include "src/drivers/cuda/device.h"
#include "tests/device/must.h"

namespace tutti::device_programs {

namespace driver = drivers::cuda;

Seat::Seat(const driver::Cuda& cuda, driver::PrimaryContext context)
    : cuda_(cuda),
      context_(std::move(context)),
      scope_(cuda, context_.get()),
      stream_(must(driver::CudaStream::create(cuda))) {}

std::unique_ptr<Seat> Seat::open_alone(testing_support::Member& member) {
  const Result<driver::Cuda>& cuda = driver::find();
  if (!cuda.ok()) {
    member.fail(std::string(cuda.status().message()));
    return nullptr;
  }
  const driver::CUdevice device = member.rank() % std::max(cuda.value().devices(), 1);
  return std::unique_ptr<Seat>(
      new Seat(cuda.value(), must(driver::PrimaryContext::retain(cuda.value(), device))));
}

std::unique_ptr<Seat> Seat::open(testing_support::Member& member, const tuttiConfig_t* config) {
  std::unique_ptr<Seat> seat = open_alone(member);
  tuttiUniqueId id;
  if (seat == nullptr || !member.take_id(id)) return nullptr;
  const tuttiResult_t made =
      tuttiCommInitRankConfig(&seat->comm_, member.ranks(), id, member.rank(), config);
  if (!went(member, made, nullptr, "tuttiCommInitRankConfig")) return nullptr;
  return seat;
}

Seat::~Seat() {
  if (comm_ != nullptr) tuttiCommAbort(comm_);
}

tuttiComm_t Seat::give_comm() { return std::exchange(comm_, nullptr); }

bool Seat::synchronize() { return stream_.synchronize().ok(); }

bool Seat::synchronize_all() {
  return cuda_.check(cuda_.call.cuStreamSynchronize(nullptr), "cuStreamSynchronize").ok();
}

driver::DeviceMemory Seat::allocate(size_t bytes) const {
  return must(driver::DeviceMemory::allocate(cuda_, context_.device(), bytes));
}

void Seat::fill(const driver::DeviceMemory& memory, const Words& words) {
  const auto source = reinterpret_cast<driver::CUdeviceptr>(words.data());
  if (!copy_bytes(memory.address(), source, words.size() * sizeof(uint64_t)) || !synchronize()) {
    std::abort();
  }
}

Words Seat::read(const driver::DeviceMemory& memory, size_t words) {
  Words got(words);
  const auto target = reinterpret_cast<driver::CUdeviceptr>(got.data());
  if (!copy_bytes(target, memory.address(), words * sizeof(uint64_t)) || !synchronize()) {
    std::abort();
  }
  return got;
}

bool Seat::copy(const driver::DeviceMemory& target, const driver::DeviceMemory& source,
                size_t bytes) {
  return copy_bytes(target.address(), source.address(), bytes);
}

bool Seat::copy_bytes(driver::CUdeviceptr target, driver::CUdeviceptr source, size_t bytes) {
  const auto done = cuda_.call.cuMemcpyAsync(target, source, bytes, stream_.get());
  return cuda_.check(done, "cuMemcpyAsync").ok();
}

bool went(testing_support::Member& member, tuttiResult_t result, tuttiComm_t comm,
          const char* call) {
  if (result == tuttiSuccess) return true;
  member.fail(std::string(call) + ": " + tuttiGetLastError(comm));
  return false;
}

}  // namespace tutti::device_programs
