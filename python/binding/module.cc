// The module tutti._core.
//
// Errors: an Error of the library arrives in Python as an exception of tutti.errors, with the
//         library's own sentence, its kind and its result.
#include <nanobind/nanobind.h>

#include "part.h"
#include "tutti/runtime/error.h"

namespace tutti::python {
namespace {

namespace nb = nanobind;
using runtime::ErrorKind;

const char* name_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidInput:
      return "InvalidInput";
    case ErrorKind::kInfeasible:
      return "Infeasible";
    case ErrorKind::kRanksDiffer:
      return "RanksDiffer";
    case ErrorKind::kCommunication:
      return "CommunicationError";
  }
  return "Error";
}

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const runtime::Error& error) {
    nb::object type = nb::module_::import_("tutti.errors").attr(name_of(error.kind()));
    nb::object made = type(error.what(), static_cast<int>(error.result()));
    PyErr_SetObject(type.ptr(), made.ptr());
  }
}

}  // namespace
}  // namespace tutti::python

NB_MODULE(_core, module) {
  module.doc() = "The compiled part of tutti. Use the package tutti, which has all of it.";
  // Threads that a program leaves behind hold communicators until the process ends.
  nanobind::set_leak_warnings(false);
  nanobind::register_exception_translator(tutti::python::translate);
#define TUTTI_PART(name) tutti::python::add_##name(module);
#include "parts.inc"
#undef TUTTI_PART
}
