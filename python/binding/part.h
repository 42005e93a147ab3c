// The module tutti._core is made of parts, which are one file and one line of parts.inc each. A
// part adds its classes and functions to the module.
#pragma once

namespace nanobind {
class module_;
}

namespace tutti::python {

#define TUTTI_PART(name) void add_##name(nanobind::module_& module);
#include "parts.inc"
#undef TUTTI_PART

}  // namespace tutti::python
