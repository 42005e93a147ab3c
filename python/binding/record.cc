#include "record.h"

namespace tutti::python {

namespace nb = nanobind;

namespace {

template <class Number>
void widen(const nb::ndarray<nb::ro>& array, std::vector<int64_t>& values) {
  const Number* data = static_cast<const Number*>(array.data());
  const int64_t stride = array.stride(0);
  for (size_t i = 0; i < array.shape(0); ++i) {
    values[i] = static_cast<int64_t>(data[static_cast<int64_t>(i) * stride]);
  }
}

}  // namespace

bool integers_of_array(nb::handle object, std::vector<int64_t>& values) {
  nb::ndarray<nb::ro> array;
  if (!nb::try_cast(object, array, false)) return false;
  if (array.ndim() != 1 || array.device_type() != nb::device::cpu::value) return false;
  values.resize(array.shape(0));
  if (values.empty()) return true;
  const nb::dlpack::dtype type = array.dtype();
  if (type == nb::dtype<int64_t>()) return widen<int64_t>(array, values), true;
  if (type == nb::dtype<int32_t>()) return widen<int32_t>(array, values), true;
  if (type == nb::dtype<int16_t>()) return widen<int16_t>(array, values), true;
  if (type == nb::dtype<uint8_t>()) return widen<uint8_t>(array, values), true;
  if (type == nb::dtype<uint32_t>()) return widen<uint32_t>(array, values), true;
  return false;
}

std::string described(const char* doc,
                      const std::vector<std::pair<const char*, const char*>>& fields) {
  std::string text = doc;
  text += "\n";
  for (const auto& [name, line] : fields) {
    text += std::string("\n    ") + name + ": " + line;
  }
  return text;
}

}  // namespace tutti::python
