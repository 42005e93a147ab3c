// The order of a communicator's calls in CUDA streams (exec::CallOrder), by an event that each call
// waits for and then records. An event can only be recorded in streams of its own context, so there
// is one for each context that calls had streams of, of which nearly always there is one.
//
// In a captured stream the first call of the communicator waits for them as for events outside, and
// each call records its own so: a run of the graph then comes behind what was put into streams
// before it, and what is put there later behind the run. Between the calls of one graph the order
// is that graph's: an event of the capture. A graph waits for the events that there were when it
// was captured.
//
// Owns: the events; they end in a thread that may use the driver. Threads: one at a time.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "src/drivers/cuda/stream.h"
#include "src/exec/stream_rank.h"

namespace tutti::engines::cuda {

class CudaCallOrder final : public exec::CallOrder,
                            public std::enable_shared_from_this<CudaCallOrder> {
 public:
  explicit CudaCallOrder(const drivers::cuda::Cuda& cuda) : cuda_(cuda) {}
  CudaCallOrder(const CudaCallOrder&) = delete;
  CudaCallOrder& operator=(const CudaCallOrder&) = delete;

  Status begin(std::span<const exec::StreamPlace> streams) override;
  Status end(std::span<const exec::StreamPlace> streams) override;
  Result<bool> is_over() const override;

 private:
  /// An event of a context, which ends where that is current.
  struct EventInContext {
    static Result<EventInContext> create(const drivers::cuda::Cuda& cuda, void* context);
    EventInContext() = default;
    EventInContext(EventInContext&& other) noexcept = default;
    EventInContext& operator=(EventInContext&&) = delete;
    ~EventInContext();

    const drivers::cuda::Cuda* cuda = nullptr;
    void* context = nullptr;
    std::optional<drivers::cuda::CudaEvent> event;
  };
  /// A capture that has calls of the communicator. Its graph keeps it.
  struct Captured {
    uint64_t id = 0;
    EventInContext last;  // behind the last call, in the graph
    bool has_calls = false;
  };

  Result<const EventInContext*> event_of(const exec::StreamPlace& where);
  Result<std::shared_ptr<Captured>> captured_of(const exec::StreamPlace& where);
  Status begin_in(const exec::StreamPlace& where);
  Status begin_captured(const exec::StreamPlace& where);
  Status join(std::span<const exec::StreamPlace> streams) const;

  const drivers::cuda::Cuda& cuda_;
  // By drivers::cuda::identity_of(): the first stream of the call under way, and that of the last
  // one, behind which a call in the same stream needs to wait for no event. 0: it is not known, or
  // there are graphs, whose runs record the events in whatever streams they are launched.
  uint64_t begun_in_ = 0, ended_in_ = 0;
  bool has_captured_ = false;
  std::list<EventInContext> events_;  // of each context: behind its last call
  std::vector<std::weak_ptr<Captured>> captures_;
};

}  // namespace tutti::engines::cuda
