// The transports of a process have some things in common for all its ranks and communicators:
// doors, connections that links share, and the mappings of memory that peers have registered. There
// is one endpoint a process (api/process.h has it); a transport whose member names none has such a
// part, and such mappings, for itself.
//
// Owns:     nothing of a part, which lives as long as a transport has it; the mappings.
// Threads:  any.
// Errors:   those of whoever makes a part, or serves it.
// Lifetime: outlives the transports of the process.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "src/base/mutex.h"
#include "src/base/status.h"
#include "src/transport/import.h"
#include "src/transport/member.h"

namespace tutti::transport {

class Endpoint {
 public:
  /// The part of one kind of transport, for the whole process.
  class EndpointPart {
   public:
    virtual ~EndpointPart() = default;
    /// As Transport::service_fd() and serve(); below 0: nothing is served.
    virtual int service_fd() const = 0;
    virtual void serve() = 0;
  };

  /// Runs `visit` on another thread whenever the descriptor is readable, until remove() returns.
  struct EndpointServer {
    std::function<Status(int fd, std::function<void()> visit)> attend;
    std::function<void(int fd)> remove;
  };
  explicit Endpoint(EndpointServer server) : server_(std::move(server)) {}

  using Make = std::function<Result<std::unique_ptr<EndpointPart>>()>;
  /// The one of this name, made now if nobody has it.
  Result<std::shared_ptr<EndpointPart>> part(const std::string& name, const Make& make);
  const std::shared_ptr<ImportCache>& imports() const { return imports_; }

 private:
  const EndpointServer server_;
  const std::shared_ptr<ImportCache> imports_ = std::make_shared<ImportCache>();
  Mutex mutex_;
  std::map<std::string, std::weak_ptr<EndpointPart>> parts_ TUTTI_GUARDED_BY(mutex_);
};

/// The mappings that links of this member use: those of its process, unless it names no endpoint.
std::shared_ptr<ImportCache> imports_of(const Member& member);

}  // namespace tutti::transport
