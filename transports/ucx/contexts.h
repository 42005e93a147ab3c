// The things of UCX that the communicators of a process share: a context for each key, since
// whoever has a worker's address can write what is registered in its context; and the ends of their
// links.
//
// Owns:    the ends; contexts live as long as somebody has one.
// Threads: any.
// Errors:  those of UcxContext.
#pragma once

#include <map>
#include <memory>

#include "src/base/mutex.h"
#include "src/transport/endpoint.h"
#include "src/transport/member.h"
#include "transports/ucx/context.h"
#include "transports/ucx/farewells.h"

namespace tutti::transports::ucx {

class UcxContexts final : public transport::Endpoint::EndpointPart {
 public:
  Result<std::shared_ptr<UcxContext>> context_for(const transport::Member& member);
  const std::shared_ptr<Farewells>& farewells() const { return farewells_; }
  int service_fd() const override { return -1; }
  void serve() override {}

 private:
  const std::shared_ptr<Farewells> farewells_ = std::make_shared<Farewells>();
  Mutex mutex_;
  std::map<transport::JobKey, std::weak_ptr<UcxContext>> contexts_ TUTTI_GUARDED_BY(mutex_);
};

}  // namespace tutti::transports::ucx
