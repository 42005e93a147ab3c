// A call that waits asks its communicator whether it may go on, and how ranks are called in
// messages.
#pragma once

#include <string>

#include "src/base/status.h"
#include "src/diagnosis/loss.h"

namespace tutti::diagnosis {

/// Asked now and then while waiting, and while much is moved; an error ends the run.
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
  /// A call is slow, and this is why.
  virtual void report(const std::string& /*text*/) {}
};

}  // namespace tutti::diagnosis
