#include "transports/verbs/registered_ranges.h"

#include <utility>

#include "transports/verbs/adapter.h"

namespace tutti::transports::verbs {

Result<std::shared_ptr<const void>> register_range(RegisteredRanges& ranges,
                                                   std::shared_ptr<Domain> domain, void* memory,
                                                   size_t bytes) {
  auto made = CardMemory::create(std::move(domain), memory, bytes,
                                 api::kAccessLocalWrite | api::kAccessRemoteWrite);
  if (!made.ok()) return made.status();
  const RangeKeys keys{made.value()->local_key(), made.value()->remote_key()};
  return ranges.add(memory, bytes, keys, std::shared_ptr<const void>(std::move(made).value()));
}

}  // namespace tutti::transports::verbs
