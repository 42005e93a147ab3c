// The order of a communicator's calls in CUDA streams (exec::CallOrder), by an event that each call
// waits for and then records.
//
// In a captured stream the first call of the communicator waits for it as for an event outside, and
// each call records it so: a run of the graph then comes behind what was put into streams before
// it, and what is put there later behind the run. Between the calls of one graph the order is that
// graph's: an event of the capture.
//
// Owns: the events; they end in a thread that may use the driver. Threads: one at a time.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "src/drivers/cuda/stream.h"
#include "src/exec/device.h"

namespace tutti::engines::cuda {

class CudaCallOrder final : public exec::CallOrder,
                            public std::enable_shared_from_this<CudaCallOrder> {
 public:
  /// The context that is current is that of all streams.
  static Result<std::shared_ptr<exec::CallOrder>> create(const drivers::cuda::Cuda& cuda,
                                                         drivers::cuda::CUcontext context);
  CudaCallOrder(const CudaCallOrder&) = delete;
  CudaCallOrder& operator=(const CudaCallOrder&) = delete;
  ~CudaCallOrder() override;

  Status begin(std::span<const exec::StreamPlace> streams) override;
  Status end(std::span<const exec::StreamPlace> streams) override;

 private:
  /// A capture that has calls of the communicator. Its graph keeps it.
  struct Captured {
    uint64_t id = 0;
    std::optional<drivers::cuda::CudaEvent> last;  // behind the last call, in the graph
    bool has_calls = false;
    drivers::cuda::CUcontext context = nullptr;
    const drivers::cuda::Cuda* cuda = nullptr;
    ~Captured();
  };

  CudaCallOrder(const drivers::cuda::Cuda& cuda, drivers::cuda::CUcontext context)
      : cuda_(cuda), context_(context) {}
  Result<std::shared_ptr<Captured>> captured_of(const exec::StreamPlace& where);
  Status begin_captured(const exec::StreamPlace& where);
  Status join(std::span<const exec::StreamPlace> streams) const;

  const drivers::cuda::Cuda& cuda_;
  const drivers::cuda::CUcontext context_;
  std::optional<drivers::cuda::CudaEvent> last_;  // behind the last call
  std::vector<std::weak_ptr<Captured>> captures_;
};

}  // namespace tutti::engines::cuda
