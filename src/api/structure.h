// The structures of tutti.h that a caller fills in: each begins with its size, by which versions of
// the library and of the program tell what both know.
//
// Errors: kInvalidArgument says what is wrong, without the call's name. Threads: any.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "src/base/status.h"

namespace tutti::api {

/// Copies what both versions know of the caller's structure over `known`, which holds the defaults
/// of the rest. `field_ends`: where this version's fields end, from the last one that every
/// structure has up to its whole size. Fields that only a newer version knows must be zero.
Status read_structure(const void* given, std::span<const size_t> field_ends, void* known);

}  // namespace tutti::api
