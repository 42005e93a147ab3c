// The tree that schedules see of a group.
//
// Threads: pure. Errors: none.
#pragma once

#include <cstddef>

#include "src/group/view.h"
#include "src/schedule/node_tree.h"

namespace tutti::select {

/// From its hosts outwards: whatever is inside a host costs the same, so a schedule gains nothing
/// by knowing of it.
schedule::NodeTreePointer tree_of(const group::GroupView& group);

/// The first level of the group that the tree has, unless it unites nothing.
size_t first_level_of(const group::GroupView& group);

}  // namespace tutti::select
