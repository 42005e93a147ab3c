// The limit of open descriptors (RLIMIT_NOFILE), and room below it for communicators.
//
// A communicator of many ranks needs a descriptor or two for each, and the usual soft limit is
// 1024. The hard limit is what the administrator allows; the soft one is kept low for programs that
// use select(), whose sets have no place for a descriptor from 1024 on. So it is raised only where
// the communicators that are being made may not fit below it, and no further than to kRaisedTo
// unless more is needed, because some programs close every number up to the limit.
// docs/several_hosts.md tells programs that use select() what to do.
//
// Threads: any.
// Errors:  none; what cannot be raised stays as it is.
#pragma once

#include <cstdint>
#include <string>

#include "src/base/log.h"
#include "src/base/mutex.h"
#include "src/base/status.h"

namespace tutti {

struct DescriptorLimits {
  uint64_t soft = 0;
  uint64_t hard = 0;
};
DescriptorLimits descriptor_limits();

/// The soft limit is raised to this number where that is enough.
inline constexpr uint64_t kRaisedTo = 65536;

/// Lets this process have `wanted` descriptors, or as many as the hard limit allows. False: it may
/// not have so many.
bool raise_descriptor_limit(uint64_t wanted);

/// Room for what is about to be made, in one process.
class DescriptorRoom {
 public:
  explicit DescriptorRoom(Logger& log) : log_(log) {}

  /// The descriptors that a communicator will hold when it is made. Claims of several threads add
  /// up.
  class Claim {
   public:
    Claim(DescriptorRoom& room, uint64_t descriptors);
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;
    ~Claim();

    /// As many more, now that more is known.
    void add(uint64_t descriptors);
    /// A text that says how many descriptors are missing below the hard limit. Empty: none are.
    const std::string& shortage() const { return shortage_; }
    /// The error of what was claimed for, with the shortage if that may be why.
    Status explain(Status error) const;

   private:
    DescriptorRoom& room_;
    uint64_t descriptors_ = 0;
    std::string shortage_;
  };

 private:
  /// False: the hard limit is below what is wanted.
  bool make_room(uint64_t wanted) TUTTI_REQUIRES(mutex_);

  Logger& log_;
  Mutex mutex_;
  uint64_t claimed_ TUTTI_GUARDED_BY(mutex_) = 0;
  uint64_t open_before_ TUTTI_GUARDED_BY(mutex_) = 0;  // when the first of them was claimed
  bool said_ TUTTI_GUARDED_BY(mutex_) = false;
};

}  // namespace tutti
