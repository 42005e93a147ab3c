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

Result<std::shared_ptr<Adapter>> Adapters::adapter_for(const transport::Member& member) {
  const Result<CardPort> port =
      choose_port(list_ports(equipment_.cards_folder), member.rdma, member.rank, own_numa_node());
  if (!port.ok()) return port.status();
  std::weak_ptr<Adapter>& known = adapters_[port.value().text()];
  if (std::shared_ptr<Adapter> found = known.lock()) return found;
  Result<std::shared_ptr<Adapter>> opened = Adapter::open(equipment_, port.value(), member.rdma);
  if (!opened.ok()) return opened;
  epoll_event event{};
  event.events = EPOLLIN;
  if (epoll_ctl(set_->fd(), EPOLL_CTL_ADD, opened.value()->event_fd(), &event) < 0) {
    return errno_status("epoll_ctl");
  }
  known = opened.value();
  return opened;
}

Result<std::shared_ptr<Domain>> Adapters::domain_for(const transport::Member& member) {
  const std::lock_guard lock(mutex_);
  const Result<std::shared_ptr<Adapter>> adapter = adapter_for(member);
  if (!adapter.ok()) return adapter.status();
  std::weak_ptr<Domain>& known = domains_[{adapter.value().get(), member.key}];
  if (std::shared_ptr<Domain> found = known.lock()) return found;
  Result<std::shared_ptr<Domain>> made = Domain::create(adapter.value());
  if (!made.ok()) return made;
  known = made.value();
  std::erase_if(domains_, [](const auto& entry) { return entry.second.expired(); });
  return made;
}

// A card that is closed leaves the set by itself: its descriptor is nobody else's.
void Adapters::serve() {
  std::vector<std::shared_ptr<Adapter>> open;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [port, weak] : adapters_) {
      if (std::shared_ptr<Adapter> adapter = weak.lock()) open.push_back(std::move(adapter));
    }
  }
  for (const auto& adapter : open) adapter->read_events();
}

}  // namespace tutti::transports::verbs
