#include "src/registry/level_sources.h"

// Declared here, so that level_sources.inc is the only line a source needs.
#define TUTTI_LEVEL_SOURCE(name)                                   \
  namespace tutti::comm::level_sources::name {                     \
  Result<std::unique_ptr<LevelSource>> make(const Config& config); \
  }
#include "src/registry/level_sources.inc"
#undef TUTTI_LEVEL_SOURCE

namespace tutti::registry {
namespace {

#define TUTTI_LEVEL_SOURCE(name) {#name, &comm::level_sources::name::make},
constexpr comm::LevelSourceEntry kLevelSources[] = {
#include "src/registry/level_sources.inc"
};
#undef TUTTI_LEVEL_SOURCE

}  // namespace

std::span<const comm::LevelSourceEntry> level_sources() { return kLevelSources; }

}  // namespace tutti::registry
