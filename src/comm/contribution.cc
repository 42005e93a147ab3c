#include "src/comm/contribution.h"

#include "src/types/kernels.h"

namespace tutti::comm {

Request Contribution::place(const Request& request, uint64_t elements) {
  Request placed = request;
  if (request.collective == schedule::Collective::kAllReduce) {
    placed.send = request.recv;
    return placed;
  }
  const uint64_t bytes = elements * types::size_of(request.type);
  if (bytes > capacity_) {
    capacity_ = 0;
    memory_.reset();
    memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    capacity_ = bytes;
  }
  placed.send = memory_.get();
  return placed;
}

void Contribution::scale(const Request& request, const Request& placed, uint64_t elements) {
  const types::Scalar& scalar = request.extras->scalar;
  const auto* factor =
      scalar.memory == nullptr ? scalar.value.data() : static_cast<const std::byte*>(scalar.memory);
  types::scale(request.type, factor, static_cast<const std::byte*>(request.send),
               static_cast<std::byte*>(const_cast<void*>(placed.send)), elements);
}

}  // namespace tutti::comm
