#include "src/diagnosis/health.h"

namespace tutti::diagnosis {

std::string Health::because_of(const Cause& cause) const {
  if (!cause.calls_differ()) return "because of " + name_of(cause.rank);
  return "because the calls of " + name_of(cause.rank) + " and " + name_of(cause.witness) +
         " differ";
}

}  // namespace tutti::diagnosis
