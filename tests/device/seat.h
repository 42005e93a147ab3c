// A rank's place at a device: context, stream and communicator, for programs that measure on a
// board or on the software device.
//
// Owns: all of them. Threads: the one that opened it. Errors: open() tells the member.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "include/tutti/tutti.h"
#include "src/drivers/cuda/context.h"
#include "src/drivers/cuda/memory.h"
#include "src/drivers/cuda/stream.h"
#include "tests/support/team.h"

namespace tutti::device_programs {

/// Words of 8 bytes.
using Words = std::vector<uint64_t>;

class Seat {
 public:
  /// Ranks take the devices in turn. Null after a failure, which the member has been told.
  /// Collective.
  static std::unique_ptr<Seat> open(testing_support::Member& member,
                                    const tuttiConfig_t* config = nullptr);
  /// The same without a communicator, which take_comm() brings.
  static std::unique_ptr<Seat> open_alone(testing_support::Member& member);
  void take_comm(tuttiComm_t comm) { comm_ = comm; }
  Seat(const Seat&) = delete;
  Seat& operator=(const Seat&) = delete;
  /// Aborts the communicator if it is still there: a peer may be dead.
  ~Seat();

  int device() const { return context_.device(); }
  tuttiComm_t comm() const { return comm_; }
  /// For a thread that ends it itself; the seat forgets it.
  tuttiComm_t give_comm();
  tuttiStream_t stream() const { return tuttiStreamCuda(stream_.get()); }
  bool synchronize();
  /// The legacy stream, which is behind all blocking ones.
  bool synchronize_all();
  drivers::cuda::DeviceMemory allocate(size_t bytes) const;
  void fill(const drivers::cuda::DeviceMemory& memory, const Words& words);
  Words read(const drivers::cuda::DeviceMemory& memory, size_t words);
  /// One copy on the device, in the stream.
  bool copy(const drivers::cuda::DeviceMemory& target, const drivers::cuda::DeviceMemory& source,
            size_t bytes);

  /// The same between addresses, which is over when this returns.
  bool copy_at(drivers::cuda::CUdeviceptr target, drivers::cuda::CUdeviceptr source, size_t bytes) {
    return copy_bytes(target, source, bytes) && synchronize();
  }

 private:
  Seat(const drivers::cuda::Cuda& cuda, drivers::cuda::PrimaryContext context);
  bool copy_bytes(drivers::cuda::CUdeviceptr target, drivers::cuda::CUdeviceptr source,
                  size_t bytes);

  const drivers::cuda::Cuda& cuda_;
  const drivers::cuda::PrimaryContext context_;
  const drivers::cuda::ContextScope scope_;
  const drivers::cuda::CudaStream stream_;
  tuttiComm_t comm_ = nullptr;
};

inline void* pointer(const drivers::cuda::DeviceMemory& memory) {
  return reinterpret_cast<void*>(memory.address());
}

/// The word that `from` sends to `to` at a place; no two are alike.
inline uint64_t word_of(int from, int to, size_t place) {
  return (static_cast<uint64_t>(from) << 56) | (static_cast<uint64_t>(to) << 48) | place;
}

/// Tells the member and is false unless the call succeeded.
bool went(testing_support::Member& member, tuttiResult_t result, tuttiComm_t comm,
          const char* call);

}  // namespace tutti::device_programs
