#include "src/registry/transports.h"

// Declared here, so that transports.inc is the only line a transport needs.
#define TUTTI_TRANSPORT(name)                                                          \
  namespace tutti::transports::name {                                                  \
  Result<std::unique_ptr<transport::Transport>> make(const transport::Member& member); \
  }
#define TUTTI_NAMED_TRANSPORT(name) TUTTI_TRANSPORT(name)
#include "src/registry/transports.inc"
#undef TUTTI_NAMED_TRANSPORT
#undef TUTTI_TRANSPORT

namespace tutti::registry {
namespace {

#define TUTTI_TRANSPORT(name) {#name, &transports::name::make, false},
#define TUTTI_NAMED_TRANSPORT(name) {#name, &transports::name::make, true},
constexpr TransportEntry kTransports[] = {
#include "src/registry/transports.inc"
};
#undef TUTTI_NAMED_TRANSPORT
#undef TUTTI_TRANSPORT

}  // namespace

std::span<const TransportEntry> transports() { return kTransports; }

}  // namespace tutti::registry
