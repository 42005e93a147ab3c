#include "src/base/caught.h"

#include <new>
#include <string>

namespace tutti {
namespace {

/// Made when the library is loaded, while there is memory.
struct PreparedStatuses {
  const Status exhausted = Status::system_error(
      "no memory is left for the call: free some, or raise the limit of this process (ulimit -v, "
      "its control group)");
  const Status unexpected = Status::internal_error("an unexpected exception, a defect in Tutti");
};

const PreparedStatuses& prepared() {
  static const auto* const prepared = new PreparedStatuses;
  return *prepared;
}

[[gnu::constructor]] void prepare() { (void)prepared(); }

}  // namespace

Status status_of(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return prepared().exhausted;
  try {
    return Status::internal_error("an unexpected exception, a defect in Tutti: " +
                                  std::string(error.what()));
  } catch (const std::bad_alloc&) {
    return prepared().unexpected;
  }
}

}  // namespace tutti
