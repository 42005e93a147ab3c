// The scaled sums that a communicator's user has made: what tuttiRedOp_t values from 5 on stand
// for.
//
// A process uses a handle again only after two billion others, so one that was destroyed, or
// belongs to another communicator, is unknown and not somebody else's. Threads: one at a time, as
// the communicator.
#pragma once

#include <map>

#include "src/base/status.h"
#include "src/comm/request.h"

namespace tutti::api {

struct ScaledSum {
  types::DataType type = types::DataType::kInt8;
  types::Scalar scalar;
};

class ScaledSums {
 public:
  /// The handle of a new operation.
  int add(const ScaledSum& operation);
  bool remove(int handle) { return made_.erase(handle) > 0; }
  /// Null if there is none.
  const ScaledSum* find(int handle) const;

 private:
  std::map<int, ScaledSum> made_;
};

}  // namespace tutti::api
