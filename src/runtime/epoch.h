// The epoch of a communicator in objects that know its ranks: behind an edit their plans and room
// are for other ranks than there are.
#pragma once

#include <cstdint>
#include <string_view>

#include "src/runtime/refuse.h"

namespace tutti::runtime {

inline uint32_t epoch_of(tuttiComm_t comm) {
  uint32_t epoch = 0;
  expect_success(tuttiCommGetEpoch(comm, &epoch), comm, "tuttiCommGetEpoch");
  return epoch;
}

/// Before a call of an object, which `name` names. A communicator that cannot say its epoch says
/// why in the call.
inline void expect_epoch(tuttiComm_t comm, uint32_t epoch, std::string_view name) {
  uint32_t now = epoch;
  if (tuttiCommGetEpoch(comm, &now) != tuttiSuccess) return;
  require(now == epoch, name, " was made in epoch ", epoch,
          " of its communicator, which has been edited since, to epoch ", now, "; make it anew");
}

}  // namespace tutti::runtime
