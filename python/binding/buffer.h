// Memory that a Python object shows by DLPack or by the buffer protocol: numpy arrays, tensors of
// PyTorch and others. Nothing is copied: what cannot be used as it is, is refused.
//
// Owns:   a buffer keeps the object's memory alive.
// Errors: throws runtime::Error, whose sentence names the argument, its type and its shape.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <string>

#include "tutti/tutti.h"

namespace tutti::python {

struct Buffer {
  nanobind::ndarray<nanobind::ro> array;
  void* data = nullptr;
  int64_t count = 0;
  tuttiDataType_t type = tuttiUint8;

  /// "float32[3, 4]"
  std::string text() const;
};

/// Which memory a call takes: the host's, or also a device's where this thread is on a stream of
/// one (on_stream.h).
enum class Where { kHost, kStream };

/// The memory of an argument that is read. `call` and `argument` name it in errors, such as
/// "all_reduce: send".
Buffer readable(nanobind::handle object, const char* call, const char* argument,
                Where where = Where::kHost);
/// The same of an argument that is written to.
Buffer writable(nanobind::handle object, const char* call, const char* argument,
                Where where = Where::kHost);

/// The name of a type in Python ("float32"), and the type of a name; throws for unknown ones.
const char* name_of(tuttiDataType_t type);
tuttiDataType_t type_named(const char* name);
int64_t bytes_of(tuttiDataType_t type);

}  // namespace tutti::python
