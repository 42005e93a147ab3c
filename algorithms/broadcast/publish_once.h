// Publish once: the root shows its data to everybody in one multicast. It is the direct broadcast.
//
// Cost:   1 round; one publication with n-1 readers, or n-1 messages where nothing is shared.
// Wins:   one host; few ranks.
// Source: folklore.
#pragma once

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::broadcast {

schedule::Algorithm publish_once();

}  // namespace tutti::algorithms::broadcast
