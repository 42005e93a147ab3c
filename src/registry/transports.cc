#include "src/registry/transports.h"

// Declared here, so that transports.inc is the only line a transport needs.
#define TUTTI_TRANSPORT(name)                                                          \
  namespace tutti::transports::name {                                                  \
  Result<std::unique_ptr<transport::Transport>> make(const transport::Member& member); \
  }
#include "src/registry/transports.inc"
#undef TUTTI_TRANSPORT

namespace tutti::registry {
namespace {

#define TUTTI_TRANSPORT(name) {#name, &transports::name::make},
constexpr TransportEntry kTransports[] = {
#include "src/registry/transports.inc"
};
#undef TUTTI_TRANSPORT

}  // namespace

std::span<const TransportEntry> transports() { return kTransports; }

}  // namespace tutti::registry
