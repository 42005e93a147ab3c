// Ends of links that are over, whose last words the peer has not read yet. UCX gives up a
// connection as soon as its peer has closed it, with what has come and is not read; so a worker
// stays open until the peer has said on the socket that it has seen everything, or is gone, or a
// second is over.
//
// Owns:    workers and sockets until then; the destructor waits for that.
// Threads: any.
// Errors:  none.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "src/base/mutex.h"
#include "transports/tcp/peer_socket.h"
#include "transports/ucx/worker.h"

namespace tutti::transports::ucx {

class Farewells {
 public:
  /// By which the peer says that it has seen everything.
  static constexpr uint8_t kSeen = 'S';

  ~Farewells();
  /// Whatever the worker had to send is with UCX, or with the kernel.
  void add(std::unique_ptr<UcxWorker> worker, tcp::PeerSocket socket);
  /// Closes those that are over.
  void look();

 private:
  struct WorkerFarewell {
    std::unique_ptr<UcxWorker> worker;
    tcp::PeerSocket socket;
    uint64_t until_ns = 0;
  };
  static bool is_over(WorkerFarewell& farewell);

  Mutex mutex_;
  std::vector<WorkerFarewell> all_ TUTTI_GUARDED_BY(mutex_);
};

}  // namespace tutti::transports::ucx
