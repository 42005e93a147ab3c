#include "src/transport/endpoint.h"

#include <utility>

namespace tutti::transport {

Result<std::shared_ptr<Endpoint::EndpointPart>> Endpoint::part(const std::string& name,
                                                               const Make& make) {
  const MutexLock lock(mutex_);
  std::weak_ptr<EndpointPart>& known = parts_[name];
  if (std::shared_ptr<EndpointPart> found = known.lock()) return found;
  Result<std::unique_ptr<EndpointPart>> made = make();
  if (!made.ok()) return made.status();
  EndpointPart* const raw = made.value().get();
  const int fd = raw->service_fd();
  if (fd < 0) {
    std::shared_ptr<EndpointPart> unserved = std::move(made).value();
    known = unserved;
    return unserved;
  }
  if (Status status = server_.attend(fd, [raw] { raw->serve(); }); !status.ok()) return status;
  std::shared_ptr<EndpointPart> part(made.value().release(),
                                     [remove = server_.remove, fd](EndpointPart* ended) {
                                       remove(fd);
                                       delete ended;
                                     });
  known = part;
  return part;
}

std::shared_ptr<ImportCache> imports_of(const Member& member) {
  return member.endpoint != nullptr ? member.endpoint->imports() : std::make_shared<ImportCache>();
}

}  // namespace tutti::transport
