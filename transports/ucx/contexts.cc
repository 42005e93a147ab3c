#include "transports/ucx/contexts.h"

#include <utility>

#include "transports/ucx/library.h"

namespace tutti::transports::ucx {

Result<std::shared_ptr<UcxContext>> UcxContexts::context_for(const transport::Member& member) {
  Result<UcxNetwork> network = choose_network(member);
  if (!network.ok()) return network.status();
  const Result<const api::UcxFunctions*> functions = load_library();
  if (!functions.ok()) return functions.status();
  const MutexLock lock(mutex_);
  std::weak_ptr<UcxContext>& known = contexts_[member.key];
  std::shared_ptr<UcxContext> found = known.lock();
  if (found != nullptr && found->network().devices == network.value().devices) return found;
  auto made = UcxContext::create(*functions.value(), std::move(network).value());
  if (!made.ok()) return made;
  known = made.value();
  std::erase_if(contexts_, [](const auto& entry) { return entry.second.expired(); });
  return made;
}

}  // namespace tutti::transports::ucx
