#include "transports/verbs/adapters.h"

#include <sys/epoll.h>

#include <vector>

#include "src/base/io.h"

namespace tutti::transports::verbs {

Result<std::unique_ptr<Adapters>> Adapters::create(Equipment equipment) {
  Result<std::unique_ptr<PollSet>> set = PollSet::create();
  if (!set.ok()) return set.status();
  return std::unique_ptr<Adapters>(new Adapters(std::move(equipment), std::move(set).value()));
}

Result<std::shared_ptr<Adapter>> Adapters::adapter_of(const CardPort& port,
                                                      const RdmaSettings& settings) {
  std::weak_ptr<Adapter>& known = adapters_[port.text()];
  if (std::shared_ptr<Adapter> found = known.lock()) return found;
  Result<std::shared_ptr<Adapter>> opened = Adapter::open(equipment_, port, settings);
  if (!opened.ok()) return opened;
  epoll_event event{};
  event.events = EPOLLIN;
  if (epoll_ctl(set_->fd(), EPOLL_CTL_ADD, opened.value()->event_fd(), &event) < 0) {
    return errno_status("epoll_ctl");
  }
  known = opened.value();
  return opened;
}

Result<std::shared_ptr<Domain>> Adapters::domain_of(const std::shared_ptr<Adapter>& adapter,
                                                    const transport::JobKey& key) {
  std::weak_ptr<Domain>& known = domains_[{adapter.get(), key}];
  if (std::shared_ptr<Domain> found = known.lock()) return found;
  Result<std::shared_ptr<Domain>> made = Domain::create(adapter);
  if (!made.ok()) return made;
  known = made.value();
  std::erase_if(domains_, [](const auto& entry) { return entry.second.expired(); });
  return made;
}

// The first port decides what the card of this rank says, so the others have to fit it.
Result<Domains> Adapters::domains_for(const transport::Member& member) {
  const MutexLock lock(mutex_);
  const Result<std::vector<CardPort>> ports =
      choose_ports(list_ports(equipment_.cards_folder), member.rdma,
                   {member.rank, own_numa_node(), member.near_cards});
  if (!ports.ok()) return ports.status();
  Domains domains;
  for (const CardPort& port : ports.value()) {
    const Result<std::shared_ptr<Adapter>> adapter = adapter_of(port, member.rdma);
    if (!adapter.ok()) return adapter.status();
    const bool fits =
        domains.empty() || domains.front()->adapter().gid_kind() == adapter.value()->gid_kind();
    if (!fits) continue;
    Result<std::shared_ptr<Domain>> domain = domain_of(adapter.value(), member.key);
    if (!domain.ok()) return domain.status();
    domains.push_back(std::move(domain).value());
  }
  return domains;
}

// A card that is closed leaves the set by itself: its descriptor is nobody else's.
void Adapters::serve() {
  std::vector<std::shared_ptr<Adapter>> open;
  {
    const MutexLock lock(mutex_);
    for (const auto& [port, weak] : adapters_) {
      if (std::shared_ptr<Adapter> adapter = weak.lock()) open.push_back(std::move(adapter));
    }
  }
  for (const auto& adapter : open) adapter->read_events();
}

}  // namespace tutti::transports::verbs
