// The questions of a waiting call to its communicator: may it go on, and how do messages name
// ranks?
#pragma once

#include <string>

#include "src/base/status.h"
#include "src/diagnosis/loss.h"

namespace tutti::diagnosis {

/// A call asks now and then while it waits or moves much memory; an error ends the call.
class Health {
 public:
  virtual ~Health() = default;
  virtual Status check() = 0;
  /// The rank that the error is about; not known if it is about none.
  virtual Cause cause() const { return {}; }
  /// A rank as messages name it.
  virtual std::string name_of(int rank) const { return "rank " + std::to_string(rank); }
  /// "because of rank 3"
  std::string because_of(const Cause& cause) const;
  /// Reports why a call is slow.
  virtual void report(const std::string& /*text*/) {}
};

}  // namespace tutti::diagnosis
