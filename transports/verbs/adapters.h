// The cards that this process has open, and their domains: one for each key, shared by all
// communicators that have it.
//
// Owns:    nothing: adapters and domains live as long as somebody has one.
// Threads: any; serve() is for one at a time.
// Errors:  those of Adapter and Domain.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "src/base/mutex.h"
#include "src/base/poll_set.h"
#include "src/transport/endpoint.h"
#include "src/transport/member.h"
#include "transports/verbs/adapter.h"
#include "transports/verbs/registered_ranges.h"

namespace tutti::transports::verbs {

class Adapters final : public transport::Endpoint::EndpointPart {
 public:
  static Result<std::unique_ptr<Adapters>> create(Equipment equipment);

  /// On the ports that are best for this member, for its key: one or several, whose addresses are
  /// of one kind.
  Result<Domains> domains_for(const transport::Member& member);

  /// Readable when a card has something to tell of itself.
  int service_fd() const override { return set_->fd(); }
  void serve() override;

 private:
  Adapters(Equipment equipment, std::unique_ptr<PollSet> set)
      : equipment_(std::move(equipment)), set_(std::move(set)) {}
  Result<std::shared_ptr<Adapter>> adapter_of(const CardPort& port, const RdmaSettings& settings)
      TUTTI_REQUIRES(mutex_);
  Result<std::shared_ptr<Domain>> domain_of(const std::shared_ptr<Adapter>& adapter,
                                            const transport::JobKey& key) TUTTI_REQUIRES(mutex_);

  const Equipment equipment_;
  const std::unique_ptr<PollSet> set_;
  Mutex mutex_;
  std::map<std::string, std::weak_ptr<Adapter>> adapters_ TUTTI_GUARDED_BY(mutex_);  // by port
  std::map<std::pair<const Adapter*, transport::JobKey>, std::weak_ptr<Domain>> domains_
      TUTTI_GUARDED_BY(mutex_);
};

}  // namespace tutti::transports::verbs
