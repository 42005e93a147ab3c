#include "buffer.h"

#include <cstring>

#include "failure.h"
#include "on_stream.h"

namespace tutti::python {
namespace {

namespace nb = nanobind;
using nb::dlpack::dtype_code;

struct ElementType {
  dtype_code code;
  int bits;
  tuttiDataType_t type;
  const char* name;
};

constexpr ElementType kTypes[] = {
    {dtype_code::Float, 32, tuttiFloat32, "float32"},
    {dtype_code::Bfloat, 16, tuttiBfloat16, "bfloat16"},
    {dtype_code::Float, 16, tuttiFloat16, "float16"},
    {dtype_code::Float, 64, tuttiFloat64, "float64"},
    {dtype_code::Int, 64, tuttiInt64, "int64"},
    {dtype_code::Int, 32, tuttiInt32, "int32"},
    {dtype_code::Int, 16, tuttiInt16, "int16"},
    {dtype_code::Int, 8, tuttiInt8, "int8"},
    {dtype_code::UInt, 8, tuttiUint8, "uint8"},
    {dtype_code::UInt, 16, tuttiUint16, "uint16"},
    {dtype_code::UInt, 32, tuttiUint32, "uint32"},
    {dtype_code::UInt, 64, tuttiUint64, "uint64"},
    {dtype_code::Bool, 8, tuttiBool, "bool"},
    {dtype_code::Float8_E4M3FN, 8, tuttiFloat8e4m3, "float8_e4m3fn"},
    {dtype_code::Float8_E5M2, 8, tuttiFloat8e5m2, "float8_e5m2"},
};

std::string python_type(nb::handle object) {
  return nb::str(object.type().attr("__name__")).c_str();
}

bool contiguous(const nb::ndarray<nb::ro>& array) {
  int64_t expected = 1;
  for (size_t i = array.ndim(); i-- > 0;) {
    if (array.shape(i) != 1 && array.stride(i) != expected) return array.size() == 0;
    expected *= static_cast<int64_t>(array.shape(i));
  }
  return true;
}

std::string shape_of(const nb::ndarray<nb::ro>& array) {
  std::string text = "[";
  for (size_t i = 0; i < array.ndim(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(array.shape(i));
  }
  return text + "]";
}

struct Place {
  const char* call;
  const char* argument;
  Where where;
  std::string text() const { return std::string(call) + ": " + argument; }
};

void check_memory(int device, const Place& place) {
  if (device == nb::device::cpu::value) return;
  if (place.where == Where::kHost) {
    refuse(place.text() + " is not in host memory; pass an array of the CPU");
  }
  if (device != nb::device::cuda::value || current_stream().kind != tuttiStreamDevice) {
    refuse(place.text() +
           " is in a device's memory; call within tutti.on_stream(STREAM), with the "
           "stream of CUDA that it belongs to, or pass an array of the CPU");
  }
}

Buffer described(nb::ndarray<nb::ro> array, const Place& place) {
  check_memory(array.device_type(), place);
  const nb::dlpack::dtype given = array.dtype();
  for (const ElementType& known : kTypes) {
    if (static_cast<int>(known.code) != given.code || known.bits != given.bits) continue;
    if (!contiguous(array)) {
      refuse(place.text() + " is " + known.name + shape_of(array) +
             " and not contiguous; nothing is copied behind your back, so pass "
             "numpy.ascontiguousarray(x) or x.contiguous()");
    }
    Buffer made;
    made.data = const_cast<void*>(array.data());
    made.count = static_cast<int64_t>(array.size());
    made.type = known.type;
    made.array = std::move(array);
    return made;
  }
  refuse(place.text() + " has elements of " + std::to_string(given.bits) +
         " bits that are no type of Tutti; pass integers, bools, or floats of 8 to 64 bits");
}

}  // namespace

const char* name_of(tuttiDataType_t type) {
  for (const ElementType& known : kTypes) {
    if (known.type == type) return known.name;
  }
  return "unknown";
}

tuttiDataType_t type_named(const char* name) {
  for (const ElementType& known : kTypes) {
    if (std::strcmp(known.name, name) == 0) return known.type;
  }
  refuse(std::string("'") + name + "' is no type of elements; use a name like float32 or bfloat16");
}

int64_t bytes_of(tuttiDataType_t type) {
  for (const ElementType& known : kTypes) {
    if (known.type == type) return known.bits / 8;
  }
  return 1;
}

std::string Buffer::text() const { return name_of(type) + shape_of(array); }

Buffer readable(nb::handle object, const char* call, const char* argument, Where where) {
  const Place place{call, argument, where};
  nb::ndarray<nb::ro> array;
  if (!nb::try_cast(object, array, false)) {
    refuse(place.text() + " is of type " + python_type(object) +
           "; pass a numpy array, a tensor, or anything else with DLPack or the buffer protocol");
  }
  return described(std::move(array), place);
}

Buffer writable(nb::handle object, const char* call, const char* argument, Where where) {
  const Place place{call, argument, where};
  nb::ndarray<> array;
  if (!nb::try_cast(object, array, false)) {
    nb::ndarray<nb::ro> unwritable;
    if (nb::try_cast(object, unwritable, false)) {
      refuse(place.text() + " is read-only; pass an array that may be written to");
    }
    return readable(object, call, argument, where);  // throws the sentence for what is no array
  }
  return described(nb::ndarray<nb::ro>(array), place);
}

}  // namespace tutti::python
