#include "src/transport/endpoint.h"

#include <utility>

namespace tutti::transport {

Result<std::shared_ptr<Endpoint::Part>> Endpoint::part(const std::string& name, const Make& make) {
  const std::lock_guard lock(mutex_);
  std::weak_ptr<Part>& known = parts_[name];
  if (std::shared_ptr<Part> found = known.lock()) return found;
  Result<std::unique_ptr<Part>> made = make();
  if (!made.ok()) return made.status();
  Part* const raw = made.value().get();
  const int fd = raw->service_fd();
  if (Status status = server_.attend(fd, [raw] { raw->serve(); }); !status.ok()) return status;
  std::shared_ptr<Part> part(made.value().release(), [remove = server_.remove, fd](Part* ended) {
    remove(fd);
    delete ended;
  });
  known = part;
  return part;
}

}  // namespace tutti::transport
